"""mode=policy: the tree against OpenSpiel, the whole path against exact values, the prompts."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from open_spiel.python import policy as spiel_policy
from open_spiel.python.algorithms.expected_game_score import policy_value

import harness
from harness.player import Seat
from harness.seeds import Streams
from harness.types import HarnessError
from harness_plugins.tasks.gtbench import create_task, policy_metrics
from harness_plugins.tasks.gtbench.games import game
from harness_plugins.tasks.gtbench.policy import GAMES, PolicyTask, replayed
from harness_plugins.tasks.gtbench.policy_metrics import (
    drawn_returns,
    empirical,
    estimates,
    exact,
    exploited,
    resampled,
    table,
)
from harness_plugins.tasks.gtbench.policy_players import van_der_corput
from harness_plugins.tasks.gtbench.policy_solve import equilibrium, exploitability, nash_conv
from harness_plugins.tasks.gtbench.policy_tree import build
from harness_plugins.tasks.gtbench.position import load

QUICK = [key for key in GAMES if key != "liars_dice"]


def drawn(side, rng, gone=0.0):
    """A random policy of one seat."""
    policy = np.ones(side.size)
    for _, places in side.blocks:
        legal = places.shape[1] - 1
        policy[places[:, :-1]] = rng.dirichlet(np.ones(legal), len(places)) * (1 - gone)
        policy[places[:, -1]] = gone
    return policy


@pytest.mark.parametrize("key", QUICK)
def test_values_and_exploitability_are_those_of_openspiel(key):
    tree, rng = build(key), np.random.default_rng(3)
    both = [drawn(side, rng) for side in tree.sides]
    rows = table(tree, both)
    assert exploited(tree, *both)[2] == pytest.approx(nash_conv(key, rows) / 2, abs=1e-9)

    spiel = load(game(key).spiel)
    tabular = spiel_policy.TabularPolicy(spiel)
    for name, chances in rows.items():
        row = tabular.policy_for_key(name)
        row[:] = 0.0
        for action, chance in chances.items():
            row[action] = chance
    if key != "leduc_poker":  # a second a game elsewhere, a minute there
        values = policy_value(spiel.new_initial_state(), [tabular, tabular])
        for seat in (0, 1):
            assert tree.value(both[0], both[1], seat) == pytest.approx(values[seat], abs=1e-9)


def test_the_chances_of_all_endings_add_up_and_the_spread_is_that_of_the_endings():
    for key in QUICK:
        tree, rng = build(key), np.random.default_rng(5)
        both = [drawn(side, rng, gone=0.1) for side in tree.sides]
        chance, left, right, returns = tree.endings
        odds = chance * tree.sides[0].plan(both[0])[left] * tree.sides[1].plan(both[1])[right]
        assert odds.sum() == pytest.approx(1.0)
        for seat in (0, 1):
            mean = odds @ returns[:, seat]
            assert tree.value(both[0], both[1], seat) == pytest.approx(mean)
            spread = np.sqrt(odds @ (returns[:, seat] - mean) ** 2)
            assert tree.spread(both[0], both[1], seat) == pytest.approx(spread)


def test_giving_up_is_a_loss_in_kuhn_poker():
    tree = build("kuhn_poker")
    quits = [side.uniform() for side in tree.sides]
    for side, policy in zip(tree.sides, quits, strict=True):
        for _, places in side.blocks:
            policy[places] = 0.0
            policy[places[:, -1]] = 1.0
    uniform = [side.uniform() for side in tree.sides]
    assert tree.value(quits[0], uniform[1], 0) == pytest.approx(-2.0)
    # The second seat is asked in every course of play: it gives up there.
    assert tree.value(uniform[0], quits[1], 1) == pytest.approx(-2.0)
    legal = tree.sides[0].legalised(quits[0])
    assert np.allclose(legal, uniform[0])


def test_known_values_of_kuhn_poker_and_of_the_matrix_games():
    tree = build("kuhn_poker")
    uniform = [side.uniform() for side in tree.sides]
    assert tree.value(*uniform, 0) == pytest.approx(1 / 8)
    assert exploited(tree, *uniform)[2] == pytest.approx(11 / 24)
    assert [len(side.names) for side in build("leduc_poker").sides] == [468, 468]
    assert [len(side.names) for side in build("first_sealed_auction").sides] == [10, 10]
    rps = build("matrix_rps")
    assert exploited(rps, *(side.uniform() for side in rps.sides))[2] == pytest.approx(0.0)


@pytest.mark.parametrize("key", QUICK)
def test_the_equilibria_are_equilibria(key):
    bound = 0.011 if key == "leduc_poker" else 0.001
    assert exploitability(key, equilibrium(key).table) < bound


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), gone=st.floats(0.0, 0.9))
def test_no_policy_does_better_than_a_best_response(seed, gone):
    tree, rng = build("kuhn_poker"), np.random.default_rng(seed)
    first, second = drawn(tree.sides[0], rng, gone), drawn(tree.sides[1], rng, gone)
    assert tree.best(0, second) >= tree.value(first, second, 0) - 1e-12
    assert tree.best(1, first) >= tree.value(first, second, 1) - 1e-12


@pytest.fixture
def asked(tmp_path):
    """``asked(model, options)``: a run in policy mode, its figures by name and game."""

    def asked(model, **options):
        run = harness.run("gtbench", model, options={"mode": "policy", **options}, out=tmp_path)
        return {(m["name"], m["group"]): m for m in run.metrics["metrics"]}

    return asked


def test_the_uniform_policy_through_the_whole_path(asked):
    found = asked("player:uniform", games=["kuhn_poker"], queries=2)
    assert found["value.self", "kuhn_poker"]["value"] == pytest.approx(0.125)
    assert found["exploitability", "kuhn_poker"]["value"] == pytest.approx(0.4583, abs=5e-5)
    assert found["random.exploitability", "kuhn_poker"]["value"] == pytest.approx(11 / 24)


def test_the_equilibrium_through_the_whole_path(asked):
    found = asked("player:equilibrium", games=["kuhn_poker"], queries=1024)
    for name in ("exploitability", "exploitability.substituted"):
        assert found[name, "kuhn_poker"]["value"] < 0.002
    assert found["value.self", "kuhn_poker"]["value"] == pytest.approx(-1 / 18, abs=1e-3)
    # Matches would need far more turns for an interval as narrow.
    assert found["saving", "kuhn_poker"]["value"] > 10


def test_a_model_that_names_no_move_loses_as_played_and_is_random_when_substituted(asked):
    found = asked("empty", queries=5, retries=0)
    assert found["forfeit", ""]["value"] == 1.0
    assert found["value.random", "kuhn_poker"]["value"] == pytest.approx(-2.0)
    assert found["exploitability", "kuhn_poker"]["value"] == pytest.approx(2.0)
    assert found["exploitability.substituted", "kuhn_poker"]["value"] == pytest.approx(11 / 24)
    # Only a worth of 1 is played: its one bid, 0, wins half of the ties.
    forced = sum(1 / worth for worth in range(1, 11)) / 10 / 2 / 10
    assert found["value.random", "first_sealed_auction"]["value"] == pytest.approx(forced)


def test_oracle_scores_one_and_random_less(tmp_path):
    scores = {
        model: harness.run(
            "gtbench", model, options={"mode": "policy", "queries": 1}, out=tmp_path
        ).metrics["score"]["value"]
        for model in ("oracle", "random")
    }
    assert scores["oracle"] == 1.0
    assert scores["random"] < 0.8


def test_intervals_hold_the_truth_for_simulated_players(monkeypatch):
    monkeypatch.setattr(policy_metrics, "RESAMPLES", 200)
    tree, rng, hits, n = build("kuhn_poker"), np.random.default_rng(11), 0, 60
    for number in range(n):
        both = [drawn(side, rng, gone=0.02) for side in tree.sides]
        counts = []
        for side, policy in zip(tree.sides, both, strict=True):
            seen = np.zeros(side.size)
            for _, places in side.blocks:
                seen[places] = rng.multinomial(20, policy[places] / policy[places].sum(1)[:, None])
            counts.append(seen)
        truth = exact(tree, *both)
        found = estimates(tree, tuple(counts), number)
        for name in ("value.random", "exploitability"):
            _, low, high = found[name]
            hits += low <= truth[name] <= high
    # Of 120: 95 % and less than three standard errors, were they independent.
    assert 107 <= hits <= 120


def test_resampled_policies_are_policies_around_the_empirical_one():
    side = build("kuhn_poker").sides[0]
    counts = np.zeros(side.size)
    for _, places in side.blocks:
        counts[places] = [15, 4, 1]
    drawn_ = resampled(side, counts, 2000, np.random.default_rng(0))
    point = empirical(side, counts)
    for _, places in side.blocks:
        assert np.allclose(drawn_[:, places].sum(-1), 1.0)
        assert np.allclose(drawn_[:, places].mean(0), point[places], atol=0.02)


def test_drawn_matches_have_the_exact_mean():
    tree = build("kuhn_poker")
    uniform = [side.uniform() for side in tree.sides]
    returns = drawn_returns(tree, 0, *uniform, 40_000, np.random.default_rng(1))
    assert returns.mean() == pytest.approx(0.125, abs=0.03)


@pytest.mark.parametrize("key", [*QUICK, "liars_dice"])
def test_a_prompt_depends_on_what_the_seat_knows_and_on_nothing_else(key):
    task = PolicyTask({"games": [key], "queries": 1})
    told = {}
    for sample in task.samples("test"):
        told[sample.data["information"]] = sample
        if len(told) == 300:
            break
    assert not list(task.verify(told.values()))
    rng = np.random.default_rng(0)
    spiel = load(game(key).spiel)
    matched = 0
    for _ in range(200):
        state = spiel.new_initial_state()
        while not state.is_terminal():
            if not state.is_chance_node():
                seat = state.current_player()
                sample = told.get(state.information_state_string(seat))
                if sample is not None:
                    other = sample.data | {"course": list(state.history())}
                    twin = type(sample)(sample.id, "test", other)
                    assert task.messages(twin) == task.messages(sample)
                    matched += 1
            state.apply_action(int(rng.choice(state.legal_actions())))
    assert matched > 30
    texts = [task.messages(s)[1].content for s in told.values()]
    # Leduc's two cards of a rank and both seats of a symmetric matrix are told alike.
    if key not in ("leduc_poker", "matrix_rps") and not key.startswith("matrix"):
        assert len(set(texts)) == len(texts)


def test_what_the_prompts_of_leduc_poker_say_is_what_the_engine_holds():
    for course in ([0, 3, 2, 1, 1], [5, 2, 1, 2], [4, 0, 1, 1, 2, 1, 2]):
        position = replayed("leduc_poker", course)
        [seat] = position.seats()
        task = PolicyTask({"games": ["leduc_poker"], "queries": 1})
        name = position.state.information_state_string(seat)
        sample = next(s for s in task.samples("test") if s.data["information"] == name)
        text = task.messages(sample)[1].content
        money = name.split("[Money: ")[1].split("]")[0].split()
        own, other = (100 - int(float(money[s])) for s in (seat, 1 - seat))
        assert f"You have {own} chips in the pot, your opponent has {other}." in text
        card = ("Jack", "Queen", "King")[course[seat] // 2]
        assert f"Your card is the {card}." in text


def test_the_payoffs_of_matrix_games_are_told_from_the_own_side():
    task = PolicyTask({"games": ["matrix_bos"], "queries": 1})
    first, second = (task.messages(s)[1].content for s in task.samples("test"))
    line = "If you choose Bach and your opponent chooses Bach, you get {} and your opponent gets {}"
    assert line.format(3, 2) in first
    assert line.format(2, 3) in second


def test_every_reply_of_a_query_is_recorded_and_retries_count(saying):
    task = PolicyTask({"games": ["kuhn_poker"], "queries": 1})
    sample = next(iter(task.samples("test")))
    player = saying("hm", "ANSWER: Bet")
    outcome = asyncio.run(task.rollout(sample, [player], Streams(1)))
    assert [move.cls for move in outcome.moves] == ["unparsed", "ok"]
    assert (outcome.data["action"], outcome.data["attempts"], outcome.cls) == (1, 2, "ok")
    assert outcome.moves[0].seat == 0


def test_both_vocabularies_and_agents_work(saying):
    task = PolicyTask({"games": ["kuhn_poker"], "queries": 1, "variant": "both", "agent": "cot"})
    samples = list(task.samples("test"))
    assert {s.group for s in samples} == {"kuhn_poker", "kuhn_poker/relabelled"}
    assert len({s.id for s in samples}) == len(samples) == 24
    other = next(s for s in samples if s.data["variant"] == "relabelled")
    outcome = asyncio.run(task.rollout(other, [saying("ANSWER: Push")], Streams(1)))
    assert outcome.data["action"] == 1


def test_quotas_come_out():
    points = sorted(van_der_corput(k) for k in range(64))
    assert points == [k / 64 for k in range(64)]


def test_what_makes_no_sense_is_refused():
    for options in ({"games": ["tictactoe"]}, {"queries": -1}):
        with pytest.raises(HarnessError):
            create_task("gtbench", {"mode": "policy", **options})
    with pytest.raises(HarnessError, match="choose from"):
        create_task("gtbench", {"mode": "nonsense"})
    with pytest.raises(HarnessError, match="split"):
        list(PolicyTask({}).samples("train"))


def test_a_policy_player_sits_in_a_seat_of_its_own():
    task = PolicyTask({"games": ["matrix_pd"], "queries": 1})
    for sample in task.samples("test"):
        player = task.players()["best-response"](Seat(task, sample, 0, 1))
        outcome = asyncio.run(task.rollout(sample, [player], Streams(1)))
        assert outcome.data["action"] == 1  # defects
        assert outcome.data["worth"] == 1.0
