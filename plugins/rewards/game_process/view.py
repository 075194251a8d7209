"""What a verifier works out about a game from the question alone, with no answer key in hand.

>>> view = View.of({"kind": "nash", "row": [[3, 0], [1, 2]], "col": [[1, 1], [0, 4]],
...                 "row_labels": ["Up", "Down"], "col_labels": ["X", "Y"], "format": "compact",
...                 "context": "market"})
>>> view.best(0, 1), view.cell(0, 0), view.alive
([1], True, ((0, 1), (0, 1)))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Final

import orjson

from harness.parsing import plain
from harness.types import Json

from ...tasks.gamesolve.board import Board
from ...tasks.gamesolve.mixing import ruled_out
from ...tasks.gamesolve.profiles import Arena, Subset, has_pure, weights
from ...tasks.gamesolve.tokens import Names
from ...tasks.gamesolve.truth import NASH_KINDS, responses, truth

FACTS: Final = (
    "kind", "row", "col", "row_labels", "col_labels", "context", "format", "responder", "sigma",
    "opponent_action", "player", "cell",
)  # fmt: skip
"""The parts of a sample's data that its prompt tells."""

Strategy = tuple[Fraction, ...]
Alive = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class View:
    """A question, and what follows from it."""

    data: Mapping[str, Json]
    board: Board
    names: Names

    @classmethod
    def of(cls, data: Mapping[str, Json]) -> View:
        """The view of a sample's data; kept for the next replies to the same question."""
        return _view(orjson.dumps({k: data[k] for k in FACTS if k in data}))

    @property
    def kind(self) -> str:
        """The kind of question."""
        return str(self.data["kind"])

    @cached_property
    def me(self) -> int:
        """Who is asked (0 row, 1 column); 0 where nobody is."""
        return int((self.data.get("responder") or self.data.get("player")) == "column")

    @cached_property
    def truth(self) -> Mapping[str, Any]:
        """The truth, solved from the payoffs."""
        return truth(self.data)

    @cached_property
    def nash(self) -> Mapping[str, Any]:
        """The equilibria, whatever the question is."""
        return self.truth if self.kind in NASH_KINDS else truth({**self.data, "kind": "nash"})

    @cached_property
    def arena(self) -> Arena:
        """The game, ready for checking profiles."""
        return Arena.of(self.data)

    @cached_property
    def expected(self) -> tuple[Fraction, ...]:
        """What each action of the responder is expected to pay."""
        return tuple(map(Fraction, responses(self.data)))

    def size(self, player: int) -> int:
        """How many actions a player has."""
        return len(self.board.names[player])

    def payoff(self, player: int, own: int, other: int) -> Fraction:
        """What a player gets from an action against one of the other's."""
        return Fraction(self.board.own[player][own][other])

    def best(self, player: int, other: int) -> list[int]:
        """The best replies to an action of the other player."""
        pays = [line[other] for line in self.board.own[player]]
        return [i for i, pay in enumerate(pays) if pay == max(pays)]

    def cell(self, i: int, j: int) -> bool:
        """Whether a cell is an equilibrium."""
        return self.arena.pure(i, j)

    def dominates(self, player: int, winner: int, loser: int, others: Sequence[int]) -> bool:
        """Whether one action is strictly better than another one against all of these."""
        own = self.board.own[player]
        return winner != loser and all(own[winner][o] > own[loser][o] for o in others)

    def dominated(self, player: int, loser: int, alive: Alive) -> bool:
        """Whether some action that is left dominates this one among those that are left."""
        others = alive[1 - player]
        return any(self.dominates(player, winner, loser, others) for winner in alive[player])

    @cached_property
    def alive(self) -> Alive:
        """What is left when dominated actions are struck out as long as there are some (the order
        does not matter)."""
        alive: Alive = (tuple(range(self.size(0))), tuple(range(self.size(1))))
        while True:
            gone = next(
                ((p, a) for p in (0, 1) for a in alive[p] if self.dominated(p, a, alive)), None
            )
            if gone is None:
                return alive
            alive = without(alive, *gone)

    @cached_property
    def open_subsets(self) -> list[tuple[Subset, Mapping[str, Json]]]:
        """The maximal Nash subsets without a pure equilibrium, of which one point is needed."""
        return [(Subset.of(s), s) for s in self.nash["subsets"] if not has_pure(s)]

    @cached_property
    def failing(self) -> frozenset[tuple[tuple[int, ...], tuple[int, ...]]]:
        """The pairs of supports that a solution of a small game rules out one by one."""
        return frozenset(ruled_out(self.board, (list(self.alive[0]), list(self.alive[1]))))

    def equilibrium(self, x: Sequence[str], y: Sequence[str]) -> bool:
        """Whether a profile, as written, is an equilibrium (up to the rounding that it shows)."""
        row, col = weights(x, self.size(0)), weights(y, self.size(1))
        return row is not None and col is not None and self.arena.holds(row, col)

    def subsets(self, x: Sequence[str], y: Sequence[str]) -> list[int]:
        """Which of `open_subsets` an equilibrium is a point of (some are of several)."""
        row, col = weights(x, self.size(0)), weights(y, self.size(1))
        if row is None or col is None:
            return []
        found = enumerate(self.open_subsets)
        return [k for k, (subset, _) in found if self.arena.within(row, col, subset)]

    def supported(self, rows: frozenset[int], cols: frozenset[int]) -> bool:
        """Whether some equilibrium uses exactly these actions: in a maximal Nash subset, a face
        whose extreme strategies use all of them and no others."""

        def reached(strategies: Sequence[Sequence[str]], wanted: frozenset[int]) -> bool:
            used = [{i for i, p in enumerate(s) if p != "0"} for s in strategies]
            inside = [s for s in used if s <= wanted]
            return bool(inside) and set().union(*inside) == wanted

        return any(
            reached(s["rows"], rows) and reached(s["cols"], cols) for s in self.nash["subsets"]
        )


def without(alive: Alive, player: int, action: int) -> Alive:
    """What is left when an action is struck out."""
    kept = tuple(a for a in alive[player] if a != action)
    return (kept, alive[1]) if player == 0 else (alive[0], kept)


@lru_cache(maxsize=512)
def _view(text: bytes) -> View:
    data = orjson.loads(text)
    names = Names.of(*(tuple(map(plain, data[key])) for key in ("row_labels", "col_labels")))
    return View(data, Board.of(data), names)
