"""An episode shown move by move, played again by the environment itself."""

from __future__ import annotations

import pytest

import harness
from harness.registry import Registry
from harness.store import read_records
from harness_plugins.tasks.textarena import exhibits

pytest.importorskip("textarena")


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    games = "[TicTacToe-v0,Nim-v0,PigDice-v0-50,IteratedPrisonersDilemma-v0]"
    run = harness.run(
        task="textarena", model="random", out=tmp_path_factory.mktemp("runs"), limit=16,
        options={"games": games, "pairs": "2"},
    )  # fmt: skip
    task = Registry.load().create("task", "textarena", run.manifest["spec"]["task"]["options"])
    samples = {sample.id: sample for sample in task.samples("test")}
    return task, [(samples[r.sample], r) for r in read_records(run.path)]


def test_every_episode_is_shown_to_its_end(played):
    task, records = played
    for sample, record in records:
        (steps,) = task.exhibits(sample, record.outcome)
        line = record.outcome.data["line"]
        assert len(steps.steps) == len(line) + 1, sample.id
        assert "No boards" not in steps.note
        assert record.outcome.data["reason"] in steps.note


def test_marks_on_the_grid_are_those_that_were_played(played):
    """The last board of tic-tac-toe holds as many marks as moves were made."""
    task, records = played
    for sample, record in records:
        if sample.data["env"] != "TicTacToe-v0":
            continue
        (steps,) = task.exhibits(sample, record.outcome)
        grid = steps.steps[-1].board.split("Available")[0]
        assert grid.count("X") + grid.count("O") == len(record.outcome.data["line"])


def test_without_boards_the_moves_are_told(played, monkeypatch):
    def fails(*_):
        raise RuntimeError("another version")

    monkeypatch.setattr(exhibits, "opened", fails)
    task, records = played
    sample, record = records[0]
    (steps,) = task.exhibits(sample, record.outcome)
    assert len(steps.steps) == len(record.outcome.data["line"])
    assert "another version" in steps.note
