"""Comparisons of two or more models: paired differences, tests, Holm, what data cannot separate.

Runs of the same task share their samples, so everything is paired where it can be: the difference
is taken sample by sample, and its error over the clusters that were drawn independently.

>>> result = paired([1, 1, 0, 1, 1, 1], [0, 1, 0, 0, 1, 0])
>>> round(result.difference, 3), round(result.p, 3)
(0.5, 0.076)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .stats import LEVEL, TOO_FEW, Interval, incomplete_beta, t_quantile, wilson

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

EXACT_CLUSTERS: Final = 14
"""Up to so many clusters that differ, all sign flips are counted; above, they are drawn."""
FLIPS: Final = 20_000
FEW_DIFFER: Final = 8
POWER: Final = 0.8


class Paired(NamedTuple):
    """A paired difference: mean, 95 % interval, p of the t test over clusters, and its spread.

    ``low`` and ``high`` are None below `harness.stats.TOO_FEW` clusters. ``spread`` is the standard
    deviation of a cluster's mean difference (weighted by size), for `clusters_needed`.
    """

    difference: float
    low: float | None
    high: float | None
    p: float
    n: int
    clusters: int
    spread: float


class Mcnemar(NamedTuple):
    """McNemar's test of two yes/no verdicts: how often only one is right, exact and mid p."""

    only_first: int
    only_second: int
    exact: float
    mid: float


class Welch(NamedTuple):
    """Welch's test of two independent samples: difference, 95 % interval, t, df, p."""

    difference: float
    low: float
    high: float
    t: float
    df: float
    p: float


def two_sided(t: float, df: float) -> float:
    """P(|T| > |t|) of Student's t.

    >>> round(two_sided(2.093, 19), 4)
    0.05
    """
    if math.isinf(t):
        return 0.0
    return incomplete_beta(df / (df + t * t), df / 2, 0.5)


def cluster_sums(values: Array, clusters: Sequence[Any] | None) -> tuple[Array, Array]:
    """The sum of the values and their number in each cluster, in order of appearance."""
    import numpy as np

    if clusters is None:
        return np.asarray(values, float), np.ones(len(values))
    place: dict[Any, int] = {}
    index = np.fromiter((place.setdefault(c, len(place)) for c in clusters), np.int64)
    return np.bincount(index, weights=values), np.bincount(index).astype(float)


def paired(
    first: Sequence[float], second: Sequence[float], clusters: Sequence[Any] | None = None
) -> Paired:
    """The difference first - second over common samples, by t over clusters.

    :param first, second: figures of the same n samples in the same order.
    :param clusters: the cluster of each sample; None: each is its own.
    :raises ValueError: for different lengths or no sample.
    """
    import numpy as np

    if len(first) != len(second) or not len(first):
        raise ValueError(f"{len(first)} and {len(second)} figures: need as many, and some")
    sums, sizes = cluster_sums(np.asarray(first, float) - np.asarray(second, float), clusters)
    return paired_from_sums(sums, sizes)


def paired_from_sums(sums: Array, sizes: Array) -> Paired:
    """`paired` from the sums of differences and the sizes of the clusters.

    Variance of the ratio estimator as in `harness.stats.cluster_t`. When all clusters differ by
    the same amount d the t test has no error to go by: p is then that of the sign flips, and the
    interval of a difference of scores says that up to a share q of clusters may be different ones,
    q the upper limit of Wilson's interval for none of them: d - q (1 + d) to d + q (1 - d).

    Where fewer than `FEW_DIFFER` clusters differ, the observed spread is too small as often as not:
    half a cluster of mean difference 1 / sqrt(k) and half a one of -1 / sqrt(k) then join the
    variance of the interval, k the mean size, in the manner of Bonett and Price (Statistics in
    Medicine 31, 2012), who add pairs. The p value is the plain test's.
    """
    n, count = float(sizes.sum()), len(sums)
    mean = float(sums.sum()) / n
    squares = float(((sums - mean * sizes) ** 2).sum())
    if count < 2:
        return Paired(mean, None, None, 1.0, round(n), count, 0.0)
    error = math.sqrt(squares * count / (count - 1)) / n
    if error < 1e-12 * max(1.0, abs(mean)):
        p = 1.0 if abs(mean) < 1e-12 else 2.0 ** max(1 - count, -1000)
        return Paired(mean, *_alike(mean, count), p, round(n), count, 0.0)
    p = two_sided(mean / error, count - 1)
    low, high = None, None
    if count >= TOO_FEW:
        few = int((abs(sums) > 1e-12).sum()) < FEW_DIFFER and bool((abs(sums) <= sizes).all())
        added = n / count if few else 0.0
        wide = math.sqrt((squares + added) * count / (count - 1)) / n
        half = t_quantile(0.5 + LEVEL / 2, count - 1) * wide
        low, high = mean - half, mean + half
    return Paired(mean, low, high, p, round(n), count, error * math.sqrt(count))


def _alike(difference: float, clusters: int) -> Interval:
    """The interval when every cluster shows the same difference."""
    if clusters < TOO_FEW:
        return Interval(None, None)
    unseen = wilson(0, clusters).high if abs(difference) <= 1 else 0.0
    assert unseen is not None
    return Interval(difference - unseen * (1 + difference), difference + unseen * (1 - difference))


