"""The oracle: where somebody thinks that somebody thinks ... an object is.

A belief is what the last event that reached it says, so the oracle goes through the story from its
end and stops at the first event with an effect on the chain.

>>> from .world import Event
>>> told = Beliefs([Event("joint", "key", "jar", (("Al", "Bea"),))])
>>> told.place("key", ("Al", "Bea")), told.place("key", ("Cy",))
('jar', None)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from harness.types import HarnessError

from .world import RULES, Event, Rule, unfold


class Source(NamedTuple):
    """A belief: the place, and the number of the event that it comes from."""

    place: str
    event: int


class Beliefs:
    """Nested beliefs of any order after a story.

    :param events: the story; `unfold` says what can be wrong with it.
    :param rules: the meaning of its kinds.
    """

    def __init__(self, events: Sequence[Event], rules: Mapping[str, Rule] = RULES) -> None:
        unfolded = unfold(events, rules)
        self._views = list(zip(unfolded.views, unfolded.sources, strict=True))
        self.scene = unfolded.scene

    def source(self, thing: str, chain: Sequence[str]) -> Source | None:
        """The belief of a chain (outermost first; empty: the world) and where it comes from.

        None: nothing ever reached it. O(events x order).
        """
        for view, number in reversed(self._views):
            if view.object == thing and (place := view.effect(chain)) is not None:
                return Source(place, number)
        return None

    def place(self, thing: str, chain: Sequence[str] = ()) -> str | None:
        """The place alone."""
        found = self.source(thing, chain)
        return None if found is None else found.place

    def together(self, thing: str, names: Sequence[str]) -> str | None:
        """The place that the last event tells to each of the people alike; None: no event does."""
        for view, _ in reversed(self._views):
            if view.object == thing and names:
                told = {view.effect((name,)) for name in names}
                if len(told) == 1 and None not in told:
                    return told.pop()
        return None

    def trace(self, thing: str, chain: Sequence[str]) -> tuple[Source, ...]:
        """The beliefs of the chain's suffixes, innermost first: N of them, the last is the answer.

        Raises HarnessError when one of them was never set: such a question has no answer.
        """
        steps: list[Source] = []
        for start in range(len(chain) - 1, -1, -1):
            found = self.source(thing, chain[start:])
            if found is None:
                who = " thinks ".join(chain[start:])
                raise HarnessError(f"the story never tells where {who} thinks the {thing} is")
            steps.append(found)
        return tuple(steps)
