"""Training jobs of tests: a tiny checkpoint, the command as a process, kill and resume."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

SUPPORT = Path(__file__).parent
PATIENCE = 900


def missing() -> str:
    """Why training cannot be tested here; "" when it can."""
    try:
        if version("verl") != "0.9.1":
            return f"needs verl 0.9.1, found {version('verl')}"
    except PackageNotFoundError:
        return "verl is not installed (pip install 'strategic-harness[train]')"
    absent = [m for m in ("transfer_queue", "uvicorn", "cachetools", "peft") if not find_spec(m)]
    return f"{', '.join(absent)} not installed" if absent else ""


class Training:
    """Runs ``harness train`` in a folder."""

    def __init__(
        self,
        folder: Path,
        base: Path | str,
        task: str = "copy",
        registry: str = "toy_registry.toml",
    ) -> None:
        self.folder = folder
        self.registry = registry
        self.task = task
        self.base = base
        self.environment = {**os.environ, "PYTHONPATH": str(SUPPORT), "OMP_NUM_THREADS": "1"}

    def command(self, method: str, out: str, *more: str, **settings: object) -> list[str]:
        words = [sys.executable, "-m", "harness", "train", "--method", method, "--task", self.task,
                 "--model", str(self.base), "--out", out,
                 "--registry", str(SUPPORT / self.registry), *more]  # fmt: skip
        for name, value in settings.items():
            words += ["--set", f"{name.replace('__', '.')}={value}"]
        return words

    def run(self, method: str, out: str, *more: str, **settings: object) -> Path:
        """To the end; the job's folder."""
        done = self.refused(method, out, *more, **settings)
        log = "\n".join(self.log(out))
        assert done.returncode == 0, f"{done.stderr[-2000:]}\n{log[-4000:]}"
        return self.folder / out

    def refused(
        self, method: str, out: str, *more: str, **settings: object
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(method, out, *more, **settings), capture_output=True, text=True,
            timeout=PATIENCE, cwd=self.folder, env=self.environment,
        )  # fmt: skip

    def kill_after(self, step: int, method: str, out: str, *more: str, **settings: object) -> int:
        """Kill -9 the command once a step was logged; its processes must go with it (Ray's take
        their time). The last step seen."""
        command = self.command(method, out, *more, **settings)
        with open(self.folder / f"{out}.err", "w") as errors:
            process = subprocess.Popen(
                command, stdout=errors, stderr=errors, cwd=self.folder, env=self.environment
            )
        deadline = time.monotonic() + PATIENCE
        while self.last_step(out) < step:
            assert process.poll() is None, "it ended before it was killed"
            assert time.monotonic() < deadline
            time.sleep(0.02)
        below = descendants(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        deadline = time.monotonic() + 180
        while alive := [pid for pid in below if running(pid)]:
            assert time.monotonic() < deadline, f"processes outlived the command: {alive}"
            time.sleep(0.1)
        return self.last_step(out)

    def last_step(self, out: str) -> int:
        rows = [line for log in self.logs(out) for line in log.read_text().splitlines(True)]
        steps = [json.loads(line)["step"] for line in rows if line.endswith("\n")]
        return max(steps, default=0)

    def logs(self, out: str) -> list[Path]:
        return sorted((self.folder / out / "logs").glob("metrics-*.jsonl"))

    def log(self, out: str) -> list[str]:
        paths = sorted((self.folder / out / "logs").glob("output-*.log"))
        return paths[-1].read_text(errors="replace").splitlines()[-60:] if paths else []


def running(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def descendants(root: int) -> list[int]:
    """All processes below one: children, and what its sessions hold (Ray's daemons)."""
    parents: dict[int, list[int]] = {}
    sessions: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(stat.parent.name)
        parents.setdefault(int(fields[1]), []).append(pid)
        sessions.setdefault(int(fields[3]), []).append(pid)
    found: list[int] = []
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        below = [p for p in (*parents.get(pid, ()), *sessions.get(pid, ())) if p not in found]
        new = [p for p in below if p not in (pid, root)]
        found += new
        waiting += new
    return found
