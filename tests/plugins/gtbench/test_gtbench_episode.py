"""Episodes: retries with fitting feedback, forfeits, forced moves, substitution, replay."""

from __future__ import annotations

import asyncio

import pytest

from harness.player import ReplayPlayer, Seat
from harness.seeds import Streams, derive
from harness.types import EMPTY, ILLEGAL, OK, REFUSED, TRUNCATED, UNPARSED, Reply
from harness_plugins.rewards.gtbench import GTBenchReward
from harness_plugins.tasks.gtbench.course import Course
from harness_plugins.tasks.gtbench.games import GAMES, game
from harness_plugins.tasks.gtbench.opponents import PLAYERS
from harness_plugins.tasks.gtbench.task import GTBench


def first_legal(turn):
    return f"ANSWER: {turn.legal[0]}"


def one(options, player, seat=0, opponent="random", rng=None):
    """The first episode with the model in a seat."""
    task = GTBench(options)
    sample = next(s for s in task.samples("test") if s.data["model_seat"] == seat)
    players = [player, PLAYERS[opponent](Seat(task, sample, 1 - seat, 3))]
    players = players if seat == 0 else players[::-1]
    outcome = asyncio.run(task.rollout(sample, players, rng or Streams(3)))
    return sample, outcome


@pytest.mark.parametrize(
    ("bad", "finish", "cls", "words"),
    [
        ("I would like the centre.", "stop", UNPARSED, "no line ANSWER: <move>"),
        ("ANSWER: C1R1 or C2R2", "stop", UNPARSED, "not one move alone"),
        ("ANSWER: C1R1, no, C2R2", "stop", UNPARSED, "more than one move"),
        ("ANSWER: centre", "stop", UNPARSED, "is not a move of this game"),
        ("ANSWER: C9R9", "stop", ILLEGAL, "The move C9R9 is not legal"),
        ("Let me see, the corner", "length", TRUNCATED, "length limit"),
        ("", "stop", EMPTY, "no answer"),
        ("I'm sorry, but I can't do that.", "stop", REFUSED, "declined"),
    ],
)
def test_feedback_names_the_failure_and_the_retry_is_counted(saying, bad, finish, cls, words):
    class Twice(saying):
        async def act(self, turn):
            self.finish_reason = "stop" if turn.attempt else finish
            return await super().act(turn)

    player = Twice(lambda turn: first_legal(turn) if turn.attempt else bad)
    _, outcome = one({"games": ["tictactoe"], "openings": 0}, player)
    again = player.turns[1]
    assert (again.number, again.attempt) == (0, 1)
    assert [m.role for m in again.messages] == ["system", "user", "assistant", "user"]
    assert again.messages[:2] == player.turns[0].messages
    assert words in again.messages[-1].content
    assert "Legal moves: C1R1; C2R1" in again.messages[-1].content
    assert [(m.cls, m.attempt) for m in outcome.moves[:2]] == [(cls, 0), (OK, 1)]
    assert outcome.cls == OK
    assert outcome.data["line"][0] == [0, "C1R1", 2, "asked"]
    assert Course.of(outcome).first_legal == 0.0


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_retries_are_bounded_and_then_the_game_is_lost(saying, retries):
    player = saying("hmm")
    sample, outcome = one({"games": ["kuhn_poker"], "retries": retries}, player)
    assert len(player.turns) == retries + 1
    assert outcome.cls == UNPARSED
    assert outcome.returns == (-2.0, 2.0)
    assert outcome.data["forfeits"] == [0]
    score = GTBenchReward().score(sample, outcome)
    assert (score.value, score.parts["forfeit"], score.parts["loss"]) == (0.0, 1.0, 1.0)
    assert score.per_seat == (0.0, 1.0)


def test_the_deciding_fault_is_the_last_one(saying):
    player = saying("hmm", "ANSWER: C9R9", "")
    _, outcome = one({"games": ["tictactoe"]}, player)
    assert outcome.cls == EMPTY
    assert [m.cls for m in outcome.moves if m.seat == 0] == [UNPARSED, ILLEGAL, EMPTY]


@pytest.mark.parametrize("key", GAMES)
def test_a_forfeit_is_never_better_than_playing(key, roll):
    """Over random episodes: what the loser gets is the least, what the other gets the most."""
    for sample, outcome in roll({"games": [key], "pairs": 8}, "empty"):
        seat = sample.data["model_seat"]
        if not outcome.data["forfeits"]:
            continue  # only forced moves came up
        assert outcome.returns[seat] <= 0.0
        assert GTBenchReward().score(sample, outcome).value == 0.0
    for sample, outcome in roll({"games": [key], "pairs": 8}, "random", "empty"):
        seat = sample.data["model_seat"]
        if outcome.data["forfeits"]:
            assert outcome.cls == OK  # no fault of the model
            score = GTBenchReward().score(sample, outcome)
            assert score.parts["win"] == 1.0
            most = outcome.data["chance"][seat] / 10 if key == "first_sealed_auction" else 1.0
            assert score.value == most


