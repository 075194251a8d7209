"""Whole runs over HTTP: faults, kill -9 and resume, a planted key, a budget."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest
from fault_server import Faults, FaultServer

from harness.types import HarnessError

SUPPORT = Path(__file__).parents[2] / "support"
KEY = "sk-planted-fedcba9876543210"
FAULTS = Faults(drop=0.05, delay=0.05, throttle=0.10, delay_seconds=0.1, retry_after=0.02)

pytest.importorskip("openai")


def start(out, server, *more, size=400, **options):
    options = {"base_url": server.url, **options}
    settings = [f"--model-set={name}={value}" for name, value in options.items()]
    command = [sys.executable, "-m", "harness", "run", "--task", "copy", "--model", "served:toy"]
    command += ["--registry", str(SUPPORT / "http_registry.toml"), "--set", f"size={size}"]
    paths = os.pathsep.join(filter(None, [str(SUPPORT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": paths, "OPENAI_API_KEY": KEY}
    environment["NO_PROXY"] = "127.0.0.1"
    return subprocess.Popen(
        [*command, *settings, "--out", str(out), *more],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(out):
    files = list(out.glob("*/journal.jsonl"))
    lines = files[0].read_bytes().split(b"\n")[:-1] if files else []
    return [orjson.loads(line)["i"] for line in lines]


def outputs(out):
    (folder,) = out.iterdir()
    return [(folder / name).read_bytes() for name in ("records.parquet", "metrics.json")]


def test_faults_and_kills_leave_every_record_once_and_no_key(tmp_path):
    with FaultServer(FAULTS, key=KEY) as server:
        whole = start(tmp_path / "whole", server)
        assert whole.wait(timeout=60) == 0, whole.stderr.read()
        before = server.seen.requests
        for _ in range(2):
            process = start(tmp_path / "killed", server)
            count = len(finished(tmp_path / "killed"))
            until = time.monotonic() + 30
            while len(finished(tmp_path / "killed")) < count + 60 and time.monotonic() < until:
                time.sleep(0.005)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        assert 0 < len(finished(tmp_path / "killed")) < 400
        last = start(tmp_path / "killed", server)
        _, said = last.communicate(timeout=60)
        assert last.returncode == 0, said
        assert "resuming" in said
        faults = server.seen.faults
        assert server.seen.requests > before + 400
    assert min(faults[kind] for kind in ("drop", "delay", "throttle")) > 10
    assert sorted(finished(tmp_path / "killed")) == list(range(400))
    assert outputs(tmp_path / "killed") == outputs(tmp_path / "whole")
    for file in tmp_path.rglob("*"):
        assert file.is_dir() or KEY.encode() not in file.read_bytes()
    assert KEY not in said


@pytest.mark.parametrize(
    "mistake",
    [
        {"api_key_env": KEY},
        {"api_key": KEY},
        {"base_url": f"http://user:{KEY}@127.0.0.1:9/v1"},
        {"base_url": f"http://127.0.0.1:9/v1?key={KEY}"},
        {"base_url": "http://127.0.0.1:9/v1", "retries": 0},
    ],
)
def test_a_key_in_the_wrong_place_is_told_of_without_being_repeated(tmp_path, mistake):
    with FaultServer(key=KEY) as server:
        process = start(tmp_path / "runs", server, size=3, **mistake)
        out, said = process.communicate(timeout=60)
    assert (process.returncode, said.count("\n")) == (2, 1), said
    assert "Traceback" not in said
    assert KEY not in out + said
    for file in tmp_path.rglob("*"):
        assert file.is_dir() or KEY.encode() not in file.read_bytes()


def test_a_judges_key_in_the_wrong_place_is_not_repeated():
    judge = pytest.importorskip("harness_plugins.rewards.judge.judge")
    with pytest.raises(HarnessError, match="never the key itself") as told:
        judge.Judge.of({"judge_model": "openai:x", "judge_model_options": {"api_key_env": KEY}})
    assert KEY not in str(told.value)


def test_a_spent_budget_stops_the_run_in_one_line(tmp_path):
    prices = {"input_price": 100.0, "output_price": 100.0, "ledger": tmp_path / "ledger"}
    with FaultServer() as server:
        first = start(tmp_path / "runs", server, budget=0.1, **prices)
        _, said = first.communicate(timeout=60)
        assert first.returncode == 2
        assert "budget of 0.1 is spent" in said
        done = len(finished(tmp_path / "runs"))
        assert 20 < done < 200
        assert "Traceback" not in said
        # A budget is no part of the specification: a larger one goes on in the same folder.
        second = start(tmp_path / "runs", server, budget=9.0, **prices)
        _, said = second.communicate(timeout=60)
        assert second.returncode == 0, said
        assert f"resuming: {done} of 400" in said
    assert sorted(finished(tmp_path / "runs")) == list(range(400))
