"""10,000 requests over HTTP to a server that fails on purpose, killed and resumed on the way.

    python benchmarks/http_faults.py                       # 5 % dropped, 5 % delayed, 10 % 429
    python benchmarks/http_faults.py --requests 2000 --kills 1 --out faults.json

A local server (tests/support/fault_server.py, a process of its own) drops, delays and throttles.
One run goes through undisturbed; another is killed with SIGKILL at random moments and resumed. Both
must end complete, with every record exactly once, and with the same bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
SERVER: Final = HERE.parent / "tests" / "support" / "fault_server.py"
LONGEST: Final = 1800
"""Seconds after which a run counts as stuck."""


def environment() -> dict[str, str]:
    """The environment of a run: the echo task importable, no proxy before loopback."""
    paths = os.pathsep.join([str(HERE), *filter(None, sys.path[1:])])
    return {**os.environ, "PYTHONPATH": paths, "NO_PROXY": "127.0.0.1", "OPENAI_API_KEY": "none"}


def start(url: str, out: Path, given: argparse.Namespace) -> subprocess.Popen[bytes]:
    """Start (or resume) the run into ``out``."""
    command = [sys.executable, "-m", "harness", "run", "--task", "echo-task", "--quiet"]
    command += ["--model", "openai:toy", "--model-set", f"base_url={url}"]
    command += ["--registry", str(given.registry), "--set", f"size={given.requests}"]
    command += ["--concurrency", str(given.concurrency), "--out", str(out)]
    return subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL)


def finished(out: Path) -> list[int]:
    """The indices of the whole record lines in the journal."""
    files = list(out.glob("*/journal.jsonl"))
    lines = files[0].read_bytes().split(b"\n")[:-1] if files else []
    return [json.loads(line)["i"] for line in lines]


def journal_lines(out: Path) -> int:
    files = list(out.glob("*/journal.jsonl"))
    return files[0].read_bytes().count(b"\n") if files else 0


def kill_somewhere(url: str, out: Path, at: int, given: argparse.Namespace) -> int:
    """Run until ``at`` records are on disk, then SIGKILL. Returns how many there are."""
    process = start(url, out, given)
    until = time.monotonic() + LONGEST
    while process.poll() is None and journal_lines(out) < at and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    return len(finished(out))


def complete(url: str, out: Path, given: argparse.Namespace) -> float:
    """Run to the end; wall seconds. Raises when the run is not complete."""
    began = time.perf_counter()
    code = start(url, out, given).wait(timeout=LONGEST)
    if code != 0:
        raise SystemExit(f"the run ended with exit code {code}")
    return time.perf_counter() - began


def check(out: Path, requests: int) -> dict[str, Any]:
    """Every record there, each exactly once, none of them a fault."""
    (folder,) = out.iterdir()
    metrics = json.loads((folder / "metrics.json").read_text())
    counts = Counter(finished(out))
    faults = [line for line in (folder / "journal.jsonl").open() if '"fault"' in line[:40]]
    return {
        "complete": metrics["complete"],
        "records": metrics["records"],
        "each_once": sorted(counts) == list(range(requests)) and set(counts.values()) == {1},
        "score": metrics["score"]["value"],
        "fault_lines": len(faults),
    }


def same_bytes(one: Path, other: Path) -> bool:
    """Whether records and metrics of two runs are byte-identical."""
    (first,), (second,) = one.iterdir(), other.iterdir()
    names = ("records.parquet", "metrics.json")
    return all((first / name).read_bytes() == (second / name).read_bytes() for name in names)


def measure(url: str, folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    whole, killed = folder / "whole", folder / "killed"
    seconds = complete(url, whole, given)
    undisturbed = stats(url)
    rng = random.Random(given.seed)
    places = sorted(rng.randrange(1, given.requests) for _ in range(given.kills))
    found = [kill_somewhere(url, killed, place, given) for place in places]
    complete(url, killed, given)
    return {
        "requests": given.requests,
        "shares": {"drop": given.drop, "delay": given.delay, "throttle": given.throttle},
        "seconds_undisturbed": round(seconds, 2),
        "requests_per_s": round(given.requests / seconds, 1),
        "cpu_s_of_all_runs": round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime, 1),
        "undisturbed": check(whole, given.requests),
        "sent_undisturbed": undisturbed["requests"],
        "faults_undisturbed": undisturbed["faults"],
        "most_in_flight": undisturbed["most_in_flight"],
        "killed_with_records": found,
        "killed_and_resumed": check(killed, given.requests),
        "same_bytes": same_bytes(whole, killed),
        "python": sys.version.split()[0],
    }


def stats(url: str) -> dict[str, Any]:
    """What the server counted."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{url}/stats") as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--drop", type=float, default=0.05)
    parser.add_argument("--delay", type=float, default=0.05)
    parser.add_argument("--throttle", type=float, default=0.10)
    parser.add_argument("--delay-seconds", type=float, default=1.0)
    parser.add_argument("--retry-after", type=float, default=0.2)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--concurrency", type=int, default=256)
    parser.add_argument("--registry", type=Path, default=HERE / "registry.toml")
    parser.add_argument("--out", type=Path, help="write the figures to this file")
    given = parser.parse_args()
    names = ("drop", "delay", "throttle", "delay_seconds", "retry_after")
    flags = [f"--{name.replace('_', '-')}={getattr(given, name)}" for name in names]
    folder = Path(tempfile.mkdtemp(prefix="http-faults-"))
    server = subprocess.Popen([sys.executable, str(SERVER), *flags], stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        figures = measure(server.stdout.readline().decode().strip(), folder, given)
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)
    text = json.dumps(figures, indent=2)
    print(text)
    if given.out:
        given.out.write_text(text + "\n")
    good = figures["same_bytes"] and all(
        figures[run]["complete"] and figures[run]["each_once"]
        for run in ("undisturbed", "killed_and_resumed")
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
