"""Ratings against independent fits, known equilibria, and planted pools."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from harness.confidence import ConfidenceSequence
from harness.ratings import (
    Game,
    Tally,
    alpha_rank,
    bradley_terry,
    nash_average,
    payoffs,
    rating_intervals,
    transitivity,
)
from harness.stats import wilson

ROCK = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])


def pool(strength, pairs, rng, seat=0.0, ties=-1.0):
    """Games of a round robin in pairs with the seats swapped, from a Davidson model."""
    games = []
    for i in range(len(strength)):
        for j in range(i + 1, len(strength)):
            for pair in range(pairs):
                for first, second in ((i, j), (j, i)):
                    lead = strength[first] - strength[second] + seat
                    odds = np.exp([lead / 2, ties, -lead / 2])
                    score = rng.choice([1.0, 0.5, 0.0], p=odds / odds.sum())
                    games.append(Game(first, second, float(score), f"{pair}"))
    return games


def circle(pairs, rng, chance=0.8):
    """Games of rock, paper, scissors between players who win their pairing with a chance."""
    games = []
    for i, j in ((1, 0), (2, 1), (0, 2)):
        for pair in range(pairs):
            games.append(Game(i, j, float(rng.random() < chance), f"{pair}"))
            games.append(Game(j, i, float(rng.random() >= chance), f"{pair}"))
    return games


@pytest.mark.parametrize("ridge", [0.1, 1e-6])
def test_the_fit_maximises_the_likelihood_that_another_optimiser_finds(ridge):
    tally = Tally.of(pool([0.0, 0.4, 1.1, -0.6], 40, np.random.default_rng(1), 0.3), 4)
    fit = bradley_terry(tally, ridge=ridge)

    def loss(x):
        total = 0.5 * ridge * (x[:4] ** 2).sum() + 0.5e-3 * (x[4:] ** 2).sum()
        for i in range(4):
            for j in range(4):
                lead = x[i] - x[j] + x[4]
                weights = [lead / 2, x[5], -lead / 2]
                norm = math.log(sum(map(math.exp, weights)))
                kinds = (tally.wins[i, j], tally.ties[i, j], tally.losses[i, j])
                total -= sum(n * (w - norm) for n, w in zip(kinds, weights, strict=True))
        return total

    best = minimize(loss, np.zeros(6), method="BFGS", options={"gtol": 1e-7})
    assert fit.strength == pytest.approx(best.x[:4] - best.x[:4].mean(), abs=1e-4)
    assert fit.seat == pytest.approx(best.x[4], abs=1e-4)
    assert fit.ties == pytest.approx(best.x[5], abs=1e-4)


def test_without_ties_it_is_logistic_regression():
    statsmodels = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(2)
    games = [g for g in pool([0.5, 0.0, -0.5], 80, rng, 0.4) if g.score != 0.5]
    fit = bradley_terry(Tally.of(games, 3), ridge=1e-9)
    design = np.zeros((len(games), 3))
    for row, game in zip(design, games, strict=True):
        for player, sign in ((game.first, 1.0), (game.second, -1.0)):
            if player:
                row[player - 1] += sign
        row[2] = 1.0
    other = statsmodels.Logit([g.score for g in games], design).fit(disp=0).params
    assert fit.strength - fit.strength[0] == pytest.approx([0.0, *other[:2]], abs=2e-3)
    assert fit.seat == pytest.approx(other[2], abs=2e-3)
    assert fit.ties is None


def test_two_players_are_apart_by_the_log_odds_and_scores_are_expected_ones():
    games = [Game(0, 1, 1.0)] * 30 + [Game(0, 1, 0.0)] * 10
    games += [Game(1, 0, 0.0)] * 30 + [Game(1, 0, 1.0)] * 10
    fit = bradley_terry(Tally.of(games, 2), ridge=1e-9)
    assert fit.strength[0] - fit.strength[1] == pytest.approx(math.log(3), abs=1e-3)
    assert fit.expected(0, 1) == pytest.approx(0.75, abs=1e-3)


def test_a_player_who_wins_every_game_has_a_finite_rating():
    fit = bradley_terry(Tally.of([Game(0, 1, 1.0), Game(1, 0, 0.0)] * 50, 2))
    assert 2.0 < fit.strength[0] < 6.0


def test_rating_intervals_cover():
    strength, hits = np.array([0.6, 0.1, -0.7]), 0
    for seed in range(40):
        games = pool(strength, 30, np.random.default_rng(seed), 0.2)
        fit = bradley_terry(Tally.of(games, 3))
        tails, _ = rating_intervals(games, fit, 100, seed)
        hits += int(((tails[:, 0] <= strength) & (strength <= tails[:, 1])).sum())
    assert 104 <= hits <= 120  # 95 % of 120 is 114


def test_nash_averaging_of_known_games():
    mixture, scores = nash_average(ROCK)
    assert mixture == pytest.approx([1 / 3] * 3, abs=1e-6)
    assert scores == pytest.approx([0.0] * 3, abs=1e-6)
    ladder = np.array([[0.0, 0.5, 0.9], [-0.5, 0.0, 0.4], [-0.9, -0.4, 0.0]])
    mixture, scores = nash_average(ladder)
    assert mixture == pytest.approx([1.0, 0.0, 0.0], abs=1e-6)
    assert scores == pytest.approx([0.0, -0.5, -0.9], abs=1e-6)
    assert nash_average(np.zeros((4, 4)))[0] == pytest.approx([0.25] * 4, abs=1e-6)


def test_a_copy_of_a_player_changes_nothing_for_the_others():
    # Balduzzi et al. (2018): invariance to redundancy.
    again = [0, 1, 2, 2]
    mixture, _ = nash_average(ROCK[np.ix_(again, again)])
    assert mixture == pytest.approx([1 / 3, 1 / 3, 1 / 6, 1 / 6], abs=1e-5)


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
def test_nash_averaging_agrees_with_openspiel():
    pytest.importorskip("cvxpy", reason="OpenSpiel's nash averaging needs cvxpy")
    from open_spiel.python.algorithms import nash_averaging as theirs

    compared = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        half = np.triu(rng.uniform(-1, 1, (3 + seed % 4, 3 + seed % 4)), 1)
        matrix = half - half.T
        try:
            their = theirs._max_entropy_symmetric_nash(matrix).ravel()
        except AttributeError:  # its solver gave up on this one
            continue
        if abs(their.sum() - 1.0) < 1e-6 and (matrix @ their).max() < 1e-7:
            assert nash_average(matrix)[0] == pytest.approx(their, abs=1e-3)
            compared += 1
    assert compared >= 3


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 8))
def test_the_nash_average_is_an_equilibrium(seed, n):
    half = np.triu(np.random.default_rng(seed).choice([-1.0, -0.3, 0.0, 0.3, 1.0], (n, n)), 1)
    mixture, scores = nash_average(half - half.T)
    assert mixture.min() >= 0.0
    assert mixture.sum() == pytest.approx(1.0)
    assert scores.max() < 1e-5


def test_alpha_rank_of_a_circle_and_of_a_ladder():
    assert alpha_rank(ROCK) == pytest.approx([1 / 3] * 3, abs=1e-6)
    ladder = np.array([[0.0, 0.5, 0.9], [-0.5, 0.0, 0.4], [-0.9, -0.4, 0.0]])
    found = alpha_rank(ladder)
    assert found.argmax() == 0
    assert found[0] > 0.95


def test_a_planted_circle_is_named_and_a_planted_ladder_is_ranked():
    named = ranked = falsely = 0
    strength = [1.2, 0.4, -0.4, -1.2]
    for seed in range(100):
        rng = np.random.default_rng(seed)
        found = transitivity(payoffs(circle(40, rng), 3))
        # 0 loses to 1, 1 to 2, 2 to 0, from wherever the circle is read.
        named += found.broken and found.cycle in ((0, 2, 1), (2, 1, 0), (1, 0, 2))
        games = pool(strength, 40, rng, 0.2)
        order = np.argsort(-bradley_terry(Tally.of(games, 4)).strength)
        ranked += list(order) == [0, 1, 2, 3]
        falsely += transitivity(payoffs(games, 4)).broken
    assert named >= 95
    assert ranked >= 95
    assert falsely <= 5


def test_players_who_are_all_alike_are_not_called_cyclic():
    falsely = sum(
        transitivity(payoffs(pool([0.0] * 5, 30, np.random.default_rng(s)), 5)).broken
        for s in range(100)
    )
    assert falsely <= 5


def test_payoffs_are_antisymmetric_and_clusters_weigh_the_same():
    games = [Game(0, 1, 1.0, "a"), Game(1, 0, 1.0, "a"), Game(0, 1, 1.0, "b")]
    found = payoffs(games, 2)
    assert found.mean[0, 1] == pytest.approx(0.5)
    assert np.allclose(found.mean, -found.mean.T)
    assert found.clusters[0, 1] == 2


def test_a_confidence_sequence_holds_at_every_look_where_a_usual_interval_does_not():
    left = peeked = 0
    for seed in range(200):
        values = np.random.default_rng(seed).random(1500) < 0.3
        sequence, total, lost, wrong = ConfidenceSequence(), 0.0, False, False
        for n, value in enumerate(values.astype(float), 1):
            sequence.add(value)
            total += value
            lost |= not sequence.low <= 0.3 <= sequence.high
            if n >= 20 and n % 10 == 0:
                low, high = wilson(total, n)
                wrong |= not low <= 0.3 <= high
        left += lost
        peeked += wrong
    assert left <= 17  # 5 % of 200 and two standard errors
    assert peeked > 40


def test_a_confidence_sequence_gets_narrow():
    sequence = ConfidenceSequence()
    rng = np.random.default_rng(0)
    while sequence.half_width > 0.05 and sequence.n < 5000:
        sequence.add(float(rng.random()))
    assert sequence.n < 1500
    assert sequence.low <= 0.5 <= sequence.high
    with pytest.raises(ValueError, match="not in"):
        sequence.add(1.5)
