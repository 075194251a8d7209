"""Control variates: the same mean as the returns, whatever the model plays, and less variance."""

from __future__ import annotations

from statistics import fmean, stdev

import numpy as np
import pytest

from harness.player import FixedPlayer
from harness_plugins.tasks.gtbench.policy_tree import build
from harness_plugins.tasks.gtbench.position import load
from harness_plugins.tasks.gtbench.task import GTBench
from harness_plugins.tasks.gtbench.variates import (
    EQUILIBRIUM,
    RANDOM,
    estimate,
    estimates,
    random_value,
    values,
)


def quitter(seat):
    """Bets, bids low or gives up: by a draw of its own."""
    count = iter(range(100))

    def say(turn):
        place = (seat.seed // 7 ** (1 + next(count))) % 10
        return "no idea" if place == 0 else turn.legal[0 if place < 6 else -1]

    return FixedPlayer(say)


@pytest.mark.parametrize("opponent", [RANDOM, EQUILIBRIUM])
@pytest.mark.parametrize("key", ["kuhn_poker", "first_sealed_auction"])
@pytest.mark.parametrize("seat", [0, 1])
def test_the_mean_is_the_exact_value_whatever_is_guessed(key, seat, opponent):
    """No simulation: over all endings, weighted by their chance."""
    tree, rng = build(key), np.random.default_rng(7)
    own, other = tree.sides[seat], tree.sides[1 - seat]

    def drawn(side):
        policy = np.ones(side.size)
        for _, places in side.blocks:
            policy[places] = rng.dirichlet(np.ones(places.shape[1]), len(places))
        return policy

    from harness_plugins.tasks.gtbench.variates import _policy

    model, guess = drawn(own), drawn(own)
    played = _policy(key, 1 - seat, opponent)
    table = values(key, seat, opponent, guess)
    set_of = np.zeros(own.size, int)
    before = np.zeros(own.size, int)
    for members, places in own.blocks:
        set_of[places] = members[:, None]
        before[places] = np.array(own.parent)[members][:, None]
    worth = np.zeros(own.size)
    worth[0] = table.start
    for _, places in own.blocks:
        gain = table.sequences[places] - table.sets[set_of[places]]
        worth[places] = worth[before[places]] + gain
    chance, first, second, returns = tree.endings
    mine, theirs = (first, second) if seat == 0 else (second, first)
    odds = chance * own.plan(model)[mine] * other.plan(played)[theirs]
    assert odds @ worth[mine] == pytest.approx(odds @ returns[:, seat], abs=1e-9)
    mean = odds @ worth[mine]
    plain = odds @ (returns[:, seat] - mean) ** 2
    exact_guess = values(key, seat, opponent, model)
    assert exact_guess.start == pytest.approx(mean)
    assert plain > 0


@pytest.mark.parametrize("key", ["kuhn_poker", "first_sealed_auction", "tictactoe", "nim"])
def test_simulated_episodes_agree_with_their_returns(roll, key):
    found = roll({"games": [key], "pairs": 250, "variates": True, "retries": 0}, quitter, "random")
    rows = [(sample.cluster, outcome.data) for sample, outcome in found]
    luckless = estimates(rows)
    plain = [o.returns[s.data["model_seat"]] for s, o in found]
    differences = [a - b for a, b in zip(luckless, plain, strict=True)]
    error = stdev(differences) / len(differences) ** 0.5
    assert abs(fmean(differences)) < 3.5 * error
    assert stdev(luckless) < stdev(plain)


def test_the_equilibrium_against_itself_needs_far_fewer_games(roll):
    found = roll({"games": ["kuhn_poker"], "pairs": 200, "variates": True}, "cfr", "cfr")
    assert {o.data["opponent"] for _, o in found} == {EQUILIBRIUM}
    luckless = estimates([(s.cluster, o.data) for s, o in found])
    plain = [o.returns[s.data["model_seat"]] for s, o in found]
    assert stdev(luckless) < stdev(plain) / 10


def test_figures_stand_beside_the_returns():
    import asyncio

    from harness.player import Seat
    from harness.seeds import Streams, derive
    from harness.types import Record, Score

    task = GTBench({"games": ["kuhn_poker"], "pairs": 40, "variates": True})
    random, records = task.players()["random"], []
    for number, sample in enumerate(task.samples("test")):
        seed = derive(0, sample.id)
        seats = [random(Seat(task, sample, k, seed + k)) for k in (0, 1)]
        outcome = asyncio.run(task.rollout(sample, seats, Streams(seed)))
        records.append(
            Record(number, "gtbench", sample.id, "test", 0, 0, sample.group, sample.cluster, "",
                   outcome, Score(0.0))
        )  # fmt: skip
    found = {(m.name, m.group): m for m in task.metrics(records)}
    own, usual = found["return.aivat", "kuhn_poker"], found["return", "kuhn_poker"]
    assert own.high - own.low < usual.high - usual.low
    assert found["aivat.saving", "kuhn_poker"].value > 2
    assert "return.aivat" in task.columns


def test_an_opponent_with_an_unknown_policy_has_no_variate(roll):
    found = roll({"games": ["kuhn_poker"], "pairs": 2, "variates": True}, "random", "greedy")
    assert estimates([(s.cluster, o.data) for s, o in found]) == [None] * 4


def test_the_value_of_random_play_of_tic_tac_toe_is_the_known_one():
    # 0.585 - 0.288: first player wins and loses under random play.
    state = load("tic_tac_toe").new_initial_state()
    assert random_value("tictactoe", state, 0) == pytest.approx(0.5848 - 0.2881, abs=1e-3)


def test_one_estimate_is_the_sum_of_its_decisions(roll):
    [(_, outcome), *_] = roll({"games": ["kuhn_poker"], "pairs": 1, "variates": True})
    table = values("kuhn_poker", outcome.data["model_seat"], RANDOM)
    assert -4.0 <= estimate(outcome.data, table) <= 4.0
