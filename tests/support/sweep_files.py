"""Sweep files of tests, whose cells are done by `stub_harness`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

SUPPORT = Path(__file__).parent
STUB = SUPPORT / "stub_harness.py"
QUICK = 0.01

HEAD = """\
baseline = "none"
seeds = {seeds}

[train]
task = "gamesolve"
model = "base"

[test]
limit = 8
max_tokens = 32

[schedule]
slots = {slots}
gpus = {gpus}
retries = {retries}
command = {command}
{schedule}
[[condition]]
name = "none"
method = "grpo"
learning_rate = {none}
"""
LAYER = """
[[condition]]
name = "probe@{layer}"
method = "grpo-probe"
probe.layers = "{layer}"
learning_rate = {how}
"""


def sweep_file(
    folder: Path, layers: dict[int, float] | None = None, end: str = "", **changes: object
) -> Path:
    """A baseline, and a condition for each layer; ``none`` and the layers' values say how the
    stub behaves in each."""
    settings = {"seeds": [0, 1], "slots": 2, "gpus": 1, "retries": 1, "none": QUICK,
                "schedule": "", "command": json.dumps([sys.executable, str(STUB)])}  # fmt: skip
    text = HEAD.format(**{**settings, **changes})
    text += "".join(LAYER.format(layer=layer, how=how) for layer, how in (layers or {}).items())
    if layers:
        text += '\n[statistics]\ntrend = "probe.layers"\n'
    path = folder / "sweep.toml"
    path.write_text(text + end)
    return path


def until(happens: Callable[[], object], patience: float = 60.0) -> None:
    """Wait for something."""
    deadline = time.monotonic() + patience
    while not happens():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)


class SweepCommand:
    """``harness sweep`` in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "out"
        self.environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "3,5,6,7", "COLUMNS": "100"}
        self.environment.pop("OMP_NUM_THREADS", None)

    def words(self, *more: object) -> list[str]:
        return [sys.executable, "-m", "harness", "sweep", "sweep.toml", "--out", "out",
                *map(str, more)]  # fmt: skip

    def run(self, *more: object, timeout: int = 100) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.words(*more), capture_output=True, text=True, timeout=timeout, cwd=self.folder,
            env=self.environment,
        )  # fmt: skip

    def start(self, *more: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.words(*more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd=self.folder, env=self.environment,
        )  # fmt: skip

    def go(self) -> None:
        """Let trainings that are held go on."""
        (self.root / "go").touch()

    def events(self, *kinds: str) -> list[dict]:
        path = self.root / "events.jsonl"
        rows = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
        return [row for row in rows if not kinds or row["event"] in kinds]

    def notes(self) -> list[dict]:
        """What the stub noted of its own runs."""
        path = self.root / "stub.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def begins(self, cell: str = "") -> list[int]:
        """From which step each training of these cells began, in order."""
        return [r["begin"] for r in self.notes() if "begin" in r and cell in r["cell"]]

    def summary(self) -> dict:
        return json.loads((self.root / "ablation_summary.json").read_text())
