"""Stands in for Slurm in tests: ``sbatch``, ``squeue`` and ``scancel`` over a folder of jobs.

A submitted script is run at once in a session of its own; its directives are kept. A job is in the
queue while its process lives. ``install`` puts the three commands into a folder for PATH.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

COMMANDS = ("sbatch", "squeue", "scancel")


def install(folder: Path) -> Path:
    """The folder with the commands; jobs are kept in it, too."""
    folder.mkdir()
    for name in COMMANDS:
        file = folder / name
        file.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} {folder} {name} "$@"\n')
        file.chmod(0o755)
    return folder


def jobs(folder: Path) -> dict[str, dict]:
    """All jobs that were submitted, by id."""
    return {p.stem: json.loads(p.read_text()) for p in sorted(folder.glob("*.json"))}


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def sbatch(folder: Path, words: list[str]) -> int:
    if (folder / "refuse").exists():
        print("sbatch: error: invalid partition specified: nowhere", file=sys.stderr)
        return 1
    script = Path(words[-1]).read_text()
    lines = re.findall(r"^#SBATCH --([a-z-]+)(?:=(.*))?$", script, re.MULTILINE)
    asked = {name: value or True for name, value in lines}
    number = str(100 + len(jobs(folder)))
    with open(asked["output"].replace("%j", number), "ab") as log:
        process = subprocess.Popen(
            ["sh", words[-1]], cwd=asked["chdir"], stdin=subprocess.DEVNULL, stdout=log,
            stderr=log, start_new_session=True, env={**os.environ, "SLURM_JOB_ID": number},
        )  # fmt: skip
    row = {"pid": process.pid, "asked": asked}
    (folder / f"{number}.json").write_text(json.dumps(row))
    print(number)
    return 0


def squeue(folder: Path, words: list[str]) -> int:
    assert "--noheader" in words, words
    for number, row in jobs(folder).items():
        if alive(row["pid"]):
            print(number)
    return 0


def scancel(folder: Path, words: list[str]) -> int:
    for number in words:
        row = jobs(folder)[number]
        if alive(row["pid"]):
            os.kill(row["pid"], signal.SIGTERM)
    return 0


if __name__ == "__main__":
    place, name = Path(sys.argv[1]), sys.argv[2]
    sys.exit({"sbatch": sbatch, "squeue": squeue, "scancel": scancel}[name](place, sys.argv[3:]))
