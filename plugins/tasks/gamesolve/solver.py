"""All Nash equilibria of a matrix game, exactly.

The extreme equilibria are the pairs of vertices of the two best-response polytopes that carry all
labels: each action is unused or a best reply (Mangasarian 1964; Avis, Rosenberg, Savani and von
Stengel, Economic Theory 42, 2010). The whole set of equilibria is the union of the maximal Nash
subsets: products of convex hulls, one for each maximal complete bipartite subgraph of the graph
whose edges are the extreme equilibria.

>>> solution = solve(Game.of([[2, 0], [0, 1]], [[1, 0], [0, 2]]))
>>> solution.pure, solution.kind, solution.degenerate
(((0, 0), (1, 1)), 'both', False)
>>> [str(p) for p in solution.equilibria[-1].row], [str(p) for p in solution.equilibria[-1].col]
(['2/3', '1/3'], ['1/3', '2/3'])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from .games import Game, IntMatrix, Matrix, Number, Strategy, integral
from .polytopes import Vertex, vertices

Profile = tuple[int, int]


class Equilibrium(NamedTuple):
    """An extreme equilibrium: both mixed strategies and what each player gets."""

    row: Strategy
    col: Strategy
    payoffs: tuple[Fraction, Fraction]

    @property
    def pure(self) -> bool:
        """Whether both strategies are pure."""
        return max(self.row) == 1 and max(self.col) == 1


class NashSubset(NamedTuple):
    """A maximal Nash subset: all pairs from the hull of ``rows`` and the hull of ``cols``."""

    rows: tuple[Strategy, ...]
    cols: tuple[Strategy, ...]

    @property
    def continuum(self) -> bool:
        """Whether it holds more than one equilibrium (then it holds infinitely many)."""
        return len(self.rows) > 1 or len(self.cols) > 1


@dataclass(frozen=True, slots=True)
class Solution:
    """The equilibria of a game, complete and in a fixed order: pure ones first, in row-major order.

    ``degenerate``: some mixed strategy has more pure best replies than actions in its support.
    """

    equilibria: tuple[Equilibrium, ...]
    subsets: tuple[NashSubset, ...]
    pure: tuple[Profile, ...]
    degenerate: bool

    @property
    def continuum(self) -> bool:
        """Whether there are infinitely many equilibria."""
        return any(subset.continuum for subset in self.subsets)

    @property
    def kind(self) -> str:
        """``pure``, ``mixed`` or ``both``; a continuum counts as having equilibria not pure."""
        if not self.pure:
            return "mixed"
        return "both" if self.continuum or len(self.equilibria) > len(self.pure) else "pure"

    @property
    def stratum(self) -> str:
        """``continuum`` where there are infinitely many equilibria, the kind otherwise."""
        return "continuum" if self.continuum else self.kind


def solve(game: Game) -> Solution:
    """All extreme equilibria, the maximal Nash subsets and what kind of game it is.

    Time grows with the number of vertices: about 0.1 ms at 2x2, 4 ms at 6x6, and exponentially on.
    """
    m, n = game.shape
    a, b = _Side.of(game.row), _Side.of(game.col)
    labels = [1 << label for label in range(m + n)]
    xs = vertices(tuple(zip(*b.matrix, strict=True)), labels)
    ys = vertices(a.matrix, labels[m:] + labels[:m])
    everything = (1 << (m + n)) - 1
    edges = [
        (i, j)
        for i, x in enumerate(xs)
        for j, y in enumerate(ys)
        if x.tight | y.tight == everything
    ]
    rows = {i: _strategy(xs[i]) for i, _ in edges}
    cols = {j: _strategy(ys[j]) for _, j in edges}
    found = [Equilibrium(rows[i], cols[j], (a.payoff(ys[j]), b.payoff(xs[i]))) for i, j in edges]
    subsets = [_subset(rows, cols, biclique) for biclique in _bicliques(edges)]
    return Solution(
        tuple(sorted(found, key=_order)),
        tuple(sorted(subsets, key=_first)),
        pure_equilibria(game),
        any(x.tight.bit_count() > m for x in xs) or any(y.tight.bit_count() > n for y in ys),
    )


class _Side(NamedTuple):
    """A player's payoffs as positive whole numbers: ``matrix = scale * payoffs + shift``."""

    matrix: IntMatrix
    scale: int
    shift: int

    @classmethod
    def of(cls, payoffs: Matrix) -> _Side:
        whole, scale = integral(payoffs)
        shift = 1 - min(map(min, whole))
        return cls(tuple(tuple(x + shift for x in line) for line in whole), scale, shift)

    def payoff(self, other: Vertex) -> Fraction:
        """What the player's best replies get against the other's strategy."""
        total = sum(other.weights)
        return Fraction(other.scale - self.shift * total, total * self.scale)


