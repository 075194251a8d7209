"""What the harness itself costs: CPU per sample, peak memory, start-up.

    python benchmarks/overhead.py --samples 20000 --json

Each figure comes from processes of their own: CPU seconds (user + system, children included) and
peak resident memory as the operating system accounts them. The cost per sample is the difference
between a run with all samples and one with a tenth of them, so start-up cancels out.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent


class Cost(NamedTuple):
    """CPU seconds and peak memory (MB) of one process."""

    cpu: float
    peak_mb: float


def measure(arguments: list[str]) -> Cost:
    """Run ``harness`` with these arguments to its end. Raises when it fails."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path[1:]])}
    command = [sys.executable, "-m", "harness", *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
    )
    errors = process.stderr.read() if process.stderr else b""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{errors.decode()}")
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def run_cost(task: list[str], samples: int, out: Path) -> Cost:
    """One evaluation of ``samples`` samples in a fresh run folder."""
    shutil.rmtree(out, ignore_errors=True)
    return measure(["run", *task, "--limit", str(samples), "--out", str(out), "--quiet"])


def per_sample(task: list[str], samples: int, rounds: int, out: Path) -> tuple[float, float]:
    """Median ms of CPU per sample, and peak MB at ``samples``."""
    costs, peaks = [], []
    small = samples // 10
    for _ in range(rounds):
        few, all_ = run_cost(task, small, out), run_cost(task, samples, out)
        costs.append((all_.cpu - few.cpu) / (samples - small) * 1000)
        peaks.append(all_.peak_mb)
    return statistics.median(costs), statistics.median(peaks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    registry = ["--registry", str(HERE / "registry.toml")]
    echo = ["--task", "echo-task", "--model", "echo", "--set", f"size={given.samples}", *registry]
    game = ["--task", "gamesolve", "--model", "oracle", "--split", "all"]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "runs")
        echo_ms, echo_mb = per_sample(echo, given.samples, given.rounds, out)
        game_ms, game_mb = per_sample(game, 2_400, given.rounds, out)
        starts = {
            verb: statistics.median(measure(arguments).cpu for _ in range(2 * given.rounds))
            for verb, arguments in (("help", ["--help"]), ("list", ["list"]))
        }
    figures = {
        "samples": given.samples,
        "echo_cpu_ms_per_sample": round(echo_ms, 4),
        "echo_peak_mb": round(echo_mb, 1),
        "gamesolve_cpu_ms_per_sample": round(game_ms, 4),
        "gamesolve_peak_mb_at_2400": round(game_mb, 1),
        "help_cpu_s": round(starts["help"], 3),
        "list_cpu_s": round(starts["list"], 3),
        "python": sys.version.split()[0],
    }
    if given.json:
        print(json.dumps(figures, indent=2))
    else:
        for name, value in figures.items():
            print(f"{name:30} {value}")


if __name__ == "__main__":
    main()
