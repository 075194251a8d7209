"""Curves of a job: figures of each step, from the log that training writes while it runs.

    figures = Figures(folder)
    for step, row in figures.new(): ...      # what was logged since the last call
    write_curves(folder)                     # curves.parquet, curves.png

Each attempt writes a log of its own (``logs/metrics-1.jsonl``, one ``{"step", "data"}`` a line); a
later attempt's figures replace an earlier one's from the step on at which it resumed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import orjson

LOGS: Final = "logs"
VALIDATION: Final = "val.jsonl"
SHOWN: Final = {
    "reward": ("reward/mean", "critic/score/mean"),
    "loss": ("train/loss", "actor/loss", "actor/pg_loss"),
    "kl": ("actor/teacher_kl", "actor/kl_loss", "actor/ppo_kl"),
    "probe loss": ("probe/loss",),
    "reply tokens": ("response_length/mean",),
    "groups without variance": ("reward/zero_variance_groups",),
    "seconds a step": ("timing_s/step",),
}
"""Panels of the picture, and which figure each shows: the first that was logged."""


class Figures:
    """Reads a growing log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0

    def new(self) -> Iterator[tuple[int, dict[str, float]]]:
        """Whole lines since the last call."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                data = file.read()
        except FileNotFoundError:
            return
        whole = data.rfind(b"\n") + 1
        self.offset += whole
        for line in data[:whole].splitlines():
            row = orjson.loads(line)
            yield int(row["step"]), numbers(row["data"])


def numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """The entries that are finite numbers."""
    found = {}
    for name, value in row.items():
        if isinstance(value, bool | int | float) and math.isfinite(value):
            found[name] = float(value)
    return found


def next_log(folder: Path) -> Path:
    """A new log file for this attempt."""
    logs = folder / LOGS
    logs.mkdir(parents=True, exist_ok=True)
    return logs / f"metrics-{len(list(logs.glob('metrics-*.jsonl'))) + 1}.jsonl"


def steps(folder: Path) -> dict[int, dict[str, float]]:
    """All figures by step, in order."""
    found: dict[int, dict[str, float]] = {}
    logs = (folder / LOGS).glob("metrics-*.jsonl")
    for path in sorted(logs, key=lambda p: int(p.stem.rpartition("-")[2])):
        first = True
        for step, row in Figures(path).new():
            if first:
                found = {s: r for s, r in found.items() if s < step}
                first = False
            found.setdefault(step, {}).update(row)
    return dict(sorted(found.items()))


def validations(folder: Path) -> list[dict[str, Any]]:
    """The lines of ``val.jsonl``, the last one of each step, in order."""
    try:
        lines = (folder / VALIDATION).read_text().splitlines()
    except FileNotFoundError:
        return []
    rows = (json.loads(line) for line in lines if line.strip())
    return [row for _, row in sorted({row["step"]: row for row in rows}.items())]


def best_step(folder: Path) -> int | None:
    """The step with the highest validation score (the earliest of equals); None without any."""
    rows = validations(folder)
    return max(rows, key=lambda r: (r["score"], -r["step"]))["step"] if rows else None


def write_curves(folder: Path) -> dict[str, Any]:
    """Write ``curves.parquet`` (step, name, value) and, where matplotlib is there, the picture;
    returns the first and last value of each panel."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    found = steps(folder)
    rows = [(s, name, value) for s, row in found.items() for name, value in sorted(row.items())]
    rows += [(int(v["step"]), "validation/score", float(v["score"])) for v in validations(folder)]
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    types = (pa.int64(), pa.string(), pa.float64())
    arrays = [pa.array(c, t) for c, t in zip(columns, types, strict=True)]
    table = pa.table(dict(zip(("step", "name", "value"), arrays, strict=True)))
    pq.write_table(table, folder / "curves.parquet", compression="zstd")
    panels = _panels(folder, found)
    _draw(panels, folder / "curves.png")
    return {
        name: {"first": points[0][1], "last": points[-1][1], "steps": len(points)}
        for name, points in panels.items()
    }


def _panels(
    folder: Path, found: Mapping[int, Mapping[str, float]]
) -> dict[str, list[tuple[int, float]]]:
    panels = {}
    for title, names in SHOWN.items():
        for name in names:
            points = [(s, row[name]) for s, row in found.items() if name in row]
            if points:
                panels[title] = points
                break
    if points := [(int(v["step"]), float(v["score"])) for v in validations(folder)]:
        panels["validation score"] = points
    return panels


def _draw(panels: Mapping[str, list[tuple[int, float]]], path: Path) -> None:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return
    if not panels:
        return
    rows = -(-len(panels) // 2)
    figure = Figure(figsize=(10, 2.6 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    for place, (title, points) in enumerate(panels.items(), 1):
        axes = figure.add_subplot(rows, 2, place)
        mark = "o-" if len(points) < 30 else "-"
        axes.plot(*zip(*points, strict=True), mark, markersize=3, linewidth=1.2)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("step", fontsize=8)
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
