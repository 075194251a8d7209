"""Two runs, sample by sample: is one better, where, by how much, and on which samples.

    result = compare(one_run("runs/tom--sft--0a1b"), one_run("runs/tom--grpo--2c3d"))
    result.overall.difference, result.overall.low, result.permutation, result.samples_needed

The difference is first minus second, on the samples that both have; a sample with several rollouts
counts with their mean. Protocols that differ are named: the difference is then not the models' own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from .board.places import StoredRun, find_runs
from .board.protocol import differences, protocol
from .board.rows import model_label
from .board.scores import PARSED, SCORE, Array, Items
from .comparisons import (
    FLIPS,
    Mcnemar,
    Paired,
    clusters_needed,
    holm,
    mcnemar,
    paired_from_sums,
    sign_flip,
)
from .types import HarnessError

MOST_GROUPS: Final = 60
MOST_PERMUTED: Final = 10_000
"""Clusters up to which sign flips are drawn; above, the t test says the same."""


@dataclass(frozen=True, slots=True)
class Flip:
    """A sample on which the runs differ, with both figures and both first replies (if asked)."""

    sample: str
    group: str
    first: float
    second: float
    first_reply: str = ""
    second_reply: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """The comparison within a group; ``p`` is adjusted over the groups (Holm)."""

    name: str
    first: float
    second: float
    result: Paired
    p: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """What `compare` found.

    ``permutation`` is the p of sign flips over clusters (None: too many clusters, see the t test);
    ``verdicts`` is McNemar's test (None where figures are not yes/no or samples share clusters);
    ``samples_needed`` would separate the two with 80 % power if the difference is what was seen;
    ``only_first`` and ``only_second`` count samples that the other lacks.
    """

    first: str
    second: str
    task: str
    metric: str
    first_mean: float
    second_mean: float
    overall: Paired
    permutation: float | None
    verdicts: Mcnemar | None
    groups: tuple[Group, ...]
    better: int
    worse: int
    flips: tuple[Flip, ...]
    samples_needed: int | None
    only_first: int
    only_second: int
    warnings: tuple[str, ...]


def one_run(path: str) -> StoredRun:
    """The run at a place. Raises HarnessError for none, several, or one without figures."""
    runs = find_runs([path])
    if len(runs) > 1:
        names = ", ".join(run.name for run in runs[:4])
        raise HarnessError(f"{path} holds {len(runs)} runs ({names}, ...): name one of them")
    if runs[0].metrics is None:
        raise HarnessError(f"{path}: the run has not ended yet; harness run --resume {path}")
    return runs[0]


def compare(
    first: StoredRun,
    second: StoredRun,
    metric: str = SCORE,
    most_flips: int = 20,
    replies: bool = False,
) -> Comparison:
    """Compare two runs of one task.

    :param metric: ``score``, ``parsed``, or a part of the score.
    :param most_flips: so many of the samples that differ are listed, the largest changes first.
    :param replies: read the replies to these, too.
    :raises HarnessError: for other tasks, no common samples, an unknown metric.
    """
    tasks = [run.spec["task"]["name"] for run in (first, second)]
    if tasks[0] != tasks[1]:
        raise HarnessError(f"cannot compare {tasks[0]} with {tasks[1]}: the samples are others")
    items = Items()
    one, other = items.stack([items.add(first, metric), items.add(second, metric)])
    both = ~np.isnan(one) & ~np.isnan(other)
    if not both.any():
        what = "no sample in common" if metric in (SCORE, PARSED) else f"no figure {metric!r}"
        raise HarnessError(f"{first.name} and {second.name} have {what}")
    change = np.where(both, one - other, np.nan)
    sums, sizes = items.sums(change)
    overall = paired_from_sums(sums, sizes)
    labels = _labels(first, second)
    flips = _flips(items, one, other, both, most_flips)
    if replies:
        flips = _with_replies(flips, first, second)
    return Comparison(
        *labels,
        tasks[0],
        metric,
        float(one[both].mean()),
        float(other[both].mean()),
        overall,
        _permutation(sums),
        _verdicts(one[both], other[both], sizes),
        tuple(_groups(items, one, other, change)),
        int((change[both] > 1e-9).sum()),
        int((change[both] < -1e-9).sum()),
        tuple(flips),
        _needed(overall),
        int((~np.isnan(one) & np.isnan(other)).sum()),
        int((np.isnan(one) & ~np.isnan(other)).sum()),
        tuple(_warnings(first, second)),
    )


def _labels(first: StoredRun, second: StoredRun) -> tuple[str, str]:
    names = model_label(first), model_label(second)
    return names if names[0] != names[1] else (first.name, second.name)


def _permutation(sums: Array) -> float | None:
    count = len(sums)
    if count > MOST_PERMUTED:
        return None
    flips = FLIPS if count <= 2_000 else 5_000
    return sign_flip(sums.tolist(), [0.0] * count, flips=flips)


def _verdicts(one: Array, other: Array, sizes: Array) -> Mcnemar | None:
    """McNemar's test, where all figures are yes/no and every sample is a cluster of its own."""
    if sizes.max() > 1 or not np.isin(np.concatenate([one, other]), (0.0, 1.0)).all():
        return None
    return mcnemar(int((one > other).sum()), int((one < other).sum()))


