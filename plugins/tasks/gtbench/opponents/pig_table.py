"""Pig: the best policy by value iteration, and the rule to hold at 20.

A position is (own points i, other's points j, turn total k); P(i, j, k) is the probability that
the player to move wins under best play by both:

    P(i, j, k) = max(roll, stop)
    roll = (1 - P(j, i, 0)) / 6 + sum over faces 2..6 of P(i, j, k + face) / 6
    stop = 1 if i + k >= target else 1 - P(j, i + k, 0)

(Neller and Presser, "Optimal Play of the Dice Game Pig", 2004). Points never fall, so the pairs
{(i, j), (j, i)} are solved one after another from the end of the game, each by iteration. The
engine's limit of 1000 moves and throws is left out: play never comes near it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from random import Random

from ..games.pig import ROLL, STOP, TARGET, score
from ..view import View

Policy = Callable[[int, int, int], bool]
"""Whether to roll at (own points, other's points, turn total)."""


@lru_cache(maxsize=1)
def values(target: int = TARGET, precision: float = 1e-13) -> dict[tuple[int, int, int], float]:
    """The winning probability of the player to move, for all positions with i, j < target and
    i + k < target (above it, stopping wins)."""
    table: dict[tuple[int, int, int], float] = {}

    def at(i: int, j: int, k: int) -> float:
        return 1.0 if i + k >= target else table.get((i, j, k), 0.5)

    pairs = sorted(
        ((i, j) for i in range(target) for j in range(i + 1)), key=lambda p: -(p[0] + p[1])
    )
    for pair in pairs:
        sides = {pair, pair[::-1]}
        change = 1.0
        while change > precision:
            change = 0.0
            for i, j in sides:
                for k in reversed(range(target - i)):
                    new = max(roll_value(at, i, j, k), 1.0 - at(j, i + k, 0))
                    change = max(change, abs(new - at(i, j, k)))
                    table[i, j, k] = new
    return table


def roll_value(at: Callable[[int, int, int], float], i: int, j: int, k: int) -> float:
    """The value of rolling once more."""
    return ((1.0 - at(j, i, 0)) + sum(at(i, j, k + face) for face in range(2, 7))) / 6.0


@lru_cache(maxsize=1)
def best_rolls(target: int = TARGET) -> frozenset[tuple[int, int, int]]:
    """The positions in which best play rolls."""
    table = values(target)

    def at(i: int, j: int, k: int) -> float:
        return 1.0 if i + k >= target else table[i, j, k]

    return frozenset(
        (i, j, k) for i, j, k in table if roll_value(at, i, j, k) > 1.0 - at(j, i + k, 0) or k == 0
    )


def choose(view: View, rng: Random) -> int:
    """Best play."""
    points, turn = score(view.open_position())
    place = (points[view.seat], points[1 - view.seat], turn)
    return ROLL if place in best_rolls() else STOP


def hold_at_20(view: View, rng: Random) -> int:
    """Roll until the turn total is 20 or stopping wins."""
    points, turn = score(view.open_position())
    return STOP if turn >= 20 or points[view.seat] + turn >= TARGET else ROLL
