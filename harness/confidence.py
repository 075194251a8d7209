"""Confidence sequences: intervals of a mean that hold at every look, so that one may play on until
they are narrow and stop then.

    sequence = ConfidenceSequence()
    for score in scores:             # in [0, 1], independent
        sequence.add(score)
        if sequence.half_width <= 0.02:
            break

The empirical Bernstein sequence of Waudby-Smith and Ramdas ("Estimating means of bounded random
variables by betting", JRSS B 86, 2024, theorem 2): with probability 1 - alpha the mean lies within
all its intervals at once. A usual 95 % interval that is looked at after every game does not have
this property: stopping when it is narrow, or excludes a value, it errs far more often.
"""

from __future__ import annotations

import math
from typing import Final

from .stats import LEVEL

WIDEST: Final = 0.5
"""The largest weight of an observation (lambda)."""


class ConfidenceSequence:
    """A mean of numbers in [0, 1] with an interval that is valid at any time.

    Constant time and memory an observation. The running intersection of the intervals is kept.
    """

    __slots__ = (
        "_alpha",
        "_deviation",
        "_sum",
        "_variation",
        "_weighted",
        "_weights",
        "high",
        "low",
        "n",
    )

    def __init__(self, alpha: float = 1 - LEVEL) -> None:
        self._alpha = alpha
        self.n = 0
        self.low, self.high = 0.0, 1.0
        self._sum = 0.0
        self._deviation = 0.25  # sum of squares about the running mean, with one imagined value
        self._weights = self._weighted = self._variation = 0.0

    @property
    def mean(self) -> float:
        """The plain mean so far."""
        return self._sum / self.n if self.n else 0.5

    @property
    def half_width(self) -> float:
        """Half of the interval's width."""
        return max(0.0, self.high - self.low) / 2

    def add(self, value: float) -> None:
        """Take one observation. Raises ValueError outside [0, 1]."""
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"{value} is not in [0, 1]")
        # The weight and the centre depend on what came before only: predictable.
        centre = (0.5 + self._sum) / (self.n + 1)
        variance = self._deviation / (self.n + 1)
        t = self.n + 1
        weight = min(
            WIDEST, math.sqrt(2 * math.log(2 / self._alpha) / (variance * t * math.log(1 + t)))
        )
        self.n = t
        self._sum += value
        new = (0.5 + self._sum) / (t + 1)
        self._deviation += (value - new) ** 2
        self._weights += weight
        self._weighted += weight * value
        self._variation += (value - centre) ** 2 * (-math.log1p(-weight) - weight)
        half = (math.log(2 / self._alpha) + self._variation) / self._weights
        middle = self._weighted / self._weights
        self.low = max(self.low, middle - half)
        self.high = min(self.high, middle + half)
