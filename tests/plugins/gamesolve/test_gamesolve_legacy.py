"""The legacy reward reproduces the reference study's formula, defects and all."""

import json
import os
import time
from pathlib import Path

import pytest

from harness.types import HarnessError, Move, Outcome, Reply, Sample
from harness_plugins.rewards.gamesolve_legacy import (
    GameSolveLegacyReward,
    create_reward,
    legacy_score,
)
from harness_plugins.tasks.gamesolve.answers import block, correct
from harness_plugins.tasks.gamesolve.truth import truth

FILE = "gamesolve_legacy_cases.jsonl"

BOTH = {
    "equilibria": [
        {"sigma_row": [1.0, 0.0], "sigma_col": [1.0, 0.0], "is_pure": True},
        {"sigma_row": [0.0, 1.0], "sigma_col": [0.0, 1.0], "is_pure": True},
        {"sigma_row": [0.75, 0.25], "sigma_col": [0.5, 0.5], "is_pure": False},
    ],
    "equilibrium_class": "both",
}
MIXED = {"equilibria": [BOTH["equilibria"][2]], "equilibrium_class": "mixed"}
PURE = {"equilibria": [BOTH["equilibria"][0]], "equilibrium_class": "pure"}
RESPONSE = {
    "expected_payoffs": [1.0, 3.0],
    "best_response_actions": [1],
    "best_response_value": 3.0,
}


def test_the_recorded_cases():
    """Every row of the study's own scorer, where the file is at hand."""
    folder = os.environ.get("HARNESS_DATA")
    path = Path(folder or "") / FILE
    if not folder or not path.is_file():
        print(f"skipped: HARNESS_DATA names no folder that holds {FILE}")
        pytest.skip(f"HARNESS_DATA names no folder that holds {FILE}")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) == 96
    for row in rows:
        value = legacy_score(
            row["task"], row["response"], row["ground_truth"], row["row_labels"], row["col_labels"]
        )
        assert value == pytest.approx(row["reference_reward"], abs=1e-9), row["case"]


@pytest.mark.parametrize(
    ("listed", "text", "value"),
    [
        # F, K and M by hand: 0.5 F + 0.3 K + 0.2 M
        (BOTH, "Pure NE: (A, X), (B, Y)\nMixed NE: ([0.75, 0.25], [0.5, 0.5])", 1.0),
        (BOTH, "Pure NE: (A, X)\nMixed NE: ([0.75, 0.25], [0.5, 0.5])", 0.5 * 2 / 3 + 0.3 + 0.2),
        (BOTH, "Pure NE: (A, X), (B, Y)\nMixed NE: none", 0.5 + 0.15),
        (BOTH, "Pure NE: (A, X), (B, Y)\nMixed NE: ([0.5, 0.5], [0.5, 0.5])", 0.8 + 0.2 * 0.5),
        (BOTH, "Pure NE: none\nMixed NE: ([0.75, 0.25], [0.5, 0.5])", 0.15 + 0.2),
        (BOTH, "Pure NE: none\nMixed NE: none", 0.0),
        (MIXED, "Pure NE: none\nMixed NE: none", 0.5),
        (MIXED, "nothing at all", 0.5),
        (MIXED, "Pure NE: none\nMixed NE: ([0.5, 0.5], [0.75, 0.25])", 0.5 + 0.3),
        (MIXED, "Pure NE: (A, X)\nMixed NE: ([0.75, 0.25], [0.5, 0.5])", 0.2),
        (MIXED, "Pure NE: none\nMixed NE: ([0.5, 0.5, 0.0], [1.0])", 0.5 + 0.3),
        (MIXED, "Pure NE: none\nMixed NE: ([0.8, 0.1], [0.5, 0.5], [0.6, 0.4])", 0.8 + 0.2 * 0.3),
        (PURE, "Pure NE: (A, X)\nMixed NE: none", 1.0),
        (PURE, "Pure NE: (a ,  x)\nMixed NE: none", 1.0),
        (PURE, "Pure NE: ( A, X)\nMixed NE: none", 0.2),
        (PURE, "Pure NE: (A, X ) \nMixed NE: none", 0.2),
        (PURE, "Pure NE: (A, X), none besides\nMixed NE: none", 0.2),
        (PURE, "answer: Pure NE: (A, X)\nMixed NE: none. answer: done", 0.2),
        (PURE, "Pure NE: (A, X), (A, Y), (B, X), (B, Y)\nMixed NE: none", 0.5 * 2 / 5 + 0.5),
        (PURE, " \n ", 0.0),
    ],
)  # fmt: skip
def test_equilibria_by_hand(listed, text, value):
    score = legacy_score("nash_equilibrium", text, listed, ["A", "B"], ["X", "Y"])
    assert score == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # 0.5 A + 0.3 E + 0.2 V
        ("Best response action(s): B\nExpected payoffs: [1, 3]\nBest response value: 3", 1.0),
        ("Best response actions: A, B\nExpected payoff: 1, 3\nBest response value: 3", 0.75),
        ("Best response: B\nExpected payoffs: [1, 3]\nBest response value: 3", 0.5),
        ("Best response action: b\nExpected payoffs: [3, 1]\nBest response value: 1 + 2 = 3",
         0.5 + 0.3 * 0.8 + 0.2 * 0.8),
        ("Best response action: B\nExpected payoffs: [1, 3, 0]\nBest response value: 30", 0.5),
        ("Best response action: AB\nBest response value: 3", 0.2),
        ("no idea", 0.0),
    ],
)  # fmt: skip
def test_best_responses_by_hand(text, value):
    score = legacy_score("anything else", text, RESPONSE, ["A", "B"], [])
    assert score == pytest.approx(value, abs=1e-12)


