"""The identity of a game: what stays when actions are reordered, payoffs rescaled, players swapped.

Two games have the same `canonical` identity exactly if one becomes the other by permuting rows,
permuting columns, a positive affine change of either player's payoffs, and exchanging the players.
Splits follow this identity, so no test game is a training game in disguise.

Payoffs are first brought to least entry 0 and no common factor, which leaves the permutations. They
are settled as in graph canonisation (McKay, Practical graph isomorphism, 1981): rows and columns
are told apart by what they contain until nothing changes; where some stay alike, each in turn is
singled out, and the least of the matrices that result is the form. Branches that an automorphism
maps to one already seen are cut, so games full of symmetry cost little.

>>> from .games import Game
>>> one = Game.of([[3, 0], [5, 1]], [[3, 5], [0, 1]])
>>> two = Game.of([[1, 9], [-1, 5]], [["0.1", 0], ["0.5", "0.3"]])
>>> canonical(one) == canonical(two)
True
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise

from .games import Game, normalised

Cells = tuple[tuple[int, ...], ...]
Form = tuple[tuple[int, int], Cells]
"""Shape and matrix, each entry standing for a pair of payoffs."""


def canonical(game: Game) -> str:
    """The identity of a game: 32 hex digits, the same on every platform and in every process."""
    text = repr(canonical_form(game))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def bucket(identity: str) -> int:
    """A number in 0..9 that depends on the identity alone; splits are made of whole buckets.

    It is read from the second half: that gives each split its fair part of the rarest games, 2x2
    zero-sum and symmetric ones with a continuum of equilibria, of which there are some 60 to 100.
    """
    return int(identity[16:], 16) % 10


def canonical_form(game: Game) -> tuple[Form, int]:
    """The least matrix among all images of a game, and the radix that its entries were packed with.

    An entry is ``row payoff * radix + column payoff`` (both normalised); wide games are turned so
    that they have no more rows than columns.
    """
    row, col = normalised(game.row), normalised(game.col)
    m, n = game.shape
    images = []
    if m <= n:
        images.append(_packed(row, col))
    if m >= n:
        images.append(_packed(tuple(zip(*col, strict=True)), tuple(zip(*row, strict=True))))
    return min((((len(cells), len(cells[0])), _form(cells)), radix) for cells, radix in images)


def _packed(first: Cells, second: Cells) -> tuple[Cells, int]:
    radix = max(map(max, second)) + 1
    cells = tuple(
        tuple(a * radix + b for a, b in zip(x, y, strict=True))
        for x, y in zip(first, second, strict=True)
    )
    return cells, radix


def _form(cells: Cells) -> Cells:
    """The least leaf of the search tree."""
    columns = tuple(zip(*cells, strict=True))
    return min(_leaves(cells, columns, [0] * len(cells), [0] * len(columns)))


def _leaves(cells: Cells, columns: Cells, rows: list[int], cols: list[int]) -> set[Cells]:
    """The matrices below a node of the search tree, but for those that symmetry repeats.

    ``rows`` and ``cols`` are colours; ``columns`` is the transposed matrix. A node where all rows
    or all columns are told apart is a leaf: what is still alike on the other side is equal.
    """
    rows, cols = _refined(cells, columns, rows, cols)
    if len(set(rows)) == len(rows) or len(set(cols)) == len(cols):
        return {_arranged(cells, rows, cols)}
    found: set[Cells] = set()
    for choice in _branches(cells, rows):
        colours = [2 * colour + (i != choice) for i, colour in enumerate(rows)]
        if not found or _greedy(cells, columns, colours, cols) not in found:
            found |= _leaves(cells, columns, colours, cols)
    return found


def _greedy(cells: Cells, columns: Cells, rows: list[int], cols: list[int]) -> Cells:
    """One leaf below a node. If a sibling has it too, an automorphism maps one to the other."""
    rows, cols = _refined(cells, columns, rows, cols)
    while len(set(rows)) < len(rows) and len(set(cols)) < len(cols):
        choice = _branches(cells, rows)[0]
        rows = [2 * colour + (i != choice) for i, colour in enumerate(rows)]
        rows, cols = _refined(cells, columns, rows, cols)
    return _arranged(cells, rows, cols)


def _branches(cells: Cells, rows: list[int]) -> list[int]:
    """The rows of the first colour that several share; of equal rows only one."""
    colour = min(c for c in rows if rows.count(c) > 1)
    return list({cells[i]: i for i, own in enumerate(rows) if own == colour}.values())


def _refined(
    cells: Cells, columns: Cells, rows: list[int], cols: list[int]
) -> tuple[list[int], list[int]]:
    """Split colours by the entries met and the colours they are met with, until nothing splits.

    The new colours are ranks of what was seen, so they do not depend on the order of actions.
    """
    before, kinds = -1, _kinds(rows, cols)
    while before != kinds:
        rows, cols = _recoloured(cells, rows, cols), _recoloured(columns, cols, rows)
        before, kinds = kinds, _kinds(rows, cols)
    return rows, cols


def _kinds(rows: list[int], cols: list[int]) -> int:
    return len(set(rows)) + len(set(cols))


def _recoloured(lines: Cells, own: list[int], across: list[int]) -> list[int]:
    seen = [
        (colour, sorted(zip(across, line, strict=True)))
        for colour, line in zip(own, lines, strict=True)
    ]
    return _ranks(seen)


def _ranks(values: Sequence[tuple[int, list[tuple[int, int]]]]) -> list[int]:
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0] * len(values)
    for before, here in pairwise(order):
        ranks[here] = ranks[before] + (values[here] != values[before])
    return ranks


def _arranged(cells: Cells, rows: list[int], cols: list[int]) -> Cells:
    def by(colours: list[int]) -> list[int]:
        return sorted(range(len(colours)), key=colours.__getitem__)

    order = by(cols)
    return tuple(tuple(cells[i][j] for j in order) for i in by(rows))
