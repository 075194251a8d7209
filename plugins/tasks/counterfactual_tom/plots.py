"""Plots: the kinds of turn that a ``strict`` story is made of, before anybody is cast in them.

A `Part` is a kind, how many people play each role, and the places it needs. Casting puts the
story's people into the roles; everybody plays in every part, if only as somebody who missed it.

>>> part = Part("overseen", ("low", "high"), (1, 2), {"to": "tin_box"}, 0)
>>> cast = part.cast(("Bo", "Ana", "Cy"))
>>> part.effect(cast, ("Ana", "Bo")), part.effect(cast, ("Bo", "Ana"))
('tin_box', None)
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..tom.world import RULES, Event, Scene, View
from .wording import WORDINGS, role_order

Cast = dict[str, tuple[str, ...]]

DEEP: Final = {
    "overseen": 0.28,
    "overseen_twice": 0.27,
    "announced": 0.14,
    "assumed": 0.12,
    "joint": 0.03,
    "room": 0.05,
    "decoy": 0.06,
    "claim": 0.05,
}
"""Shares of the kinds from order 2 up: mostly those in which it matters who knows about whom."""

SHALLOW: Final = {
    "joint": 0.20,
    "room": 0.18,
    "assumed": 0.20,
    "decoy": 0.17,
    "claim": 0.13,
    "private": 0.12,
}
"""Shares at order 1, where everybody must be able to miss something."""

RARE: Final = ("hidden", "private", "tell")
"""Kinds that hardly reach nested beliefs: at most one of them in a story."""

RARE_SHARE: Final = 0.3
"""Share of the stories that have one."""


@dataclass(frozen=True, slots=True)
class Part:
    """One turn of the plot: ``sizes`` people for each of the ``roles``, ``places`` by role, and the
    number of its wording."""

    kind: str
    roles: tuple[str, ...]
    sizes: tuple[int, ...]
    places: Mapping[str, str]
    wording: int
    room: str = ""

    def cast(self, people: Sequence[str]) -> Cast:
        """Fill the roles in order."""
        cast: Cast = {}
        start = 0
        for role, size in zip(self.roles, self.sizes, strict=True):
            cast[role] = tuple(people[start : start + size])
            start += size
        return cast

    def events(self, cast: Cast, thing: str) -> list[Event]:
        """What happens, as events of the world."""
        to, shown = self.places.get("to"), self.places.get("shown")
        match self.kind:
            case "initial" | "joint" | "private":
                kind = "private" if self.kind == "private" else "joint"
                return [Event(kind, thing, to, (cast[self.roles[0]],))]
            case "hidden":
                return [Event("hidden", thing, to)]
            case "overseen" | "announced":
                return [Event(self.kind, thing, to, (cast["low"], cast["high"]))]
            case "overseen_twice":
                return [Event("overseen", thing, to, (cast["low"], cast["mid"], cast["high"]))]
            case "assumed":
                return [Event("assumed", thing, to, (cast["saw"], cast["presumed"]))]
            case "decoy":
                return [Event("decoy", thing, to, (cast["know"], cast["fooled"]), shown)]
            case "claim" | "tell":
                return [Event(self.kind, thing, None, (cast["speaker"], cast["heard"]), shown)]
            case _:
                return [
                    Event("enter", groups=(cast["inside"] + cast["left"],), room=self.room),
                    Event("leave", groups=(cast["left"],), room=self.room),
                    Event("inside", thing, to, room=self.room),
                    Event("leave", groups=(cast["inside"],), room=self.room),
                ]

    def effect(self, cast: Cast, chain: Sequence[str]) -> str | None:
        """Where the part leaves the chain's belief; None: as before."""
        return self.view(cast).effect(chain)

    def view(self, cast: Cast) -> View:
        """How the part looks from everywhere: each part has one event that tells of a place."""
        scene = Scene()
        # Thousands of casts are tried for a story, so without the checks of `unfold`.
        views = [v for e in self.events(cast, "it") for v in RULES[e.kind](e, scene)]
        return views[0]

    def reach(self, order: int) -> tuple[str, ...]:
        """The roles of places that a chain of this order can be brought to believe, in the order
        of the text."""
        counts = dict(zip(self.roles, self.sizes, strict=True))
        match self.kind:
            case "hidden":
                return ()
            case "private":
                return ("to",) if order == 1 else ()
            case "tell":
                return ("shown",) if order <= 2 else ()
            case "decoy":
                return tuple(r for r in self.order if r == "shown" or counts["know"] >= order)
            case _:
                return self.order

    @property
    def order(self) -> tuple[str, ...]:
        """The roles of the places, in the order in which the text names them."""
        return tuple(self.places)


class Plotter:
    """Draws parts for stories of one order.

    :param people: how many people the story has; at least ``order + 2`` from order 3 up.
    """

    def __init__(self, order: int, people: int, split: str, rng: random.Random) -> None:
        self.nested, self.people, self.split, self.rng = order, people, split, rng

    def first(self, place: str) -> Part:
        """The opening: everybody sees where the object is."""
        number = self._number("initial")
        return Part("initial", ("all",), (self.people,), {"to": place}, number)

    def kinds(self, count: int) -> list[str]:
        """The kinds of the other parts, in order."""
        shares = DEEP if self.nested > 1 else SHALLOW
        drawn = self.rng.choices(list(shares), list(shares.values()), k=count)
        if self.rng.random() < RARE_SHARE:
            drawn[self.rng.randrange(count)] = self.rng.choice(RARE)
        return drawn

    def part(self, kind: str, places: Sequence[str], room: str) -> Part:
        """A part of a kind. ``places`` are as many as `places_of` says, in the order of the text.
        A part of a kind. ``places`` are as many as `places_of` says, in the order of the text."""
        number = self._number(kind)
        roles, sizes = self._roles(kind)
        named = dict(zip(role_order(kind, self.split, number), places, strict=True))
        return Part(kind, roles, sizes, named, number, room)

    def _number(self, kind: str) -> int:
        return self.rng.randrange(len(WORDINGS[self.split][kind]))

    def _roles(self, kind: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Roles and sizes, drawn so that both a cast that reaches the chain and one that does not
        exist: sizes tell nothing."""
        n, draw = self.people, self.rng.randint
        enough = max(2, self.nested)
        match kind:
            case "joint":
                a = draw(enough, n - 1)
                return ("in", "out"), (a, n - a)
            case "room":
                a = draw(enough, n - 2)
                return ("inside", "left", "out"), (a, 1, n - a - 1)
            case "overseen":
                a = draw(1, n - 1)
                return ("low", "high"), (a, n - a)
            case "announced":
                return ("low", "high"), (1, n - 1)
            case "overseen_twice":
                a, b = sorted(self.rng.sample(range(1, n), 2))
                return ("low", "mid", "high"), (a, b - a, n - b)
            case "assumed":
                a = draw(1, n - 1)
                return ("saw", "presumed"), (a, n - a)
            case "decoy":
                a = draw(min(self.nested, n - 2), n - 2)
                return ("know", "fooled", "out"), (a, n - 1 - a, 1)
            case "claim":
                a = draw(max(self.nested - 1, 1), n - 2)
                return ("speaker", "heard", "out"), (1, a, n - 1 - a)
            case "tell":
                return ("speaker", "heard", "out"), (1, 1, n - 2)
            case "private":
                return ("one", "out"), (1, n - 1)
            case _:
                return ("out",), (n,)


def places_of(kind: str) -> int:
    """How many new places a kind names."""
    return 2 if kind == "decoy" else 1
