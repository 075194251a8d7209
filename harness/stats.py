"""Statistics of evaluation: means with intervals that hold, rates, pass@k.

Intervals are 95 %. Clusters are what was drawn independently: a pair of games, a canonical item. A
mean of values in [0, 1] gets a score interval with a design effect (for unclustered yes/no items:
Wilson's), any other mean a t interval with cluster degrees of freedom. Below `TOO_FEW` clusters no
interval is shown. docs/statistics.md has the coverage of each.

>>> metric = mean_metric("score", [0.0, 1.0] * 20)
>>> metric.value, round(metric.low, 3), round(metric.high, 3)
(0.5, 0.352, 0.648)
"""

from __future__ import annotations

import hashlib
import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Final, NamedTuple

from .types import Metric, Record

LEVEL: Final = 0.95
TOO_FEW: Final = 20
FEW_APART: Final = 10
MOST_GROUPS: Final = 60
AT_A_TIME: Final = 20_000


class Interval(NamedTuple):
    """A 95 % interval; None on both sides when there are too few clusters."""

    low: float | None
    high: float | None


def mean_metric(
    name: str,
    values: Sequence[float],
    clusters: Sequence[str] | Sequence[int] | None = None,
    group: str = "",
    note: str = "",
) -> Metric:
    """The mean of the values with its interval.

    :param values: one figure a record, n of them.
    :param clusters: the cluster of each record, n of them; None: each record is its own.
    """
    if not values:
        return Metric(name, None, group=group, note=note or "no records")
    mean = math.fsum(values) / len(values)
    count = len(_cluster_sums(values, clusters, mean)[0])
    if count < TOO_FEW:
        interval = Interval(None, None)
        note = note or "too few for an interval"
    elif min(values) >= 0.0 and max(values) <= 1.0:
        interval = score_interval(values, clusters)
    else:
        interval = cluster_t(values, clusters)
    return Metric(name, mean, interval.low, interval.high, len(values), count, group, note)


def grouped_means(
    records: Iterable[Record], key: Callable[[Record], str] | None = None, name: str = "score"
) -> list[Metric]:
    """Mean score over all records, and by group (default: the sample's group).

    Groups beyond `MOST_GROUPS` are left out: a table of thousands helps nobody.
    """
    values, clusters, groups = array("d"), array("q"), array("q")
    names: dict[str, int] = {}
    for record in records:
        values.append(record.score.value)
        clusters.append(cluster_key(record.cluster))
        group = record.group if key is None else key(record)
        groups.append(names.setdefault(group, len(names)))
    found = sorted(names.keys() - {""})
    metrics = [mean_metric(name, values, clusters)]
    if len(found) > MOST_GROUPS or len(found) < 2:
        return metrics
    for group in found:
        rows = [i for i, g in enumerate(groups) if g == names[group]]
        metrics.append(
            mean_metric(name, [values[i] for i in rows], [clusters[i] for i in rows], group)
        )
    return metrics


def cluster_t(values: Sequence[float], clusters: Sequence[str] | Sequence[int] | None) -> Interval:
    """Interval of a mean over clusters: ratio estimator, t with (clusters - 1) degrees of freedom.

    Variance: G / (G - 1) x sum over clusters of (sum of residuals)^2 / n^2 (Cochran, Sampling
    Techniques, 3rd ed., 1977, section 9A). Clipped to [0, 1] when all values lie there.
    """
    n = len(values)
    mean = math.fsum(values) / n
    residuals, _ = _cluster_sums(values, clusters, mean)
    count = len(residuals)
    if count < 2:
        return Interval(None, None)
    spread = math.fsum(r * r for r in residuals)
    error = math.sqrt(spread * count / (count - 1)) / n
    half = t_quantile(0.5 + LEVEL / 2, count - 1) * error
    low, high = mean - half, mean + half
    if min(values) >= 0.0 and max(values) <= 1.0:
        low, high = max(0.0, low), min(1.0, high)
    return Interval(low, high)