def sample_of(data):
    labels = {"row_labels": ["A", "B"], "col_labels": ["X", "Y"]}
    full = {**labels, **data}
    return Sample(id="s", split="test", data=full, truth=truth(full))


def score(sample, text):
    outcome = Outcome((Move(0, Reply(text)),))
    return create_reward("gamesolve-legacy", {}).score(sample, outcome).value


def test_the_reward_lists_all_extreme_equilibria():
    data = {"kind": "nash", "row": [[2, 0], [0, 1]], "col": [[1, 0], [0, 2]]}
    text = "Pure NE: (A, X), (B, Y)\nMixed NE: ([0.6667, 0.3333], [0.3333, 0.6667])"
    assert score(sample_of(data), text) == pytest.approx(1.0, abs=1e-4)
    assert score(sample_of(data), text.replace(", (B, Y)", "")) < 0.9


def test_the_reward_reads_our_key_and_both_responders():
    for responder, own in (("row", "row"), ("column", "col")):
        data = {"kind": "best_response", "row": [[2, 0], [0, 1]], "col": [[1, 4], [0, 2]]}
        sample = sample_of({**data, "responder": responder, "sigma": ["0.2500", "0.7500"]})
        text = block(sample.data, correct(sample.data, sample.truth))
        assert sample.data[f"{own}_labels"][sample.truth["best"][0]] in text
        assert score(sample, text) == pytest.approx(1.0)
    assert GameSolveLegacyReward().score(sample, Outcome(())).value == 0.0


def test_other_kinds_are_refused():
    data = {"kind": "payoff", "row": [[1]], "col": [[1]], "cell": [0, 0], "player": "row"}
    with pytest.raises(HarnessError, match="use --reward gamesolve"):
        score(sample_of(data), "Payoff: 1")


@pytest.mark.parametrize(
    "unit",
    ["[", "]", "(A ", "Pure NE:", "pure ", " ", "mixed ", "1", "best response action ", "none"],
)
def test_a_megabyte_takes_linear_time(unit):
    started = time.process_time()
    for head in ("", "Pure NE: ", "Mixed NE: ", "Best response action", "Expected payoffs: "):
        text = head + unit * (1_000_000 // len(unit))
        legacy_score("nash_equilibrium", text, BOTH, ["A", "B"], ["X", "Y"])
        legacy_score("best_response", text, RESPONSE, ["A", "B"], ["X", "Y"])
    assert time.process_time() - started < 5.0
