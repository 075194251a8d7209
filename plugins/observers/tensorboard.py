"""TensorBoard: ``harness run ... --log tensorboard``, then ``tensorboard --logdir runs``.

Events of a run lie in the run's folder under ``tensorboard/``, those of a training job in the
job's. ``HARNESS_TENSORBOARD_DIR`` collects them in one place instead. While a run goes on its mean
score and its share of faults are plotted; at its end every metric, at step 0 of ``task/metric``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorboard.summary import Writer

from harness import hookimpl
from harness.types import Json, Record

from .progress import Pace, summary_figures

if TYPE_CHECKING:
    from harness.store import RunFolder
    from harness.trainer import TrainJob

_writers: dict[Path, Any] = {}
_paces: dict[Path, Pace] = {}


def _writer(path: Path) -> Any:
    if path not in _writers:
        root = os.environ.get("HARNESS_TENSORBOARD_DIR")
        folder = Path(root) / path.name if root else path / "tensorboard"
        _writers[path] = Writer(str(folder))
    return _writers[path]


@hookimpl
def run_started(run: RunFolder) -> None:
    """Open the writer; a resumed run goes on from its finished records."""
    _writer(run.path)
    _paces[run.path] = Pace(run.journal.finished)


@hookimpl
def record_finished(run: RunFolder, record: Record) -> None:
    """Plot the running means, every 50th record."""
    pace = _paces[run.path]
    figures = pace.add(record)
    for name, value in (figures or {}).items():
        _writer(run.path).add_scalar(f"running/{name}", value, pace.step)


@hookimpl
def run_finished(run: RunFolder, summary: Mapping[str, Json]) -> None:
    """Plot the final figures and close the writer."""
    writer = _writer(run.path)
    for name, value in summary_figures(summary):
        writer.add_scalar(name, value, 0)
    writer.close()
    del _writers[run.path]
    _paces.pop(run.path, None)


@hookimpl
def train_step_logged(job: TrainJob, step: int, figures: Mapping[str, float]) -> None:
    """Plot the figures of a training step; flushed each time, as training may be killed."""
    writer = _writer(job.out)
    for name, value in figures.items():
        writer.add_scalar(name, float(value), step)
    writer.flush()
