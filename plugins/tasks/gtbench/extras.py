"""Figures that options ask for beside the usual ones: move regret and control variates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from harness.types import Json, Metric, Record

from . import metrics, regret, variates
from .course import Course
from .presets import Plan

Episode = tuple[str, Mapping[str, Json], Course]


def summarise(
    plan: Plan, records: Iterable[Record], by_move: bool, without_luck: bool
) -> list[Metric]:
    """The figures of `metrics`, then those of `regret` and `variates`, game by game."""
    kept: dict[str, list[Episode]] = {}
    found = metrics.summarise(plan, _kept(records, kept))
    for group, episodes in kept.items():
        if by_move:
            found += regret.figures(group, [(cluster, data) for cluster, data, _ in episodes])
        if without_luck:
            key = episodes[0][2].key
            base = metrics.random_play(key, metrics.opening_plies(plan, key))
            found += variates.figures(group, episodes, metrics.scale(key, base))
    return found


def _kept(records: Iterable[Record], kept: dict[str, list[Episode]]) -> Iterator[Record]:
    for record in records:
        course = Course.of(record.outcome)
        kept.setdefault(record.group, []).append((record.cluster, record.outcome.data, course))
        yield record
