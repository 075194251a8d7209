"""What the theory-of-mind tasks share: the world, the oracle, the grammar of replies, the figures.

>>> from harness_plugins.tasks.tom.world import Event
>>> from harness_plugins.tasks.tom.oracle import Beliefs
>>> story = [
...     Event("joint", "stamp", "tin_box", (("Ana", "Bo"),)),
...     Event("overseen", "stamp", "jar", (("Bo",), ("Ana",))),
... ]
>>> beliefs = Beliefs(story)
>>> beliefs.place("stamp", ("Ana", "Bo")), beliefs.place("stamp", ("Bo", "Ana"))
('jar', 'tin_box')
"""
