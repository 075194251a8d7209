"""New plugins: a package, or files in a checkout, that work before anything is changed in them.

harness.scaffold.make writes them from the files in templates/.
"""