def test_a_long_failed_reply_is_shown_in_part(saying):
    player = saying(lambda turn: first_legal(turn) if turn.attempt else "word " * 5000)
    one({"games": ["tictactoe"]}, player)
    assert len(player.turns[1].messages[2].content) <= 2000


def test_forced_moves_are_played_unless_asked(saying, roll):
    options = {"games": ["nim"], "pairs": 6, "openings": 0}
    played = roll(options, lambda seat: saying(first_legal))
    forced = [row for _, o in played for row in o.data["line"] if row[3] == "forced"]
    assert forced
    assert all(row[2] == 0 for row in forced)
    asked = roll({**options, "forced": "ask"}, lambda seat: saying(first_legal))
    assert not [row for _, o in asked for row in o.data["line"] if row[3] == "forced"]
    # The choice of asking changes no game.
    assert [o.returns for _, o in played] == [o.returns for _, o in asked]


def test_substitution_plays_on_and_reports_both(saying, roll):
    options = {"games": ["tictactoe", "prisoners_dilemma"], "pairs": 6, "retries": 0}
    strict = roll(options, lambda seat: saying(first_legal, "hmm"))
    further = roll({**options, "substitute": True}, lambda seat: saying(first_legal, "hmm"))
    for (_, short), (_, long) in zip(strict, further, strict=True):
        assert short.cls == long.cls
        if short.cls == OK:
            continue
        assert len(long.moves) >= len(short.moves)
        assert Course.of(long).payoff == Course.of(short).payoff == 0.0
        assert "substituted" not in short.data
        assert 0.0 <= Course.of(long).substituted <= 1.0
        random_moves = [row for row in long.data["line"] if row[3] == "random"]
        assert random_moves
        assert all(row[1] for row in random_moves)
    assert any(o.cls != OK for _, o in strict)


def test_both_may_forfeit_and_then_both_have_lost(saying):
    task = GTBench({"games": ["prisoners_dilemma"], "retries": 0})
    for sample in list(task.samples("test"))[:2]:
        outcome = asyncio.run(task.rollout(sample, [saying("a"), saying("b")], Streams(0)))
        assert outcome.data["forfeits"] == [0, 1]
        score = GTBenchReward().score(sample, outcome)
        assert (score.value, score.parts["loss"], score.parts["draw"]) == (0.0, 1.0, 0.0)


def test_without_the_legal_list_it_is_nowhere(saying):
    for key in GAMES:
        player = saying("hmm", "hmm")
        one({"games": [key], "legal": False, "retries": 1}, player)
        shown = "".join(m.content for turn in player.turns for m in turn.messages)
        assert "Legal" not in shown


def test_reference_players_are_asked_without_words():
    task = GTBench({"games": ["tictactoe"]})
    sample = next(iter(task.samples("test")))
    _, outcome = one({"games": ["tictactoe"]}, PLAYERS["random"](Seat(task, sample, 0, 5)))
    assert all(move.messages == () for move in outcome.moves)
    assert [move.cls for move in outcome.moves] == [OK] * len(outcome.moves)
    assert [m.number for m in outcome.moves] == sorted({m.number for m in outcome.moves})


@pytest.mark.parametrize("agent", ["prompt", "cot", "sc-cot", "tot"])
def test_stored_replies_play_the_same_game_again(saying, roll, agent):
    """What `harness score` does: each seat's replies in order, and nothing is left over."""
    options = {"games": list(GAMES)[:10], "pairs": 1, "agent": agent}
    task = GTBench(options)
    outcomes = roll(options, lambda seat: saying("hmm", first_legal, "CHOICE: 2", first_legal))
    for sample, outcome in outcomes:
        replies = [[m.reply for m in outcome.moves if m.seat == seat] for seat in (0, 1)]
        players = [ReplayPlayer(list(row)) for row in replies]
        seed = derive(0, sample.id, 0)
        again = asyncio.run(task.rollout(sample, players, Streams(seed)))
        assert again.data == outcome.data
        assert again.returns == outcome.returns
        assert again.cls == outcome.cls
        for player in players:
            with pytest.raises(LookupError):
                asyncio.run(player.act(None))


def test_replies_cut_off_behind_the_move_do_not_count(saying):
    player = saying(first_legal, finish_reason="length")
    _, outcome = one({"games": ["first_sealed_auction"], "retries": 0}, player)
    assert outcome.cls == TRUNCATED


def test_the_second_seat_may_be_the_model(saying):
    player = saying(first_legal)
    sample, outcome = one({"games": ["breakthrough"]}, player, seat=1)
    assert sample.data["model_seat"] == 1
    assert all(turn.seat == 1 for turn in player.turns)
    assert "your pieces are W and move up" in player.turns[0].messages[1].content
    assert game("breakthrough").top == abs(outcome.returns[1])


def test_replies_of_reasoning_models_are_read_by_their_text(saying):
    """Reasoning that a back end returns apart is kept and not read."""

    class Reasoning(saying):
        async def act(self, turn):
            return Reply(first_legal(turn), reasoning=f"ANSWER: {turn.legal[-1]}")

    _, outcome = one({"games": ["tictactoe"]}, Reasoning())
    assert outcome.cls == OK
    assert outcome.moves[0].reply.reasoning.startswith("ANSWER")
