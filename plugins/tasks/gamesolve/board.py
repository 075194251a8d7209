"""A game as a derivation speaks of it: payoffs by player, with the names of actions and players.

>>> show(Fraction(1, 3)), show(Fraction(-5, 4))
('1/3', '-1.25')
>>> linear([Fraction(2), Fraction(-1), Fraction(0)], ["x", "y", "z"])
'2 x - y'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from harness.types import Json

from .games import Game, Matrix, Number
from .text import Telling

LETTERS = ("p", "q")
"""What the probabilities of the row and the column player are called."""


class Board(NamedTuple):
    """``own[k]`` are player k's payoffs, own action first; ``names[k]`` and ``roles[k]`` likewise
    (0 row, 1 column)."""

    own: tuple[Matrix, Matrix]
    names: tuple[Sequence[str], Sequence[str]]
    roles: tuple[str, str]

    @classmethod
    def of(cls, data: Mapping[str, Json]) -> Board:
        """The board of a sample."""
        game, telling = Game.from_data(data), Telling.of(data)
        return cls(
            (game.own("row"), game.own("column")),
            (telling.rows, telling.cols),
            (telling.row, telling.col),
        )

    @property
    def shape(self) -> tuple[int, int]:
        """(m, n): the numbers of actions."""
        return len(self.names[0]), len(self.names[1])

    def cell(self, i: int, j: int) -> str:
        """A cell by its actions, as in (A, X)."""
        return f"({self.names[0][i]}, {self.names[1][j]})"

    def pays(self, player: int, strategy: Sequence[Number]) -> list[Fraction]:
        """What each action of a player is expected to pay against the other's strategy."""
        return [
            sum((Fraction(x * p) for x, p in zip(line, strategy, strict=True)), Fraction(0))
            for line in self.own[player]
        ]

    def chance(self, player: int, action: int) -> str:
        """The probability of an action as an unknown: p(A) or q(X)."""
        return f"{LETTERS[player]}({self.names[player][action]})"


def show(value: Number) -> str:
    """A number as a decimal where six places are enough for it, as a fraction otherwise."""
    scaled = value * 1_000_000
    if scaled.denominator != 1:
        return str(value)
    sign = "-" if value < 0 else ""
    whole, part = divmod(abs(int(scaled)), 1_000_000)
    return f"{sign}{whole}.{part:06d}".rstrip("0").rstrip(".")


def linear(coefficients: Sequence[Number], unknowns: Sequence[str]) -> str:
    """A linear form in words: ``2 x - y``; 0 where all coefficients are 0."""
    text = ""
    for factor, unknown in zip(coefficients, unknowns, strict=True):
        if factor:
            sign = " - " if factor < 0 else " + "
            size = "" if factor in (1, -1) else f"{show(-factor if factor < 0 else factor)} "
            text += f"{sign}{size}{unknown}"
    if not text:
        return "0"
    return f"-{text[3:]}" if text.startswith(" - ") else text[3:]
