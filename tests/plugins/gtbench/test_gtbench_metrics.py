"""Figures of a run: formulas, intervals, the random baseline against published and exact rates."""

from __future__ import annotations

import math
from random import Random

import pytest

from harness.types import OK, UNPARSED, Outcome, Record, Score
from harness_plugins.rewards.gtbench import GTBenchReward, create_reward
from harness_plugins.tasks.gtbench import baseline
from harness_plugins.tasks.gtbench import figures as figures_of
from harness_plugins.tasks.gtbench.baseline import Baseline
from harness_plugins.tasks.gtbench.course import Course
from harness_plugins.tasks.gtbench.games import DEFAULT_GAMES, GAMES
from harness_plugins.tasks.gtbench.task import GTBench


def outcome(own, other, key="tictactoe", seat=0, forfeits=(), line=None, scale=None, **data):
    returns = (own, other) if seat == 0 else (other, own)
    top = GAMES[key].top
    return Outcome(
        (),
        UNPARSED if seat in forfeits else OK,
        returns,
        {
            "game": key,
            "variant": "plain",
            "model_seat": seat,
            "opening": [],
            "line": line if line is not None else [[seat, "C1R1", 1, "asked"]],
            "chance": [],
            "scale": scale or [top, top],
            "forfeits": list(forfeits),
            **data,
        },
    )


def record(index, found, group="tictactoe", cluster=None):
    score = GTBenchReward().score(None, found)
    name = f"p{index}" if cluster is None else cluster
    return Record(index, "gtbench", str(index), "test", 0, 0, group, name, "", found, score)


def figures(records, options=None):
    found = GTBench(options or {}).metrics(records)
    return {(metric.name, metric.group): metric for metric in found}


@pytest.mark.parametrize(
    ("wins", "losses", "draws", "nra"),
    [(4, 5, 36, -1 / 9), (30, 17, 3, 13 / 47), (31, 13, 6, 18 / 44), (13, 36, 1, -23 / 49)],
)
def test_nra_is_the_published_formula(wins, losses, draws, nra):
    """The published -0.111, 0.277, 0.409 and -0.469 are these fractions: draws vanish, and absolute
    values are taken a match. Absolute values of the totals would give -1 or +1."""
    found = [outcome(1, -1)] * wins + [outcome(-1, 1)] * losses + [outcome(0, 0)] * draws
    metric = figures([record(i, o) for i, o in enumerate(found)])["nra", "tictactoe"]
    assert metric.value == pytest.approx(nra)
    assert metric.low < metric.value < metric.high


def test_nra_of_general_sums_and_of_nothing():
    rows = [outcome(3, 1, "first_sealed_auction"), outcome(0, 4, "first_sealed_auction")]
    found = figures([record(i, o, "first_sealed_auction") for i, o in enumerate(rows)])
    assert found["nra", "first_sealed_auction"].value == pytest.approx((3 - 5) / (3 + 5))
    draws = figures([record(i, outcome(0, 0)) for i in range(3)])
    assert draws["nra", "tictactoe"].value == 0.0


def test_normalised_return_of_zero_sum_games():
    for key, own, expected in (
        ("tictactoe", 1, 1.0),
        ("tictactoe", 0, 0.0),
        ("kuhn_poker", -2, -1.0),
        ("kuhn_poker", 1, 0.5),
        ("limit-holdem", 25, 0.5),
    ):
        top = GAMES[key].top
        found = figures([record(0, outcome(own, -own, key), key)])
        assert found["return", key].value == pytest.approx((own - -own) / (top - -top))
        assert found["return", key].value == expected


def test_normalised_return_of_general_sum_games_is_0_for_random_and_1_for_best_response(roll):
    options = {"games": ["first_sealed_auction", "prisoners_dilemma"], "pairs": 150}
    for name, expected in (("random", 0.0), ("best-response", 1.0)):
        outcomes = roll(options, name)
        rows = [record(i, o, s.group, s.cluster) for i, (s, o) in enumerate(outcomes)]
        found = figures(rows, options)
        for key in options["games"]:
            metric = found["return", key]
            half = (metric.high - metric.low) / 2
            assert abs(metric.value - expected) < 2.2 * half


