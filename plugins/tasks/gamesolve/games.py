"""Two-player matrix games in exact numbers.

A game is a pair of payoff matrices of one shape: entry (i, j) of ``row`` is what the row player
gets, entry (i, j) of ``col`` what the column player gets. Numbers are ints or Fractions, so nothing
is ever rounded.

>>> game = Game.of([[3, 0], ["0.5", 1]], [[3, "0.5"], [0, 1]])
>>> game.row[1][0], game.shape
(Fraction(1, 2), (2, 2))
>>> game.swapped() == game
True
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm

from harness.types import HarnessError, Json

Number = int | Fraction
Matrix = tuple[tuple[Number, ...], ...]
IntMatrix = tuple[tuple[int, ...], ...]
Strategy = tuple[Fraction, ...]


def exact(value: int | str | Fraction) -> Number:
    """The exact value of a payoff as samples hold it: an int or a decimal string.

    >>> exact("-3.25"), exact("4.00")
    (Fraction(-13, 4), 4)
    """
    if isinstance(value, int):
        return value
    number = Fraction(value)
    return number.numerator if number.denominator == 1 else number


def decimal(units: int, places: int) -> int | str:
    """A whole number of units of 10**-places, as samples hold payoffs.

    >>> decimal(-325, 2), decimal(50, 2), decimal(7, 0)
    ('-3.25', '0.50', 7)
    """
    if places == 0:
        return units
    whole, part = divmod(abs(units), 10**places)
    return f"{'-' if units < 0 else ''}{whole}.{part:0{places}d}"


@dataclass(frozen=True, slots=True)
class Game:
    """A bimatrix game: two m x n matrices. Build it with `Game.of`, which checks the shapes."""

    row: Matrix
    col: Matrix

    @classmethod
    def of(
        cls,
        row: Iterable[Iterable[int | str | Fraction]],
        col: Iterable[Iterable[int | str | Fraction]],
    ) -> Game:
        """A game from rows of numbers or decimal strings.

        Raises HarnessError if the matrices are empty, ragged or of different shapes.
        """
        game = cls(
            tuple(tuple(exact(x) for x in line) for line in row),
            tuple(tuple(exact(x) for x in line) for line in col),
        )
        widths = {len(line) for line in (*game.row, *game.col)}
        if len(game.row) != len(game.col) or len(widths) != 1 or widths == {0}:
            raise HarnessError("both payoff matrices must be rectangular and of the same shape")
        return game

    @classmethod
    def from_data(cls, data: Mapping[str, Json]) -> Game:
        """The game of a sample's data (fields ``row`` and ``col``)."""
        return cls.of(data["row"], data["col"])

    @property
    def shape(self) -> tuple[int, int]:
        """(m, n): how many actions the row player and the column player have."""
        return len(self.row), len(self.row[0])

    def swapped(self) -> Game:
        """The same game with the players' roles exchanged."""
        return Game(tuple(zip(*self.col, strict=True)), tuple(zip(*self.row, strict=True)))

    def permuted(self, rows: Sequence[int], cols: Sequence[int]) -> Game:
        """The same game with its actions in another order: new row k is old row ``rows[k]``."""
        return Game(
            tuple(tuple(self.row[i][j] for j in cols) for i in rows),
            tuple(tuple(self.col[i][j] for j in cols) for i in rows),
        )

    def own(self, player: str) -> Matrix:
        """The payoffs of ``row`` or ``column`` with that player's own actions as the rows."""
        return self.row if player == "row" else tuple(zip(*self.col, strict=True))


def integral(matrix: Matrix) -> tuple[IntMatrix, int]:
    """The matrix times the smallest whole number that makes all of it whole, and that number.

    >>> integral(((Fraction(1, 2), 1),))
    (((1, 2),), 2)
    """
    scale = lcm(*{x.denominator for line in matrix for x in line})
    if scale == 1:
        return tuple(tuple(int(x) for x in line) for line in matrix), 1
    return tuple(tuple(int(x * scale) for x in line) for line in matrix), scale


def normalised(matrix: Matrix) -> IntMatrix:
    """The one matrix that stands for all its positive affine images: least entry 0, no common
    factor (all zeros for a constant matrix).

    >>> normalised(((5, 1), (3, 9)))
    ((2, 0), (1, 4))
    """
    whole, _ = integral(matrix)
    low = min(map(min, whole))
    factor = gcd(*(x - low for line in whole for x in line)) or 1
    return tuple(tuple((x - low) // factor for x in line) for line in whole)
