"""The conformance kit of the harness, and what is true of this game."""

from __future__ import annotations


def test_it_keeps_the_rules(conformance):
    conformance("task", "rps-memory")
    conformance("reward", "rps-memory")


def test_a_reply_without_a_move_is_a_fault_and_loses(rollout):
    outcome, score = rollout("rps-memory", ["ANSWER: rock", "I would rather not say."])
    assert outcome.cls == "unparsed"
    assert score.value == 0.0


def test_a_copycat_draws_with_rock_for_ever(rollout):
    outcome, score = rollout("rps-memory", ["ANSWER: rock"])
    first = outcome.data["rounds"][0]
    assert outcome.data["rounds"][1:] == [["rock", "rock"]] * 9
    margin = {"rock": 0, "paper": -0.1, "scissors": 0.1}[first[1]]
    assert abs(score.value - (1 + margin) / 2) < 1e-12


def test_who_remembers_wins_nearly_all(mean_score):
    assert 0.9 < mean_score("rps-memory", "oracle") <= 1.0
    assert 0.4 < mean_score("rps-memory", "random") < 0.6
