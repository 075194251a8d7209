"""Belief beside behaviour: exact answers, prompts, the four places of an error."""

from __future__ import annotations

import asyncio
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import harness
from harness.player import FixedPlayer
from harness.seeds import Streams
from harness.types import HarnessError, Reply
from harness_plugins.tasks.gtbench import create_task
from harness_plugins.tasks.gtbench.belief import BeliefTask, chances
from harness_plugins.tasks.gtbench.kuhn_beliefs import (
    HABITS,
    judged,
    normal,
    optimal,
    posterior,
    predicted,
)

NAMES = ["Jack", "Queen", "King"]


def brute(information, habit):
    """Kuhn poker by hand: the posterior of the opponent's card and the value of each own move.

    ``information`` is the own card and the moves so far (p, b)."""
    own, moves = int(information[0]), information[1:]
    rate = HABITS[habit]

    def pay(other, line):  # to the seat to move at `information`, after the whole line
        first_is_us = len(moves) % 2 == 0
        high = 1 if own > other else -1
        if line in ("pp",):
            return high
        if line in ("bb", "pbb"):
            return 2 * high
        folder_first = line == "pbp"  # else "bp": the second seat folded
        return (-1 if folder_first else 1) * (1 if first_is_us else -1)

    def opponent(other, line):
        seat_of_us = len(moves) % 2
        odds = 1.0
        for k, move in enumerate(line):
            if k % 2 != seat_of_us:
                odds *= rate[other] if move == "b" else 1 - rate[other]
        return odds

    others = [card for card in range(3) if card != own]
    prior = [opponent(c, moves) if c in others else 0.0 for c in range(3)]
    lines = {
        "": ["pp", "pbp", "pbb", "bp", "bb"], "p": ["pp", "pbp", "pbb"],
        "b": ["bp", "bb"], "pb": ["pbp", "pbb"],
    }[moves]  # fmt: skip
    worth = {}
    for action in "pb":
        options = [ln for ln in lines if ln.startswith(moves + action)]
        values = []
        # Without a second decision of ours there is one way to go on; with it, two.
        for later in "pb":
            total = 0.0
            for card in others:
                for line in options:
                    if moves == "" and line.startswith("pb") and line[2] != later:
                        continue
                    total += opponent(card, line) * pay(card, line)
            values.append(total)
        worth[action] = max(values)
    most = max(worth.values())
    return prior, {"pb".index(a) for a, v in worth.items() if v > most - 1e-9}


@pytest.mark.parametrize("habit", HABITS)
def test_exact_answers_are_those_worked_out_by_hand(habit):
    task = BeliefTask({"queries": 1})
    seen = 0
    for sample in task.samples("test"):
        if sample.data["opponent"] != habit:
            continue
        prior, best = brute(sample.data["information"], habit)
        course = tuple(sample.data["course"])
        found = posterior(course, habit)
        assert found == pytest.approx(prior)
        assert optimal(course, habit, normal(found)) == best
        seen += 1
    assert seen >= 9


def test_a_bet_of_an_honest_opponent_shows_the_king():
    # We hold the Queen in the second seat; the first seat has bet.
    course = (2, 1, 1)
    assert normal(posterior(course, "honest")) == [0.0, 0.0, 1.0]
    assert optimal(course, "honest", [0.0, 0.0, 1.0]) == {0}
    assert optimal(course, "honest", [1.0, 0.0, 0.0]) == {1}
    assert predicted((0, 1), 1, "honest", [0.0, 0.25, 0.75]) == [0.25, 0.75]


def test_an_information_set_that_the_opponent_never_reaches_is_not_asked():
    ids = {s.id for s in BeliefTask({"queries": 1}).samples("test")}
    # An honest opponent never bets while we hold the King.
    assert not any("/honest/2b/" in i or "/honest/2pb/" in i for i in ids)
    assert any("/bluffer/2b/" in i for i in ids)


