"""Reference players: the oracle earns all, guesses earn their chance, constants read no payoffs."""

import asyncio

import pytest

from harness.player import Seat
from harness.seeds import Streams
from harness.types import EMPTY, OK
from harness_plugins.rewards.gamesolve import GameSolveReward
from harness_plugins.tasks.gamesolve.items import draw_item
from harness_plugins.tasks.gamesolve.players import CONSTANTS, STRONGEST, actions, players
from harness_plugins.tasks.gamesolve.presets import plan
from harness_plugins.tasks.gamesolve.task import GameSolve
from harness_plugins.tasks.gamesolve.text import KINDS

SAMPLES = [
    draw_item(item, data_seed=9)
    for preset in ("gamesolve", "gamesolve-ood", "gamesolve-skills")
    for item in plan(preset)[::13]
]
TASK = GameSolve({"preset": "gamesolve"})


def play(name, sample, seed=1):
    player = players()[name](Seat(TASK, sample, 0, seed))
    return asyncio.run(TASK.rollout(sample, [player], Streams(seed)))


def mean(name, kinds=KINDS, seeds=(1,)):
    reward = GameSolveReward()
    scores = [
        reward.score(sample, play(name, sample, seed)).value
        for sample in SAMPLES
        if sample.data["kind"] in kinds
        for seed in seeds
    ]
    return sum(scores) / len(scores)


def test_the_oracle_earns_all():
    assert mean("oracle") == 1.0


def test_the_oracle_knows_the_turn_only():
    """It answers from the truth that the turn shows, not from the sample it was made for."""
    sample = next(s for s in SAMPLES if s.data["kind"] == "payoff")
    player = players()["oracle"](Seat(TASK, sample, 0, 1))
    from harness.types import Turn

    reply = asyncio.run(player.act(Turn(seat=0, messages=(), truth={"value": "42"})))
    assert reply.text == "ANSWER:\nPayoff: 42"


def test_empty_earns_nothing():
    assert mean("empty") == 0.0
    assert {play("empty", sample).cls for sample in SAMPLES} == {EMPTY}


def test_guesses_earn_little_and_depend_on_the_seed_alone():
    assert 0 < mean("random", ("nash",), seeds=range(3)) < 0.2
    assert 0 < mean("random", ("best_response",), seeds=range(3)) < 0.4
    assert 0 < mean("random", seeds=range(3)) < 0.3
    for sample in SAMPLES[::5]:
        texts = {play("random", sample, seed).moves[0].reply.text for seed in range(20)}
        assert play("random", sample, 3).moves[0].reply == play("random", sample, 3).moves[0].reply
        assert len(texts) > 1


def test_guesses_cover_all_actions_evenly():
    sample = next(s for s in SAMPLES if s.data["kind"] == "best_response" and actions(s.data) == 3)
    chosen = [play("random", sample, seed).moves[0].parsed["actions"][0] for seed in range(300)]
    assert all(70 < chosen.count(i) < 130 for i in range(3))


@pytest.mark.parametrize("name", sorted({"random", "oracle", "constant", *CONSTANTS}))
def test_players_write_the_reply_format(name):
    for sample in SAMPLES:
        outcome = play(name, sample)
        kinds = {STRONGEST[kind]: kind for kind in KINDS}
        if name in ("random", "oracle", "constant") or kinds.get(name) == sample.data["kind"]:
            assert outcome.cls == OK
        assert outcome.cls in (OK, EMPTY)


def test_constants_see_names_only():
    """The same words for any payoffs and any truth."""
    for sample in SAMPLES:
        bare = {k: v for k, v in sample.data.items() if k not in ("row", "col", "sigma", "cell")}
        for constant in CONSTANTS.values():
            assert constant(bare) == constant(sample.data)


@pytest.mark.parametrize("kind", KINDS)
def test_the_constant_is_as_strong_as_any(kind):
    best = max(mean(name, (kind,)) for name in CONSTANTS)
    assert mean("constant", (kind,)) >= best - 0.07
