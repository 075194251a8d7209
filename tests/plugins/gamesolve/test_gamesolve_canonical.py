"""The identity of games: the same exactly for games that are images of each other."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from fractions import Fraction
from itertools import permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_plugins.tasks.gamesolve.canonical import bucket, canonical
from harness_plugins.tasks.gamesolve.games import Game, normalised


def brute_form(game: Game) -> tuple[object, ...]:
    """The least pair of normalised matrices over all orders of actions and of players."""
    images = []
    for one in (game, game.swapped()):
        m, n = one.shape
        plain = Game(normalised(one.row), normalised(one.col))
        for rows, cols in product(permutations(range(m)), permutations(range(n))):
            image = plain.permuted(rows, cols)
            images.append(((m, n), image.row, image.col))
    return min(images)


def image(game: Game, rng: random.Random) -> Game:
    """A game related to the given one in every way that the identity must not see."""
    m, n = game.shape
    scales = [Fraction(rng.randint(1, 9), rng.randint(1, 9)) for _ in range(2)]
    shifts = [Fraction(rng.randint(-9, 9), rng.randint(1, 9)) for _ in range(2)]
    row, col = (
        [[x * scale + shift for x in line] for line in matrix]
        for matrix, scale, shift in zip((game.row, game.col), scales, shifts, strict=True)
    )
    moved = Game.of(row, col).permuted(rng.sample(range(m), m), rng.sample(range(n), n))
    return moved.swapped() if rng.random() < 0.5 else moved


def random_game(rng: random.Random, m: int, n: int, most: int) -> Game:
    def matrix() -> list[list[int]]:
        return [[rng.randint(0, most) for _ in range(n)] for _ in range(m)]

    return Game.of(matrix(), matrix())


@given(st.integers(1, 6), st.integers(1, 6), st.sampled_from([1, 2, 10]), st.integers(0, 2**32))
@settings(deadline=None, derandomize=True, max_examples=300)
def test_images_of_a_game_have_its_identity(m, n, most, seed):
    rng = random.Random(seed)
    game = random_game(rng, m, n, most)
    assert canonical(image(game, rng)) == canonical(game)


def same_partition(games: list[Game]) -> None:
    """Identities and brute-force forms must sort the games into the same classes."""
    pairs = {(canonical(game), brute_form(game)) for game in games}
    assert len(pairs) == len({identity for identity, _ in pairs}) == len({f for _, f in pairs})


def test_all_2x2_games_of_three_payoffs_are_told_apart():
    values = list(product(range(3), repeat=4))
    games = [
        Game(((a[0], a[1]), (a[2], a[3])), ((b[0], b[1]), (b[2], b[3])))
        for a, b in product(values, values)
    ]
    same_partition(games)


@pytest.mark.parametrize(("shape", "count"), [((2, 3), 1500), ((1, 4), 300), ((3, 3), 700)])
def test_random_games_of_few_payoffs_are_told_apart(shape, count):
    rng = random.Random(5)
    games = [random_game(rng, *shape, 1) for _ in range(count)]
    same_partition(games + [image(game, rng) for game in games[: count // 5]])


def test_what_changes_a_game_changes_its_identity():
    game = Game.of([[3, 0], [5, 1]], [[3, 5], [0, 1]])
    flipped = Game.of([[-x for x in line] for line in game.row], game.col)
    moved = Game.of([[3, 0], [5, 2]], game.col)
    column_shift = Game.of([[3, 1], [5, 2]], game.col)  # same equilibria, but not affine
    assert len({canonical(g) for g in (game, flipped, moved, column_shift)}) == 4


def symmetric_matrices() -> dict[str, list[list[int]]]:
    n = 6
    return {
        "constant": [[1] * n] * n,
        "identity": [[int(i == j) for j in range(n)] for i in range(n)],
        "complement": [[int(i != j) for j in range(n)] for i in range(n)],
        "cyclic": [[(i - j) % n for j in range(n)] for i in range(n)],
        "path": [[int(j in (i, (i + 1) % n)) for j in range(n)] for i in range(n)],
        "blocks": [[int(i // 2 == j // 2) for j in range(n)] for i in range(n)],
        "cube": [[i ^ j for j in range(8)] for i in range(8)],
    }


@pytest.mark.parametrize("name", symmetric_matrices())
def test_games_full_of_symmetry_are_settled_quickly(name):
    """Without cutting branches the constant 6x6 game alone has 518,400 leaves."""
    matrix = symmetric_matrices()[name]
    rng = random.Random(3)
    game = Game.of(matrix, [[2 * x for x in line] for line in matrix])
    started = time.process_time()
    identity = canonical(game)
    assert time.process_time() - started < 1
    assert all(canonical(image(game, rng)) == identity for _ in range(5))


def test_buckets_are_even_and_stable_over_processes():
    rng = random.Random(2)
    counts = Counter(bucket(canonical(random_game(rng, 3, 3, 10))) for _ in range(4000))
    assert set(counts) == set(range(10))
    assert all(320 < count < 480 for count in counts.values())
    program = (
        "from harness_plugins.tasks.gamesolve.games import Game\n"
        "from harness_plugins.tasks.gamesolve.canonical import canonical\n"
        "print(canonical(Game.of([[3, 0], [5, 1]], [[3, 5], [0, 1]])))"
    )
    for hash_seed in ("0", "77"):
        env = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == "31cffffe4a46f98d3c33634095406779"
