"""Reference players: the oracle, chance, and one for each shortcut rule.

``player:NAME`` takes a rule's name with hyphens: ``player:last-place-named``.

>>> slug("place 2 from the end")
'place-2-from-the-end'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.player import FixedPlayer, Player, PlayerFactory, Seat
from harness.seeds import Streams
from harness.types import Sample

from .shortcuts import RULES, Facts, Guess

Say = Callable[[Sample, str], str]
"""Writes a reply to a sample that gives one place everywhere."""


def slug(name: str) -> str:
    """A rule's name as a player's."""
    return name.replace(" ", "-")


def players(
    right: Callable[[Sample], str], say: Say, facts: Callable[[Sample], Facts]
) -> dict[str, PlayerFactory]:
    """The players of a task.

    :param right: the perfect reply.
    :param say: a well-formed reply that gives one place.
    :param facts: what the shortcut rules see of a sample.
    """

    def oracle(seat: Seat) -> Player:
        return FixedPlayer(lambda turn: right(seat.sample))

    def chance(seat: Seat) -> Player:
        choices = seat.sample.data["choices"]
        place = choices[Streams(seat.seed).below(len(choices), "random")]
        return FixedPlayer(lambda turn: say(seat.sample, place))

    def shortcut(rule: Guess) -> PlayerFactory:
        def make(seat: Seat) -> Player:
            place = _one(rule(facts(seat.sample)), seat.seed)
            return FixedPlayer(lambda turn: say(seat.sample, place) if place else "")

        return make

    table: dict[str, PlayerFactory] = {
        "oracle": oracle,
        "random": chance,
        "constant": shortcut(RULES["option A"]),
        "empty": lambda seat: FixedPlayer(lambda turn: ""),
    }
    return table | {slug(name): shortcut(rule) for name, rule in RULES.items()}


def _one(said: str | Mapping[str, float] | None, seed: int) -> str | None:
    """One place of a distribution."""
    if not isinstance(said, Mapping):
        return said
    mark = Streams(seed).uniform("place")
    for place, share in said.items():
        mark -= share
        if mark < 0:
            return place
    return next(reversed(list(said)), None)
