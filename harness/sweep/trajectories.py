"""Curves of all cells side by side: validation and training figures over steps.

write_trajectories(sweep, root)      # trajectories.parquet, .json and, with matplotlib, .png

The table has a row a figure (condition, panel, seed, cell, step, name, value); the JSON holds the
validation scores and what `harness.training.curves` shows; the picture has a line a seed, and the
mean of each condition over the seeds that got as far.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final, NamedTuple

from ..store import write_atomically
from ..training import curves
from .cells import Cell, Places
from .file import Sweep

NAME: Final = "trajectories"
VALIDATION: Final = "validation/score"
COLUMNS: Final = ("condition", "panel", "seed", "cell", "step", "name", "value")

Points = list[tuple[int, float]]


class Curve(NamedTuple):
    """One figure of one cell over steps."""

    cell: Cell
    name: str
    points: Points


def write_trajectories(sweep: Sweep, root: Path) -> list[Path]:
    """Write the files; those that were written. Cells that are not done have their curve so far."""
    found = list(_curves(sweep, root))
    if not found:
        return []
    written = [_table(found, root / f"{NAME}.parquet"), _json(found, root / f"{NAME}.json")]
    picture = draw(found, root / f"{NAME}.png")
    return [*written, *([picture] if picture else [])]


def _curves(sweep: Sweep, root: Path) -> Iterator[Curve]:
    for cell in sweep.cells:
        model = Places(root, cell.name).model
        rows = curves.validations(model)
        if rows:
            yield Curve(cell, VALIDATION, [(int(r["step"]), float(r["score"])) for r in rows])
        found: dict[str, Points] = {}
        for step, row in curves.steps(model).items():
            for name, value in row.items():
                found.setdefault(name, []).append((step, value))
        for name in sorted(found):
            yield Curve(cell, name, found[name])


def _table(found: Sequence[Curve], path: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        (c.cell.condition, c.cell.panel, c.cell.seed, c.cell.name, step, c.name, value)
        for c in found
        for step, value in c.points
    ]
    types = (pa.string(), pa.string(), pa.int64(), pa.string(), pa.int64(), pa.string(),
             pa.float64())  # fmt: skip
    arrays = [pa.array(col, t) for col, t in zip(zip(*rows, strict=True), types, strict=True)]
    pq.write_table(pa.table(dict(zip(COLUMNS, arrays, strict=True))), path, compression="zstd")
    return path


def _json(found: Sequence[Curve], path: Path) -> Path:
    """By cell: condition, seed, and the curves that are shown."""
    shown = {VALIDATION, *(name for names in curves.SHOWN.values() for name in names)}
    cells: dict[str, dict[str, Any]] = {}
    for curve in found:
        row = cells.setdefault(
            curve.cell.name,
            {
                "condition": curve.cell.condition,
                "panel": curve.cell.panel,
                "seed": curve.cell.seed,
                "curves": {},
            },
        )
        if curve.name in shown:
            row["curves"][curve.name] = curve.points
    write_atomically(path, json.dumps(cells, indent=1).encode() + b"\n")
    return path


def panels(found: Sequence[Curve]) -> dict[str, list[Curve]]:
    """What is drawn: validation first, then the first logged figure of each of `curves.SHOWN`."""
    shown = {"validation score": [c for c in found if c.name == VALIDATION]}
    names = {c.name for c in found}
    for title, candidates in curves.SHOWN.items():
        chosen = next((n for n in candidates if n in names), None)
        shown[title] = [c for c in found if c.name == chosen]
    return {title: lines for title, lines in shown.items() if lines}


def means(lines: Sequence[Curve]) -> dict[str, Points]:
    """The mean curve of each condition, at steps that all of its seeds have."""
    groups: dict[str, list[Mapping[int, float]]] = {}
    for line in lines:
        key = ", ".join(filter(None, (line.cell.condition, line.cell.panel)))
        groups.setdefault(key, []).append(dict(line.points))
    return {
        key: [
            (step, fmean(seed[step] for seed in seeds))
            for step in sorted(set.intersection(*(set(seed) for seed in seeds)))
        ]
        for key, seeds in groups.items()
    }


def draw(found: Sequence[Curve], path: Path) -> Path | None:
    """The picture; None without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return None
    shown = panels(found)
    rows = -(-len(shown) // 2)
    figure = Figure(figsize=(11, 2.8 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    names = list(means(found))
    for place, (title, lines) in enumerate(shown.items(), 1):
        axes = figure.add_subplot(rows, 2, place)
        for line in lines:
            key = ", ".join(filter(None, (line.cell.condition, line.cell.panel)))
            colour = f"C{names.index(key) % 10}"
            axes.plot(*zip(*line.points, strict=True), "-", color=colour, alpha=0.3, linewidth=0.8)
        for key, points in means(lines).items():
            if points:
                colour = f"C{names.index(key) % 10}"
                mark = "o-" if len(points) < 30 else "-"
                axes.plot(
                    *zip(*points, strict=True), mark, color=colour, label=key, markersize=3,
                    linewidth=1.6,
                )  # fmt: skip
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("step", fontsize=8)
        axes.grid(alpha=0.3)
        if place == 1:
            axes.legend(fontsize=8)
    figure.savefig(path, dpi=110)
    return path
