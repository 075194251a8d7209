"""The process reward with a judge behind a real HTTP server: the study's worked examples."""

from __future__ import annotations

import asyncio
import json

import pytest
from fault_server import FaultServer

from harness.registry import Registry
from harness.types import HarnessError, Message, Move, Outcome, Reply, Sample
from harness_plugins.rewards.tom_process import create_reward

PLACES = ("tin_box", "red_crate", "oak_shelf")


def reply(*blocks, answer):
    lines = [f"Think {i}: because\nState: {place}" for i, place in blocks]
    return "\n".join([*lines, f"Answer: {answer}"])


ONE_TWO = ((1, "tin_box"), (2, "red_crate"))
TWO = reply(*ONE_TWO, answer="red_crate")

# N, reply, the judge's grades, reward with the weights of training
EXAMPLES = [
    (2, TWO, [1, 1], 1.0),
    (2, TWO, [0.5, 0.8], 0.8425),
    (3, reply((1, "tin_box"), (2, "x"), (3, "oak_shelf"), answer="oak_shelf"), [1, 1, 1], 0.55),
    (3, reply((1, "tin_box"), (3, "oak_shelf"), answer="oak_shelf"), [1, 1, 1], 0.5116666667),
    (2, reply(*ONE_TWO, (3, "x"), answer="red_crate"), [1, 1], 0.985),
    (2, reply(*ONE_TWO[::-1], answer="red_crate"), [1, 1], 0.95),
    (1, "Think 1:\nState: tin_box\nAnswer: tin_box", [1], 0.5),
    (2, reply(*ONE_TWO, answer="tin_box"), [1, 0.5], 0.6875),
    (2, TWO + "\nAnswer: red_crate", [1, 1], 0.785),
    (2, reply((1, "tin_box"), answer="tin_box"), [1, 1], 0.3925),
    (3, reply((1, "x"), (2, "y"), (3, "z"), answer="z"), [1, 1, 1], 0.05),
    (3, "Answer: oak_shelf", [1, 1, 1], 0.0),
    (2, TWO, [0, 0], 0.55),
    (
        3,
        reply((1, "tin_box"), (1, "tin_box"), *ONE_TWO[1:], (3, "oak_shelf"), answer="oak_shelf"),
        [1, 1, 1],
        0.5116666667,
    ),
    (2, f"```\r\n{TWO.replace('_', ' ').upper()}\r\n```", [1, 1], 0.985),
    (2, reply((1, "tin_box."), (2, "red_crate."), answer="red_crate."), [1, 1], 0.05),
    (2, TWO.replace("Think 2", "So it is.\nThink 2"), [1, 1], 0.95),
    (1, "Think 1: so\nState: tin_box\nState: tin_box\nAnswer: tin_box", [1], 0.0),
]


def sample(n):
    return Sample(
        f"s{n}",
        "train",
        {"choices": list(PLACES), "chain": ["Ann", "Bo", "Cy"][-n:]},
        {"trace": list(PLACES[:n]), "answer": PLACES[n - 1]},
    )


def outcome(text):
    asked = (Message("user", "Where does Ann think the cap is?"),)
    return Outcome((Move(0, Reply(text), messages=asked),))


class Grader:
    """A server that gives each candidate the grades that were set for its text."""

    def __init__(self, grades, failing=False):
        self.grades = grades
        self.failing = failing
        self.asked = []

    def __call__(self, body):
        said = json.loads(body["messages"][1]["content"])
        self.asked.append(said)
        rows = [
            {"candidate_id": c["candidate_id"], "reasoning_scores": self.grades[c["response"]]}
            for c in said["candidates"]
        ]
        text = "no" if self.failing else json.dumps({"evaluations": rows})
        message = {"role": "assistant", "content": text}
        return 200, {}, {"choices": [{"message": message, "finish_reason": "stop"}]}


def reward_at(server, name="tom-process", **options):
    given = {
        "judge_model": "openai:toy",
        "judge_model_options": {"base_url": server.url},
        "judge_retries": 1,
        **options,
    }
    return Registry.load().create("reward", name, given)


def graded_by(n, rows):
    """The scores of a group, and the requests that the judge got."""
    grader = Grader({text: grades for _, text, grades, _ in rows})
    with FaultServer(script=grader) as server:
        group = [outcome(text) for _, text, _, _ in rows]
        return asyncio.run(reward_at(server).score_group(sample(n), group)), grader.asked


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_worked_examples_through_the_judge(n):
    rows = [row for row in EXAMPLES if row[0] == n and row[1] != TWO]
    scores, asked = graded_by(n, rows)
    for (_, text, _, value), score in zip(rows, scores, strict=True):
        assert score.value == pytest.approx(value, abs=1e-9), text
        assert score.parts["judged"] == 1.0
    assert len(asked) == (n > 1)  # one request a group; at n = 1 there is nothing to grade


@pytest.mark.parametrize("row", [row for row in EXAMPLES if row[1] == TWO])
def test_one_reply_under_several_grades(row):
    (score,), _ = graded_by(2, [row])
    assert score.value == pytest.approx(row[3], abs=1e-9)


def test_the_judge_sees_question_and_beliefs_and_only_what_can_be_graded():
    grader = Grader({TWO: [1, 1]})
    wrong = reply((1, "x"), (2, "y"), answer="red_crate")
    with FaultServer(script=grader) as server:
        reward = reward_at(server)
        asyncio.run(reward.score_group(sample(2), [outcome(wrong), outcome(TWO)]))
        asyncio.run(reward.score_group(sample(2), [outcome(wrong), outcome("")]))
    (asked,) = grader.asked
    assert asked["question"] == "Where does Ann think the cap is?"
    assert [c["response"] for c in asked["candidates"]] == [TWO]
    assert asked["reference_steps"] == [
        {"think_index": 1, "belief_chain": ["Cy"], "expected_state": "tin_box"},
        {"think_index": 2, "belief_chain": ["Bo", "Cy"], "expected_state": "red_crate"},
    ]
    assert reward.judge_figures()["requests"] == 1


def test_a_failing_judge_stops_or_marks_and_never_pays_zero():
    with FaultServer(script=Grader({TWO: [1, 1]}, failing=True)) as server:
        with pytest.raises(HarnessError, match="s2: the judge gave no usable reply in 2 tries"):
            asyncio.run(reward_at(server).score_group(sample(2), [outcome(TWO)]))
        marking = reward_at(server, judge_failure="unjudged")
        (score,) = asyncio.run(marking.score_group(sample(2), [outcome(TWO)]))
    assert score.value == 0.55  # what rules alone pay
    assert score.parts["judged"] == 0.0


def test_the_second_formula_takes_a_judge_too():
    with FaultServer(script=Grader({TWO: [1, 0.5]})) as server:
        reward = reward_at(server, "tom-process-v2", state=0.4, reasoning=0.6)
        (score,) = asyncio.run(reward.score_group(sample(2), [outcome(TWO)]))
    assert score.value == pytest.approx(0.7 * (1 + 0.7) / 2 + 0.1 + 0.2)


def test_rules_alone_unless_asked_and_no_judge_for_answers():
    assert create_reward("tom-process", {}).deterministic
    with pytest.raises(HarnessError, match="tom-answer takes no judge"):
        create_reward("tom-answer", {"judge_model": "openai:x"})
