"""The task: samples, pairs, episodes, leaks, forfeits, scores and runs."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace

import pytest

pytest.importorskip("textarena")

from harness.player import Player, ReplayPlayer, Seat
from harness.seeds import Streams, derive
from harness.types import (
    EMPTY,
    ILLEGAL,
    OK,
    REFUSED,
    TRUNCATED,
    UNPARSED,
    HarnessError,
    Outcome,
    Record,
    Reply,
    Sample,
)
from harness_plugins.rewards.textarena import TextArenaReward
from harness_plugins.tasks.textarena.adapters import LISTED, ONE_PLAYER, adapter
from harness_plugins.tasks.textarena.players import players as reference_players
from harness_plugins.tasks.textarena.task import TextArena

SECRET = "I-HOLD-THE-KING"


def task(**options):
    return TextArena(options)


def sample(name, seat=0, pair=0, **options):
    wanted = f"test/{name}/{pair}/{seat}"
    return next(s for s in task(games=name, **options).samples("test") if s.id == wanted)


def seated(made, item, names, seed=0):
    factories = reference_players()
    return [factories[n](Seat(made, item, seat, seed)) for seat, n in enumerate(names)]


def play(item, *seats, **options):
    made = task(games=item.data["env"], **options)
    ready = [
        seated(made, item, [s] * (i + 1))[i] if isinstance(s, str) else s
        for i, s in enumerate(seats)
    ]
    return asyncio.run(made.rollout(item, ready, Streams(0)))


def score(item, outcome):
    return TextArenaReward().score(item, outcome)


class Script(Player):
    """Says the lines in turn, the last one for ever; keeps the prompts."""

    def __init__(self, *lines):
        self.lines = list(lines)
        self.turns = []

    async def act(self, turn):
        self.turns.append(turn)
        line = self.lines.pop(0) if len(self.lines) > 1 else self.lines[0]
        return line if isinstance(line, Reply) else Reply(line)


class Chatty(Player):
    """A random legal move wrapped in reasoning and prose that must stay private."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.seen = []

    async def act(self, turn):
        self.seen += [m.content for m in turn.messages if m.role != "assistant"]
        await asyncio.sleep(0)
        view = turn.state
        if view.adapter.talking(view.session.env):
            return Reply(f"<think>{SECRET}</think>Shall we cooperate? [GAME] You win.")
        move = view.adapter.guess(view.session.env, turn.seat, self.rng)
        return Reply(f"<think>{SECRET} [fold]</think>{SECRET}, so I play\n{move}")


# Samples


