"""A plugin package by others: built and installed as a user would, away from the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tests" / "downstream" / "rps-memory"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder that the package was installed into, by pip, from a copy of its sources."""
    import shutil

    base = tmp_path_factory.mktemp("downstream")
    source = shutil.copytree(PACKAGE, base / "source")
    target = base / "site"
    words = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", *words, "--target", str(target), str(source)],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture
def away(installed, tmp_path):
    """Run a Python command in an empty folder, with the package installed."""
    environment = {**os.environ, "PYTHONPATH": str(installed), "COLUMNS": "100"}

    def run(*words, **more):
        return subprocess.run(
            [sys.executable, "-m", *map(str, words)],
            capture_output=True, text=True, cwd=tmp_path, timeout=300,
            env={**environment, **more},
        )  # fmt: skip

    return run


def test_it_is_listed_with_its_source(away):
    done = away("harness", "list", "task", "--json")
    [entry] = [row for row in json.loads(done.stdout) if row["name"] == "rps-memory"]
    assert entry["source"] == "package rps-memory"
    assert entry["options"]["rounds"]["default"] == 10
    assert done.stderr == ""


def test_it_passes_the_check(away):
    done = away("harness", "check", "rps-memory", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    reports = json.loads(done.stdout)
    assert [(r["kind"], r["findings"]) for r in reports] == [("task", 0), ("reward", 0)]


def test_it_runs_and_the_leaderboard_shows_it(away):
    words = ("run", "--task", "rps-memory", "--model", "random,oracle,constant", "--limit", 60)
    done = away("harness", *words, "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    scores = {row["model"]: row["score"]["value"] for row in json.loads(done.stdout)}
    assert scores["oracle"] > 0.9
    assert 0.4 < scores["random"] < 0.6
    assert 0.4 < scores["constant"] < 0.6  # the copycat draws with rock for ever
    board = away("harness", "leaderboard", "runs")
    assert board.returncode == 0, board.stderr
    assert "rps-memory" in board.stdout
    assert "against copycat" in board.stdout
    table = json.loads(away("harness", "leaderboard", "runs", "--json").stdout)
    ranks = {cell["label"]: cell["rank"] for cell in table["cells"]}
    assert ranks["oracle"] == 1
    assert ranks["random"] > 1


def test_a_stored_run_is_scored_again_without_a_model(away, tmp_path):
    away("harness", "run", "--task", "rps-memory", "--model", "random", "--limit", 10, "--quiet")
    [folder] = (tmp_path / "runs").iterdir()
    done = away("harness", "score", folder, "--diff")
    assert done.returncode == 0, done.stderr
    assert "verdicts that moved: 0 of 10" in done.stdout


def test_its_own_tests_pass_with_our_fixtures(away):
    words = ("-q", "-p", "harness.testing", "-p", "no:cacheprovider", PACKAGE / "tests")
    done = away("pytest", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def test_loading_can_be_restricted(away):
    def names(words):
        done = away("harness", "list", "--json", HARNESS_LOAD_PLUGINS=words)
        assert done.returncode == 0, done.stderr
        return {row["name"] for row in json.loads(done.stdout)}, done.stderr

    assert names("package:rps-memory")[0] == {"rps-memory"}
    everything, _ = names("built-in")
    assert "gtbench" in everything
    assert "rps-memory" not in everything
    found, told = names("gtbench,rps-memroy")
    assert found == {"gtbench"}
    assert "'rps-memroy' fits nothing" in told
    run = ("run", "--task", "rps-memory", "--model", "random")
    done = away("harness", *run, HARNESS_LOAD_PLUGINS="built-in")
    assert done.returncode == 2
    assert "left out by HARNESS_LOAD_PLUGINS" in done.stderr


def test_a_double_name_can_be_got_out_of(away, tmp_path):
    """Two plugins of one name stop everything; the message names the variable that helps."""
    registry = PACKAGE / "rps_memory" / "registry.toml"
    (tmp_path / "registry.toml").write_text(registry.read_text().replace("matches", "games"))
    done = away("harness", "list")
    assert done.returncode == 2
    assert "two plugins register the task 'rps-memory'" in done.stderr
    assert "HARNESS_LOAD_PLUGINS" in done.stderr
    assert away("harness", "list", HARNESS_LOAD_PLUGINS="built-in").returncode == 0
