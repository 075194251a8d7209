"""A sweep from its folder's lock to its last table.

outcome = run_sweep(sweep, Path("runs/sweeps/tiny-cpu"))
outcome.summary, outcome.failed, outcome.stopped
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..store import acquire, write_atomically
from ..types import HarnessError, Json
from .cells import Places, check_unchanged
from .display import SweepDisplay
from .events import Events
from .file import Sweep
from .local import LocalLauncher
from .schedule import Launcher, Scheduler
from .slurm import SlurmLauncher, cancel
from .summary import summarise
from .trajectories import write_trajectories

SUMMARY: Final = "ablation_summary.json"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a sweep came to: its summary, the reason of each cell that was given up, whether it was
    stopped before its end, and the files that it wrote."""

    summary: Mapping[str, Json]
    failed: Mapping[str, str]
    stopped: bool
    files: tuple[Path, ...]

    @property
    def complete(self) -> bool:
        """Whether every cell is done."""
        return bool(self.summary["done"] == self.summary["expected"])


def run_sweep(
    sweep: Sweep, root: Path, registry_file: Path | None = None, quiet: bool = False
) -> Outcome:
    """Run what is not done yet, and write the outputs.

    Raises HarnessError before anything runs: for cells that were trained with other settings, for
    GPUs that are not there, for a folder that another sweep holds.
    """
    root = root.absolute()
    for cell in sweep.cells:
        check_unchanged(Places(root, cell.name), cell)
    launcher = _launcher(sweep, root, registry_file)
    lock = _open(sweep, root)
    events = Events(root)
    display = SweepDisplay(root, sweep.cells, quiet)
    try:
        scheduler = Scheduler(
            sweep.cells, sweep.schedule, root, launcher, events, display.tell, display.tick
        )
        left = len(scheduler.waiting)
        display.tell(f"{sweep.name}: {left} of {len(sweep.cells)} cells to do, in {root}")
        events.add("sweep_started", cells=len(sweep.cells), to_do=left, pid=os.getpid())
        finished = scheduler.run()
        display.close()
        outcome = write_outputs(sweep, root, scheduler.given_up, not finished)
        done = outcome.summary["done"]
        events.add("sweep_finished" if finished else "sweep_stopped", done=done)
        return outcome
    finally:
        display.close()
        os.close(lock)


def write_outputs(
    sweep: Sweep, root: Path, failed: Mapping[str, str] | None = None, stopped: bool = False
) -> Outcome:
    """Summary and trajectories of what is there."""
    root = root.absolute()
    if not root.is_dir():
        raise HarnessError(f"{root}: no sweep has run here")
    summary = summarise(sweep, root)
    path = root / SUMMARY
    write_atomically(path, json.dumps(summary, indent=1, default=str).encode() + b"\n")
    # A preempted machine goes down soon: curves can wait for the next time.
    curves = [] if stopped else write_trajectories(sweep, root)
    return Outcome(summary, dict(failed or {}), stopped, (path, *curves))


def cancel_jobs(sweep: Sweep, root: Path) -> list[str]:
    """Cancel the Slurm jobs of cells that are not done; their ids. The cells stop cleanly."""
    root = root.absolute()
    left = [c for c in sweep.cells if not Places(root, c.name).result(c)]
    jobs = cancel(root, left)
    if root.is_dir():
        Events(root).add("jobs_cancelled", jobs=jobs)
    return jobs


def _launcher(sweep: Sweep, root: Path, registry_file: Path | None) -> Launcher:
    command = sweep.schedule.command or (sys.executable, "-m", "harness")
    registry = str(registry_file.absolute()) if registry_file else ""
    facts = {"command": list(command), "registry_file": registry, "prune": sweep.prune}
    if sweep.schedule.launcher == "slurm":
        return SlurmLauncher(sweep.name, root, sweep.schedule, sweep.slurm, facts)
    return LocalLauncher(root, sweep.schedule, facts)


def _open(sweep: Sweep, root: Path) -> int:
    """Make the folder and hold it for this process."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock = acquire(root)
    except OSError as error:
        raise HarnessError(f"{root}: cannot be written: {error.strerror}") from None
    described = {"name": sweep.name, "baseline": sweep.baseline,
                 "cells": [c.described() for c in sweep.cells]}  # fmt: skip
    write_atomically(root / "sweep.json", json.dumps(described, indent=1).encode() + b"\n")
    return lock
