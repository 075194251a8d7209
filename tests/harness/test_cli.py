"""The command: exit codes, one clear line for bad input, the same results as the API."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from harness.cli import VERBS, main


def test_help_lists_every_verb(harness_command):
    done = harness_command("--help", registry=False)
    assert done.returncode == 0
    assert all(verb in done.stdout for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(monkeypatch, capsys, verb):
    monkeypatch.setattr(sys, "argv", ["harness", verb, "--help"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert "--" in capsys.readouterr().out


def test_run_prints_table_and_ledger_then_says_complete(harness_command):
    first = harness_command("run", "--task", "copy", "--model", "batched")
    assert first.returncode == 0
    for part in ("score", "ledger, records: ok 30", "oracle 1.000", "run folder:"):
        assert part in first.stdout
    again = harness_command("run", "--task", "copy", "--model", "batched")
    assert again.returncode == 0
    assert "complete:" in again.stderr
    assert again.stdout == first.stdout


def test_run_as_json(harness_command):
    done = harness_command(
        "run", "--task", "copy,duel", "--model", "sleepy", "--limit", 6, "--json"
    )
    summaries = json.loads(done.stdout)
    assert [s["task"] for s in summaries] == ["copy", "duel"]
    assert all(s["complete"] for s in summaries)


def test_incomplete_runs_exit_with_one(harness_command):
    done = harness_command(
        "run", "--task", "copy", "--model", "flaky", "--model-set", "faults=9", "--retries", 0
    )
    assert done.returncode == 1
    assert "incomplete: 3 records are missing" in done.stdout


def test_resume_needs_only_the_folder(harness_command, tmp_path):
    options = ["--model-set", "faults=1", "--stop", "x", "--temperature", 0.5]
    cut = harness_command("run", "--task", "copy", "--model", "flaky", "--retries", 0, *options)
    assert cut.returncode == 1
    (folder,) = (tmp_path / "runs").iterdir()
    again = harness_command("run", "--resume", folder)
    assert again.returncode == 0, again.stderr
    assert "27 of 30 records are there" in again.stderr
    assert [f.name for f in (tmp_path / "runs").iterdir()] == [folder.name]


def test_dry_run_writes_nothing(harness_command, tmp_path):
    done = harness_command("run", "--task", "copy", "--model", "batched", "--dry-run")
    assert done.returncode == 0
    assert "30 samples" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_score_needs_no_model(harness_command, tmp_path):
    harness_command("run", "--task", "duel", "--model", "sleepy")
    (folder,) = (tmp_path / "runs").iterdir()
    done = harness_command("score", folder, "--diff")
    assert done.returncode == 0, done.stderr
    assert "verdicts that moved: 0 of 30" in done.stdout
    same = json.loads(harness_command("score", folder, "--json").stdout)
    moved = same.pop("moved")
    assert moved == []
    assert same == json.loads((folder / "metrics.json").read_text())


def test_score_with_another_reward(harness_command, tmp_path):
    harness_command("run", "--task", "copy", "--model", "batched")
    (folder,) = (tmp_path / "runs").iterdir()
    done = harness_command("score", folder, "--reward", "length", "--diff")
    assert "verdicts that moved: 30 of 30" in done.stdout
    assert "lost 30" in done.stdout
    assert json.loads((folder / "metrics-length.json").read_text())["reward"] == "length"


def test_list_shows_kinds_and_options(harness_command):
    done = harness_command("list", "tasks")
    assert "copy" in done.stdout
    assert "size=30" in done.stdout
    rows = json.loads(harness_command("list", "--json").stdout)
    assert {"task", "model", "reward"} <= {row["kind"] for row in rows}


def test_data_build_is_the_same_bytes_twice(harness_command, tmp_path):
    for place in ("a", "b"):
        done = harness_command("data", "build", "copy", "--out", place, "--verify")
        assert done.returncode == 0, done.stderr
    names = ("samples.jsonl", "samples.parquet", "stats.json", "manifest.json")
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    stats = json.loads((tmp_path / "a" / "stats.json").read_text())
    assert stats["splits"] == {"test": 30, "train": 30, "validation": 30}


def test_data_show(harness_command):
    done = harness_command("data", "show", "copy", "--limit", 2)
    assert "copy-test-1" in done.stdout
    assert "--- target\nw0" in done.stdout
    one = harness_command("data", "show", "copy", "--id", "copy-train-3", "--json")
    assert json.loads(one.stdout)[0]["split"] == "train"


BAD = {
    "unknown task": (["run", "--task", "gamesolv", "--model", "random"], "did you mean gamesolve"),
    "unknown model": (["run", "--task", "copy", "--model", "smolm2"], "did you mean smollm2"),
    "no checkpoint": (["run", "--task", "copy", "--model", "./empty"], "empty"),
    "negative limit": (
        ["run", "--task", "copy", "--model", "batched", "--limit", "-1"],
        "at least 1",
    ),
    "limit no number": (["run", "--task", "copy", "--model", "batched", "--limit", "x"], "limit"),
    "prompt too long": (
        ["run", "--task", "copy", "--model", "batched", "--max-tokens", "39"],
        "takes 40 in all",
    ),
    "bad seeds": (["run", "--task", "copy", "--model", "batched", "--seeds", "a"], "whole numbers"),
    "bad set": (["run", "--task", "copy", "--model", "batched", "--set", "size"], "KEY=VALUE"),
    "unknown option": (["run", "--task", "copy", "--model", "batched", "--set", "sise=1"], "size"),
    "bad out": (["run", "--task", "copy", "--model", "sleepy", "--out", "/proc/x"], "--out"),
    "no registry": (["list", "--registry", "absent.toml"], "no such file"),
    "unknown verb": (["rum"], "did you mean run"),
    "unknown flag": (["run", "--tusk", "x"], "--tusk"),
    "missing task": (["run", "--model", "random"], "--task"),
    "score of nothing": (["score", "absent"], "no run folder"),
    "resume of two": (
        ["run", "--task", "copy,duel", "--model", "sleepy", "--resume", "x"],
        "one task and one model",
    ),
    "template kwargs": (
        ["run", "--task", "copy", "--model", "sleepy", "--chat-template-kwargs", "{"],
        "not JSON",
    ),
    "unknown kind": (["list", "games"], "there is no kind"),
    "fetch nothing": (["fetch", "copy"], "nothing to fetch"),
    "unknown data": (["data", "show", "copi"], "did you mean copy"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_exit_code_two(harness_command, tmp_path, case):
    (tmp_path / "empty").mkdir()
    arguments, message = BAD[case]
    needs_toys = "--registry" not in arguments and arguments[0] in ("run", "data", "fetch")
    done = harness_command(*arguments, registry=needs_toys)
    assert done.returncode == 2, done.stdout + done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("harness:")]
    assert len(lines) == 1


def test_broken_registry_in_the_folder_names_the_line(harness_command, tmp_path):
    (tmp_path / "registry.toml").write_text('[[plugin]]\nkind = "task"\nname = \n')
    done = harness_command("list", registry=False)
    assert done.returncode == 2
    assert "line 3" in done.stderr


def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path, support):
    """A file-size limit stands for the full disk: writes beyond it fail in the middle."""
    limited = (
        "import resource, runpy, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))\n"
        "runpy.run_module('harness', run_name='__main__', alter_sys=True)\n"
    )
    registry = ["--registry", str(support / "toy_registry.toml")]
    arguments = ["run", "--task", "duel", "--model", "sleepy", "--set", "size=200", *registry]
    environment = {**os.environ, "PYTHONPATH": str(support)}
    full = subprocess.run(
        [sys.executable, "-c", limited, *arguments],
        capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=120,
    )  # fmt: skip
    assert full.returncode == 2, full.stderr
    assert "give the same command again" in full.stderr
    assert "Traceback" not in full.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    kept = (folder / "journal.jsonl").read_bytes()
    assert 0 < len(kept) <= 60_000
    again = subprocess.run(
        [sys.executable, "-m", "harness", *arguments],
        capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=120,
    )  # fmt: skip
    assert again.returncode == 0, again.stderr
    assert (folder / "journal.jsonl").read_bytes().startswith(kept)