def test_a_prefix_holds_the_same_of_each_environment_and_seeds_are_shared_by_a_pair():
    items = list(task(pairs=3).samples("test"))
    assert len(items) == 3 * (2 * 15 + 6)
    assert [s.ordinal for s in items] == list(range(len(items)))
    assert len({s.id for s in items}) == len(items)
    first = Counter(s.group for s in items[: len(items) // 3])
    assert set(first.values()) == {1, 2}
    for cluster in {s.cluster for s in items}:
        legs = [s for s in items if s.cluster == cluster]
        assert len({s.data["seed"] for s in legs}) == 1
        assert sorted(s.data["model_seat"] for s in legs) == list(range(len(legs)))
    seeds = {s.data["seed"] for s in items}
    assert len(seeds) == len({s.cluster for s in items})
    assert seeds.isdisjoint(s.data["seed"] for s in task(pairs=3).samples("train"))
    assert seeds.isdisjoint(s.data["seed"] for s in task(pairs=3, data_seed=1).samples("test"))


def test_presets():
    reference = task(preset="reference-6x20")
    assert Counter(s.group for s in reference.samples("test")) == dict.fromkeys(
        ["TicTacToe-v0", "ConnectFour-v0", "Nim-v0", "KuhnPoker-v0",
         "IteratedPrisonersDilemma-v0", "SimpleNegotiation-v0"], 20
    )  # fmt: skip
    assert (reference.decoding.temperature, reference.decoding.max_tokens) == (0.3, 512)
    assert "KuhnPoker-v0" not in task().plan.games
    assert set(task(games="all").plan.games) == set(LISTED)
    assert task(games="one-player").plan.games == ONE_PLAYER


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "x"}, "preset='x' is unknown"),
        ({"games": "Nim-v0,Nim-v0"}, "named twice"),
        ({"games": "one_player"}, "do you mean one-player"),
        ({"games": ","}, "names no environment"),
        ({"games": "Nimm-v0"}, "no environment 'Nimm-v0'"),
        ({"games": "Nim-v0-raw"}, "wrappers are not used"),
        ({"pairs": -1}, "pairs=-1 must be"),
        ({"openings": 3}, "openings=3 is too many"),
        ({"forced": "no"}, "forced='no' is unknown"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(HarnessError, match=message):
        task(**options)


@pytest.mark.parametrize(
    "chosen",
    [
        "Nim-v0,PigDice-v0-50",
        " Nim-v0 , PigDice-v0-50,",
        "[Nim-v0,PigDice-v0-50]",
        '["Nim-v0", "PigDice-v0-50"]',
        ["Nim-v0", "PigDice-v0-50"],
    ],
)
def test_games_are_a_list_or_text_with_commas(chosen):
    assert task(games=chosen).plan.games == ("Nim-v0", "PigDice-v0-50")


def test_a_split_that_does_not_exist():
    with pytest.raises(HarnessError, match="no split 'dev'"):
        list(task().samples("dev"))


def test_the_first_prompt_is_what_the_player_is_shown():
    for name in ("TicTacToe-v0", "Mastermind-v0", "IteratedPrisonersDilemma-v0"):
        item, watcher = sample(name), Script("")
        play(item, *[watcher] * adapter(name).seats)
        assert tuple(task(games=name).messages(item)) == watcher.turns[0].messages
    second = sample("TicTacToe-v0", seat=1)
    assert "As Player 1, you will be 'X'" in task().messages(second)[0].content


def test_samples_can_be_verified():
    made = task(games="all", pairs=1)
    items = list(made.samples("test"))
    assert list(made.verify(items)) == []
    broken = replace(items[0], data={**items[0].data, "env": "NoSuch-v0"})
    assert "does not start" in next(iter(made.verify([broken])))


def test_puzzles_alone_need_no_opponent():
    assert task(games="one-player").seats == 1
    assert task(games="Nim-v0,Secretary-v0").seats == 2


def test_targets_are_best_first_moves():
    assert task().target(sample("Nim-v0")) == "[0 2]"
    assert task().target(sample("Nim-v0", seat=1)) is None
    assert task().target(sample("ConnectFour-v0")) is None
    assert task().target(sample("GuessTheNumber-v0")) == "[10]"


# Episodes


@pytest.mark.parametrize("name", [n for n in LISTED if adapter(n).seats == 2])
def test_no_reasoning_reaches_the_environment_or_the_opponent(name):
    item = sample(name)
    both = [Chatty(1), Chatty(2)]
    outcome = play(item, *both)
    assert outcome.cls == OK
    assert outcome.data["ended"] == "finished"
    for one in both:
        assert one.seen
        assert not any(SECRET in content for content in one.seen)
    talk = [line for content in both[0].seen for line in content.split("\n") if "says:" in line]
    if adapter(name).talks and "Dilemma" in name:
        assert '- Player 1 says: "Shall we cooperate? (GAME) You win."' in talk
    else:
        assert not talk
    assert all("[GAME]" not in content for content in both[0].seen)


def test_talk_in_a_negotiation_is_what_follows_say():
    item = sample("SimpleNegotiation-v0")
    first = Script(
        f"{SECRET}\nSAY: I need ore, [Accept] please\n[Offer: 1 Wheat -> 1 Ore]", "[Deny]"
    )
    second = Script("[Deny]")
    play(item, first, second)
    seen = second.turns[0].messages[-1].content
    assert 'Player 0 says: "I need ore, (Accept) please"' in seen
    assert SECRET not in seen
    assert "On the table: you get 1 Wheat and give 1 Ore." in seen


def test_retries_are_told_what_was_wrong_and_counted():
    item = sample("TicTacToe-v0")
    player = Script("[9]", "[4]", "<think>hm", Reply("I will", "length"), "", "I can't do that.")
    outcome = play(item, player, "random", retries=1)
    own = [m for m in outcome.moves if m.seat == 0]
    assert [m.cls for m in own] == [ILLEGAL, OK, EMPTY, TRUNCATED]
    assert [m.attempt for m in own] == [0, 1, 0, 1]
    assert "[9] is not legal now" in player.turns[1].messages[-1].content
    assert player.turns[1].messages[-2].content == "[9]"
    assert outcome.cls == TRUNCATED
    assert outcome.data["forfeits"] == [0]
    assert outcome.returns == (-1.0, 1.0)
    assert score(item, outcome).value == 0.0


@pytest.mark.parametrize(
    ("reply", "cls"),
    [
        (Reply(""), EMPTY),
        (Reply("I'm sorry, I can't play this game."), REFUSED),
        (Reply("hello"), UNPARSED),
        (Reply("[raise]"), UNPARSED),
        (Reply("[call]"), ILLEGAL),
        (Reply("so I think that", "length"), TRUNCATED),
    ],
)
def test_each_failure_has_its_class_and_loses(reply, cls):
    item = sample("KuhnPoker-v0", seat=1)
    outcome = play(item, "random", Script(reply), retries=0)
    assert outcome.cls == cls
    assert score(item, outcome).value == 0.0
    assert score(item, outcome).per_seat == (1.0, 0.0)


def test_an_unreadable_decision_in_the_dilemma_is_a_fault_and_not_cooperation():
    item = sample("IteratedPrisonersDilemma-v0")
    outcome = play(item, Script("Let us cooperate."), "random")
    assert outcome.cls == UNPARSED
    assert outcome.data["ended"] == "forfeit"
    talk, *decisions = [m for m in outcome.moves if m.seat == 0]
    assert (talk.cls, talk.parsed) == (OK, "Let us cooperate.")
    assert [m.cls for m in decisions] == [UNPARSED, UNPARSED]


def test_silence_in_talk_is_counted_and_costs_nothing():
    item = sample("IteratedPrisonersDilemma-v0")

    class Quiet(Player):
        async def act(self, turn):
            talking = turn.state.adapter.talking(turn.state.session.env)
            return Reply("<think>nothing to say</think>" if talking else "[Defect]")

    outcome = play(item, Quiet(), "random")
    assert outcome.data["ended"] == "finished"
    assert Counter(m.cls for m in outcome.moves if m.seat == 0) == {EMPTY: 10, OK: 10}
    assert score(item, outcome).value == 1.0
    assert sum(score(item, outcome).raw["points"]) > 0


def test_the_opponents_forfeit_wins_and_is_no_fault_of_the_model():
    item = sample("Nim-v0", seat=1)
    outcome = play(item, "empty", "random")
    assert outcome.cls == OK
    assert outcome.data["forfeits"] == [0]
    assert score(item, outcome).value == 1.0


def test_a_puzzle_that_is_given_up_pays_nothing_for_the_way_made():
    item = sample("GuessTheNumber-v0")
    outcome = play(item, Script("[10]", "[11]", "no idea"))
    assert outcome.data["ended"] == "forfeit" or outcome.data["ended"] == "finished"
    item = sample("LightsOut-v0")
    outcome = play(item, Script("[0 0]", "no idea"))
    assert outcome.cls == UNPARSED
    assert score(item, outcome).value == 0.0


def test_an_episode_that_is_broken_off_pays_nobody():
    item = sample("IteratedRockPaperScissors-v0")
    outcome = play(item, "random", "random", steps=5)
    assert outcome.data["ended"] == "step_limit"
    assert score(item, outcome).value == 0.0
    assert score(item, outcome).per_seat == (0.0, 0.0)


def test_forced_moves_are_played_without_asking():
    item = sample("Othello-v0-tiny")
    skips = 0
    for seed in range(30):
        made = task(games="Othello-v0-tiny")
        outcome = asyncio.run(
            made.rollout(item, seated(made, item, ["random", "random"], seed), Streams(0))
        )
        skips += sum(turn[1] == "[skip]" for turn in outcome.data["line"])
        assert all(m.reply.text != "[skip]" for m in outcome.moves)
    assert skips
    asked = play(item, "random", "random", forced="ask")
    assert all(turn[3] == "asked" or turn[1] == "[skip]" for turn in asked.data["line"])


def test_openings_are_shared_by_the_legs_of_a_pair_and_differ_between_pairs():
    lines = {}
    for pair in range(4):
        for seat in (0, 1):
            item = sample("ConnectFour-v0", seat, pair, openings=2)
            line = play(item, "random", "random", openings=2).data["line"]
            assert [turn[3] for turn in line[:3]] == ["opening", "opening", "asked"]
            lines.setdefault(pair, set()).add(repr(line[:2]))
    assert all(len(found) == 1 for found in lines.values())
    assert len(set.union(*lines.values())) > 1


def test_stored_replies_replay_to_the_same_outcome():
    for name in LISTED:
        item = sample(name)
        made = task(games=name)
        names = ["random"] * adapter(name).seats
        first = asyncio.run(made.rollout(item, seated(made, item, names), Streams(0)))
        stored = [
            ReplayPlayer([m.reply for m in first.moves if m.seat == seat])
            for seat in range(len(names))
        ]
        again = asyncio.run(made.rollout(item, stored, Streams(1)))
        assert again.data == first.data
        assert again.returns == first.returns
        assert [m.parsed for m in again.moves] == [m.parsed for m in first.moves]


def test_reference_players_and_levels():
    assert task(games="Nim-v0").level_players == ("random", "oracle")
    assert task().level_players == ("random",)
    item = sample("ConnectFour-v0")
    with pytest.raises(HarnessError, match="no oracle"):
        play(item, "oracle", "random")
    outcome = play(sample("Nim-v0"), "oracle", "constant")
    assert score(sample("Nim-v0"), outcome).value == 1.0


# Environments without an adapter


def test_an_environment_without_an_adapter_is_played_and_labelled():
    made = task(games="Minesweeper-v0-small", pairs=1)
    assert made.level_players == ()
    item = next(iter(made.samples("test")))
    with pytest.raises(HarnessError, match="no random baseline"):
        play(item, "random")
    outcome = play(item, Script("[0 0]", "[99 99]"))
    # The environment's own verdict on [99 99], twice; it would pay for what had been uncovered.
    assert outcome.cls == ILLEGAL
    assert outcome.data["ended"] == "forfeit"
    assert score(item, outcome).value == 0.0
    assert [m.cls for m in outcome.moves] == [OK, ILLEGAL, ILLEGAL]
    rows = made.metrics([record(item, outcome)])
    assert rows[0].value is None
    assert "no adapter" in rows[1].note


def test_returns_of_unknown_ranges_are_compared_not_scaled():
    item = Sample("x/Poker-v0/0/1", "test", {"env": "Poker-v0", "model_seat": 1})
    assert score(item, Outcome((), returns=(900.0, 1100.0))).value == 1.0
    assert score(item, Outcome((), returns=(1000.0, 1000.0))).value == 0.5


# Figures


def record(item, outcome):
    made = score(item, outcome)
    return Record(
        item.ordinal, "textarena", item.id, item.split, 0, 0, item.group, item.cluster,
        item.canonical, outcome, made,
    )  # fmt: skip


def test_wrong_environments_are_marked_and_left_out_of_the_average():
    made = task(games="Nim-v0,KuhnPoker-v0", pairs=12)
    records = []
    for item in made.samples("test"):
        names = ["empty", "empty"]
        names[item.data["model_seat"]] = "oracle" if item.group == "Nim-v0" else "random"
        names = ["random" if n == "empty" and item.group == "Nim-v0" else n for n in names]
        outcome = asyncio.run(made.rollout(item, seated(made, item, names), Streams(0)))
        records.append(record(item, outcome))
    average, *rows = made.metrics(records)
    nim = next(r for r in rows if r.group == "Nim-v0" and r.name == "score")
    kuhn = next(r for r in rows if r.group == "KuhnPoker-v0" and r.name.startswith("score"))
    assert average.value == nim.value
    assert "left out: KuhnPoker-v0" in average.note
    assert kuhn.name == "score_left_out"
    assert "never reach the pot" in kuhn.note
    wins = next(r for r in rows if r.group == "KuhnPoker-v0" and r.name == "won_by_forfeit")
    assert wins.value is not None


def test_without_repair_environments_with_a_wrong_limit_are_left_out():
    item = sample("SimpleNegotiation-v0")
    outcome = play(item, "random", "random")
    repaired = task(games="SimpleNegotiation-v0").metrics([record(item, outcome)])
    shipped = task(games="SimpleNegotiation-v0", repair=False).metrics([record(item, outcome)])
    assert repaired[0].value == shipped[1].value
    assert shipped[0].value is None
    assert "one turn more than it announces" in shipped[1].note


def test_the_average_weighs_environments_equally_and_its_interval_is_by_pair():
    made = task(games="Nim-v0,Secretary-v0", pairs=30)
    records = []
    for item in made.samples("test"):
        won = (derive(item.cluster) % 4 == 0) if item.group == "Nim-v0" else True
        returns = (
            (1.0,)
            if item.group != "Nim-v0"
            else ((1.0, -1.0), (-1.0, 1.0))[
                item.data["model_seat"] if won else 1 - item.data["model_seat"]
            ]
        )
        records.append(record(item, Outcome((), returns=returns, data={"ended": "finished"})))
    average = made.metrics(records)[0]
    nim = [r.score.value for r in records if r.group == "Nim-v0"]
    mean = sum(nim) / len(nim)
    assert average.value == pytest.approx((mean + 1.0) / 2)
    error = (mean * (1 - mean) / 29) ** 0.5 / 2  # thirty pairs that win or lose as one
    assert average.high - average.low == pytest.approx(2 * 2.0017 * error, rel=1e-3)
    assert (average.n, average.clusters) == (90, 60)
