"""Vertices of best-response polytopes, by exact pivoting.

A player with d actions faces k actions of the other. The polytope {z >= 0, A z <= 1}, A a k x d
matrix of positive whole numbers, holds that player's mixed strategies up to scale: constraint i is
tight where the other's action i is a best reply, and z_j >= 0 is tight where action j is unused.

The vertices are found by walking from z = 0 along edges. Each stop is a dictionary (Chvatal, Linear
Programming, 1983) of whole numbers over one common denominator, so that pivots are exact divisions
(Edmonds' integer pivoting). Degenerate vertices belong to many dictionaries; ties of the ratio test
are broken lexicographically, as if the right-hand sides were 1 + e, 1 + e^2, ... for a tiny e. The
perturbed polytope is simple, its graph is connected, and each vertex of the true polytope is the
limit of at least one of its vertices, so the walk misses none.

>>> [v.weights for v in vertices(((1, 2), (2, 1)), (1, 2, 4, 8))]
[(0, 1), (1, 1), (1, 0)]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .games import IntMatrix


class Vertex(NamedTuple):
    """A vertex other than zero.

    ``tight`` is the union of the bits of the tight inequalities; ``weights`` is proportional to the
    mixed strategy; ``scale / sum(weights)`` is the payoff that the other player's best replies get.
    """

    tight: int
    weights: tuple[int, ...]
    scale: int


class _Dictionary(NamedTuple):
    """``scale * basic[i] = table[i][-1] - sum_j table[i][j] * free[j]``; variables 0..d-1 are the
    z, the rest the slacks. ``key`` is the set of free variables as bits."""

    table: list[list[int]]
    scale: int
    basic: list[int]
    free: list[int]
    key: int


def vertices(matrix: IntMatrix, bits: Sequence[int]) -> list[Vertex]:
    """All vertices but zero of {z >= 0, matrix z <= 1}, each once, in the order of the walk.

    :param matrix: k x d positive whole numbers.
    :param bits: the bit that stands for each tight inequality: d of z_j >= 0, then k constraints.
    """
    k, d = len(matrix), len(matrix[0])
    start = (1 << d) - 1
    table = [[*line, 1] for line in matrix]
    stack = [_Dictionary(table, 1, list(range(d, d + k)), list(range(d)), start)]
    seen = {start}
    found: dict[int, Vertex] = {}
    while stack:
        here = stack.pop()
        vertex = _vertex(here, d, bits)
        found.setdefault(vertex.tight, vertex)
        for column in range(d):
            line = _leaving(here, column, d)
            key = here.key ^ (1 << here.free[column]) ^ (1 << here.basic[line])
            if key not in seen:
                seen.add(key)
                stack.append(_pivot(here, line, column, key))
    return [vertex for vertex in found.values() if any(vertex.weights)]


def _vertex(here: _Dictionary, d: int, bits: Sequence[int]) -> Vertex:
    tight = 0
    weights = [0] * d
    for variable in here.free:
        tight |= bits[variable]
    for line, variable in zip(here.table, here.basic, strict=True):
        if line[-1] == 0:
            tight |= bits[variable]
        elif variable < d:
            weights[variable] = line[-1]
    return Vertex(tight, tuple(weights), here.scale)


def _leaving(here: _Dictionary, column: int, d: int) -> int:
    """The line whose variable falls to zero first as the free variable of a column grows.

    There is one, for the polytope is bounded.
    """
    table = here.table
    best = -1
    top, bottom = 1, 0
    tied = False
    for i, line in enumerate(table):
        rate = line[column]
        if rate > 0:
            left, right = line[-1] * bottom, top * rate
            if left < right or best < 0:
                best, top, bottom, tied = i, line[-1], rate, False
            elif left == right:
                tied = True
    if tied:
        return _least(here, column, d, top, bottom)
    return best


def _least(here: _Dictionary, column: int, d: int, top: int, bottom: int) -> int:
    """Among the lines that tie in the ratio test, the lexicographically least."""
    table = here.table
    ties = [
        i
        for i, line in enumerate(table)
        if line[column] > 0 and line[-1] * bottom == top * line[column]
    ]
    for slack in range(d, d + len(table)):
        if slack in here.free:
            place = here.free.index(slack)
            parts = [table[i][place] for i in ties]
        else:
            parts = [here.scale if here.basic[i] == slack else 0 for i in ties]
        ties = _smallest(ties, parts, [table[i][column] for i in ties])
        if len(ties) == 1:
            break
    return ties[0]


def _smallest(lines: list[int], tops: list[int], bottoms: list[int]) -> list[int]:
    """The lines with the least top / bottom (bottoms positive)."""
    kept: list[int] = []
    top, bottom = 0, 0
    for line, a, b in zip(lines, tops, bottoms, strict=True):
        order = a * bottom - top * b
        if not kept or order < 0:
            kept, top, bottom = [line], a, b
        elif order == 0:
            kept.append(line)
    return kept


def _pivot(here: _Dictionary, line: int, column: int, key: int) -> _Dictionary:
    """Exchange the basic variable of a line and the free variable of a column."""
    pivot_line, scale = here.table[line], here.scale
    pivot = pivot_line[column]
    table: list[list[int]] = []
    for i, old in enumerate(here.table):
        factor = old[column]
        if i == line:
            new = pivot_line.copy()
            new[column] = scale
        else:
            new = [(pivot * a - factor * b) // scale for a, b in zip(old, pivot_line, strict=True)]
            new[column] = -factor
        table.append(new)
    basic, free = here.basic.copy(), here.free.copy()
    basic[line], free[column] = free[column], basic[line]
    return _Dictionary(table, pivot, basic, free, key)
