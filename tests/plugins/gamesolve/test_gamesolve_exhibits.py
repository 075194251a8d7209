"""What a reader is shown of a game, against a brute-force look at the same game."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from harness.exhibits import BAD, GOOD, KEY
from harness.types import Move, Outcome, Reply
from harness_plugins.tasks.gamesolve.exhibits import exhibits
from harness_plugins.tasks.gamesolve.task import GameSolve, GameSolveOOD, GameSolveSkills

TASKS = [GameSolve({}), GameSolveOOD({}), GameSolveSkills({})]


def samples(count=40):
    return [sample for task in TASKS for sample in list(task.samples("test"))[:count]]


def pure_equilibria(data):
    """The cells from which nobody gains by leaving alone, by the definition."""
    row = [[Fraction(x) for x in line] for line in data["row"]]
    col = [[Fraction(x) for x in line] for line in data["col"]]
    m, n = len(row), len(row[0])
    return {
        (i, j)
        for i in range(m)
        for j in range(n)
        if all(row[k][j] <= row[i][j] for k in range(m))
        and all(col[i][k] <= col[i][j] for k in range(n))
    }


def test_marked_cells_are_the_pure_equilibria_and_stars_the_best_replies():
    for sample in samples():
        matrix = exhibits(sample.data, sample.truth, None)[0]
        marked = {(mark.row, mark.column - 1) for mark in matrix.marks if mark.kind == KEY}
        assert marked == pure_equilibria(sample.data), sample.id
        starred = {
            (i, j)
            for i, line in enumerate(matrix.rows)
            for j, text in enumerate(line[1:])
            if re.fullmatch(r"[^,*]+\*, [^,*]+\*", text)
        }
        assert starred == marked


def test_payoffs_are_expected_ones():
    for sample in samples():
        data = sample.data
        if data["kind"] != "best_response":
            continue
        table = exhibits(data, sample.truth, None)[1]
        own = data["row"] if data["responder"] == "row" else list(zip(*data["col"], strict=True))
        sigma = [Fraction(p) for p in data["sigma"]]
        for line, row in zip(own, table.rows, strict=True):
            pay = sum(Fraction(x) * p for x, p in zip(line, sigma, strict=True))
            assert Fraction(row[1].split(" ")[0]) == pay
        best = {mark.row for mark in table.marks if mark.kind == KEY}
        assert best == set(sample.truth["best"])


def test_claims_get_their_verdicts():
    data = {
        "kind": "nash", "row": [[2, 0], [0, 1]], "col": [[1, 0], [0, 2]], "format": "abstract",
        "row_labels": ["A", "B"], "col_labels": ["X", "Y"], "context": "abstract",
    }  # fmt: skip
    from harness_plugins.tasks.gamesolve.truth import truth

    answer = {
        "pure": [[0, 0], [0, 1], [5, 0]],
        "mixed": [
            {"row": ["2/3", "1/3"], "col": ["0.33", "0.67"]},
            {"row": ["1/2", "1/2"], "col": ["1/2", "1/2"]},
        ],
        "invalid": 1,
    }
    claims = exhibits(data, truth(data), answer)[2]
    verdicts = {mark.row: mark.kind for mark in claims.marks}
    assert [verdicts[i] for i in range(6)] == [GOOD, BAD, BAD, GOOD, BAD, BAD]
    empty = exhibits(data, truth(data), {"pure": [], "mixed": [], "invalid": 0})[2]
    assert (empty.rows, "claims that there is none" in empty.note) == ((), True)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_every_answer_can_be_shown(task):
    """The right answer, none, and one that is cut short."""
    for sample in list(task.samples("test"))[:40]:
        for text in (task.target(sample), "", "ANSWER:"):
            reply = Reply(text)
            parsed = task.parse(sample, reply)
            outcome = Outcome((Move(0, reply, parsed.value, parsed.cls),), parsed.cls)
            shown = task.exhibits(sample, outcome)
            assert len(shown) >= 2
            kinds = {mark.kind for exhibit in shown for mark in exhibit.marks}
            assert BAD not in kinds, (sample.id, text)
    assert task.exhibits(sample, Outcome(()))