def test_ledger_views():
    """As played, given legal play, substituted, legacy: by hand."""
    line = [[0, "C1R1", 1, "asked"], [0, None, 3, "asked"]]
    lost = outcome(-1, 1, forfeits=(0,), line=line, substituted=[1.0, -1.0])
    rows = [outcome(1, -1)] * 2 + [outcome(0, 0)] + [lost]
    found = figures([record(i, o) for i, o in enumerate(rows)], {"substitute": True})
    value = {name: metric.value for (name, group), metric in found.items() if group}
    assert value["return"] == pytest.approx((1 + 1 + 0 - 1) / 4)
    assert value["return.legal"] == pytest.approx((1 + 1 + 0) / 3)
    assert value["return.substituted"] == pytest.approx((1 + 1 + 0 + 1) / 4)
    assert value["forfeit"] == 0.25
    assert value["win"] == 0.5
    assert value["draw"] == 0.25
    assert value["loss"] == 0.25
    assert value["legal.first"] == pytest.approx(4 / 5)
    assert value["attempts"] == pytest.approx((4 + 3) / 5)
    assert value["legacy.score"] == pytest.approx((2 + 0.5) / 3)
    assert value["legacy.completion"] == 0.75
    assert value["legacy.nra"] == 1.0


def test_seats_are_split():
    rows = [outcome(1, -1, seat=0)] * 3 + [outcome(-1, 1, seat=1)] * 3
    found = figures([record(i, o) for i, o in enumerate(rows)])
    assert found["return.first", "tictactoe"].value == 1.0
    assert found["return.second", "tictactoe"].value == -1.0
    assert found["return", "tictactoe"].value == 0.0


def test_averages_weigh_games_alike_and_have_intervals():
    rng = Random(1)
    rows = []
    for game, n, chance in (("tictactoe", 40, 0.9), ("nim", 400, 0.2)):
        for i in range(n):
            own = 1 if rng.random() < chance else -1
            rows.append(record(len(rows), outcome(own, -own, game), game, f"{game}{i}"))
    found = figures(rows)
    parts = [found["return", game] for game in ("tictactoe", "nim")]
    total = found["return", ""]
    assert total.value == pytest.approx(sum(p.value for p in parts) / 2)
    errors = [(p.high - p.low) / 2 for p in parts]
    assert (total.high - total.low) / 2 == pytest.approx(math.hypot(*errors) / 2, rel=0.05)


def test_intervals_of_averages_cover():
    """95 % intervals of a mean over two games with 25 pairs each: 600 runs, known truth."""
    rng = Random(7)
    covered = 0
    for _ in range(600):
        rows = {}
        for key, chance in (("tictactoe", 0.7), ("nim", 0.4)):
            for pair in range(25):
                shift = 0.15 if rng.random() < 0.5 else -0.15
                for seat in (0, 1):
                    own = 1 if rng.random() < chance + shift else -1
                    found = Course.of(outcome(own, -own, key, seat))
                    rows.setdefault(key, []).append((f"{key}{pair}", found))
        games = [
            [figures_of.mean("return", part, lambda c: 2 * c.payoff - 1, key)]
            for key, part in rows.items()
        ]
        [total] = figures_of.averages(["return"], games)
        covered += total.low <= 2 * 0.55 - 1 <= total.high
    assert 0.93 <= covered / 600 <= 0.97


def test_too_few_pairs_have_no_interval():
    found = figures([record(i, outcome(1, -1)) for i in range(19)])
    assert found["nra", "tictactoe"].low is None
    assert found["return", "tictactoe"].low is None


def test_distinct_courses_are_counted(roll):
    options = {"games": ["tictactoe"], "pairs": 10, "openings": 0}
    rows = [record(i, o) for i, (_, o) in enumerate(roll(options, "constant", "constant"))]
    assert figures(rows, options)["distinct", "tictactoe"].value == 1.0
    rows = [record(i, o) for i, (_, o) in enumerate(roll({**options, "openings": 2}, "constant"))]
    assert figures(rows, options)["distinct", "tictactoe"].value > 10


def test_relabelled_difference_is_paired(roll, saying):
    """A player that only understands one vocabulary loses the other games."""

    def player(seat):
        good = seat.sample.data["variant"] == "plain"
        return saying(lambda turn: f"ANSWER: {turn.legal[0]}" if good else "hmm")

    options = {"games": ["nim"], "pairs": 25, "variant": "both", "retries": 0}
    outcomes = roll(options, player)
    rows = [record(i, o, s.group, s.cluster) for i, (s, o) in enumerate(outcomes)]
    found = figures(rows, options)
    metric = found["relabelled.difference", "nim"]
    assert metric.clusters == 25
    expected = found["return", "nim/relabelled"].value - found["return", "nim"].value
    assert metric.value == pytest.approx(expected)
    assert found["return", "nim/relabelled"].value == -1.0
    # Players that read no words play both alike.
    same = roll(options, "perfect")
    rows = [record(i, o, s.group, s.cluster) for i, (s, o) in enumerate(same)]
    assert abs(figures(rows, options)["relabelled.difference", "nim"].value) < 0.5


