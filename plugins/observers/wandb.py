"""Weights & Biases: ``harness run ... --log wandb``.

With ``WANDB_API_KEY`` the run is sent to the service; without it, or with ``WANDB_MODE=offline``,
it stays on this machine in the run's folder under ``wandb/`` (send it later with ``wandb sync``).
``WANDB_PROJECT`` names the project (default: strategic-harness); the other variables of wandb
hold too. The configuration sent is the run's specification; no prompt and no reply is sent.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # read at import: no crash reports

import wandb

from harness import hookimpl
from harness.types import Json, Record

from .progress import Pace, summary_figures

if TYPE_CHECKING:
    from harness.store import RunFolder
    from harness.trainer import TrainJob

_runs: dict[Path, Any] = {}
_paces: dict[Path, Pace] = {}


def _mode() -> str:
    given = os.environ.get("WANDB_MODE")
    return given or ("online" if os.environ.get("WANDB_API_KEY") else "offline")


def _start(path: Path, name: str, config: Mapping[str, Json]) -> Any:
    if path not in _runs:
        path.mkdir(parents=True, exist_ok=True)
        settings = wandb.Settings(
            disable_git=True,
            disable_code=True,
            console="off",
            silent=True,
            x_disable_stats=True,
            x_save_requirements=False,
        )
        _runs[path] = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "strategic-harness"),
            name=name,
            dir=os.environ.get("WANDB_DIR", str(path)),
            config=dict(config),
            mode=_mode(),
            reinit="create_new",
            settings=settings,
        )
    return _runs[path]


@hookimpl
def run_started(run: RunFolder) -> None:
    """Begin a wandb run with the specification as its configuration."""
    _start(run.path, run.path.name, {**run.manifest["spec"], "hash": run.manifest["hash"]})
    _paces[run.path] = Pace(run.journal.finished)


@hookimpl
def record_finished(run: RunFolder, record: Record) -> None:
    """Log the running means, every 50th record."""
    pace = _paces[run.path]
    figures = pace.add(record)
    if figures:
        named = {f"running/{name}": value for name, value in figures.items()}
        _runs[run.path].log(named, step=pace.step)


@hookimpl
def run_finished(run: RunFolder, summary: Mapping[str, Json]) -> None:
    """Put the final figures into the run's summary and end it."""
    logged = _runs.pop(run.path)
    _paces.pop(run.path, None)
    logged.summary.update({**dict(summary_figures(summary)), "complete": summary["complete"]})
    logged.finish(exit_code=0 if summary["complete"] else 1)


@hookimpl
def train_step_logged(job: TrainJob, step: int, figures: Mapping[str, float]) -> None:
    """Log the figures of a training step."""
    config = {"task": job.task, "model": job.model, "options": dict(job.options)}
    _start(job.out, job.out.name, config).log(dict(figures), step=step)
