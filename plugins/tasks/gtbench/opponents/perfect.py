"""Perfect play in tic-tac-toe (by search of all positions) and in nim (by nim sums)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, reduce
from operator import xor
from random import Random

from ..games.nim import PILES, piles
from ..view import View

LINES = (
    *((3 * r, 3 * r + 1, 3 * r + 2) for r in range(3)),
    *((c, c + 3, c + 6) for c in range(3)),
    (0, 4, 8),
    (2, 4, 6),
)


@cache
def value(cells: str) -> tuple[int, float]:
    """What a tic-tac-toe position is worth to the player to move (its marks are ``x``).

    The first number is the value under best play by both (1, 0, -1); the second is the mean
    result of best play against a random opponent, which separates moves of equal value. Positions
    are nine characters ``x``, ``o`` and ``.``, row by row.

    >>> value(".........")[0]
    0
    """
    if any(all(cells[i] == "o" for i in line) for line in LINES):
        return (-1, -1.0)
    if "." not in cells:
        return (0, 0.0)
    return max(worth(cells, move) for move in range(9) if cells[move] == ".")


def worth(cells: str, move: int) -> tuple[int, float]:
    """What the player to move gets by a move: under best play, and against a random opponent."""
    after = (cells[:move] + "x" + cells[move + 1 :]).translate(_SWAP)
    best, _ = value(after)
    replies = [i for i in range(9) if after[i] == "."]
    won = any(all(after[i] == "o" for i in line) for line in LINES)
    if won or not replies:
        return (-best, float(-best))
    mean = 0.0
    for reply in replies:
        again = (after[:reply] + "x" + after[reply + 1 :]).translate(_SWAP)
        mean += value(again)[1] / len(replies)
    return (-best, mean)


_SWAP = str.maketrans("xo", "ox")


def tictactoe(view: View, rng: Random) -> int:
    """One of the best moves."""
    cells = ["."] * 9
    for seat, action in view.moves:
        cells[action] = "x" if seat == view.seat else "o"
    text = "".join(cells)
    values = {action: worth(text, action) for action in view.legal.values()}
    most = max(values.values())
    return rng.choice([action for action, v in values.items() if v == most])


def nim(view: View, rng: Random) -> int:
    """A move that leaves a lost position, if there is one; else any move."""
    left = piles(view.open_position())
    good = [a for a in view.legal.values() if lost(_without(left, a))]
    return rng.choice(good or list(view.legal.values()))


def lost(left: list[int]) -> bool:
    """Whether the player to move loses misere nim: nim sum 0, or an odd count of ones when no
    pile is larger (Bouton, 1901).

    >>> lost([1, 3, 5, 7]), lost([1, 0, 0, 0]), lost([1, 1, 0, 0])
    (True, True, False)
    """
    if max(left) <= 1:
        return sum(left) % 2 == 1
    return reduce(xor, left) == 0


def _without(left: list[int], action: int) -> list[int]:
    less, pile = divmod(action, len(PILES))
    after = list(left)
    after[pile] -= less + 1
    return after


CHOOSERS: Mapping[str, Callable[[View, Random], int]] = {"tictactoe": tictactoe, "nim": nim}
