"""The course of an episode, read back from an outcome: what rewards and metrics need of it."""

from __future__ import annotations

from typing import NamedTuple

from harness.seeds import derive
from harness.types import Outcome

from .games import game


class Course(NamedTuple):
    """One finished episode from the model's seat.

    ``payoff`` lies in [0, 1]; ``result`` is 1, 0 or -1; ``decisions`` counts the turns that the
    model was asked, ``first`` those whose first reply was legal, ``attempts`` all its replies;
    ``substituted`` is the payoff had random legal moves replaced forfeited ones (None: unknown);
    ``identity`` names the course of play, chance included.
    """

    key: str
    seat: int
    payoff: float
    payoffs: tuple[float, float]
    own: float
    other: float
    result: int
    forfeited: bool
    opponent_forfeited: bool
    decisions: int
    first: int
    attempts: int
    substituted: float | None
    identity: int

    @property
    def first_legal(self) -> float:
        """The share of decisions whose first reply was legal; 1 where none had to be made."""
        return self.first / self.decisions if self.decisions else 1.0

    @classmethod
    def of(cls, outcome: Outcome) -> Course:
        """Read an outcome of the task."""
        data, returns = outcome.data, outcome.returns
        rules, seat = game(data["game"]), data["model_seat"]
        payoffs = tuple(rules.payoff(r, s) for r, s in zip(returns, data["scale"], strict=True))
        own, other = returns[seat], returns[1 - seat]
        gone = data["forfeits"]
        asked = [row for row in data["line"] if row[0] == seat and row[3] == "asked"]
        play = data.get("substituted")
        return cls(
            key=data["game"],
            seat=seat,
            payoff=payoffs[seat],
            payoffs=(payoffs[0], payoffs[1]),
            own=own,
            other=other,
            # Both may forfeit a round that both play at once: neither has drawn then.
            result=-1 if seat in gone else (own > other) - (own < other),
            forfeited=seat in gone,
            opponent_forfeited=1 - seat in gone,
            decisions=len(asked),
            first=sum(row[1] is not None and row[2] == 1 for row in asked),
            attempts=sum(row[2] for row in asked),
            substituted=(None if play is None else rules.payoff(play[seat], data["scale"][seat])),
            identity=derive(data["opening"], data["chance"], [row[:2] for row in data["line"]]),
        )
