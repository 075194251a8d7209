"""Figures of a run: by environment, an average over the sound ones, and how the games went.

The average is the mean over environments of their mean scores. Left out of it are environments
that are known to be wrong, and those without an adapter; each says so in its own row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from harness.stats import LEVEL, TOO_FEW, mean_metric, t_quantile
from harness.types import OK, Metric, Record

from .adapters import adapter
from .presets import Plan


@dataclass(slots=True)
class Column:
    """The records of one environment, one entry a record; ``shares`` are yes/no figures."""

    values: list[float] = field(default_factory=list)
    clusters: list[str] = field(default_factory=list)
    seats: list[int] = field(default_factory=list)
    shares: dict[str, list[float]] = field(default_factory=dict)
    turns: int = 0
    first_legal: int = 0
    courses: set[str] = field(default_factory=set)

    def mark(self, name: str, holds: bool) -> None:
        """Note a yes/no figure of the record at hand."""
        self.shares.setdefault(name, []).append(float(holds))


def summarise(plan: Plan, records: Iterable[Record]) -> list[Metric]:
    """The metrics of a run, from its records in order."""
    columns: dict[str, Column] = {}
    for record in records:
        _count(columns.setdefault(record.group, Column()), record)
    rows = [_average(plan, columns)]
    rows += [_score(plan, name, column) for name, column in columns.items()]
    for name, column in columns.items():
        rows += _details(name, column)
    return rows


def _count(column: Column, record: Record) -> None:
    outcome, value = record.outcome, record.score.value
    seat = int(record.sample.rsplit("/", 1)[1])
    column.values.append(value)
    column.clusters.append(record.cluster)
    column.seats.append(seat)
    forfeits = outcome.data.get("forfeits") or ()
    column.mark("won", value > 0.5)
    column.mark("drawn", value == 0.5)
    column.mark("forfeited", seat in forfeits)
    column.mark("won_by_forfeit", bool(forfeits) and seat not in forfeits)
    column.mark("broken_off", outcome.data.get("ended") == "step_limit")
    own = [move for move in outcome.moves if move.seat == seat and move.attempt == 0]
    column.turns += len(own)
    column.first_legal += sum(move.cls == OK for move in own)
    column.courses.add(repr([turn[:2] for turn in outcome.data.get("line", ())]))


def _score(plan: Plan, name: str, column: Column) -> Metric:
    left_out = _left_out(plan, name)
    note = f"left out of the average: {left_out}" if left_out else ""
    title = "score_left_out" if left_out else "score"
    return mean_metric(title, column.values, column.clusters, name, note)


def _details(name: str, column: Column) -> list[Metric]:
    count, alone = len(column.values), adapter(name).seats == 1
    rows = []
    for seat in sorted(set(column.seats)) if not alone else ():
        places = [i for i, own in enumerate(column.seats) if own == seat]
        values = [column.values[i] for i in places]
        clusters = [column.clusters[i] for i in places]
        rows.append(mean_metric(f"score_seat{seat}", values, clusters, name))
    games = () if alone else ("won", "drawn", "won_by_forfeit")
    for key in (*games, "forfeited", "broken_off"):
        rows.append(mean_metric(key, column.shares[key], column.clusters, name))
    legal = column.first_legal / column.turns if column.turns else None
    note = "share of turns answered with a legal move at once"
    rows.append(Metric("first_attempt_legal", legal, n=column.turns, group=name, note=note))
    note = "share of episodes that went like no other: repeats tell nothing new"
    distinct = len(column.courses) / count
    return [*rows, Metric("distinct_courses", distinct, n=count, group=name, note=note)]


def _left_out(plan: Plan, name: str) -> str:
    made = adapter(name)
    return made.reason_left_out(plan.conduct.repair) if made.listed else "no adapter"


def _average(plan: Plan, columns: dict[str, Column]) -> Metric:
    """The mean over sound environments, its interval from the clusters of each."""
    kept = {name: c for name, c in columns.items() if not _left_out(plan, name)}
    gone = sorted(set(columns) - set(kept))
    note = f"mean of {len(kept)} environments"
    if gone:
        note += f"; left out: {', '.join(gone)}"
    if not kept:
        return Metric("average", None, note=note)
    value = math.fsum(math.fsum(c.values) / len(c.values) for c in kept.values()) / len(kept)
    count = sum(len(c.values) for c in kept.values())
    groups = {name: len(set(c.clusters)) for name, c in kept.items()}
    clusters = sum(groups.values())
    if clusters < TOO_FEW or min(groups.values()) < 2:
        note += "; too few for an interval"
        return Metric("average", value, n=count, clusters=clusters, note=note)
    error = math.sqrt(math.fsum(_variance(c) for c in kept.values())) / len(kept)
    half = t_quantile(0.5 + LEVEL / 2, clusters - len(kept)) * error
    low, high = max(0.0, value - half), min(1.0, value + half)
    return Metric("average", value, low, high, count, clusters, note=note)


def _variance(column: Column) -> float:
    """The squared standard error of an environment's mean over its clusters (pairs)."""
    mean = math.fsum(column.values) / len(column.values)
    residuals: dict[str, float] = {}
    for value, cluster in zip(column.values, column.clusters, strict=True):
        residuals[cluster] = residuals.get(cluster, 0.0) + value - mean
    groups = len(residuals)
    spread = math.fsum(r * r for r in residuals.values())
    return spread * groups / (groups - 1) / len(column.values) ** 2
