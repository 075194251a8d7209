"""Run folders behind URLs: fsspec's memory, and a local S3-compatible server (moto) where there
is one."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from importlib.util import find_spec
from pathlib import Path

import fsspec
import pytest

from harness.api import evaluate
from harness.board.places import find_runs
from harness.plan import RunSettings
from harness.registry import Registry
from harness.remote import check_target, upload
from harness.types import HarnessError


@pytest.fixture
def finished(tmp_path):
    settings = RunSettings(("gamesolve",), ("random",), limit=20, out=tmp_path / "runs")
    ((_, run),) = evaluate(settings, Registry.load(), quiet=True)
    return run


def same_records(run, url):
    (found,) = find_runs([url])
    for name in ("records.parquet", "metrics.json", "manifest.json"):
        assert found.place.read(name) == (run.path / name).read_bytes()


def test_a_copy_in_memory_is_the_run(finished):
    files = fsspec.filesystem("memory")
    where = upload(finished.path, "memory://bucket/copies")
    assert where.endswith(finished.path.name)
    assert not files.isfile(f"/bucket/copies/{finished.path.name}/lock")
    same_records(finished, "memory://bucket/copies")
    upload(finished.path, "memory://bucket/copies")  # again: replaced
    same_records(finished, "memory://bucket/copies")


@pytest.mark.parametrize(
    ("url", "said"),
    [("runs/copies", "give a URL"), ("nosuch://x/y", "nosuch"), ("file:///proc/x", "cannot be")],
)
def test_a_target_that_cannot_be_is_said_before_the_run(url, said):
    with pytest.raises(HarnessError, match=said):
        check_target(url)


def test_the_command_copies_and_says_where(harness_command, tmp_path):
    target = f"file://{tmp_path}/store"
    done = harness_command(
        "run", "--task", "gamesolve", "--model", "random", "--limit", "10", "--sync", target
    )
    assert done.returncode == 0, done.stderr
    assert "copied to file://" in done.stderr
    board = harness_command("leaderboard", target)
    assert board.returncode == 0, board.stderr
    assert "random" in board.stdout


def moto_server() -> str | None:
    """The command of moto's server: beside this Python, or on the path."""
    beside = Path(sys.executable).with_name("moto_server")
    return str(beside) if beside.exists() else shutil.which("moto_server")


@pytest.fixture
def s3(monkeypatch):
    command = moto_server()
    if command is None:
        pytest.skip("no S3-compatible server here: pip install 'moto[s3,server]'")
    if find_spec("s3fs") is not None:
        pytest.skip("s3fs is installed; this is about the client without it")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [command, "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(200):
            try:
                urllib.request.urlopen(address, timeout=1)
                break
            except OSError:
                time.sleep(0.1)
        for name, value in {
            "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_ENDPOINT_URL": address, "AWS_DEFAULT_REGION": "us-east-1",
        }.items():  # fmt: skip
            monkeypatch.setenv(name, value)
        bucket = urllib.request.Request(f"{address}/results", method="PUT")
        urllib.request.urlopen(bucket, timeout=5)
        yield "s3://results"
    finally:
        server.terminate()
        server.wait()


def test_runs_of_several_machines_merge_from_s3(s3, finished, tmp_path):
    check_target(f"{s3}/runs")
    upload(finished.path, f"{s3}/runs")
    same_records(finished, f"{s3}/runs")
    settings = RunSettings(("gamesolve",), ("oracle",), limit=20, out=tmp_path / "other")
    ((_, other),) = evaluate(settings, Registry.load(), quiet=True)
    upload(other.path, f"{s3}/runs")
    assert len(list(find_runs([f"{s3}/runs"]))) == 2
    with pytest.raises(HarnessError, match="cannot be written to"):
        check_target("s3://nosuchbucket/runs")
