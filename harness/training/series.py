"""All steps of a training job as models: ``harness run --model 'runs/sft@*'``.

expand(["runs/sft@*"])          # ('runs/sft@100', 'runs/sft@200')
draw("runs/sft", runs)          # series--gamesolve.json and .png in the job's folder
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..types import HarnessError
from .checkpoints import saved_steps

if TYPE_CHECKING:
    from ..api import Run

ALL: Final = "@*"


def expand(models: Iterable[str]) -> tuple[str, ...]:
    """Each ``DIR@*`` replaced by all saved steps. Raises HarnessError where there are none."""
    found: list[str] = []
    for name in models:
        if not name.endswith(ALL):
            found.append(name)
            continue
        prefix, _, folder = name.removesuffix(ALL).rpartition(":")
        steps = saved_steps(Path(folder).expanduser())
        if not steps:
            raise HarnessError(f"{name}: {folder} has no saved steps")
        head = f"{prefix}:" if prefix else ""
        found += [f"{head}{folder}@{step}" for step in steps]
    return tuple(found)


def series_of(models: Iterable[str]) -> list[str]:
    """The folders that are asked for as series."""
    return [m.removesuffix(ALL).rpartition(":")[2] for m in models if m.endswith(ALL)]


def draw(folder: str, runs: Sequence[Run]) -> list[Path]:
    """Write score over step for each task, as JSON and (with matplotlib) as a picture.

    The validation scores of the job stand beside them, where it has any. Returns the JSON files.
    """
    tasks: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        head, _, step = str(run.manifest["model_name"]).rpartition("@")
        if head.rpartition(":")[2] != folder or not step.isdigit():
            continue
        score = run.metrics.get("score") or {}
        point = {"step": int(step), "run": str(run.path)}
        point |= {name: score.get(name) for name in ("value", "low", "high")}
        tasks.setdefault(run.manifest["spec"]["task"]["name"], []).append(point)
    written = []
    for task, points in tasks.items():
        points.sort(key=lambda p: p["step"])
        path = Path(folder).expanduser() / f"series--{task}.json"
        path.write_text(json.dumps(points, indent=1) + "\n")
        _picture(points, task, path.with_suffix(".png"))
        written.append(path)
    return written


def _picture(points: Sequence[dict[str, Any]], task: str, path: Path) -> None:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return
    shown = [p for p in points if p["value"] is not None]
    if not shown:
        return
    figure = Figure(figsize=(6, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    steps, values = [p["step"] for p in shown], [p["value"] for p in shown]
    axes.plot(steps, values, "o-", markersize=4)
    bounded = [p for p in shown if p["low"] is not None]
    if bounded:
        low, high = ([p[name] for p in bounded] for name in ("low", "high"))
        axes.fill_between([p["step"] for p in bounded], low, high, alpha=0.2)
    axes.set_xlabel("step")
    axes.set_ylabel(f"{task}: score")
    axes.set_ylim(0, 1)
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