PUBLISHED = {
    "tictactoe": (0.59, 0.29, 0.12),
    "connect4": (0.55, 0.45, 0.00),
    "breakthrough": (0.52, 0.48, 0.00),
    "nim": (0.50, 0.50, 0.00),
    "kuhn_poker": (0.56, 0.44, 0.00),
    "liars_dice": (0.48, 0.52, 0.00),
    "pig": (0.53, 0.47, 0.00),
    "first_sealed_auction": (0.50, 0.50, 0.00),
    "prisoners_dilemma": (0.38, 0.36, 0.26),
    "negotiation": (0.115, 0.114, 0.77),
}
"""First seat wins, second wins, draws: random against random, in hundredths."""


@pytest.mark.parametrize("key", DEFAULT_GAMES)
def test_baseline_agrees_with_published_rates(key):
    found = baseline.measure(key, 0, 1500)
    assert (found.episodes, round(sum(found.win) + found.draw, 9)) == (1500, 1.0)
    for rate, truth in zip((*found.win, found.draw), PUBLISHED[key], strict=True):
        assert abs(rate - truth) < 4 * math.sqrt(max(truth * (1 - truth), 0.003) / 1500) + 0.006


@pytest.mark.parametrize("key", DEFAULT_GAMES)
def test_episodes_agree_with_the_baseline(key, roll):
    """The same rates from episodes asked of two random players: 150 pairs."""
    pairs = 150
    outcomes = roll({"games": [key], "pairs": pairs, "openings": 0})
    truth = baseline.random_play(key, 0)
    for seat in (0, 1):
        won = sum(o.returns[seat] > o.returns[1 - seat] for _, o in outcomes) / (2 * pairs)
        # Two episodes of a pair share their chance events: count them as one.
        error = math.sqrt(truth.win[seat] * (1 - truth.win[seat]) / pairs)
        assert abs(won - truth.win[seat]) < 4 * error + 0.02


def test_exact_baselines():
    """Kuhn under uniform play pays +1/8 to the first seat; nim and the auction are even."""
    kuhn = baseline.measure("kuhn_poker", 0, 4000)
    assert abs((kuhn.payoff[0] - 0.5) * 4 - 0.125) < 4 * 4 * kuhn.spread[0] / 4000**0.5
    assert abs(sum(kuhn.payoff) - 1.0) < 1e-9


def test_the_baseline_of_pig_is_that_of_the_exact_computation():
    """The chance of the seat to move under uniform play; at 20 points it stops."""
    states = [(i, j, k) for i in range(20) for j in range(20) for k in reversed(range(20 - i))]
    chance = dict.fromkeys(states, 0.5)
    for _ in range(60):
        for i, j, k in states:
            thrown = sum(chance[i, j, k + n] if i + k + n < 20 else 1.0 for n in range(2, 7))
            roll = (1.0 - chance[j, i, 0] + thrown) / 6.0
            chance[i, j, k] = (roll + 1.0 - chance[j, i + k, 0]) / 2.0
    exact = chance[0, 0, 0]
    assert round(exact, 4) == 0.5308
    found = baseline.measure("pig", 0, 8000)
    assert abs(found.win[0] - exact) < 4 * (exact * (1 - exact) / 8000) ** 0.5


def test_the_turns_of_the_estimate_are_those_of_random_play(roll):
    for key, most in (("tictactoe", 40), ("nim", 60), ("kuhn_poker", 80), ("uno", 12)):
        outcomes = roll({"games": [key], "pairs": most})
        courses = [Course.of(outcome) for _, outcome in outcomes]
        mean = sum(course.decisions for course in courses) / len(courses)
        assert abs(mean / GAMES[key].turns - 1.0) < (0.4 if key == "uno" else 0.15)


def test_baseline_is_kept_and_read_back(monkeypatch, tmp_path):
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    baseline.random_play.cache_clear()  # another test's may lie in another folder
    first = baseline.random_play("nim", 2)
    baseline.random_play.cache_clear()
    monkeypatch.setattr(baseline, "measure", None)
    assert baseline.random_play("nim", 2) == first
    assert isinstance(first, Baseline)


def test_reward_parts_and_hook():
    reward = create_reward("gtbench", {})
    line = [[0, "a", 1, "asked"], [1, "b", 1, "asked"], [0, "c", 2, "asked"], [0, "d", 0, "forced"]]
    score = reward.score(None, outcome(1, -1, line=line))
    assert isinstance(score, Score)
    assert score.value == 1.0
    assert score.parts == {"win": 1.0, "draw": 0.0, "loss": 0.0, "forfeit": 0.0, "first_legal": 0.5}
    assert score.raw == {"own": 1, "other": -1, "decisions": 2}
    assert score.per_seat == (1.0, 0.0)
    even = reward.score(None, outcome(0, 0, seat=1))
    assert (even.value, even.per_seat) == (0.5, (0.5, 0.5))
    share = reward.score(None, outcome(30, 60, "prisoners_dilemma", scale=[80, 80]))
    assert share.value == pytest.approx(30 / 80)
    assert share.parts["loss"] == 1.0
