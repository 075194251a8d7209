"""Validation while training: greedy replies to validation items, scored by rules, one line each.

    {"step": 40, "score": 0.31, "n": 234, "parsed": 0.97, "parts": {...}, "groups": {...}}

The reward is the task's own, whatever training is paid by, and a checkpoint may be chosen on it.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import orjson

from ..engine import Engine
from ..plan import Planner, RunSettings
from ..registry import Registry
from ..store import RunFolder
from ..types import OK, Score
from .curves import VALIDATION


@dataclass(frozen=True, slots=True)
class Verdict:
    """One validation item: its group, its score, the class of its outcome."""

    group: str
    score: Score
    cls: str


def summary(step: int, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The line of a step: mean score, share of outcomes that were read, parts, groups, classes."""
    groups: dict[str, list[float]] = {}
    parts: dict[str, list[float]] = {}
    for verdict in verdicts:
        groups.setdefault(verdict.group.partition("/")[0], []).append(verdict.score.value)
        for name, value in verdict.score.parts.items():
            parts.setdefault(name, []).append(value)
    return {
        "step": step,
        "score": fmean(v.score.value for v in verdicts),
        "n": len(verdicts),
        "parsed": fmean(float(v.cls == OK) for v in verdicts),
        "parts": {name: fmean(values) for name, values in sorted(parts.items())},
        "groups": {name: fmean(values) for name, values in sorted(groups.items())},
        "classes": dict(sorted(Counter(v.cls for v in verdicts).items())),
    }


def append(folder: Path, line: dict[str, Any]) -> None:
    """Add a line to ``val.jsonl``, on disk before it counts."""
    with (folder / VALIDATION).open("ab") as file:
        file.write(orjson.dumps(line) + b"\n")
        file.flush()
        os.fsync(file.fileno())


def validate(settings: RunSettings, registry: Registry, runs: Path, step: int) -> dict[str, Any]:
    """Evaluate one checkpoint as `harness run` would, with a run folder below ``runs``; returns the
    line of the step. ``settings`` name one task and one model."""
    planner = Planner(settings, registry)
    try:
        job = planner.job(settings.tasks[0], settings.models[0])
        run = RunFolder.open(runs, job.spec, f"step-{step}", {"step": step})
        try:
            total = sum(1 for _ in job.items())
            asyncio.run(Engine(job, run, total, min(128, total)).run())
            verdicts = [Verdict(r.group, r.score, r.outcome.cls) for r in run.records()]
        finally:
            run.close()
    finally:
        planner.close()
    return summary(step, verdicts)
