"""The timeline beside a story: its last row is the truth, its changes are changes."""

from __future__ import annotations

import pytest

from harness.exhibits import BAD, CHANGED, GOOD, KEY
from harness.types import Move, Outcome, Reply
from harness_plugins.tasks.counterfactual_tom.task import CounterfactualToM
from harness_plugins.tasks.hitom.task import HiToM

TASKS = [CounterfactualToM({}), HiToM({})]


def outcome(task, sample, text):
    reply = Reply(text)
    parsed = task.parse(sample, reply)
    return Outcome((Move(0, reply, parsed.value, parsed.cls),), parsed.cls)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_the_last_row_ends_in_the_truth(task):
    for sample in list(task.samples("test"))[:60]:
        table, asked = task.exhibits(sample, outcome(task, sample, task.target(sample)))
        (key,) = [mark for mark in table.marks if mark.kind == KEY]
        assert key.row == len(table.rows) - 1
        assert table.rows[-1][key.column] == sample.truth["answer"], sample.id
        name = " about ".join(sample.data["chain"]) or "world"
        assert table.columns[key.column] == name
        assert {mark.kind for mark in asked.marks} == {GOOD}
        assert asked.rows[-1][1:] == (sample.truth["answer"],) * 2


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_marks_of_change_are_where_a_row_differs_from_the_one_above(task):
    for sample in list(task.samples("test"))[:20]:
        table, _ = task.exhibits(sample, Outcome(()))
        width = len(table.columns)
        above = ("–",) * width
        differ = set()
        for i, row in enumerate(table.rows):
            differ |= {(i, j) for j in range(2, width) if row[j] != above[j]}
            above = row
        marked = {(m.row, m.column) for m in table.marks if m.kind == CHANGED}
        keys = {(m.row, m.column) for m in table.marks if m.kind == KEY}
        assert marked == differ - keys


def test_only_those_who_learn_of_a_move_change_their_mind():
    """A hidden move changes the world alone."""
    task, hidden = TASKS[0], 0
    for sample in list(task.samples("test"))[:60]:
        table, _ = task.exhibits(sample, Outcome(()))
        for i, row in enumerate(table.rows):
            if row[1].startswith("hidden:"):
                hidden += 1
                changed = {m.column for m in table.marks if m.row == i and m.kind == CHANGED}
                assert changed <= {2}
    assert hidden > 3


def test_wrong_statements_are_red():
    task = TASKS[0]
    sample = next(iter(task.samples("test")))
    wrong = next(c for c in sample.data["choices"] if c not in sample.truth["trace"])
    text = "\n".join(
        f"Think {k}: so.\nState: {wrong}" for k in range(1, len(sample.truth["trace"]) + 1)
    )
    _, asked = task.exhibits(sample, outcome(task, sample, f"{text}\nAnswer: {wrong}"))
    assert {mark.kind for mark in asked.marks} == {BAD}
    assert len(asked.marks) == len(asked.rows)
