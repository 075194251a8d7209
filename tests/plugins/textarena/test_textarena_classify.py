"""The classification of environments: each class by an example, each in its own process."""

from __future__ import annotations

import sys
import time

import pytest

pytest.importorskip("textarena")

from harness_plugins.tasks.textarena import classify as module
from harness_plugins.tasks.textarena import doctor, library
from harness_plugins.tasks.textarena.adapters import LISTED


@pytest.fixture(scope="module")
def rows():
    names = [
        *LISTED,
        "SimpleNegotiation-v0-raw",
        "Nim-v0-train",
        "Hangman-v0",
        "UsedCarNegotiation-v0",
        "GuessWho-v0",
        "Klondike-v0",
        "CharacterConclave-v0",
        "SantoriniBaseFixed-v0",
    ]
    calls = []
    found = module.classify_all(20.0, lambda done, all_: calls.append((done, all_)), names, jobs=2)
    assert [row.name for row in found] == names
    assert calls == [(i, len(names)) for i in range(1, len(names) + 1)]
    return {row.name: row for row in found}


def test_all_listed_environments_run(rows):
    for name in LISTED:
        row = rows[name]
        assert (row.cls, row.adapter, row.reason) == (module.RUNS, True, ""), row
    assert rows["KuhnPoker-v0"].wrong
    assert [rows[n].variant_of for n in ("Nim-v0", "Nim-v0-train")] == ["", "Nim-v0"]
    assert rows["Nim-v0-train"].cls == rows["SimpleNegotiation-v0-raw"].cls == module.RUNS


@pytest.mark.parametrize(
    ("name", "cls", "reason"),
    [
        ("Hangman-v0", module.NEEDS_DATA, "words"),
        ("UsedCarNegotiation-v0", module.NEEDS_DATA, "No such file"),
        ("GuessWho-v0", module.NEEDS_KEY, "OPENROUTER_API_KEY"),
        ("Klondike-v0", module.SYNTAX_ERROR, "Klondike/env.py"),
        ("CharacterConclave-v0", module.CRASHES, "observation_type"),
        ("SantoriniBaseFixed-v0", module.NEVER_ENDS, "600 steps"),
    ],
)
def test_the_others_say_why_not(rows, name, cls, reason):
    assert rows[name].cls == cls
    assert reason in rows[name].reason
    assert not rows[name].adapter


def test_a_child_that_hangs_is_ended_and_one_that_dies_is_named():
    started = time.monotonic()
    [row] = module.classify_all(0.05, names=["RushHour-v0"], jobs=1)
    assert row.cls == module.TIMEOUT
    assert time.monotonic() - started < 20


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="these files parse from 3.12 on")
def test_nested_quotes_are_a_syntax_error_on_3_11(rows):
    cls, players, reason = module.classify("Chess-v0")
    assert (cls, players) == (module.SYNTAX_ERROR, 0)
    assert "Python 3.11" in reason


def test_doctor_says_which_version_is_there():
    [(subject, ok, advice)] = doctor()
    assert subject == "textarena"
    assert ok == (library.version() == library.PINNED)
    assert advice


def test_the_table_shows_every_name_whole_and_counts_by_class(capsys):
    from harness.cli.doctor_ import _print_games

    name = "A-very-long-name-of-an-environment-v0-hardcore"
    found = [
        module.Row(name, module.RUNS, 2, 0.25, True, "betting is free", ""),
        module.Row(f"{name}-raw", module.CRASHES, 0, 1.0, False, "", "x" * 200, name),
    ]
    _print_games([row._asdict() for row in found])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith(f"{name}  ")
    assert lines[1].endswith("wrong: betting is free")
    assert lines[2].endswith("x" * 200)
    assert lines[-3:] == [
        "all ids: 2: crashes 1, runs 1",
        "without other wrappings: 1: runs 1",
        "1 CPU seconds",
    ]
