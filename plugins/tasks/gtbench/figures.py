"""Means and ratios over episodes, with errors over pairs: what `metrics` is made of.

The unit that was drawn independently is the pair, so errors are those of clusters; games are drawn
independently of each other, so an average over games has the sum of their variances.

    figure = mean("win", rows, lambda course: float(course.result > 0), "nim")
    figure.metric.value, figure.error
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from harness.stats import LEVEL, TOO_FEW, mean_metric, t_quantile
from harness.types import Metric

from .course import Course

Row = tuple[str, Course]
"""Cluster and course."""

Value = Callable[[Course], float]

RATES = (
    "win", "win.first", "win.second", "draw", "loss", "forfeit", "opponent.forfeit",
    "legal.first", "legacy.score", "legacy.completion",
)  # fmt: skip
BOUNDS: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(RATES, (0.0, 1.0)),
    "nra": (-1.0, 1.0),
    "legacy.nra": (-1.0, 1.0),
    "attempts": (1.0, math.inf),
}
"""What figures cannot leave."""


class Figure(NamedTuple):
    """A metric with the standard error of its value."""

    metric: Metric
    error: float


def mean(name: str, rows: Sequence[Row], value: Value, group: str, note: str = "") -> Figure:
    """The mean over episodes."""
    values = [value(course) for _, course in rows]
    metric = mean_metric(name, values, [cluster for cluster, _ in rows], group, note)
    if metric.value is None:
        return Figure(metric, 0.0)
    centre = metric.value
    return Figure(metric, _error(rows, lambda c: value(c) - centre, len(rows)))


def ratio(
    name: str, rows: Sequence[Row], top: Value, bottom: Value, group: str, note: str = ""
) -> Figure:
    """A ratio of sums, its interval linearised over clusters (Cochran 1977, section 6.3)."""
    if not rows:
        return Figure(Metric(name, None, group=group, note="no records"), 0.0)
    below = math.fsum(bottom(course) for _, course in rows)
    value = math.fsum(top(course) for _, course in rows) / below if below else 0.0
    error = _error(rows, lambda c: top(c) - value * bottom(c), below)
    count = len({cluster for cluster, _ in rows})
    low, high = interval(value, error, count - 1, count, BOUNDS.get(name))
    return Figure(Metric(name, value, low, high, len(rows), count, group, note), error)


def nra(name: str, rows: Sequence[Row], group: str) -> Figure:
    """The normalised relative advantage: absolute values are taken a match, not of the totals
    (those would make any zero-sum series +1 or -1). 0 where nothing was won or lost."""
    return ratio(
        name,
        rows,
        lambda c: c.own - c.other,
        lambda c: abs(c.own) + abs(c.other),
        group,
        "(S own - S other) / (S |own| + S |other|)",
    )


def known(name: str, value: float, error: float, n: int, group: str) -> Figure:
    """A figure measured elsewhere, over n independent episodes."""
    half = 1.96 * error
    return Figure(Metric(name, value, value - half, value + half, n, n, group), error)


def distinct(rows: Sequence[Row], group: str) -> Figure:
    """How many different courses of play there are."""
    count = float(len({course.identity for _, course in rows}))
    clusters = len({cluster for cluster, _ in rows})
    return Figure(Metric("distinct", count, n=len(rows), clusters=clusters, group=group), 0.0)


def averages(names: Iterable[str], games: Iterable[Sequence[Figure]]) -> list[Metric]:
    """Means over games with equal weight."""
    figures = [figure for found in games for figure in found]
    found = []
    for name in names:
        parts = [f for f in figures if f.metric.name == name and f.metric.value is not None]
        if parts:
            found.append(average(name, parts))
    return found


def average(name: str, parts: Sequence[Figure]) -> Metric:
    """The mean over independent figures; degrees of freedom by Welch and Satterthwaite."""
    value = math.fsum(part.metric.value or 0.0 for part in parts) / len(parts)
    variance = math.fsum(part.error**2 for part in parts)
    clusters = sum(part.metric.clusters for part in parts)
    low = high = None
    # Games with fewer than two clusters have no error of their own: then there is no interval.
    if min(part.metric.clusters for part in parts) >= 2:
        terms = math.fsum(part.error**4 / (part.metric.clusters - 1) for part in parts)
        freedom = variance**2 / terms if terms else math.inf
        error = math.sqrt(variance) / len(parts)
        low, high = interval(value, error, freedom, clusters, BOUNDS.get(name))
    note = f"mean over {len(parts)} games"
    return Metric(name, value, low, high, sum(p.metric.n for p in parts), clusters, note=note)


def interval(
    value: float,
    error: float,
    freedom: float,
    clusters: int,
    bounds: tuple[float, float] | None = None,
) -> tuple[float | None, float | None]:
    """The 95 % t interval within the bounds of the figure; none below `TOO_FEW` clusters."""
    if clusters < TOO_FEW:
        return (None, None)
    half = t_quantile(0.5 + LEVEL / 2, freedom) * error if error else 0.0
    least, most = bounds or (-math.inf, math.inf)
    return (max(least, value - half), min(most, value + half))


def rate_error(rate: float, n: int) -> float:
    """The standard error of a rate over n independent episodes."""
    return math.sqrt(rate * (1.0 - rate) / n)


def _error(rows: Sequence[Row], residual: Value, below: float) -> float:
    """The standard error of a ratio with denominator ``below``, from residuals by cluster."""
    sums: dict[str, float] = {}
    for cluster, course in rows:
        sums[cluster] = sums.get(cluster, 0.0) + residual(course)
    count = len(sums)
    if count < 2 or not below:
        return 0.0
    return math.sqrt(math.fsum(r * r for r in sums.values()) * count / (count - 1)) / below
