"""An episode again, decision by decision, from what its record holds.

for step in steps(outcome.data):
    print(step.seat, step.action, step.legal)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from harness.types import Json

from .games import game, skin
from .position import SpielPosition, load


class Step(NamedTuple):
    """A decision: the position before it (not to be changed), who decided, what (None: gave up),
    what was legal, and how (as in `episode`: asked, forced, random)."""

    position: SpielPosition
    seat: int
    action: int | None
    legal: tuple[int, ...]
    how: str


def steps(data: Mapping[str, Json]) -> Iterator[Step]:
    """The decisions after the opening; games of OpenSpiel in which the seats move in turn."""
    look, plain = skin(data["game"], data["variant"]), skin(data["game"], "plain")
    position = Recorded(data["game"], data["chance"])
    for move in data["opening"]:
        plain.act(position, position.seats()[0], move)
    for seat, move, _, how in data["line"]:
        if position.over:
            return
        legal = look.legal(position, seat)
        action = None if move is None else legal[move]
        yield Step(position.copy(), seat, action, tuple(legal.values()), how)
        if action is not None:
            position.play({seat: action})


class Recorded(SpielPosition):
    """A position whose chance events are those of a record."""

    __slots__ = ("recorded",)

    def __init__(self, key: str, chance: list[int]) -> None:
        self.recorded = list(chance)
        super().__init__(key, load(game(key).spiel), 0)

    def copy(self) -> SpielPosition:
        twin = super().copy()
        assert isinstance(twin, Recorded)
        twin.recorded = self.recorded
        return twin

    def _settle(self) -> None:
        # A forfeited game has fewer chance events than a finished one.
        while self.state.is_chance_node() and len(self.rolls) < len(self.recorded):
            outcome = self.recorded[len(self.rolls)]
            self.rolls.append(outcome)
            self.state.apply_action(outcome)
