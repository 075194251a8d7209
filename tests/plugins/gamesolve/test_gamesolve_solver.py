"""The solver against brute force, other libraries and published equilibria."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_plugins.tasks.gamesolve.draws import Draws
from harness_plugins.tasks.gamesolve.games import (
    Game,
    Strategy,
    decimal,
    exact,
    integral,
    normalised,
)
from harness_plugins.tasks.gamesolve.samplers import (
    GAME_TYPES,
    SQUARE,
    STRATA,
    Payoffs,
    draw_candidate,
    draw_game,
)
from harness_plugins.tasks.gamesolve.solver import certificate, pure_equilibria, solve
from harness_plugins.tasks.gamesolve.truth import dominant, dominated

Pairs = set[tuple[Strategy, Strategy]]


# An independent solver: every choice of tight inequalities, by elimination


def solve_linear(rows: list[list[int]]) -> list[Fraction] | None:
    """The solution of a square system given with its right-hand side, by elimination in whole
    numbers; None if it is not unique, or not positive or zero in all but the last unknown."""
    n = len(rows)
    rows = [row.copy() for row in rows]
    for k in range(n):
        pivot = next((i for i in range(k, n) if rows[i][k]), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        top, unit = rows[k], rows[k][k]
        for i in range(n):
            factor = rows[i][k]
            if i != k and factor:
                rows[i] = [a * unit - factor * b for a, b in zip(rows[i], top, strict=True)]
    if any(rows[i][n] * rows[i][i] < 0 for i in range(n - 1)):
        return None
    return [Fraction(rows[i][n], rows[i][i]) for i in range(n)]


def brute_vertices(own: tuple[tuple[int, ...], ...]) -> dict[Strategy, tuple[set[int], set[int]]]:
    """All vertices of {(x, v): x in the simplex, own x <= v}, with the unused actions and the tight
    constraints of each."""
    k, d = len(own), len(own[0])
    unit = [[int(i == j) for j in range(d)] for i in range(d)]
    lines = [[*unit[i], 0, 0] for i in range(d)] + [[*own[i], -1, 0] for i in range(k)]
    found = {}
    for tight in combinations(range(k + d), d):
        solution = solve_linear([[*([1] * d), 0, 1], *(lines[i] for i in tight)])
        if solution is None:
            continue
        x, v = tuple(solution[:d]), solution[d]
        values = [sum(a * p for a, p in zip(line, x, strict=True)) for line in own]
        if max(values) <= v:
            best = {i for i, value in enumerate(values) if value == v}
            found[x] = {i for i, p in enumerate(x) if p == 0}, best
    return found


def brute_force(game: Game) -> tuple[Pairs, bool]:
    """All extreme equilibria and whether the game is degenerate."""
    m, n = game.shape
    xs = brute_vertices(tuple(zip(*game.col, strict=True)))
    ys = brute_vertices(game.row)
    pairs = {
        (x, y)
        for (x, (no_row, best_col)), (y, (no_col, best_row)) in product(xs.items(), ys.items())
        if no_row | best_row == set(range(m)) and no_col | best_col == set(range(n))
    }
    crowded = any(len(a) + len(b) > m for a, b in xs.values())
    return pairs, crowded or any(len(a) + len(b) > n for a, b in ys.values())


def brute_subsets(pairs: Pairs) -> set[tuple[frozenset[Strategy], frozenset[Strategy]]]:
    """All maximal products inside a set of pairs, by trying every set of left sides."""
    lefts = sorted({x for x, _ in pairs})
    rights = {y for _, y in pairs}
    products = set()
    for size in range(1, len(lefts) + 1):
        for xs in combinations(lefts, size):
            ys = frozenset(y for y in rights if all((x, y) in pairs for x in xs))
            if ys:
                full = frozenset(x for x in lefts if all((x, y) in pairs for y in ys))
                products.add((full, ys))
    return products


# 2,000 games of every type and stratum


def many_games(count: int) -> Iterator[Game]:
    """Games of all types to 4x4, with few payoffs (many ties), many (none) and planted ties."""
    rng = random.Random(11)
    shapes = [(2, 2), (2, 2), (2, 3), (3, 2), (3, 3), (3, 3), (2, 4), (4, 3), (4, 4)]
    payoffs = (Payoffs(-1, 1), Payoffs(-2, 2), Payoffs(-5, 5), Payoffs(-50, 50, 2))
    for k in range(count):
        game_type = GAME_TYPES[k % len(GAME_TYPES)]
        m, n = rng.choice(shapes)
        if game_type in SQUARE:
            n = m
        few = payoffs[max(k % 4, 2 if game_type in ("dominance", "coordination") else 0)]
        plant = rng.choice(STRATA) if game_type in ("general", "zero_sum", "symmetric") else ""
        game = None
        while game is None:
            game = draw_candidate(Draws(rng.getrandbits(60)), game_type, m, n, few, plant)
        yield game


def test_extreme_equilibria_and_flags_of_2000_games_agree_with_brute_force():
    strata = dict.fromkeys(STRATA, 0)
    degenerate = 0
    for game in many_games(2000):
        solution = solve(game)
        pairs, crowded = brute_force(game)
        assert {(e.row, e.col) for e in solution.equilibria} == pairs
        assert len(solution.equilibria) == len(pairs)
        assert solution.degenerate == crowded
        if len(pairs) <= 12:
            subsets = {(frozenset(s.rows), frozenset(s.cols)) for s in solution.subsets}
            assert subsets == brute_subsets(pairs)
        for e in solution.equilibria:
            proof = certificate(game, e.row, e.col)
            assert proof.holds
            assert proof.payoffs == e.payoffs
        strata[solution.stratum] += 1
        degenerate += crowded
    assert min(strata.values()) > 150
    assert 500 < degenerate < 1500


def middle(one: Strategy, other: Strategy) -> Strategy:
    return tuple((a + b) / 2 for a, b in zip(one, other, strict=True))


def test_nash_subsets_hold_equilibria_only_and_none_is_missed_between_two():
    for game in many_games(300):
        solution = solve(game)
        pairs = [(e.row, e.col) for e in solution.equilibria]
        inside = [set(product(s.rows, s.cols)) for s in solution.subsets]
        for one, other in combinations(pairs, 2):
            together = any({one, other} <= subset for subset in inside)
            if together:
                between = [middle(a, b) for a, b in zip(one, other, strict=True)]
                assert certificate(game, *between).holds
            if one[0] == other[0] or one[1] == other[1]:
                assert together
                assert solution.continuum
        assert solution.continuum == any(len(subset) > 1 for subset in inside)
        if not solution.degenerate:
            assert len(pairs) % 2 == 1
            assert not solution.continuum


# Other libraries


def test_gambit_finds_the_same_extreme_equilibria(tmp_path):
    gambit = pytest.importorskip("pygambit")
    file = tmp_path / "game.nfg"
    for game in many_games(150):
        m, n = game.shape
        payoffs = [x[i][j] for j in range(n) for i in range(m) for x in (game.row, game.col)]
        file.write_text(f'NFG 1 R "" {{ "1" "2" }} {{ {m} {n} }}\n' + " ".join(map(str, payoffs)))
        result = gambit.nash.enummixed_solve(gambit.read_nfg(str(file)), rational=True)
        theirs = set()
        for profile in result.equilibria:
            found = re.findall(r"Rational\((\d+), (\d+)\)", repr(profile))
            numbers = [Fraction(int(top), int(bottom)) for top, bottom in found]
            assert len(numbers) == m + n
            theirs.add((tuple(numbers[:m]), tuple(numbers[m:])))
        assert theirs == {(e.row, e.col) for e in solve(game).equilibria}


@pytest.mark.parametrize("size", [(3, 3), (3, 5), (5, 5)])
def test_nashpy_finds_the_same_equilibria_where_the_game_is_not_degenerate(size):
    nashpy = pytest.importorskip("nashpy")
    numpy = pytest.importorskip("numpy")
    for seed in range(12):
        game = draw_game(Draws(seed), "general", *size, Payoffs(-50, 50, 2))
        solution = solve(game)
        if solution.degenerate:
            continue
        a, b = (numpy.array(m, dtype=float) for m in (game.row, game.col))
        theirs = sorted(
            numpy.concatenate(p).round(6).tolist() for p in nashpy.Game(a, b).vertex_enumeration()
        )
        ours = sorted([round(float(p), 6) for p in (*e.row, *e.col)] for e in solution.equilibria)
        assert numpy.allclose(theirs, ours, atol=2e-6)


# Published games


def fractions(*texts: str) -> Strategy:
    return tuple(Fraction(text) for text in texts)


def test_the_textbook_game_of_von_stengel():
    """Equilibrium Computation for Two-Player Games, in: Algorithmic Game Theory (2007), ch. 3."""
    solution = solve(Game.of([[3, 3], [2, 5], [0, 6]], [[3, 2], [2, 6], [3, 1]]))
    assert {(e.row, e.col) for e in solution.equilibria} == {
        (fractions("1", "0", "0"), fractions("1", "0")),
        (fractions("4/5", "1/5", "0"), fractions("2/3", "1/3")),
        (fractions("0", "1/3", "2/3"), fractions("1/3", "2/3")),
    }
    assert not solution.degenerate
    assert solution.stratum == "both"


def test_its_degenerate_variant_has_a_segment_and_a_point():
    solution = solve(Game.of([[3, 3], [2, 5], [0, 6]], [[3, 3], [2, 6], [3, 1]]))
    first = fractions("1", "0", "0")
    assert {(s.rows, s.cols) for s in solution.subsets} == {
        ((first,), (fractions("1", "0"), fractions("2/3", "1/3"))),
        ((fractions("0", "1/3", "2/3"),), (fractions("1/3", "2/3"),)),
    }
    assert solution.degenerate
    assert solution.stratum == "continuum"
    assert solution.kind == "both"


@pytest.mark.parametrize(
    ("row", "col", "kind", "count"),
    [
        ([[-1, -3], [0, -2]], [[-1, 0], [-3, -2]], "pure", 1),
        ([[1, -1], [-1, 1]], [[-1, 1], [1, -1]], "mixed", 1),
        ([[3, 0], [0, 2]], [[2, 0], [0, 3]], "both", 3),
        ([[0, -1, 1], [1, 0, -1], [-1, 1, 0]], [[0, 1, -1], [-1, 0, 1], [1, -1, 0]], "mixed", 1),
        ([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [[1, 0, 0], [0, 1, 0], [0, 0, 1]], "both", 7),
    ],
    ids=["prisoners", "pennies", "sexes", "scissors", "matching"],
)
def test_famous_games(row, col, kind, count):
    solution = solve(Game.of(row, col))
    assert (solution.kind, len(solution.equilibria), solution.continuum) == (kind, count, False)


def test_a_constant_game_is_one_subset_of_everything():
    solution = solve(Game.of([[7] * 6] * 6, [[-2] * 6] * 6))
    assert len(solution.equilibria) == len(solution.pure) == 36
    assert [(len(s.rows), len(s.cols)) for s in solution.subsets] == [(6, 6)]
    assert solution.stratum == "continuum"


def test_one_action_each():
    solution = solve(Game.of([["2.5"]], [[-4]]))
    assert solution.equilibria[0].payoffs == (Fraction(5, 2), -4)
    assert solution.stratum == "pure"


def test_nearly_equal_payoffs_are_told_apart():
    """A difference that floating point would lose."""
    tiny = "0.00000000000000000001"
    solution = solve(Game.of([[1, 0], [0, tiny]], [[1, 0], [0, tiny]]))
    assert len(solution.equilibria) == 3
    assert solution.equilibria[-1].row[0] == Fraction(1, 10**20 + 1)


# Properties


@st.composite
def games(draw, most: int = 4, low: int = -4, high: int = 4) -> Game:
    m, n = draw(st.integers(1, most)), draw(st.integers(1, most))
    matrix = st.lists(
        st.lists(st.integers(low, high), min_size=n, max_size=n), min_size=m, max_size=m
    )
    return Game.of(draw(matrix), draw(matrix))


@given(games(), st.randoms(use_true_random=False))
@settings(deadline=None, derandomize=True, max_examples=150)
def test_equilibria_follow_the_actions_when_these_are_reordered(game, rng):
    m, n = game.shape
    rows, cols = rng.sample(range(m), m), rng.sample(range(n), n)
    moved = {
        (tuple(e.row[i] for i in rows), tuple(e.col[j] for j in cols))
        for e in solve(game).equilibria
    }
    assert moved == {(e.row, e.col) for e in solve(game.permuted(rows, cols)).equilibria}


@given(games(), st.fractions(1, 9), st.fractions(-9, 9))
@settings(deadline=None, derandomize=True, max_examples=150)
def test_equilibria_stay_when_payoffs_are_rescaled(game, factor, shift):
    scaled = Game.of([[x * factor + shift for x in line] for line in game.row], game.col)
    before, after = solve(game), solve(scaled)
    assert [(e.row, e.col) for e in before.equilibria] == [(e.row, e.col) for e in after.equilibria]
    assert [e.payoffs[0] * factor + shift for e in before.equilibria] == [
        e.payoffs[0] for e in after.equilibria
    ]
    assert before.subsets == after.subsets


@given(games())
@settings(deadline=None, derandomize=True, max_examples=150)
def test_swapping_the_players_swaps_the_equilibria(game):
    swapped = solve(game.swapped())
    assert {(e.col, e.row) for e in swapped.equilibria} == {
        (e.row, e.col) for e in solve(game).equilibria
    }


@given(games())
@settings(deadline=None, derandomize=True, max_examples=150)
def test_pure_equilibria_are_the_pure_ones_among_all(game):
    solution = solve(game)
    pure = {(e.row.index(1), e.col.index(1)) for e in solution.equilibria if e.pure}
    assert pure == set(solution.pure) == set(pure_equilibria(game))
    assert solution.equilibria


@given(games(), st.integers(0, 3), st.integers(0, 3))
@settings(deadline=None, derandomize=True, max_examples=150)
def test_certificates_measure_what_a_player_could_gain(game, i, j):
    m, n = game.shape
    i, j = i % m, j % n
    proof = certificate(game, [int(k == i) for k in range(m)], [int(k == j) for k in range(n)])
    gain_row = max(line[j] for line in game.row) - game.row[i][j]
    gain_col = max(game.col[i]) - game.col[i][j]
    assert proof.regrets == (gain_row, gain_col)
    assert proof.holds == ((i, j) in pure_equilibria(game))


def test_what_is_no_distribution_is_no_equilibrium():
    game = Game.of([[0, 0], [0, 0]], [[0, 0], [0, 0]])
    assert certificate(game, (1, 0), (Fraction(1, 3), Fraction(2, 3))).holds
    assert not certificate(game, (1, 0), (Fraction(1, 3), Fraction(1, 3))).holds
    assert not certificate(game, (2, -1), (1, 0)).holds


# Numbers and dominance


@given(st.integers(-(10**6), 10**6), st.integers(0, 4))
@settings(deadline=None, derandomize=True)
def test_decimals_are_read_back_exactly(units, places):
    assert exact(decimal(units, places)) == Fraction(units, 10**places)


@given(games())
@settings(deadline=None, derandomize=True)
def test_normal_form_of_payoffs_is_an_affine_image(game):
    whole, scale = integral(game.row)
    assert all(
        a == b * scale
        for x, y in zip(whole, game.row, strict=True)
        for a, b in zip(x, y, strict=True)
    )
    form = normalised(game.row)
    assert min(map(min, form)) == 0
    assert normalised(form) == form


@given(games())
@settings(deadline=None, derandomize=True)
def test_dominated_actions_are_in_no_equilibrium_and_dominant_ones_in_all(game):
    solution = solve(game)
    own = game.own("row")
    for i in dominated(own):
        assert all(e.row[i] == 0 for e in solution.equilibria)
    best = dominant(own)
    if best is not None:
        assert all(e.row[best] == 1 for e in solution.equilibria)
