"""Run folders from strangers, text that would steer a terminal, full disks, planted keys."""

from __future__ import annotations

import copy
import csv
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys

import pytest
from board_runs import make_run

from harness.board.formats import render
from harness.cli import main
from harness.leaderboard import make_board
from harness.store import RunFolder, acquire, read_records, spec_hash
from harness.types import HarnessError

VALUES = (
    None, 0, -1, 1e308, 10**18, 10**40, "", "x", "\x1b[31m\u202e", [], {}, True, [[]], {"a": 1},
    "../../etc/passwd", [None], ["x"],
)  # fmt: skip


@pytest.fixture
def command(monkeypatch, capsys):
    """A verb in this process: (exit code, stdout, stderr). Whatever is raised is a failure."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["harness", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        return ended.value.code, told.out, told.err

    return run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A real run of each of two players."""
    root = tmp_path_factory.mktemp("runs")
    for model in ("random", "oracle"):
        subprocess.run(
            [sys.executable, "-m", "harness", "run", "--task", "gamesolve", "--model", model,
             "--limit", "24", "--quiet", "--out", str(root)],
            check=True, capture_output=True, cwd=root,
        )  # fmt: skip
    return sorted(root.iterdir())


def nodes(value, path=()):
    yield path
    pairs = value.items() if isinstance(value, dict) else ()
    pairs = enumerate(value[:2]) if isinstance(value, list) else pairs
    for key, inner in pairs:
        yield from nodes(inner, (*path, key))


def changed(document, rng):
    """The document with one value of it lost or replaced, and what was done."""
    path = rng.choice(list(nodes(document)))
    value = rng.choice(VALUES)
    if not path:
        return value, (path, value)
    document = copy.deepcopy(document)
    at = document
    for key in path[:-1]:
        at = at[key]
    if rng.random() < 0.3:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return document, (path, value)


@pytest.mark.parametrize("file", ["manifest.json", "metrics.json", "journal.jsonl"])
def test_a_changed_value_never_ends_in_a_traceback(runs, tmp_path, command, file):
    """Any value of a run's files lost or of another type: a table, or one line that says so."""
    rng = random.Random(file)
    for _ in range(4):
        bad = tmp_path / "bad"
        shutil.rmtree(bad, ignore_errors=True)
        shutil.copytree(runs[0], bad)
        rows = (bad / file).read_text().splitlines()
        documents = [json.loads(row) for row in rows] if file.endswith("l") else None
        first = documents[0] if documents else json.loads("\n".join(rows))
        first, what = changed(first, rng)
        texts = [json.dumps(d) for d in [first, *(documents or [first])[1:]]]
        (bad / file).write_text("\n".join(texts) + "\n")
        for verb in (
            ("leaderboard", bad, "--columns", "all"),
            ("compare", bad, runs[1]),
            ("audit", bad, "--samples", 2),
            ("score", bad),
            ("run", "--resume", bad, "--quiet"),
        ):
            code, out, err = command(*verb)
            assert code in (0, 1, 2), (verb, what)
            assert not {"\x1b", "\u202e"} & set(out + err), (verb, what)
            if code == 2:
                assert err.startswith("harness: "), (verb, what, err)
                assert err.count("\n") == 1, (verb, what, err)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"[" * 100_000, b"\xff\xfe", b"null", b"1"])
def test_files_that_are_no_such_file_are_one_line(runs, tmp_path, command, content):
    for file in ("manifest.json", "metrics.json", "records.parquet", "journal.jsonl"):
        bad = tmp_path / file
        shutil.copytree(runs[0], bad)
        (bad / file).write_bytes(content)
        for verb in (("leaderboard", bad), ("score", bad), ("audit", bad, "--samples", 0)):
            code, _, err = command(*verb)
            assert code in (0, 1, 2)
            assert err.count("\n") <= 1
        if file in ("manifest.json", "records.parquet"):
            assert command("leaderboard", bad)[0] == 2


def test_links_that_lead_nowhere_or_round_are_left_alone(runs, tmp_path, command):
    place = tmp_path / "place"
    shutil.copytree(runs[0], place / "good")
    (place / "round").symlink_to(place)
    (place / "dangling").symlink_to(tmp_path / "absent")
    (place / "self").symlink_to("self")
    bad = place / "linked"
    bad.mkdir()
    (bad / "manifest.json").symlink_to("/dev/null")
    code, out, err = command("leaderboard", place)
    assert code in (0, 1), err
    assert "Traceback" not in err
    assert "random" in out or "oracle" in out


def test_a_label_is_one_part_of_a_path(tmp_path):
    for label in ("../../x", "/etc/passwd", "..", "a\x00b", "-rf", "." * 300, "\u202e" * 9):
        folder = RunFolder.open(tmp_path, {"a": label}, label, {})
        folder.close()
        assert folder.path.parent == tmp_path
        assert folder.path.resolve().parent == tmp_path.resolve()


