"""Claimed strategy profiles, checked by regret in whole numbers.

A claim is an equilibrium when neither player could gain by another action. Probabilities are judged
as they were written: a fraction or a whole number is exact, a decimal stands for all numbers that
round to it, and the regret that this rounding can cause is forgiven, up to 1 % of the player's
payoff range.

>>> game = Arena.of({"row": [[2, 0], [0, 1]], "col": [[1, 0], [0, 2]]})
>>> x, y = weights(["2/3", "1/3"], 2), weights(["0.33", "0.67"], 2)
>>> game.holds(x, y), game.holds(x, weights(["1/2", "1/2"], 2))
(True, False)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from math import gcd, lcm
from operator import mul
from typing import NamedTuple

from harness.types import Json

Table = list[list[int]]


class Numeral(NamedTuple):
    """A number as it was written: ``top / bottom``, give or take ``slack / bottom``.

    ``slack`` is half a unit of the last digit shown; 0 for whole numbers and fractions.
    """

    top: int
    bottom: int
    slack: int

    @classmethod
    def of(cls, text: str) -> Numeral:
        """Read ``7``, ``-2/3`` or ``0.250``. Raises ValueError for anything else.

        >>> Numeral.of("0.25"), Numeral.of("2/3")
        (Numeral(top=50, bottom=200, slack=1), Numeral(top=2, bottom=3, slack=0))
        """
        whole, _, digits = text.partition(".")
        if digits:
            return cls(2 * int(whole + digits), 2 * 10 ** len(digits), 1)
        top, line, bottom = text.partition("/")
        if not line:
            return cls(int(whole), 1, 0)
        size = int(bottom)
        if size <= 0:
            raise ValueError(f"not a number: {text}")
        return cls(int(top), size, 0)


class Weights(NamedTuple):
    """A mixed strategy: action i has ``parts[i] / unit``, give or take ``slack[i] / unit``."""

    parts: list[int]
    slack: list[int]
    unit: int

    @property
    def action(self) -> int | None:
        """The one action that is played for sure, if there is one."""
        return self.parts.index(1) if self.unit == 1 else None

    @property
    def key(self) -> tuple[int, ...]:
        """Equal for equal strategies, however they were written."""
        factor = reduce(gcd, self.parts, self.unit)
        return (self.unit // factor, *(part // factor for part in self.parts))


def weights(texts: Sequence[str], size: int) -> Weights | None:
    """A strategy over ``size`` actions from written numbers.

    None if it is none: another length, an unreadable or negative number, or a sum that differs from
    1 by more than the rounding of its numbers can explain. Strategies with one action for sure are
    normalised to exact ones.
    """
    if len(texts) != size:
        return None
    try:
        read = [Numeral.of(text) for text in texts]
    except (ValueError, AttributeError):
        return None
    unit = lcm(*[number.bottom for number in read])
    parts = [number.top * (unit // number.bottom) for number in read]
    slack = [number.slack * (unit // number.bottom) for number in read]
    if min(parts) < 0 or abs(sum(parts) - unit) > sum(slack):
        return None
    if parts.count(0) == size - 1 and unit in parts:
        return Weights([part // unit for part in parts], [0] * size, 1)
    return Weights(parts, slack, unit)


class Side(NamedTuple):
    """A player's payoffs as whole numbers, own action first: ``table / scale``.

    ``spread`` is the difference of the greatest and the least of them.
    """

    table: Table
    scale: int
    spread: int

    @classmethod
    def of(cls, matrix: Sequence[Sequence[int | str]], transposed: bool = False) -> Side:
        """From payoffs as samples hold them: ints, or decimal strings."""
        table, scale = whole(matrix)
        if transposed:
            table = [list(line) for line in zip(*table, strict=True)]
        return cls(table, scale, max(map(max, table)) - min(map(min, table)))

    def gaps(self, other: Weights) -> list[int]:
        """What each action falls short of the best against a strategy, times ``scale * unit``."""
        parts = other.parts
        pays = [sum(map(mul, line, parts)) for line in self.table]
        best = max(pays)
        return [best - pay for pay in pays]

    def content(self, own: Weights, other: Weights) -> bool:
        """Whether ``own`` is a best reply to ``other``, up to the rounding of ``other``.

        An action used is a best reply to the true strategy behind the rounded one, so it falls
        short of another by no more than rounding can move the two apart; the regret is the average.
        """
        regret: int = sum(map(mul, self.gaps(other), own.parts))
        if regret == 0:
            return True
        if not any(other.slack):
            return False
        if 100 * regret > self.spread * other.unit * sum(own.parts):
            return False
        swings = [self._swing(action, other.slack) for action in range(len(self.table))]
        allowed: int = sum(map(mul, swings, own.parts))
        return regret <= allowed

    def _swing(self, action: int, slack: Sequence[int]) -> int:
        """By how much rounding of the opponent's strategy can make an action look worse than
        another one, where truly it is as good."""
        line = self.table[action]
        return max(
            sum(s * abs(a - b) for s, a, b in zip(slack, line, other, strict=True))
            for other in self.table
        )


class Arena(NamedTuple):
    """A game made ready for checking claims."""

    row: Side
    col: Side

    @classmethod
    def of(cls, data: Mapping[str, Json]) -> Arena:
        """The game of a sample's data."""
        return cls(Side.of(data["row"]), Side.of(data["col"], transposed=True))

    @property
    def shape(self) -> tuple[int, int]:
        """(m, n): the numbers of actions."""
        return len(self.row.table), len(self.col.table)

    def pure(self, i: int, j: int) -> bool:
        """Whether cell (i, j) is an equilibrium."""
        return self.row.table[i][j] == max(line[j] for line in self.row.table) and (
            self.col.table[j][i] == max(line[i] for line in self.col.table)
        )

    def holds(self, x: Weights, y: Weights) -> bool:
        """Whether (x, y) is an equilibrium, up to the rounding that its numbers show."""
        return self.row.content(x, y) and self.col.content(y, x)

    def within(self, x: Weights, y: Weights, subset: Subset) -> bool:
        """Whether an equilibrium (x, y) is a point of a maximal Nash subset.

        Points of one subset can be exchanged: x belongs to it exactly when x is in equilibrium with
        each of the subset's column strategies, and y likewise (Jansen, Naval Research Logistics
        Quarterly 28, 1981). With rounded numbers x must besides lie within one unit of the last
        digit shown of the subset's bounding box.
        """
        return (
            all(self.holds(x, col) for col in subset.cols)
            and all(self.holds(row, y) for row in subset.rows)
            and _near(x, subset.rows)
            and _near(y, subset.cols)
        )


