"""What the trainers on verl share: launching, settings, data, the rewards bridge, a CPU platform.

verl is used through its registries and subclasses, and no file of it is changed. Where a name
without a public door had to be touched, the module says so and a test pins it.
"""
