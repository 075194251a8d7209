"""`harness new`: what it writes passes its own checks, tests, linter and types, and runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from harness.registry import Registry, read_file
from harness.scaffold import make
from harness.types import HarnessError

ROOT = Path(__file__).resolve().parents[2]
KINDS = {
    "single": ("task", "single-turn"),
    "multi": ("task", "multi-turn"),
    "pair": ("task", "two-player"),
    "voice": ("model", ""),
    "brief": ("reward", ""),
    "loop": ("trainer", ""),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """One package of each sort; their folder."""
    base = tmp_path_factory.mktemp("new")
    registry = Registry.load()
    for name, (kind, shape) in KINDS.items():
        make.package(kind, f"new-{name}", shape, base / f"new-{name}", registry)
    return base


def python(*words, cwd, **environment):
    return subprocess.run(
        [sys.executable, "-m", *map(str, words)],
        capture_output=True, text=True, cwd=cwd, timeout=300,
        env={**os.environ, "COLUMNS": "100", **environment},
    )  # fmt: skip


def test_what_is_written_is_linted_and_formatted(written):
    for words in (("check", "--no-cache"), ("format", "--check", "--no-cache")):
        done = python("ruff", *words, ".", cwd=written)
        assert done.returncode == 0, done.stdout


def test_what_is_written_has_types(written):
    modules = [str(written / f"new-{name}" / f"new_{name}") for name in KINDS]
    settings = written / "new-pair" / "pyproject.toml"
    done = python(
        "mypy", "--config-file", settings, "--cache-dir", written / "cache", *modules,
        cwd=written, MYPYPATH=str(ROOT),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", [name for name in KINDS if name != "loop"])
def test_its_own_tests_pass(written, name):
    """As installed: the package on the path, its entry point found through its metadata."""
    folder, package = written / f"new-{name}", f"new_{name}"
    info = folder / f"{package}-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1.0\n")
    points = tomllib.loads((folder / "pyproject.toml").read_text())["project"]["entry-points"]
    lines = [f"{key} = {value}" for key, value in points["harness.plugins"].items()]
    (info / "entry_points.txt").write_text("\n".join(["[harness.plugins]", *lines]) + "\n")
    done = python(
        "pytest", "-q", "-p", "harness.testing", "-p", "no:cacheprovider",
        cwd=folder, PYTHONPATH=str(folder),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["single", "multi", "pair"])
def test_tasks_run_and_stand_on_a_leaderboard(written, name, tmp_path):
    registry = written / f"new-{name}" / f"new_{name}" / "registry.toml"
    words = ("--registry", registry, "--task", f"new-{name}", "--model", "random,oracle")
    done = python("harness", "run", *words, "--limit", 40, "--json", "--quiet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    chance, best = (row["score"]["value"] for row in json.loads(done.stdout))
    assert chance < best
    board = python("harness", "leaderboard", "runs", cwd=tmp_path)
    assert f"new-{name}" in board.stdout


def test_models_run_and_rewards_score(written, tmp_path):
    both = tmp_path / "both.toml"
    paths = [written / f"new-{n}" / f"new_{n}" / "registry.toml" for n in ("voice", "brief")]
    both.write_text("\n".join(path.read_text() for path in paths))
    done = python(
        "harness", "run", "--registry", both, "--task", "hitom", "--model", "new-voice",
        "--reward", "tom-answer=0.5,new-brief=0.5", "--limit", 4, "--json", "--quiet",
        cwd=tmp_path, PYTHONPATH=os.pathsep.join(str(p.parents[1]) for p in paths),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    [summary] = json.loads(done.stdout)
    assert summary["complete"]
    assert summary["usage"]["completion_tokens"] > 0


@pytest.mark.train
def test_the_trainer_makes_a_checkpoint(written, tmp_path, support):
    from tiny_models import tiny_checkpoint

    base = tiny_checkpoint(tmp_path / "base", max_position_embeddings=4096)
    registry = written / "new-loop" / "new_loop" / "registry.toml"
    words = ["check", "new-loop", "--registry", registry, "--task", "gamesolve-skills"]
    for setting in ("max_prompt=2500", "max_reply=1500", "data.overlong=filter", "data.limit=8"):
        words += ["--set", setting]
    done = python("harness", *words, "--model", base, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "step 2" in done.stdout


def test_a_module_can_go_into_a_checkout(tmp_path):
    for folder in ("plugins/tasks", "tests/plugins"):
        (tmp_path / folder).mkdir(parents=True)
    listed = tmp_path / "registry.toml"
    listed.write_text((ROOT / "registry.toml").read_text())
    (tmp_path / "deeper").mkdir()
    done = python("harness", "new", "task", "coin-toss", "--here", cwd=tmp_path / "deeper")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "plugins" / "tasks" / "coin_toss.py").is_file()
    assert (tmp_path / "tests" / "plugins" / "test_coin_toss.py").is_file()
    task, reward = read_file(listed, "x")[-2:]
    assert (task.module, reward.kind) == ("harness_plugins.tasks.coin_toss", "reward")
    again = python("harness", "new", "task", "coin-toss", "--here", cwd=tmp_path)
    assert again.returncode == 2


BAD = {
    "kind": (("new", "game", "x"), "there is no kind 'game'"),
    "shape": (("new", "task", "x-y", "--kind", "three-player"), "choose one of single-turn"),
    "shape of a model": (("new", "model", "x-y", "--kind", "two-player"), "only tasks have shapes"),
    "letters": (("new", "task", "My Task"), "small letters, digits and single hyphens"),
    "escape": (("new", "task", "../x"), "small letters"),
    "length": (("new", "task", "a" * 41), "at most 40"),
    "taken": (("new", "task", "gtbench"), "there is a task 'gtbench' already"),
    "a module of Python": (("new", "task", "random-x", "--out", "json"), None),
    "module": (("new", "model", "json"), "the module 'json' is there already"),
    "keyword": (("new", "model", "class"), "the module 'class' is there already"),
    "no checkout": (("new", "task", "x-y", "--here"), "in no checkout"),
    "both": (("new", "task", "x-y", "--here", "--out", "z"), "give one of the two"),
    "full": (("new", "task", "x-y", "--out", "full"), "not empty"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_writes_nothing(harness_command, tmp_path, case):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "kept").write_text("mine")
    words, message = BAD[case]
    done = harness_command(*words, registry=False)
    if message is None:
        assert done.returncode == 0, done.stderr
        return
    assert done.returncode == 2, done.stdout
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert [p.name for p in tmp_path.rglob("*")] == ["full", "kept"]


def test_nothing_is_written_over(tmp_path):
    registry = Registry.load()
    made = make.package("reward", "new-thing", "", tmp_path / "new-thing", registry)
    assert all(path.is_file() for path in made.files)
    with pytest.raises(HarnessError, match="not empty"):
        make.package("reward", "new-thing", "", tmp_path / "new-thing", registry)
