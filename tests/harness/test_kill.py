"""kill -9 at random moments: nothing finished is lost or doubled, and the bytes are the same."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest

SUPPORT = Path(__file__).parent.parent / "support"
KILLS = 20


def command(out, concurrency=16):
    return [
        sys.executable, "-m", "harness", "run", "--task", "duel", "--model", "sleepy",
        "--set", "size=1200", "--model-set", "delay=0.04", "--seeds", "0,1",
        "--registry", str(SUPPORT / "toy_registry.toml"), "--out", str(out), "--quiet",
        "--concurrency", str(concurrency),
    ]  # fmt: skip


def start(out, **more):
    environment = {**os.environ, "PYTHONPATH": str(SUPPORT)}
    return subprocess.Popen(
        command(out, **more),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A shell's background job ignores Ctrl-C, and so would all that it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def finished_lines(out):
    """Indices of the whole record lines on disk."""
    files = list(out.glob("*/journal.jsonl"))
    lines = files[0].read_bytes().split(b"\n")[:-1] if files else []
    return [orjson.loads(line)["i"] for line in lines]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole")
    process = start(out, concurrency=1000)
    assert process.wait(timeout=120) == 0
    return outputs(out)


def outputs(out):
    (folder,) = out.iterdir()
    return [(folder / name).read_bytes() for name in ("records.parquet", "metrics.json")]


def test_twenty_kills_lose_and_double_nothing(tmp_path, uninterrupted):
    rng = random.Random(5)
    before: list[int] = []
    hits = 0
    for _ in range(KILLS):
        process = start(tmp_path)
        time.sleep(0.35 + rng.random() * 0.5)
        hits += process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        after = finished_lines(tmp_path)
        assert after[: len(before)] == before
        assert len(set(after)) == len(after)
        before = after
    assert hits >= KILLS - 5
    final = start(tmp_path, concurrency=64)
    assert final.wait(timeout=120) == 0, final.stderr.read()
    assert sorted(finished_lines(tmp_path)) == list(range(2400))
    assert outputs(tmp_path) == uninterrupted


def test_ctrl_c_leaves_a_run_that_resumes(tmp_path, uninterrupted):
    process = start(tmp_path)
    while not finished_lines(tmp_path):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"the same command resumes" in errors
    assert b"Traceback" not in errors
    assert start(tmp_path, concurrency=500).wait(timeout=120) == 0
    assert outputs(tmp_path) == uninterrupted
