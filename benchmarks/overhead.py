"""What the harness itself costs: CPU per sample, peak memory, start-up.

    python benchmarks/overhead.py --samples 20000 --json
    python benchmarks/overhead.py --compare lm-eval,inspect --environments peers --json
    python benchmarks/overhead.py --memory 10000,200000 --json

Each figure comes from processes of their own: CPU seconds (user + system, children included) and
peak resident memory as the operating system accounts them. The cost per sample is the difference
between a run with all samples and one with a tenth of them, so start-up cancels out. The peers run
the same empty task (see peers.py) in the same rounds, one after another, each in an environment of
its own below the folder that ``--environments`` names, made there if it is missing.
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

import peers

HERE = Path(__file__).resolve().parent


class Cost(NamedTuple):
    """CPU seconds and peak memory (MB) of one process."""

    cpu: float
    peak_mb: float


def measure(arguments: list[str]) -> Cost:
    """Run ``harness`` with these arguments to its end. Raises when it fails."""
    return measure_command([sys.executable, "-m", "harness", *arguments])


WAITS = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status) and 1)
"""
"""A program that runs another, and prints its CPU seconds and peak memory (kB)."""


def measure_command(command: list[str]) -> Cost:
    """CPU time and peak memory of a command and its children. Raises when it fails."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path[1:]])}
    if command[0] != sys.executable:
        environment.pop("PYTHONPATH")
    # From a small process: until a new one has its own program, the peak of the old one counts.
    between = [sys.executable, "-S", "-c", WAITS, *command]
    with tempfile.TemporaryFile() as errors:
        done = subprocess.run(between, stdout=subprocess.PIPE, stderr=errors, env=environment)
        if done.returncode != 0:
            errors.seek(0)
            raise SystemExit(f"{' '.join(command)} failed:\n{errors.read().decode()[-2000:]}")
    cpu, peak = map(float, done.stdout.split())
    return Cost(cpu, peak / 1024)


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


def compare(names: list[str], samples: int, rounds: int, home: Path) -> dict[str, object]:
    """Ours and the peers, round by round: ms of CPU per sample, peak MB, versions."""
    pythons = {name: peers.environment(name, home) for name in names}
    registry = ["--registry", str(HERE / "registry.toml")]
    echo = ["--task", "echo-task", "--model", "echo", "--set", f"size={samples}", *registry]
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ("harness", *names)}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            found["harness"].append(per_sample(echo, samples, 1, Path(folder, "runs")))
            for name, python in pythons.items():
                found[name].append(_peer_cost(name, python, Path(folder)))
    return {
        name: {
            "cpu_ms_per_sample": round(statistics.median(ms for ms, _ in rows), 4),
            "peak_mb": round(statistics.median(mb for _, mb in rows), 1),
            "samples": samples if name == "harness" else peers.PEERS[name].samples,
            "rounds_ms": [round(ms, 4) for ms, _ in rows],
            "versions": {} if name == "harness" else peers.versions(name, pythons[name]),
        }
        for name, rows in found.items()
    }


def _peer_cost(name: str, python: Path, folder: Path) -> tuple[float, float]:
    """(ms of CPU per sample, peak MB) of one peer, from a small run and a full one."""
    peer = peers.PEERS[name]
    costs = []
    small = peer.samples // 10
    for samples in (small, peer.samples):
        place = folder / f"{name}-{samples}"
        place.mkdir()
        peer.prepare(place, samples)
        costs.append(measure_command(list(peer.command(python, place))))
    few, all_ = costs
    return (all_.cpu - few.cpu) / (peer.samples - small) * 1000, all_.peak_mb


def memory(sizes: list[int]) -> dict[str, float]:
    """Peak MB of runs with so many samples of the empty task and a scripted model."""
    found = {}
    for size in sizes:
        registry = ["--registry", str(HERE / "registry.toml")]
        echo = ["--task", "echo-task", "--model", "echo", "--set", f"size={size}", *registry]
        with tempfile.TemporaryDirectory() as folder:
            found[str(size)] = round(run_cost(echo, size, Path(folder, "runs")).peak_mb, 1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--compare", default="", metavar="A,B", help=", ".join(peers.PEERS))
    parser.add_argument("--environments", type=Path, default=Path("peers"), metavar="FOLDER")
    parser.add_argument("--memory", default="", metavar="N,M", help="only the memory at N and M")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.memory:
        figures: dict[str, object] = {"peak_mb": memory([int(n) for n in given.memory.split(",")])}
    elif given.compare:
        names = given.compare.split(",")
        figures = compare(names, given.samples, given.rounds, given.environments)
    else:
        figures = own(given.samples, given.rounds)
    figures["python"] = sys.version.split()[0]
    if given.json:
        print(json.dumps(figures, indent=2))
    else:
        for name, value in figures.items():
            print(f"{name:30} {value}")


def own(samples: int, rounds: int) -> dict[str, object]:
    """The harness alone."""
    registry = ["--registry", str(HERE / "registry.toml")]
    echo = ["--task", "echo-task", "--model", "echo", "--set", f"size={samples}", *registry]
    game = ["--task", "gamesolve", "--model", "oracle", "--split", "all"]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "runs")
        echo_ms, echo_mb = per_sample(echo, samples, rounds, out)
        game_ms, game_mb = per_sample(game, 2_400, rounds, out)
        starts = {
            verb: statistics.median(measure(arguments).cpu for _ in range(2 * rounds))
            for verb, arguments in (("help", ["--help"]), ("list", ["list"]))
        }
    return {
        "samples": samples,
        "echo_cpu_ms_per_sample": round(echo_ms, 4),
        "echo_peak_mb": round(echo_mb, 1),
        "gamesolve_cpu_ms_per_sample": round(game_ms, 4),
        "gamesolve_peak_mb_at_2400": round(game_mb, 1),
        "help_cpu_s": round(starts["help"], 3),
        "list_cpu_s": round(starts["list"], 3),
    }


if __name__ == "__main__":
    main()