def _strategy(vertex: Vertex) -> Strategy:
    total = sum(vertex.weights)
    return tuple(Fraction(weight, total) for weight in vertex.weights)


def _support(strategy: Strategy) -> tuple[int, ...]:
    return tuple(i for i, p in enumerate(strategy) if p)


def _order(e: Equilibrium) -> tuple[object, ...]:
    """Pure equilibria first, then by supports, then by the probabilities."""
    return not e.pure, _support(e.row), _support(e.col), e.row, e.col


def _first(subset: NashSubset) -> tuple[object, ...]:
    """Subsets in the order of their supports, then of the probabilities."""
    return [_support(x) for x in subset.rows], [_support(y) for y in subset.cols], subset


def _subset(
    rows: dict[int, Strategy], cols: dict[int, Strategy], biclique: tuple[list[int], list[int]]
) -> NashSubset:
    def ordered(strategies: list[Strategy]) -> tuple[Strategy, ...]:
        return tuple(sorted(strategies, key=lambda s: (_support(s), s)))

    return NashSubset(
        ordered([rows[i] for i in biclique[0]]), ordered([cols[j] for j in biclique[1]])
    )


def _bicliques(edges: Sequence[tuple[int, int]]) -> list[tuple[list[int], list[int]]]:
    """The maximal complete bipartite subgraphs of a graph without isolated vertices.

    Their right sides are exactly the intersections, not empty, of neighbourhoods of left vertices.
    """
    neighbours: dict[int, int] = {}
    for i, j in edges:
        neighbours[i] = neighbours.get(i, 0) | 1 << j
    closed: set[int] = set()
    for own in neighbours.values():
        closed |= {own} | {own & other for other in closed}
    closed.discard(0)
    return [
        (
            [i for i, own in neighbours.items() if own & right == right],
            [j for j in range(right.bit_length()) if right >> j & 1],
        )
        for right in closed
    ]


def pure_equilibria(game: Game) -> tuple[Profile, ...]:
    """The cells in which neither player gains by another action, in row-major order."""
    best_row = [max(column) for column in zip(*game.row, strict=True)]
    best_col = [max(line) for line in game.col]
    return tuple(
        (i, j)
        for i, line in enumerate(game.row)
        for j, value in enumerate(line)
        if value == best_row[j] and game.col[i][j] == best_col[i]
    )


@dataclass(frozen=True, slots=True)
class Certificate:
    """What shows that a profile is an equilibrium, or by how much it is not.

    ``row_values`` and ``col_values`` are the expected payoffs of each pure action against the
    other's strategy; a regret is what the best of them adds to the profile's own payoff.
    """

    row_values: tuple[Fraction, ...]
    col_values: tuple[Fraction, ...]
    payoffs: tuple[Fraction, Fraction]
    valid: bool

    @property
    def regrets(self) -> tuple[Fraction, Fraction]:
        """(row player's, column player's) regret; both 0 exactly at an equilibrium."""
        return (
            max(self.row_values) - self.payoffs[0],
            max(self.col_values) - self.payoffs[1],
        )

    @property
    def holds(self) -> bool:
        """Whether the profile is an equilibrium: distributions, and no regret."""
        return self.valid and not any(self.regrets)


def certificate(game: Game, row: Sequence[Number], col: Sequence[Number]) -> Certificate:
    """Check a profile by the definition alone, in fractions, without the solver.

    >>> certificate(Game.of([[1, 0], [0, 1]], [[0, 1], [1, 0]]), (1, 0), (1, 0)).regrets
    (Fraction(0, 1), Fraction(1, 1))
    """
    row_values = expected(game.own("row"), col)
    col_values = expected(game.own("column"), row)
    payoffs = (_dot(row, row_values), _dot(col, col_values))
    valid = all(min(s) >= 0 and sum(s) == 1 for s in (row, col))
    return Certificate(row_values, col_values, payoffs, valid)


def expected(own: Matrix, opponent: Sequence[Number]) -> tuple[Fraction, ...]:
    """The expected payoff of each own action against a mixed strategy of the opponent."""
    return tuple(_dot(line, opponent) for line in own)


def _dot(left: Sequence[Number], right: Sequence[Number]) -> Fraction:
    products = (Fraction(a * b) for a, b in zip(left, right, strict=True) if a and b)
    return sum(products, Fraction(0))
