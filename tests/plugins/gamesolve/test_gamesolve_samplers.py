"""Draws, labels and samplers: stable, fair, of the promised type; strata exist or cannot."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.types import HarnessError
from harness_plugins.tasks.gamesolve.draws import Draws, level
from harness_plugins.tasks.gamesolve.games import Game
from harness_plugins.tasks.gamesolve.labels import CONTEXTS, LABELS, draw_labels
from harness_plugins.tasks.gamesolve.samplers import (
    GAME_TYPES,
    SQUARE,
    STRATA,
    Payoffs,
    draw_candidate,
    draw_game,
    fits,
    strata,
    why_empty,
)
from harness_plugins.tasks.gamesolve.solver import solve

SMALL = Payoffs(-5, 5)


# Draws


def test_draws_are_pinned():
    """These come from the Mersenne Twister's bits; another sequence would be another data set."""
    draws = Draws(2024)
    assert [draws.below(1000) for _ in range(6)] == [481, 186, 745, 592, 311, 205]
    assert draws.order(6) == [1, 0, 4, 2, 3, 5]
    assert draws.strategy(3) == ["0.5803", "0.2362", "0.1835"]


def test_draws_are_uniform():
    draws = Draws(1)
    counts = Counter(draws.below(7) for _ in range(14_000))
    assert set(counts) == set(range(7))
    assert sum((c - 2000) ** 2 / 2000 for c in counts.values()) < 22.5  # chi-square, p = 0.001
    orders = Counter(tuple(draws.order(3)) for _ in range(6000))
    assert len(orders) == 6
    assert sum((c - 1000) ** 2 / 1000 for c in orders.values()) < 20.5


@given(st.integers(2, 6), st.integers(0, 2**60))
@settings(deadline=None, derandomize=True)
def test_strategies_sum_to_exactly_one_and_use_every_action(n, seed):
    strategy = Draws(seed).strategy(n)
    assert len(strategy) == n
    assert sum(map(Fraction, strategy)) == 1
    assert all(len(p) == 6 and Fraction(p) > 0 for p in strategy)


def test_strategies_are_spread_over_the_simplex():
    """Uniform on the simplex: each part has mean 1/n and variance (n - 1) / (n^2 (n + 1))."""
    draws = Draws(4)
    firsts = [float(draws.strategy(3)[0]) for _ in range(4000)]
    mean = sum(firsts) / len(firsts)
    variance = sum((x - mean) ** 2 for x in firsts) / len(firsts)
    assert mean == pytest.approx(1 / 3, abs=0.015)
    assert variance == pytest.approx(2 / 36, rel=0.1)


@given(st.integers(1, 9), st.integers(0, 30), st.text(max_size=3))
@settings(deadline=None, derandomize=True)
def test_levels_are_balanced_in_every_block(levels, block, key):
    found = [level(levels, block * levels + k, key) for k in range(levels)]
    assert sorted(found) == list(range(levels))


# Labels


def test_label_sets_hold_different_names():
    for size, sets in LABELS.items():
        assert len(sets) >= 4
        for names in sets:
            assert len({name.casefold() for name in names}) == size


@given(st.integers(2, 6), st.integers(2, 6), st.integers(0, 2**60))
@settings(deadline=None, derandomize=True)
def test_rows_and_columns_share_no_name(m, n, seed):
    rows, cols = draw_labels(Draws(seed), m, n)
    assert (len(rows), len(cols)) == (m, n)
    assert not {x.casefold() for x in rows} & {x.casefold() for x in cols}


def test_every_label_set_is_used_and_can_meet_another():
    for size in LABELS:
        draws = Draws(size)
        used = {tuple(draw_labels(draws, size, size)[side]) for _ in range(400) for side in (0, 1)}
        assert used == set(LABELS[size])


def test_contexts_are_those_that_texts_are_written_for():
    text = pytest.importorskip("harness_plugins.tasks.gamesolve.text")
    assert set(CONTEXTS) <= set(text.SCENARIOS)


# Game types


def eliminate(game: Game) -> tuple[list[int], list[int]]:
    """What is left after eliminating strictly dominated actions again and again."""
    rows, cols = list(range(game.shape[0])), list(range(game.shape[1]))
    while True:
        out_rows = [
            i for i in rows if any(all(game.row[k][j] > game.row[i][j] for j in cols) for k in rows)
        ]
        out_cols = [
            j for j in cols if any(all(game.col[i][k] > game.col[i][j] for i in rows) for k in cols)
        ]
        if not out_rows and not out_cols:
            return rows, cols
        rows = [i for i in rows if i not in out_rows]
        cols = [j for j in cols if j not in out_cols]