def score_interval(
    values: Sequence[float], clusters: Sequence[str] | Sequence[int] | None = None
) -> Interval:
    """Interval of a mean of values in [0, 1]: Wilson's, with n divided by the design effect.

    The variance of the mean m is taken as D x m (1 - m) / n, as of a rate; D is estimated from the
    sums of residuals in the clusters. Student's t replaces the normal quantile, its degrees of
    freedom being 2 / (relative variance of D), by the infinitesimal jackknife. For unclustered
    yes/no items D is 1 without error, and the interval is Wilson's. For clustered yes/no items D
    is shrunk, with the weight of one cluster, towards the middle of its range: rare successes
    seldom share a cluster, so few clusters show too little of it. Unlike plain t it stays open
    when all values are alike, and covers at 20 clusters and rare successes.

    >>> score_interval([1.0] * 8 + [0.0] * 2) == wilson(8, 10)
    True
    """
    n = len(values)
    mean = math.fsum(values) / n
    residuals, sizes = _cluster_sums(values, clusters, mean)
    count, spread = len(residuals), mean * (1.0 - mean)
    if count < 2:
        return Interval(None, None)
    yes_no = all(v == 0.0 or v == 1.0 for v in values)
    if yes_no and count == n:
        return wilson(math.fsum(values), n)
    squares = math.fsum(r * r for r in residuals)
    most = sum(size * size for size in sizes) / n
    if spread == 0.0:
        return _score_limits(mean, n / most, NormalDist().inv_cdf(0.5 + LEVEL / 2))
    if yes_no:
        effect = (count * squares / (n * spread) + (1.0 + most) / 2) / (count + 1)
    else:
        effect = squares * count / (count - 1) / (n * spread)
    if effect < 1e-12:
        return Interval(mean, mean)
    slope = (1.0 - 2.0 * mean) / (spread * n)
    error = math.fsum(
        (r * r / squares - 1.0 / count - slope * r) ** 2 if squares else 0.0 for r in residuals
    )
    return _score_limits(mean, n / effect, t_quantile(0.5 + LEVEL / 2, 2.0 / max(error, 1e-9)))


def cluster_key(name: str) -> int:
    """A cluster's name in 8 bytes (BLAKE2b): long runs keep these instead of texts."""
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def _cluster_sums(
    values: Sequence[float], clusters: Sequence[str] | Sequence[int] | None, mean: float
) -> tuple[array[float], array[int]]:
    """Sum of residuals and size of each cluster, in no particular order. Only some of the clusters
    are looked at at a time, so that memory stays small in long runs."""
    residuals, sizes = array("d"), array("q")
    labels: Sequence[Any] = range(len(values)) if clusters is None else clusters
    parts = 1 + len(values) // AT_A_TIME
    for part in range(parts):
        found: dict[Any, list[float]] = {}
        for label, value in zip(labels, values, strict=True):
            if hash(label) % parts == part:
                entry = found.setdefault(label, [0.0, 0])
                entry[0] += value - mean
                entry[1] += 1
        residuals.extend(total for total, _ in found.values())
        sizes.extend(int(size) for _, size in found.values())
    return residuals, sizes


def _score_limits(mean: float, n: float, quantile: float) -> Interval:
    """Both roots of (mean - m)^2 = quantile^2 m (1 - m) / n."""
    square = quantile * quantile / n
    centre = (mean + square / 2) / (1 + square)
    half = math.sqrt(square * mean * (1 - mean) + square * square / 4) / (1 + square)
    return Interval(max(0.0, centre - half), min(1.0, centre + half))


