"""Agents: what they ask, how they vote, what they record."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.player import ModelPlayer
from harness.seeds import derive
from harness.types import OK, UNPARSED, Decoding, HarnessError, Message, Reply, Turn
from harness_plugins.tasks.gtbench import answers
from harness_plugins.tasks.gtbench.agents import (
    STRIDE,
    ChainOfThought,
    SelfConsistent,
    TreeOfThought,
    ballot,
    vote,
)
from harness_plugins.tasks.gtbench.games import skin
from harness_plugins.tasks.gtbench.task import GTBench

TURN = Turn(0, (Message("system", "Rules."), Message("user", "Your move.")), number=4, attempt=1)


def reader(turn, reply):
    return answers.read(reply.text, skin("tictactoe", "plain"))


def act(agent):
    return asyncio.run(agent.act(TURN))


def test_chain_of_thought_asks_once_for_steps(saying):
    inner = saying("Because.\nANSWER: C1R1")
    agent = ChainOfThought(inner, reader)
    assert act(agent).text.endswith("C1R1")
    [turn] = inner.turns
    assert turn.messages[0] == TURN.messages[0]
    assert turn.messages[1].content.startswith("Your move.\n\nReason step by step")
    [move] = agent.said()
    assert (move.parsed, move.cls, move.number, move.attempt) == ("C1R1", OK, 4, STRIDE)
    assert agent.said() == []


@pytest.mark.parametrize(
    ("texts", "winner"),
    [
        (["C1R1", "C2R2", "C2R2", "C3R3", "C1R1"], "C1R1"),  # a tie: the earlier
        (["hmm", "hmm", "hmm", "hmm", "C3R3"], "C3R3"),  # failures do not vote
        (["C1R1", "C3R3", "C3R3", "hmm", "hmm"], "C3R3"),
        (["hmm", "", "hmm", "hmm", "hmm"], "hmm"),  # no vote: the first reply, a failure
    ],
)
def test_self_consistency_elects(saying, texts, winner):
    agent = SelfConsistent(saying(*texts), reader, samples=5)
    assert act(agent).text == winner
    assert [move.reply.text for move in agent.said()] == texts


def test_requests_of_a_vote_have_seeds_of_their_own():
    seeds = []

    async def ask(request):
        seeds.append(request.seed)
        return Reply("ANSWER: C2R2")

    agent = SelfConsistent(ModelPlayer(ask, Decoding(), 99), reader, samples=5)
    act(agent)
    assert seeds == [derive(99, 0, 4, STRIDE + k) for k in range(5)]
    assert len(set(seeds)) == 5


def test_requests_of_a_vote_are_sent_at_once():
    waiting = []

    async def ask(request):
        waiting.append(request)
        while len(waiting) < 5:
            await asyncio.sleep(0)
        return Reply("ANSWER: C2R2")

    agent = SelfConsistent(ModelPlayer(ask, Decoding(), 0), reader, samples=5)
    assert asyncio.run(asyncio.wait_for(agent.act(TURN), 5)).text == "ANSWER: C2R2"


def test_tree_of_thought_follows_the_elected_plan_and_answer(saying):
    script = [
        "plan one", "plan two", "plan three",
        "CHOICE: 2", "CHOICE: 2", "CHOICE: 3",
        "ANSWER: C1R1", "ANSWER: C2R2", "ANSWER: C3R3",
        "CHOICE: 3", "no vote", "CHOICE: 3",
    ]  # fmt: skip
    inner = saying(*script)
    agent = TreeOfThought(inner, reader)
    assert act(agent).text == "ANSWER: C3R3"
    asked = [turn.messages[-1].content for turn in inner.turns]
    assert "Do not answer yet" in asked[0]
    assert "Option 2:\nplan two" in asked[3]
    assert "Your plan:\nplan two" in asked[6]
    assert "Option 3:\nC3R3" in asked[9]
    moves = agent.said()
    assert [move.attempt for move in moves] == [STRIDE + k for k in range(12)]
    assert [move.parsed for move in moves[3:6]] == [2, 2, 3]
    assert [move.parsed for move in moves[6:9]] == ["C1R1", "C2R2", "C3R3"]
    assert moves[10].cls == UNPARSED


def test_tree_of_thought_needs_no_vote_where_there_is_one_answer(saying):
    inner = saying("p", "q", "r", "CHOICE: 1", "CHOICE: 1", "CHOICE: 1", "ANSWER: C2R2")
    assert act(TreeOfThought(inner, reader)).text == "ANSWER: C2R2"
    assert len(inner.turns) == 9


def test_a_tie_of_votes_goes_to_the_first_option(saying):
    inner = saying("p", "q", "r", "CHOICE: 3", "CHOICE: 2", "none", "ANSWER: C1R1")
    act(TreeOfThought(inner, reader))
    assert "Your plan:\nq" in inner.turns[6].messages[-1].content


@settings(deadline=None, derandomize=True)
@given(st.integers(-5, 200), st.integers(1, 99))
def test_votes_are_whole_numbers_in_range(number, options):
    parsed = vote(Reply(f"Some thoughts on 7 things.\nCHOICE: {number}"), options)
    assert parsed.value == (number if 1 <= number <= options else None)


def test_votes_in_thoughts_do_not_count_and_the_last_one_does():
    assert vote(Reply("<think>CHOICE: 1</think>none"), 3).cls == UNPARSED
    assert vote(Reply("CHOICE: 1 ... CHOICE: 2"), 3).value == 2
    assert vote(Reply("**Choice: 3**"), 3).value == 3
    assert "Option 1:\nx" in ballot(["x", "y"])


def test_agents_in_episodes_record_all_and_decide_once(saying, roll):
    texts = ["ANSWER: Bet", "ANSWER: Pass", "ANSWER: Bet", "hmm", "ANSWER: Bet"]
    options = {"games": ["kuhn_poker"], "pairs": 2, "agent": "sc-cot"}
    for sample, outcome in roll(options, lambda seat: saying(*texts)):
        seat = sample.data["model_seat"]
        own = [move for move in outcome.moves if move.seat == seat]
        decided = [row for row in outcome.data["line"] if row[0] == seat]
        assert len(own) == 5 * len(decided)
        assert decided[0] == [seat, "Bet", 1, "asked"]


def test_agents_leave_reference_players_alone(roll):
    plain = roll({"games": ["nim"], "pairs": 2}, "perfect")
    voted = roll({"games": ["nim"], "pairs": 2, "agent": "tot"}, "perfect")
    assert [o for _, o in plain] == [o for _, o in voted]


def test_voting_agents_are_sampled_at_a_temperature():
    assert GTBench({}).decoding.temperature == 0.0
    assert GTBench({"agent": "cot"}).decoding.temperature == 0.0
    assert GTBench({"agent": "sc-cot"}).decoding.temperature == 0.7
    assert GTBench({"agent": "tot", "preset": "reference-8x20"}).decoding.temperature == 0.2
    with pytest.raises(HarnessError, match="samples=26"):
        GTBench({"agent": "sc-cot", "samples": 26})
