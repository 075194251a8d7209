"""Casting: who plays which role in a ``strict`` story, so that the answers are where they were
drawn.

From the part of the answer on, nothing may reach the chain, and everything may reach its rivals:
the chain shortened, reversed, without its middle, or its people one by one. Of several casts
that fit, the one is taken that leaves the fewest rivals at the answer, so that no rival finds it
more often than a guess would.

    found = Casting(parts, chain, agents, rng).both(Goal(5, "to"), Goal(2, "to"))
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from ..tom.world import View
from .plots import Cast, Part

T = TypeVar("T")

TRIES: Final = 300
"""Casts to draw before the story is given up."""
CHOICES: Final = 10
"""Casts that fit, from which the best is taken."""
MIDDLE: Final = 5
SHORTER: Final = 3
"""Weights of rivals against single people's 1: the chain without its middle, and other chains of
two people or more; they are harder to lead away."""


class Goal(NamedTuple):
    """Part and role of the place that a side's answer is to be."""

    part: int
    role: str


class Found(NamedTuple):
    """Casts of both sides, the two people who change roles between them, and how many chains of two
    people or more would be right beside the question's own."""

    observed: list[Cast]
    hidden: list[Cast]
    swap: tuple[str, str]
    near: int


class _Exchange(NamedTuple):
    """Two casts of one part that differ by two people's roles."""

    observed: Cast
    hidden: Cast
    swap: tuple[str, str]


@dataclass(slots=True)
class Rivals:
    """The shortcuts' beliefs on one side: which of them are at the answer now."""

    answer: str
    chains: tuple[tuple[str, ...], ...]
    at: dict[tuple[str, ...], bool] = field(default_factory=dict)

    def after(self, view: View) -> dict[tuple[str, ...], bool]:
        """The state after one more part."""
        after = dict(self.at)
        for chain in self.chains:
            if (place := view.effect(chain)) is not None:
                after[chain] = place == self.answer
        people = self.chains[0]  # the whole chain reversed: all its people, each alone
        learned = {view.effect((name,)) for name in people}
        if len(learned) == 1 and None not in learned:
            after[()] = learned == {self.answer}
        return after

    def hits(self, view: View) -> int:
        """How many are at the answer after one more part, by weight."""
        return sum(_weight(chain) for chain, there in self.after(view).items() if there)

    def near(self) -> int:
        """How many chains of two people or more are at the answer."""
        return sum(there and len(chain) > 1 for chain, there in self.at.items())


def _weight(chain: tuple[str, ...]) -> int:
    return {0: 1, 1: 1, 2: MIDDLE}.get(len(chain), SHORTER)


def rivals_of(chain: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The chains that a shortcut would follow instead, the reversed one first."""
    whole = tuple(chain)
    found = dict.fromkeys(
        (whole[::-1], whole[:1], whole[-1:], whole[1:], whole[:-1], (whole[0], whole[-1]))
    )
    return tuple(c for c in found if c and c != whole) or (whole,)


class Casting:
    """Casts one pair of stories."""

    def __init__(
        self, parts: Sequence[Part], chain: Sequence[str], agents: Sequence[str], rng: random.Random
    ) -> None:
        self.parts, self.chain, self.agents, self.rng = parts, chain, agents, rng
        self.rivals = rivals_of(chain)

    def both(self, observed: Goal, hidden: Goal) -> Found | None:
        """The casts of the observed and of the hidden side; they differ at the observed goal.

        None when a part has no cast that fits.
        """
        seen = Rivals(self.parts[observed.part].places[observed.role], self.rivals)
        unseen = Rivals(self.parts[hidden.part].places[hidden.role], self.rivals)
        casts: list[tuple[Cast, Cast]] = []
        swap = ("", "")
        for number, part in enumerate(self.parts):
            if number == observed.part:
                exchange = self._exchange(part, seen, unseen)
                if exchange is None:
                    return None
                casts.append(exchange[:2])
                swap = exchange.swap
            else:
                cast = self._cast(part, number, hidden, seen, unseen)
                if cast is None:
                    return None
                casts.append((cast, cast))
            seen.at = seen.after(part.view(casts[-1][0]))
            unseen.at = unseen.after(part.view(casts[-1][1]))
        near = seen.near() + unseen.near()
        return Found([c for c, _ in casts], [c for _, c in casts], swap, near)

    def _cast(
        self, part: Part, number: int, hidden: Goal, seen: Rivals, unseen: Rivals
    ) -> Cast | None:
        """A cast that fits: any before the hidden goal, then one with the wanted effect."""
        if number < hidden.part:
            return self._draw(part)
        wanted = part.places[hidden.role] if number == hidden.part else None
        drawn = (self._draw(part) for _ in range(TRIES))
        seen_so = ((cast, part.view(cast)) for cast in drawn)
        fitting = (pair for pair in seen_so if pair[1].effect(self.chain) == wanted)

        def hits(pair: tuple[Cast, View]) -> int:
            return seen.hits(pair[1]) + unseen.hits(pair[1])

        best = _best(fitting, hits)
        return None if best is None else best[0]

    def _draw(self, part: Part) -> Cast:
        return part.cast(self.rng.sample(self.agents, len(self.agents)))

    def _exchange(self, part: Part, seen: Rivals, unseen: Rivals) -> _Exchange | None:
        """Casts of the critical part: one brings the chain to the observed side's answer, the other
        does not reach it."""

        def hits(exchange: _Exchange) -> int:
            return seen.hits(part.view(exchange.observed)) + unseen.hits(part.view(exchange.hidden))

        return _best(self._exchanges(part, seen.answer), hits)

    def _exchanges(self, part: Part, place: str) -> Iterator[_Exchange]:
        """Exchanges that fit. Either side may be the one drawn first, so that neither looks more
        arranged than the other."""
        first, second = (place, None) if self.rng.random() < 0.5 else (None, place)
        for _ in range(TRIES):
            people = self.rng.sample(self.agents, len(self.agents))
            if part.effect(part.cast(people), self.chain) != first:
                continue
            i, j = self.rng.sample(range(len(people)), 2)
            other = list(people)
            other[i], other[j] = people[j], people[i]
            if part.effect(part.cast(other), self.chain) == second:
                casts = (part.cast(people), part.cast(other))
                observed, hidden = casts if first == place else casts[::-1]
                yield _Exchange(observed, hidden, (people[i], people[j]))


def _best(fitting: Iterator[T], cost: Callable[[T], int]) -> T | None:
    """The first of the cheapest among the first few; None where there is none."""
    return min(islice(fitting, CHOICES), key=cost, default=None)
