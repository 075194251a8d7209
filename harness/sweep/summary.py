"""The figures of a sweep: conditions against the baseline, with honest statistics.

    summary = summarise(sweep, root)
    summary["measures"][0]["conditions"]["probe@30"]["p_holm"]

A *measure* is the test score of a task, or the best validation score. Training seeds are the unit:
each seed is one figure, the spread is that of seeds. Conditions are compared with the baseline by
Welch's test, or paired by seed; p values are adjusted by Holm over all comparisons of a measure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Final, NamedTuple

from ..comparisons import holm, welch
from ..effects import cohens_d, hedges_g, paired_t, spearman
from ..types import Json
from .cells import Cell, Places
from .file import Sweep

VALIDATION: Final = "best validation"


class Figure(NamedTuple):
    """One cell's figure of a measure."""

    cell: Cell
    value: float


def summarise(sweep: Sweep, root: Path) -> dict[str, Json]:
    """Everything that ``ablation_summary.json`` holds, from the cells that are done."""
    results = {c.name: Places(root, c.name).result(c) for c in sweep.cells}
    done = [c for c in sweep.cells if results[c.name]]
    measures = [
        measured
        for panel in sweep.panels
        for name in _measures(sweep, results, panel)
        if (measured := _measure(sweep, results, panel, name))
    ]
    _adjust(measures)
    return {
        "name": sweep.name,
        "baseline": sweep.baseline,
        "test": sweep.test,
        "trend": sweep.trend,
        "done": len(done),
        "expected": len(sweep.cells),
        "measures": measures,
        "cells": [_cell(c, results[c.name], root) for c in sweep.cells],
    }


def _cell(cell: Cell, result: Mapping[str, Json], root: Path) -> dict[str, Json]:
    places = Places(root, cell.name)
    state = places.read("state.json")
    row: dict[str, Json] = {
        "cell": cell.name, "condition": cell.condition, "panel": cell.panel, "seed": cell.seed,
        "place": cell.place, "status": "done" if result else state.get("status", "waiting"),
        "attempts": state.get("attempt", 0), "train": dict(cell.train),
    }  # fmt: skip
    if result:
        keys = ("step", "last_step", "validation", "best_validation", "tests", "train_seconds")
        row |= {key: result.get(key) for key in keys}
    elif state.get("reason"):
        row["reason"] = state["reason"]
    return row


def _measures(sweep: Sweep, results: Mapping[str, Mapping[str, Json]], panel: str) -> list[str]:
    cells = [c for c in sweep.cells if c.panel == panel]
    tasks = dict.fromkeys(f"test {t.task}" for c in cells for t in c.tests)
    return [*tasks, VALIDATION]


def _value(result: Mapping[str, Json], measure: str) -> float | None:
    if measure == VALIDATION:
        found = result.get("best_validation")
    else:
        found = result.get("tests", {}).get(measure.removeprefix("test "), {}).get("value")
    return None if found is None else float(found)


def _measure(
    sweep: Sweep, results: Mapping[str, Mapping[str, Json]], panel: str, name: str
) -> dict[str, Json] | None:
    """All conditions of a panel on one measure; None where no cell has a figure."""
    groups: dict[str, list[Figure]] = {}
    for cell in sweep.cells:
        if cell.panel != panel:
            continue
        found = groups.setdefault(cell.condition, [])
        if (value := _value(results[cell.name], name)) is not None:
            found.append(Figure(cell, value))
    if not any(groups.values()):
        return None
    base = groups.get(sweep.baseline, [])
    rows = {
        condition: {**describe(group), **(_against(group, base, sweep.test) if
                                          condition != sweep.baseline else {})}
        for condition, group in groups.items()
    }  # fmt: skip
    return {
        "measure": name,
        "panel": panel,
        "conditions": rows,
        "trend": trend([f for group in groups.values() for f in group]) if sweep.trend else None,
    }


def describe(group: Sequence[Figure]) -> dict[str, Json]:
    """Figures by seed, mean and standard deviation (n - 1)."""
    values = [f.value for f in group]
    return {
        "n": len(values),
        "seeds": {str(f.cell.seed): f.value for f in group},
        "mean": fmean(values) if values else None,
        "sd": stdev(values) if len(values) > 1 else None,
        "place": group[0].cell.place if group else None,
    }


def _against(group: Sequence[Figure], base: Sequence[Figure], test: str) -> dict[str, Json]:
    """Difference to the baseline, its test and its sizes; no test below two seeds a side, nor where
    nothing varies."""
    first, second = _paired(group, base) if test == "paired" else _all(group, base)
    if not first or not second:
        return {"difference": None}
    sizes = {"d": cohens_d(first, second), "g": hedges_g(first, second)}
    if min(len(first), len(second)) < 2:
        return {"difference": fmean(first) - fmean(second), **sizes}
    found = paired_t(first, second) if test == "paired" else welch(first, second)
    if found.low == found.high:  # figures that do not vary say nothing of their spread
        return {"difference": found.difference, **sizes}
    kept = ("difference", "low", "high", "t", "df", "p")
    plain = {key: float(getattr(found, key)) for key in kept}
    return {**plain, "pairs" if test == "paired" else "n_baseline": len(second), **sizes}


def _all(group: Sequence[Figure], base: Sequence[Figure]) -> tuple[list[float], list[float]]:
    return [f.value for f in group], [f.value for f in base]


def _paired(group: Sequence[Figure], base: Sequence[Figure]) -> tuple[list[float], list[float]]:
    """Both sides' figures of the seeds that both have."""
    other = {f.cell.seed: f.value for f in base}
    common = [f for f in group if f.cell.seed in other]
    return [f.value for f in common], [other[f.cell.seed] for f in common]


def trend(figures: Sequence[Figure]) -> dict[str, Json] | None:
    """Spearman's correlation of figure and place over all cells that have a place."""
    placed = [(f.cell.place, f.value) for f in figures if f.cell.place is not None]
    x, y = [float(p) for p, _ in placed], [v for _, v in placed]
    if len(x) < 3 or len(set(x)) < 2 or len(set(y)) < 2:
        return None
    return dict(spearman(x, y)._asdict())


def _adjust(measures: Sequence[dict[str, Any]]) -> None:
    """Add Holm's p, over all comparisons of the same measure."""
    for name in dict.fromkeys(m["measure"] for m in measures):
        rows = [
            row
            for m in measures
            if m["measure"] == name
            for row in m["conditions"].values()
            if "p" in row
        ]
        for row, p in zip(rows, holm(row["p"] for row in rows), strict=True):
            row["p_holm"] = p