def is_of_type(game: Game, game_type: str) -> bool:
    if game_type == "zero_sum":
        return all(
            a + b == 0
            for x, y in zip(game.row, game.col, strict=True)
            for a, b in zip(x, y, strict=True)
        )
    if game_type == "symmetric":
        return game.swapped() == game
    if game_type == "dominance":
        return tuple(map(len, eliminate(game))) == (1, 1)
    if game_type == "coordination":
        replies = [
            [i for i, x in enumerate(column) if x == max(column)]
            for column in zip(*game.row, strict=True)
        ]
        answers = [[j for j, x in enumerate(line) if x == max(line)] for line in game.col]
        matched = {(i, j) for j, best in enumerate(replies) for i in best}
        return matched == {(i, j) for i, best in enumerate(answers) for j in best} and (
            len(matched) == len({i for i, _ in matched}) == game.shape[0]
        )
    return game_type == "general"


@pytest.mark.parametrize("game_type", GAME_TYPES)
@pytest.mark.parametrize("payoffs", [SMALL, Payoffs(-50, 50, 2)], ids=["small", "wide"])
def test_games_are_of_their_type_and_range(game_type, payoffs):
    shapes = [(2, 2), (4, 4), (6, 6)] if game_type in SQUARE else [(2, 2), (2, 5), (4, 3), (6, 6)]
    for seed in range(25):
        for m, n in shapes:
            game = draw_game(Draws(seed), game_type, m, n, payoffs)
            assert game.shape == (m, n)
            assert is_of_type(game, game_type)
            values = [x for matrix in (game.row, game.col) for line in matrix for x in line]
            assert max(map(abs, values)) <= payoffs.high * 10**payoffs.places


def test_coordination_does_not_favour_the_diagonal():
    hits = sum(
        (0, 0) in solve(draw_game(Draws(seed), "coordination", 3, 3, SMALL)).pure
        for seed in range(300)
    )
    assert 70 < hits < 130


def test_wrong_types_and_shapes_are_refused():
    with pytest.raises(HarnessError, match="symmetric games are square"):
        draw_game(Draws(0), "symmetric", 2, 3, SMALL)
    with pytest.raises(HarnessError, match="no game type 'cyclic'"):
        draw_game(Draws(0), "cyclic", 2, 2, SMALL)


# Strata


def all_small_games(game_type: str) -> list[Game]:
    """All 2x2 games of a type with payoffs 0, 1, 2; these hold every order of payoffs up to ties
    of more than three."""
    matrices = [((a, b), (c, d)) for a, b, c, d in product(range(3), repeat=4)]
    if game_type == "zero_sum":
        return [Game(m, tuple(tuple(-x for x in line) for line in m)) for m in matrices]
    if game_type == "symmetric":
        return [Game(m, tuple(zip(*m, strict=True))) for m in matrices]
    games = [Game(one, other) for one, other in product(matrices, matrices)]
    return [game for game in games if is_of_type(game, game_type)]


@pytest.mark.parametrize("game_type", GAME_TYPES)
def test_of_all_small_2x2_games_exactly_the_claimed_strata_occur(game_type):
    found = {solve(game).stratum for game in all_small_games(game_type)}
    assert found == set(strata(game_type, 2, 2))
    assert all(bool(why_empty(game_type, 2, 2, s)) == (s not in found) for s in STRATA)


@pytest.mark.parametrize(
    ("game_type", "m", "n"),
    [
        *(("general", *shape) for shape in [(2, 2), (2, 3), (3, 2), (3, 3), (4, 4), (5, 5)]),
        *((t, 3, 3) for t in ("zero_sum", "symmetric", "dominance", "coordination")),
    ],
)
def test_every_stratum_that_should_exist_can_be_drawn(game_type, m, n):
    """With payoffs small, so that a continuum comes about by itself, and with decimals."""
    exist = strata(game_type, m, n)
    if game_type == "coordination":  # a continuum needs payoffs that balance: see the next test
        exist = ("both",)
    for stratum, payoffs in product(exist, (SMALL, Payoffs(-5, 5, 2))):
        draws = Draws(9)
        tries = (draw_candidate(draws, game_type, m, n, payoffs, stratum) for _ in range(5000))
        game = next(game for game in tries if game is not None and fits(game, stratum))
        assert solve(game).stratum == stratum
        assert is_of_type(game, game_type)


def test_a_coordination_game_with_a_continuum():
    game = Game.of([[2, 0, 1], [0, 2, 1], [0, 0, 3]], [[2, 0, 1], [0, 2, 1], [0, 0, 3]])
    assert is_of_type(game, "coordination")
    assert solve(game).stratum == "continuum"


@given(
    st.integers(0, 2**60), st.sampled_from(["zero_sum", "symmetric", "coordination", "dominance"])
)
@settings(deadline=None, derandomize=True, max_examples=200)
def test_no_game_is_of_a_stratum_said_to_be_empty(seed, game_type):
    draws = Draws(seed)
    n = draws.between(2, 4)
    game = draw_game(draws, game_type, n, n, draws.choice([Payoffs(-2, 2), SMALL]))
    assert why_empty(game_type, n, n, solve(game).stratum) == ""