def cluster_bootstrap(
    values: Sequence[float],
    clusters: Sequence[str] | None = None,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """Bootstrap-t interval of a mean: whole clusters are drawn, each resample is studentised.

    Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 12; the plain percentile
    interval is too short below about 50 clusters.
    """
    import numpy as np

    labels = list(range(len(values))) if clusters is None else list(clusters)
    place = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    index = np.array([place[label] for label in labels])
    sums = np.bincount(index, weights=np.asarray(values, float))
    sizes = np.bincount(index).astype(float)
    count = len(sizes)
    if count < 2:
        return Interval(None, None)

    def studentise(s: Any, m: Any) -> tuple[Any, Any]:  # arrays (..., clusters)
        total = m.sum(-1)
        mean = s.sum(-1) / total
        spread = ((s - mean[..., None] * m) ** 2).sum(-1)
        return mean, np.sqrt(spread * count / (count - 1)) / total

    mean, error = studentise(sums, sizes)
    if error == 0.0:
        return Interval(float(mean), float(mean))
    rng = np.random.default_rng(seed)
    pivots = []
    for start in range(0, resamples, 500):
        drawn = rng.integers(0, count, (min(500, resamples - start), count))
        means, errors = studentise(sums[drawn], sizes[drawn])
        usable = errors > 0
        pivots.append((means[usable] - mean) / errors[usable])
    tails = np.quantile(np.concatenate(pivots), [(1 + LEVEL) / 2, (1 - LEVEL) / 2])
    low, high = mean - tails * error
    return Interval(float(low), float(high))


def exact_interval(
    values: Sequence[float], clusters: Sequence[str] | None = None, resamples: int = 10_000
) -> Interval:
    """Bootstrap-t where it holds, for values in [0, 1] clipped to it; else the score interval.

    It does not hold for values in [0, 1] where fewer than `FEW_APART` clusters differ from the most
    common cluster mean (rare successes: resamples have no spread to go by), nor for unclustered
    yes/no items, which keep Wilson's interval.
    """
    labels = list(range(len(values))) if clusters is None else list(clusters)
    sums: dict[Any, float] = {}
    sizes: dict[Any, int] = {}
    for label, value in zip(labels, values, strict=True):
        sums[label] = sums.get(label, 0.0) + value
        sizes[label] = sizes.get(label, 0) + 1
    bounded = min(values) >= 0.0 and max(values) <= 1.0
    yes_no = all(v == 0.0 or v == 1.0 for v in values)
    means = Counter(round(total / sizes[label], 9) for label, total in sums.items())
    apart = len(sums) - max(means.values())
    if bounded and (apart < FEW_APART or (yes_no and len(sums) == len(values))):
        return score_interval(values, clusters)
    low, high = cluster_bootstrap(values, clusters, resamples)
    if bounded and low is not None and high is not None:
        return Interval(max(0.0, low), min(1.0, high))
    return Interval(low, high)


def wilson(successes: float, n: int) -> Interval:
    """Wilson's score interval of a rate (Wilson, JASA 22, 1927).

    >>> [round(x, 4) for x in wilson(8, 10)]
    [0.4902, 0.9433]
    """
    if n == 0:
        return Interval(None, None)
    return _score_limits(successes / n, n, NormalDist().inv_cdf(0.5 + LEVEL / 2))


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Unbiased pass@k from n tries with ``correct`` right: 1 - C(n-c, k) / C(n, k).

    Chen et al., Evaluating Large Language Models Trained on Code (2021), equation 1.

    >>> pass_at_k(4, 1, 2)
    0.5
    """
    if not 1 <= k <= n:
        raise ValueError(f"k = {k} is not between 1 and n = {n}")
    return 1.0 - math.comb(n - correct, k) / math.comb(n, k)


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    """Quantile of Student's t for p in (0.5, 1): Newton's method on the distribution function,
    from below, so that it cannot overshoot; bisection below 3 degrees of freedom.

    Accurate to 1e-9 up to 1e6 degrees of freedom; above, the normal's is used (within 1e-6).
    """
    if df > 1e6:
        return NormalDist().inv_cdf(p)
    if df >= 3:
        t = NormalDist().inv_cdf(p)
        scale = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - 0.5 * math.log(df * math.pi)
        for _ in range(50):
            density = math.exp(scale - (df + 1) / 2 * math.log1p(t * t / df))
            step = (_t_tail(t, df) - (1 - p)) / density
            t += step
            if abs(step) < 1e-11 * t:
                break
        return t
    low, high = 0.0, 1.0
    while _t_tail(high, df) > 1 - p:
        low, high = high, high * 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_tail(middle, df) > 1 - p else (low, middle)
    return (low + high) / 2


def _t_tail(t: float, df: float) -> float:
    """P(T > t) for t >= 0: half the regularised incomplete beta at df / (df + t^2)."""
    return 0.5 * incomplete_beta(df / (df + t * t), df / 2, 0.5)


def incomplete_beta(x: float, a: float, b: float) -> float:
    """Regularised incomplete beta I_x(a, b) by its continued fraction.

    Abramowitz and Stegun, 26.5.8, evaluated by Lentz's method.
    """
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    if x > (a + 1) / (a + b + 2):
        return 1.0 - incomplete_beta(1.0 - x, b, a)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
        + a * math.log(x) + b * math.log1p(-x)
    )  # fmt: skip
    tiny = 1e-300
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    fraction = d
    for m in range(1, 500):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1.0 + term * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + term / c
            c = c if abs(c) > tiny else tiny
            fraction *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return front * fraction / a