def test_a_huge_index_does_not_take_the_memory(runs, tmp_path):
    bad = tmp_path / "bad"
    shutil.copytree(runs[0], bad)
    line = (bad / "journal.jsonl").read_text().splitlines()[0]
    (bad / "journal.jsonl").write_text(line.replace('{"i":', '{"i":99999999', 1) + "\n")
    with pytest.raises(HarnessError, match="line 1: not a journal line"):
        next(read_records(bad))


@pytest.mark.parametrize("label", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\t=1", "\r=1"])
def test_a_spreadsheet_runs_no_label(tmp_path, label):
    make_run(tmp_path, "tom", label, [0.0, 1.0] * 15)
    rows = list(csv.DictReader(io.StringIO(render(make_board([str(tmp_path)]), "csv"))))
    assert rows[0]["label"].startswith("'")
    assert all(not value.startswith(("=", "+", "@", "\t", "\r")) for value in rows[0].values())


def test_an_error_does_not_steer_the_terminal(command, tmp_path):
    code, _, err = command("leaderboard", tmp_path / "a\x1b[2J\u202eb")
    assert (code, err.count("\n")) == (2, 1)
    assert not {"\x1b", "\u202e"} & set(err)


def test_an_older_or_unknown_format_is_refused(runs, tmp_path, command):
    for version in (0, 2, None, "1", [1]):
        bad = tmp_path / f"format-{version}"
        shutil.copytree(runs[0], bad)
        manifest = json.loads((bad / "manifest.json").read_text())
        (bad / "manifest.json").write_text(json.dumps({**manifest, "format": version}))
        for verb in (("leaderboard", bad), ("score", bad), ("run", "--resume", bad)):
            code, _, err = command(*verb)
            assert (code, err.count("\n")) == (2, 1)
            assert "use the version that wrote it" in err


def test_a_folder_that_another_run_holds_is_one_line(harness_command, tmp_path):
    arguments = ("run", "--task", "duel", "--model", "sleepy", "--set", "size=4", "--quiet")
    assert harness_command(*arguments).returncode == 0
    (folder,) = (tmp_path / "runs").iterdir()
    lock = acquire(folder)
    try:
        done = harness_command(*arguments)
    finally:
        os.close(lock)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"another run (process {os.getpid()})" in done.stderr
    assert harness_command(*arguments).returncode == 0


FULL = """import resource, runpy
resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))
runpy.run_module('harness', run_name='__main__', alter_sys=True)
"""


def test_a_full_disk_at_each_write_is_one_line_and_the_run_resumes(tmp_path, support):
    """The limit on a file's size stands for the disk; it grows until all fits."""
    environment = {**os.environ, "PYTHONPATH": str(support), "COLUMNS": "100"}
    words = ["run", "--task", "duel", "--model", "sleepy", "--set", "size=60", "--quiet",
             "--registry", str(support / "toy_registry.toml")]  # fmt: skip
    stopped = set()
    for size in (0, 1_000, 20_000, 10**8):
        done = subprocess.run(
            [sys.executable, "-c", FULL.format(size=size), *words],
            capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=120,
        )  # fmt: skip
        assert "Traceback" not in done.stderr, (size, done.stderr)
        if done.returncode:
            assert (done.returncode, done.stderr.count("\n")) == (2, 1), (size, done.stderr)
            stopped |= set(re.findall(r"([a-z]+\.[a-z]+): cannot be", done.stderr))
    assert done.returncode == 0
    assert {"manifest.json", "journal.jsonl"} <= stopped
    (folder,) = (tmp_path / "runs").iterdir()
    assert not list(folder.glob("*.part"))
    assert json.loads((folder / "metrics.json").read_text())["complete"]


@pytest.mark.parametrize("file", ["records.parquet", "metrics.json"])
def test_a_table_or_summary_that_cannot_be_written_is_one_line(harness_command, tmp_path, file):
    """A folder in the way stands for whatever the disk may say at the last writes."""
    arguments = ("run", "--task", "duel", "--model", "sleepy", "--set", "size=4", "--quiet")
    assert harness_command(*arguments).returncode == 0
    (folder,) = (tmp_path / "runs").iterdir()
    for name in ("records.parquet", "metrics.json"):
        (folder / name).unlink()
    (folder / f"{file}.part").mkdir()
    done = harness_command(*arguments)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "cannot be written" in done.stderr
    (folder / f"{file}.part").rmdir()
    assert harness_command(*arguments).returncode == 0
    assert json.loads((folder / "metrics.json").read_text())["complete"]


def test_the_hash_of_a_specification_is_the_folders_name(tmp_path):
    folder = RunFolder.open(tmp_path, {"a": 1}, "x", {})
    folder.close()
    assert folder.path.name == f"x--{spec_hash({'a': 1})[:10]}"