def sign_flip(
    first: Sequence[float],
    second: Sequence[float],
    clusters: Sequence[Any] | None = None,
    flips: int = FLIPS,
    seed: int = 0,
) -> float:
    """Two-sided p of the permutation test that swaps both models within whole clusters.

    Exact (all flips) up to `EXACT_CLUSTERS` clusters that differ; otherwise ``flips`` random ones,
    p = (1 + as extreme) / (1 + flips) (Phipson and Smyth, 2010).
    """
    import numpy as np

    sums, _ = cluster_sums(np.asarray(first, float) - np.asarray(second, float), clusters)
    sums = sums[np.abs(sums) > 1e-12]
    observed = abs(float(sums.sum())) - 1e-9
    if len(sums) <= EXACT_CLUSTERS:
        totals = np.zeros(1)
        for step in sums:
            totals = np.concatenate([totals + step, totals - step])
        return float((np.abs(totals) >= observed).mean())
    rng = np.random.default_rng(seed)
    extreme, size = 0, max(1, min(flips, 4_000_000 // len(sums)))
    for start in range(0, flips, size):
        rows = min(size, flips - start)
        signs = rng.integers(0, 2, (rows, len(sums)), dtype=np.int8) * 2 - 1
        extreme += int((np.abs(signs @ sums) >= observed).sum())
    return (1 + extreme) / (1 + flips)


def mcnemar(only_first: int, only_second: int) -> Mcnemar:
    """McNemar's exact test, and its mid-p version, which is not conservative.

    Fagerland, Lydersen and Laake, BMC Medical Research Methodology 13:91 (2013).

    >>> round(mcnemar(1, 8).exact, 4), round(mcnemar(1, 8).mid, 4)
    (0.0391, 0.0215)
    """
    n, least = only_first + only_second, min(only_first, only_second)
    if n == 0:
        return Mcnemar(only_first, only_second, 1.0, 1.0)
    below = 2.0 * _binomial_tail(least, n)
    exact = min(1.0, below)
    at = math.exp(_log_choose(n, least) - n * math.log(2.0))
    mid = 1.0 - at if only_first == only_second else min(1.0, below - at)
    return Mcnemar(only_first, only_second, exact, mid)


def _binomial_tail(k: int, n: int) -> float:
    """P(X <= k) of n fair coins."""
    return math.fsum(math.exp(_log_choose(n, i) - n * math.log(2.0)) for i in range(k + 1))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def welch(first: Sequence[float], second: Sequence[float]) -> Welch:
    """Welch's t test of independent figures, say of training seeds (at least two each).

    Both constant: p is 1 for the same figure and 0 for two.
    """
    means, variances = [], []
    for values in (first, second):
        if len(values) < 2:
            raise ValueError("Welch's test needs two figures on each side")
        mean = math.fsum(values) / len(values)
        means.append(mean)
        spread = math.fsum((v - mean) ** 2 for v in values)
        variances.append(spread / (len(values) - 1) / len(values))
    difference, total = means[0] - means[1], sum(variances)
    if total == 0.0:
        p = 1.0 if difference == 0.0 else 0.0
        return Welch(difference, difference, difference, math.inf, math.inf, p)
    weights = zip(variances, (first, second), strict=True)
    df = total * total / sum(v * v / (len(x) - 1) for v, x in weights)
    error = math.sqrt(total)
    half = t_quantile(0.5 + LEVEL / 2, df) * error
    t = difference / error
    return Welch(difference, difference - half, difference + half, t, df, two_sided(t, df))


def unpaired(first: Sequence[float | None], second: Sequence[float | None]) -> Interval:
    """Interval of a difference from two figures (value, low, high) on different samples.

    MOVER: Zou and Donner, Statistics in Medicine 27 (2008); for two Wilson intervals it is
    Newcombe's method 10. None on both sides where an interval is missing.
    """
    x, low_x, high_x = first
    y, low_y, high_y = second
    if x is None or y is None or None in (low_x, high_x, low_y, high_y):
        return Interval(None, None)
    assert low_x is not None
    assert high_x is not None
    assert low_y is not None
    assert high_y is not None
    below = math.hypot(x - low_x, high_y - y)
    above = math.hypot(high_x - x, y - low_y)
    return Interval(x - y - below, x - y + above)


def holm(ps: Iterable[float]) -> list[float]:
    """Holm's adjusted p values, in the given order (Scandinavian Journal of Statistics 6, 1979).

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    given = list(ps)
    order = sorted(range(len(given)), key=given.__getitem__)
    adjusted, worst = [0.0] * len(given), 0.0
    for rank, place in enumerate(order):
        worst = max(worst, min(1.0, (len(given) - rank) * given[place]))
        adjusted[place] = worst
    return adjusted


def clusters_needed(difference: float, spread: float, power: float = POWER) -> int | None:
    """Clusters that a paired test at 5 % needs to see this difference with this power.

    n = ((z_0.975 + z_power) spread / difference)^2 plus z_0.975^2 / 2 for the t distribution
    (Guenther, The American Statistician 35, 1981). None for no difference.
    """
    if abs(difference) < 1e-12:
        return None
    z = NormalDist().inv_cdf(0.5 + LEVEL / 2)
    ratio = (z + NormalDist().inv_cdf(power)) * spread / difference
    return max(2, math.ceil(ratio * ratio + z * z / 2))
