"""Effects of few figures, say of training seeds: paired differences, effect sizes, rank trends.

>>> none, probe = [0.728, 0.716, 0.724], [0.706, 0.698, 0.704]
>>> round(cohens_d(probe, none), 2), round(hedges_g(probe, none), 2)
(-3.83, -3.05)
>>> round(spearman([6, 6, 17, 17], [0.72, 0.73, 0.71, 0.70]).rho, 3)
-0.894
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations
from statistics import fmean, stdev
from typing import Final, NamedTuple

from .comparisons import FLIPS, two_sided
from .stats import LEVEL, t_quantile

EXACT_ORDERS: Final = 8
"""Up to so many points all orders are counted; above, they are drawn."""


class Difference(NamedTuple):
    """A mean paired difference over few pairs: its 95 % t interval, t, df, p."""

    difference: float
    low: float
    high: float
    t: float
    df: float
    p: float


class Trend(NamedTuple):
    """Spearman's rank correlation: p of the t approximation, and of a permutation test."""

    rho: float
    n: int
    p: float
    permutation: float


def paired_t(first: Sequence[float], second: Sequence[float]) -> Difference:
    """The mean of first - second by Student's paired t test, for pairs such as equal seeds.

    All differences alike: p is 1 where they are 0, else 0. Raises ValueError for fewer than two
    pairs or different lengths.
    """
    if len(first) != len(second) or len(first) < 2:
        raise ValueError(f"{len(first)} and {len(second)} figures: need as many, and at least two")
    apart = [a - b for a, b in zip(first, second, strict=True)]
    mean, df = fmean(apart), len(apart) - 1
    error = stdev(apart) / math.sqrt(len(apart))
    if error <= 1e-12 * max(1.0, abs(mean)):
        same = abs(mean) <= 1e-12
        return Difference(mean, mean, mean, 0.0 if same else math.copysign(math.inf, mean), df,
                          1.0 if same else 0.0)  # fmt: skip
    half = t_quantile(0.5 + LEVEL / 2, df) * error
    return Difference(mean, mean - half, mean + half, mean / error, df, two_sided(mean / error, df))


def cohens_d(first: Sequence[float], second: Sequence[float]) -> float | None:
    """The difference of the means in pooled standard deviations (Cohen, Statistical Power Analysis,
    1988, 2.2). None where neither side varies, or there are fewer than three figures."""
    df = len(first) + len(second) - 2
    if min(len(first), len(second)) < 1 or df < 1:
        return None
    means = fmean(first), fmean(second)
    squares = math.fsum(
        (value - mean) ** 2
        for values, mean in zip((first, second), means, strict=True)
        for value in values
    )
    pooled = math.sqrt(squares / df)
    if pooled <= 1e-12 * max(1.0, *map(abs, means)):
        return None
    return (means[0] - means[1]) / pooled


def hedges_g(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Cohen's d without its bias in small samples: times gamma(m/2) / (sqrt(m/2) gamma((m-1)/2))
    for m degrees of freedom (Hedges, Journal of Educational Statistics 6, 1981). None where d is,
    and for one degree of freedom, where no such factor exists."""
    d, df = cohens_d(first, second), len(first) + len(second) - 2
    if d is None or df < 2:
        return None
    return d * math.exp(math.lgamma(df / 2) - math.lgamma((df - 1) / 2)) / math.sqrt(df / 2)


def ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1; equal values share their mean rank.

    >>> ranks([0.3, 0.1, 0.3])
    [2.5, 1.0, 2.5]
    """
    order = sorted(range(len(values)), key=values.__getitem__)
    found, start = [0.0] * len(values), 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for place in order[start : end + 1]:
            found[place] = (start + end) / 2 + 1
        start = end + 1
    return found


def spearman(x: Sequence[float], y: Sequence[float], draws: int = FLIPS, seed: int = 0) -> Trend:
    """Spearman's rho of two figures of the same n things, with ties.

    ``p`` is that of t = rho sqrt((n - 2) / (1 - rho^2)) with n - 2 degrees of freedom;
    ``permutation`` counts all orders of ``y`` up to `EXACT_ORDERS` points and draws so many above,
    p = (1 + as extreme) / (1 + draws). Raises ValueError for fewer than three points, or figures
    that are all alike on one side.
    """
    if len(x) != len(y) or len(x) < 3:
        raise ValueError(f"{len(x)} and {len(y)} figures: need as many, and at least three")
    one, other = _centred(ranks(x)), _centred(ranks(y))
    scale = math.sqrt(math.fsum(a * a for a in one) * math.fsum(b * b for b in other))
    if scale == 0.0:
        raise ValueError("figures that are all alike have no trend")
    rho = max(-1.0, min(1.0, math.fsum(a * b for a, b in zip(one, other, strict=True)) / scale))
    df = len(x) - 2
    rest = 1.0 - rho * rho
    p = two_sided(rho * math.sqrt(df / rest), df) if rest > 1e-15 else 0.0
    return Trend(rho, len(x), p, _permuted(one, other, abs(rho) * scale - 1e-9, draws, seed))


def _centred(values: Sequence[float]) -> list[float]:
    mean = fmean(values)
    return [v - mean for v in values]


def _permuted(
    one: Sequence[float], other: Sequence[float], bound: float, draws: int, seed: int
) -> float:
    """The share of orders of ``other`` whose product with ``one`` is at least ``bound``."""
    import numpy as np

    a, b = np.asarray(one), np.asarray(other)
    if len(one) <= EXACT_ORDERS:
        orders = np.array(list(permutations(range(len(one)))))
        return float((np.abs(b[orders] @ a) >= bound).mean())
    rng = np.random.default_rng(seed)
    shuffled = rng.permuted(np.tile(b, (draws, 1)), axis=1)
    return (1 + int((np.abs(shuffled @ a) >= bound).sum())) / (1 + draws)