def test_errors_are_placed():
    course = (1, 2)  # the Queen, first to move, against an honest opponent
    right = normal(posterior(course, "honest"))
    assert right == [0.5, 0.0, 0.5]
    wrong = [1.0, 0.0, 0.0]
    follows = {str(a): predicted(course, a, "honest", wrong) for a in (0, 1)}
    best = min(optimal(course, "honest", wrong))
    found = judged(course, "honest", best, wrong, follows)
    assert found["belief.error"] == 0.5
    assert found["incoherence"] == 0.0
    assert found["prediction.error"] == 0.5
    assert found["action.consistent"] == 1.0
    found = judged(course, "honest", None, None, {"0": None, "1": [0.5, 0.5]})
    assert found["answered"] == 0.25
    assert found["action.optimal"] == 0.0
    assert "belief.error" not in found
    assert found["prediction.error"] == 0.0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ANSWER: Jack 25, Queen 0, King 75", [0.25, 0.0, 0.75]),
        ("I think.\nanswer: King: 75 %, Jack: 25 %", [0.25, 0.0, 0.75]),
        ("ANSWER: Jack 10, King 90\nANSWER: Jack 33.3, King 66.7", [0.333, 0.0, 0.667]),
        ("<think>ANSWER: Jack 1, King 99</think>ANSWER: Jack 50, King 50", [0.5, 0.0, 0.5]),
        ("ANSWER: Jack 50, King 40", None),
        ("ANSWER: Jack 50, Jack 50", None),
        ("Jack 50, King 50", None),
        ("", None),
    ],
)
def test_chances_are_read_from_the_last_answer_line(text, value):
    found = chances(Reply(text), NAMES).value
    assert found == (None if value is None else pytest.approx(value, abs=1e-3))


@given(st.text(max_size=200))
def test_any_reply_gives_shares_or_nothing(text):
    found = chances(Reply(f"ANSWER: {text}"), NAMES).value
    assert found is None or sum(found) == pytest.approx(1.0)


def test_the_questions_share_the_situation_and_keep_the_cards_hidden(saying):
    task = BeliefTask({"queries": 1})
    for sample in list(task.samples("test"))[:45]:
        player = saying("ANSWER: Pass")
        outcome = asyncio.run(task.rollout(sample, [player], Streams(1)))
        own = NAMES[sample.data["course"][int(len(sample.data["course"]) % 2)]]
        texts = [turn.messages[1].content for turn in player.turns]
        assert len(texts) == len(outcome.moves) == task.turns(sample)
        for text in texts:
            assert f"Your card is the {own}." in text
            assert "You know how this opponent plays" in text
        assert "Which card does your opponent have?" in texts[1]
        assert "Legal moves" not in texts[1]
        assert [move.number for move in outcome.moves] == list(range(len(texts)))


def test_oracle_is_right_everywhere_and_the_levels_are_apart(tmp_path):
    run = harness.run("gtbench", "oracle", options={"mode": "belief", "queries": 1}, out=tmp_path)
    found = {(m["name"], m["group"]): m["value"] for m in run.metrics["metrics"]}
    assert run.metrics["score"]["value"] == pytest.approx(1.0, abs=1e-5)
    for name in ("belief.error", "prediction.error", "incoherence"):
        assert found[name, ""] == pytest.approx(0.0, abs=1e-5)
    for name, group in product(("action.optimal", "action.consistent"), ("", *HABITS)):
        assert found[name, group] == 1.0
    assert run.metrics["levels"]["random"] < 0.7


def test_a_model_that_says_nothing_is_answered_nothing(tmp_path):
    run = harness.run("gtbench", "empty", options={"mode": "belief", "queries": 1}, out=tmp_path)
    found = {(m["name"], m["group"]): m["value"] for m in run.metrics["metrics"]}
    assert found["answered", ""] == 0.0
    assert run.metrics["score"]["value"] == 0.0


def test_other_names_work_as_well():
    task = BeliefTask({"queries": 1, "variant": "relabelled"})
    sample = next(iter(task.samples("test")))
    oracle = FixedPlayer(lambda turn: str(turn.truth))
    outcome = asyncio.run(task.rollout(sample, [oracle], Streams(1)))
    assert outcome.data["figures"]["answered"] == 1.0
    assert "Cedar" in outcome.moves[1].messages[0].content


def test_other_games_are_refused():
    with pytest.raises(HarnessError, match="only"):
        create_task("gtbench", {"mode": "belief", "games": ["leduc_poker"]})
