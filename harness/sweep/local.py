"""Slots of this machine: GPUs (or cores) of their own, a process for the cell that runs in each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..processes import bound, ended, kill_group, stop_group
from ..types import HarnessError, Json
from .cells import Cell, Places
from .file import Schedule
from .schedule import POLL, Ending, prepare
from .worker import GRACE

MARGIN: Final = 20.0
"""Seconds that a worker gets on top of what it gives its own command."""


@dataclass(slots=True)
class Running:
    """A cell that runs: its process, and when it began."""

    cell: Cell
    process: subprocess.Popen[bytes]
    began: float


class LocalLauncher:
    """Runs cells as processes of this machine."""

    poll = POLL

    def __init__(self, root: Path, schedule: Schedule, facts: Mapping[str, Json]) -> None:
        self.root = root
        self.schedule = schedule
        self.facts = facts
        self.devices = slots_of(schedule, visible_gpus())
        self.running: dict[int, Running] = {}

    def holds(self, cell: Cell) -> bool:
        """Never: workers end with the process that started them."""
        return False

    def start(self, cell: Cell, slot: int) -> Mapping[str, Json]:
        """Start the worker with the slot's devices."""
        prepare(self.root, cell, self.facts)
        try:
            with self.log(cell).open("ab") as output:
                process = subprocess.Popen(
                    [sys.executable, "-m", "harness.sweep.worker", str(self.root), cell.name],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=self.environment(slot),
                    start_new_session=True,
                    preexec_fn=bound(signal.SIGTERM),
                )
        except OSError as error:
            raise HarnessError(f"the cell cannot be started: {error.strerror}") from None
        self.running[slot] = Running(cell, process, time.monotonic())
        return {"pid": process.pid, "gpus": self.devices[slot]}

    def log(self, cell: Cell) -> Path:
        """Where a worker's own words go."""
        return Places(self.root, cell.name).folder / "worker.log"

    def environment(self, slot: int) -> dict[str, str]:
        """The user's environment with the slot's GPUs, share of the cores, and Ray cluster."""
        found = dict(os.environ)
        package = str(Path(__file__).resolve().parents[2])
        paths = [package, *found.get("PYTHONPATH", "").split(os.pathsep)]
        found["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, paths)))
        if self.schedule.ray:
            found["RAY_ADDRESS"] = self.schedule.ray[slot]  # its scheduler hands out the GPUs
            return found
        found["CUDA_VISIBLE_DEVICES"] = ",".join(self.devices[slot])
        if not self.devices[slot]:
            cores = max(1, (os.cpu_count() or 1) // self.schedule.slots)
            found.setdefault("OMP_NUM_THREADS", str(cores))
        return found

    def ended(self) -> Iterator[Ending]:
        """Cells whose process is gone; one that ran too long is ended here."""
        for slot, job in list(self.running.items()):
            overdue = False
            limit = self.schedule.hours * 3600
            if job.process.poll() is None:
                if not limit or time.monotonic() - job.began < limit:
                    continue
                stop_group(job.process, signal.SIGTERM, GRACE + MARGIN)
                overdue = True
            del self.running[slot]
            kill_group(job.process)
            how = ended(job.process.returncode)
            if job.process.returncode > 0:
                how += f" (see {self.log(job.cell)})"
            if overdue:
                how = f"it took longer than {self.schedule.hours:g} hours"
            yield Ending(job.cell, slot, how, overdue)

    def stop(self) -> None:
        """Ask all workers to stop, and wait for them."""
        for job in self.running.values():
            job.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + GRACE + MARGIN
        for job in self.running.values():
            while job.process.poll() is None and time.monotonic() < deadline:
                time.sleep(POLL)
            kill_group(job.process)
        self.running.clear()


def visible_gpus() -> list[str]:
    """The GPUs that this process may use: ``CUDA_VISIBLE_DEVICES``, or all that the driver has."""
    asked = os.environ.get("CUDA_VISIBLE_DEVICES")
    if asked is not None:
        return [name.strip() for name in asked.split(",") if name.strip()]
    query = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    try:
        found = subprocess.run(query, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return found.stdout.split()


def slots_of(schedule: Schedule, gpus: list[str]) -> list[list[str]]:
    """The GPUs of each slot; none twice. Raises HarnessError when there are too few.

    >>> slots_of(Schedule(2, 2, 1, 0, "local", (), ()), ["0", "1", "4", "5"])
    [['0', '1'], ['4', '5']]
    """
    if schedule.ray:
        return [[] for _ in range(schedule.slots)]
    each = schedule.gpus
    if schedule.slots * each > len(gpus):
        raise HarnessError(
            f"{schedule.slots} slots of {each} GPUs need {schedule.slots * each}, this machine has "
            f"{len(gpus)}: lower slots or gpus in [schedule], or use --launcher slurm"
        )
    return [gpus[slot * each : (slot + 1) * each] for slot in range(schedule.slots)]