def _groups(items: Items, one: Array, other: Array, change: Array) -> list[Group]:
    """Group by group; where groups are paths a/b/c, by each part that not all samples share."""
    names = sorted({part for group in items.groups for part in group.split("/")} - {""})
    names = [name for name in names if not items.inside(name).all()]
    if not 1 < len(names) <= MOST_GROUPS:
        return []
    rows: list[tuple[str, float, float, Paired]] = []
    for name in names:
        chosen = items.inside(name) & ~np.isnan(change)
        if chosen.any():
            result = paired_from_sums(*items.sums(change, chosen))
            rows.append((name, float(one[chosen].mean()), float(other[chosen].mean()), result))
    adjusted = holm(row[3].p for row in rows)
    return [Group(*row, p) for row, p in zip(rows, adjusted, strict=True)]


def _flips(items: Items, one: Array, other: Array, both: Array, most: int) -> list[Flip]:
    size = np.where(both, np.abs(one - other), 0.0)
    places = np.flatnonzero(size > 1e-9)
    places = places[np.argsort(-size[places], kind="stable")][: max(0, most)]
    names = items.names(places)
    return [
        Flip(name, items.groups[items.group_of[i]], float(one[i]), float(other[i]))
        for name, i in zip(names, places, strict=True)
    ]


def _with_replies(flips: Sequence[Flip], first: StoredRun, second: StoredRun) -> list[Flip]:
    from dataclasses import replace

    wanted = {flip.sample for flip in flips}
    one, other = _last_replies(first, wanted), _last_replies(second, wanted)
    return [
        replace(f, first_reply=one.get(f.sample, ""), second_reply=other.get(f.sample, ""))
        for f in flips
    ]


def _last_replies(run: StoredRun, wanted: set[str]) -> dict[str, str]:
    """The last reply of the first rollout of each wanted sample."""
    found: dict[str, str] = {}
    for batch in run.batches(["sample", "moves.list.element.text"]):
        rows: Any = zip(batch.column(0).to_pylist(), batch.column(1), strict=True)
        for sample, moves in rows:
            if sample in wanted and sample not in found:
                texts = moves.as_py()
                found[sample] = texts[-1]["text"] if texts else ""
    return found


def _needed(overall: Paired) -> int | None:
    clusters = clusters_needed(overall.difference, overall.spread)
    if clusters is None or not overall.spread:
        return None
    return math.ceil(clusters * overall.n / overall.clusters)


def _warnings(first: StoredRun, second: StoredRun) -> list[str]:
    one, other = protocol(first), protocol(second)
    warnings = [f"the {part} differs" for part in differences(one, other, [other])]
    for run in (first, second):
        if not run.complete and run.metrics:
            missing = run.metrics["expected"] - run.metrics["records"]
            warnings.append(f"{run.name} is incomplete: {missing} records are missing")
    opponents = [run.spec["opponent"] for run in (first, second)]
    if opponents[0] != opponents[1]:
        warnings.append(f"the opponents differ: {opponents[0]} and {opponents[1]}")
    return warnings
