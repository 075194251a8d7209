"""Random draws whose results are the same on every platform and every Python version.

All of them are made from ``random.Random(seed).getrandbits``, the Mersenne Twister's raw bits;
``randrange``, ``shuffle``, ``sample`` and floats are not used, for they have changed or may.

>>> draws = Draws(7)
>>> [draws.below(10) for _ in range(5)], draws.order(4)
([5, 2, 6, 0, 1], [2, 3, 1, 0])
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

from harness.seeds import derive

T = TypeVar("T")

SIGMA_PLACES = 4
"""Decimals of the mixed strategies that samples show."""


class Draws:
    """A stream of draws; one for each item."""

    __slots__ = ("_bits",)

    def __init__(self, seed: int) -> None:
        self._bits = random.Random(seed).getrandbits

    def below(self, n: int) -> int:
        """A whole number in [0, n), by rejection."""
        width = n.bit_length()
        value = self._bits(width)
        while value >= n:
            value = self._bits(width)
        return value

    def between(self, low: int, high: int) -> int:
        """A whole number in [low, high]."""
        return low + self.below(high - low + 1)

    def choice(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[self.below(len(items))]

    def order(self, n: int) -> list[int]:
        """A random order of 0..n-1 (Fisher and Yates)."""
        items = list(range(n))
        for last in range(n - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]
        return items

    def strategy(self, n: int) -> list[str]:
        """A mixed strategy in 4 decimals that sums to exactly 1, all parts positive.

        The gaps between n - 1 distinct cuts of 1..9999 in order: uniform on the simplex, as
        exponential draws divided by their sum are, with no rounding left to repair.
        """
        whole = 10**SIGMA_PLACES
        cuts: set[int] = set()
        while len(cuts) < n - 1:
            cuts.add(self.between(1, whole - 1))
        points = [0, *sorted(cuts), whole]
        gaps = [b - a for a, b in pairwise(points)]
        return [f"{gap // whole}.{gap % whole:0{SIGMA_PLACES}d}" for gap in gaps]


def level(levels: int, k: int, *key: object) -> int:
    """The level of a balanced factor for item k of a series: each block of ``levels`` consecutive
    items has every level once, in an order drawn for the block from the key.

    >>> sorted(level(3, k, "format") for k in range(6))
    [0, 0, 1, 1, 2, 2]
    """
    block, place = divmod(k, levels)
    return Draws(derive(*key, block)).order(levels)[place]