class Subset(NamedTuple):
    """A maximal Nash subset by its extreme strategies: all pairs of the two hulls."""

    rows: list[Weights]
    cols: list[Weights]

    @classmethod
    def of(cls, subset: Mapping[str, Json]) -> Subset:
        """From one entry of a truth's ``subsets``."""
        return cls(_exact(subset["rows"]), _exact(subset["cols"]))


def whole(matrix: Sequence[Sequence[int | str]]) -> tuple[Table, int]:
    """Payoffs times a power of ten that makes all of them whole, and that power.

    >>> whole([[1, "-0.5"]])
    ([[10, -5]], 10)
    """
    if all(type(x) is int for line in matrix for x in line):
        return [list(line) for line in matrix], 1  # type: ignore[arg-type]
    parts = [[str(x).partition(".") for x in line] for line in matrix]
    places = max(len(digits) for line in parts for _, _, digits in line)
    return [[int(w + d.ljust(places, "0")) for w, _, d in line] for line in parts], 10**places


def has_pure(subset: Mapping[str, Json]) -> bool:
    """Whether a maximal Nash subset holds a pure equilibrium (then that is what must be found)."""
    return any("1" in x for x in subset["rows"]) and any("1" in y for y in subset["cols"])


def _exact(strategies: Sequence[Sequence[str]]) -> list[Weights]:
    read = [weights(texts, len(texts)) for texts in strategies]
    return [strategy for strategy in read if strategy is not None]


def _near(claim: Weights, hull: Sequence[Weights]) -> bool:
    """Whether each part lies between the least and the greatest in the hull, up to one unit of its
    last digit. Exact claims have been settled by their regrets."""
    if not any(claim.slack):
        return True
    for i, (part, slack) in enumerate(zip(claim.parts, claim.slack, strict=True)):
        low, high = part - 2 * slack, part + 2 * slack
        if all(v.parts[i] * claim.unit > high * v.unit for v in hull):
            return False
        if all(v.parts[i] * claim.unit < low * v.unit for v in hull):
            return False
    return True
