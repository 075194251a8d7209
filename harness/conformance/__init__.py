"""Conformance: does a plugin keep the promises that runs, tables and training rest on?

`harness check NAME` and the fixtures of `harness.testing` run the same checks; each finding says
what is wrong and what to do. `kit` holds what checks are made of, `tasks`, `play`, `fuzz`,
`rewards`, `models` and `trainers` the checks themselves.
"""
