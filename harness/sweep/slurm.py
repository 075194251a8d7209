"""Cells as Slurm jobs: a script each, submitted with ``sbatch`` and followed with ``squeue``.

The jobs live without this process: when it ends they go on, and the same command follows them
again. A job asks Slurm for SIGTERM two minutes before its time is up or it is preempted; the cell
then stops cleanly and goes on in its next job. ``[slurm]`` of the file holds further options of
``sbatch`` (``partition = "gpu"``), and ``setup``, lines of shell that come before the cell.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ..store import write_atomically
from ..types import HarnessError, Json
from .cells import Cell, Places
from .file import Schedule
from .schedule import Ending, prepare

NOTICE: Final = 120
"""Seconds before its end at which Slurm tells a job."""

OWN: Final = ("setup", "poll")


class SlurmLauncher:
    """Submits cells, and sees when they have left the queue."""

    def __init__(
        self, name: str, root: Path, schedule: Schedule, options: Mapping[str, Json],
        facts: Mapping[str, Json],
    ) -> None:  # fmt: skip
        check_options(options)
        self.name = name
        self.root = root
        self.schedule = schedule
        self.options = options
        self.facts = facts
        self.poll = float(options.get("poll", 15.0))
        self.running: dict[int, tuple[Cell, str]] = {}
        self.missing: set[str] = set()

    def holds(self, cell: Cell) -> bool:
        """Whether the cell was submitted before."""
        return bool(Places(self.root, cell.name).read("slurm.json"))

    def start(self, cell: Cell, slot: int) -> Mapping[str, Json]:
        """Submit a cell, or take up its job that is in the queue already."""
        places = Places(self.root, cell.name)
        known = str(places.read("slurm.json").get("job", ""))
        if known and known in (self.queue() or ()):
            self.running[slot] = (cell, known)
            return {"job": known, "adopted": True}
        prepare(self.root, cell, self.facts)
        file = places.folder / "job.sh"
        write_atomically(
            file, script(self.name, self.root, cell, self.schedule, self.options).encode()
        )
        job = _call(["sbatch", "--parsable", str(file)]).strip().partition(";")[0]
        if not job.isdigit():
            raise HarnessError(f"sbatch answered {job!r}, which is no job")
        write_atomically(places.folder / "slurm.json", json.dumps({"job": job}).encode() + b"\n")
        self.running[slot] = (cell, job)
        return {"job": job}

    def ended(self) -> Iterator[Ending]:
        """Cells whose job is in the queue no more. Files may lag behind on a shared file system, so
        a job without a result is looked for twice."""
        queue = self.queue()
        if queue is None:
            return
        for slot, (cell, job) in list(self.running.items()):
            if job in queue:
                self.missing.discard(job)
                continue
            if not Places(self.root, cell.name).result(cell) and job not in self.missing:
                self.missing.add(job)
                continue
            del self.running[slot]
            log = Places(self.root, cell.name).folder / f"slurm-{job}.log"
            yield Ending(cell, slot, f"Slurm job {job} ended without a result (see {log})")

    def stop(self) -> None:
        """Leave the jobs to Slurm: the same command follows them again."""

    def queue(self) -> set[str] | None:
        """The ids of this user's jobs that wait or run; None when Slurm does not answer."""
        words = ["squeue", "--noheader", "--format=%i", f"--user={getpass.getuser()}"]
        try:
            return set(_call(words).split())
        except HarnessError:
            return None


def cancel(root: Path, cells: Iterable[Cell]) -> list[str]:
    """Cancel the jobs of these cells; their ids."""
    jobs = [str(Places(root, c.name).read("slurm.json").get("job", "")) for c in cells]
    if found := [job for job in jobs if job]:
        _call(["scancel", *found])
    return found


def script(
    name: str, root: Path, cell: Cell, schedule: Schedule, options: Mapping[str, Json]
) -> str:
    """The batch script of a cell."""
    folder = Places(root, cell.name).folder
    lines = [
        ("job-name", f"{name}-{cell.name}"),
        ("output", f"{folder}/slurm-%j.log"),
        ("chdir", os.getcwd()),
        ("nodes", 1),
        ("signal", f"B:TERM@{NOTICE}"),
        ("requeue", True),
        *([("gpus-per-node", schedule.gpus)] if schedule.gpus else []),
        *([("time", round(schedule.hours * 60))] if schedule.hours else []),
    ]
    asked = {k: v for k, v in options.items() if k not in OWN}
    merged = {**dict(lines), **asked}
    package = shlex.quote(str(Path(__file__).resolve().parents[2]))
    # exec: Slurm's signal goes to the batch shell, which would not pass it on.
    worker = shlex.join([sys.executable, "-m", "harness.sweep.worker", str(root), cell.name])
    return "\n".join(
        [
            "#!/bin/sh",
            *(f"#SBATCH --{k}" + ("" if v is True else f"={_word(v)}") for k, v in merged.items()),
            *map(str, options.get("setup", ())),
            f'export PYTHONPATH={package}"${{PYTHONPATH:+:$PYTHONPATH}}"',
            f"exec {worker}",
            "",
        ]
    )


def _word(value: Json) -> str:
    """A value of a directive, which sbatch splits at blanks as a shell does."""
    return shlex.quote(str(value)) if re.search(r"[\s'\"\\]", str(value)) else str(value)


def check_options(options: Mapping[str, Json]) -> None:
    """Raise HarnessError for what cannot stand in a batch script."""
    for key, value in options.items():
        if key in OWN:
            continue
        if not re.fullmatch(r"[a-z][a-z-]*", key):
            raise HarnessError(f"[slurm] {key}: write sbatch's long options, as in partition")
        if not isinstance(value, str | int | float) or "\n" in str(value) or value is False:
            raise HarnessError(f"[slurm] {key} = {value!r}: give one text, number or true")
    if not isinstance(options.get("setup", []), list):
        raise HarnessError("[slurm] setup: give a list of lines")


def _call(words: Sequence[str]) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise HarnessError(
            f"{words[0]} is not on the PATH; --launcher slurm needs a machine that submits to Slurm"
        ) from None
    if done.returncode != 0:
        told = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise HarnessError(f"{words[0]}: {told}")
    return done.stdout
