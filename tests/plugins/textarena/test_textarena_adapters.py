"""Adapters against the environments themselves, and best play against independent computations."""

from __future__ import annotations

import copy
import random
from itertools import permutations, product
from pathlib import Path

import pytest

pytest.importorskip("textarena")

from harness_plugins.tasks.textarena.adapters import (
    LISTED,
    ONE_PLAYER,
    REFERENCE,
    TWO_PLAYER,
    adapter,
    boards,
    chance,
    puzzles,
    table,
)
from harness_plugins.tasks.textarena.session import Session

CANDIDATES = {
    "TicTacToe-v0": [f"[{i}]" for i in range(12)],
    "WildTicTacToe-v0": [f"[{m} {i}]" for m in "XO" for i in range(10)],
    "ConnectFour-v0": [f"[col {i}]" for i in range(9)],
    "Nim-v0": [f"[{i} {q}]" for i in range(4) for q in range(7)],
    "KuhnPoker-v0": ["[check]", "[bet]", "[call]", "[fold]"],
    "Othello-v0-small": [f"[{r}, {c}]" for r in range(7) for c in range(7)],
    "Chopsticks-v0": [f"[attack {m} {o}]" for m in (0, 1) for o in (0, 1)]
    + [f"[split {a} {b}]" for a in range(9) for b in range(9)],
    "LiarsDice-v0-small": ["[Call]"] + [f"[Bid: {q}, {f}]" for q in range(9) for f in range(8)],
    "GameOfPureStrategy-v0": ["[A]", "[J]", "[Q]", "[K]"] + [f"[{n}]" for n in range(2, 11)],
    "ColonelBlotto-v0-small": [f"[A{a} B{b} C{c}]" for a, b, c in product((0, 7, 20, 21), repeat=3)]
    + ["[A20]", "[A10 D10]", "[A13 B7]"],
    "IteratedTwoThirdsAverage-v0": ["[0]", "[100]", "[100.5]", "[33.3]", "[101]"],
    "SimpleNegotiation-v0": ["[Accept]"]
    + [f"[Offer: {n} Ore -> {m} Wood]" for n in (1, 10, 25, 30) for m in (1, 30)],
    "GuessTheNumber-v0": [f"[{n}]" for n in range(23)],
    "Mastermind-v0": ["[1 2 3 4]", "[1 1 2 3]", "[1 2 3]", "[1 2 3 7]", "[6 5 4 3]", "[0 1 2 3]"],
    "FrozenLake-v0": ["[up]", "[down]", "[left]", "[right]"],
    "LightsOut-v0": [f"[{r} {c}]" for r in range(6) for c in range(6)],
}
"""Canonical tokens, legal and not, of each environment that can reject one."""


def some_position(name, seed):
    """A session some random legal moves into the game, at a turn that needs a move."""
    session = Session(name, seed, adapter(name))
    rng = random.Random(f"{name} {seed}")
    for _ in range(rng.randrange(12)):
        before = session
        step(session, rng)
        if session.done:
            return some_position(name, seed + 1000)
        session = before
    if session.adapter.talking(session.env) or session.adapter.forced(session.env, session.seat):
        step(session, rng)
    return session


def step(session, rng):
    made, env = session.adapter, session.env
    if made.talking(env):
        return session.step("hello")
    return session.step(made.forced(env, session.seat) or made.guess(env, session.seat, rng))


def accepted(session, move):
    """Whether the environment takes a move, tried on a copy with its own error allowance."""
    env = copy.deepcopy(session.env)
    env.state.error_allowance = 1
    seat = env.state.current_player_id
    saved = random.getstate()
    env.step(move)
    random.setstate(saved)
    told = [text for _, text, kind in env.state.observations[seat] if kind.name == "GAME_ADMIN"]
    return not told and not env.state.game_info[seat]["invalid_move"]


def swallowed(session, move):
    """Nonsense that the environments take without complaint: a bid of no dice, which can't even be
    called, and the acceptance of an offer that there is not, which passes for silence."""
    if move == "[Accept]":
        return session.env.state.game_state["current_offer"] is None
    return move.startswith("[Bid: 0,")


def test_the_list_is_what_was_asked_for():
    assert len(TWO_PLAYER) == 16
    assert len(ONE_PLAYER) == 6
    assert TWO_PLAYER[:6] == REFERENCE
    assert all(adapter(name).listed for name in LISTED)
    assert all(adapter(name).seats == (1 if name in ONE_PLAYER else 2) for name in LISTED)


@pytest.mark.parametrize("name", sorted(CANDIDATES))
def test_the_adapter_permits_exactly_what_the_environment_accepts(name):
    made, verdicts = adapter(name), set()
    for seed in range(12):
        session = some_position(name, seed)
        for move in CANDIDATES[name]:
            permitted = made.permits(session.env, session.seat, move)
            if swallowed(session, move):
                assert not permitted
            else:
                assert permitted == accepted(session, move), move
            verdicts.add(permitted)
    assert verdicts == {True, False}


@pytest.mark.parametrize("name", LISTED)
def test_random_play_is_never_rejected_and_always_ends(name):
    made = adapter(name)
    for seed in range(8):
        session, rng = Session(name, seed, made), random.Random(f"{name} {seed}")
        for _ in range(400):
            if session.done:
                break
            listed = made.legal(session.env, session.seat)
            assert listed is None or all(made.read(m[1:-1]) == m for m in listed)
            step(session, rng)  # raises if the environment objects
        values = made.values(session.rewards())
        assert all(0.0 <= value <= 1.0 for value in values)
        assert len(values) == made.seats
        if made.seats == 2:
            assert sum(values) == 1.0


@pytest.mark.parametrize("name", [name for name in LISTED if adapter(name).oracle])
def test_best_play_is_legal_and_does_not_lose(name):
    made = adapter(name)
    total, games = 0.0, 0
    for seed in range(10):
        for own in range(made.seats):
            session, rng = Session(name, seed, made), random.Random(f"best {name} {seed}")
            while not session.done:
                if session.seat == own and not made.talking(session.env):
                    session.step(made.best(session.env, own, rng))
                else:
                    step(session, rng)
            value = made.values(session.rewards())[own]
            if name in ("TicTacToe-v0", "IteratedPrisonersDilemma-v0"):
                assert value >= 0.5
            elif name in ("FrozenLake-v0", "LightsOut-v0", "GuessTheNumber-v0", "Mastermind-v0"):
                assert value == 1.0
            total, games = total + value, games + 1
    assert total / games > {"Blackjack-v0": 0.25, "Secretary-v0": 0.3}.get(name, 0.75)


def test_tictactoe_has_5478_positions_and_is_a_draw():
    boards.three_value.cache_clear()
    assert boards.three_value("." * 9, "O", "X") == 0
    assert boards.three_value.cache_info().currsize == 5478


def test_nim_is_normal_play_and_the_first_player_wins_all_three_variants():
    def winnable(piles, known):
        if piles not in known:
            moves = [
                (*piles[:i], n - q, *piles[i + 1 :])
                for i, n in enumerate(piles)
                for q in range(1, n + 1)
            ]
            known[piles] = any(not winnable(tuple(sorted(m)), known) for m in moves)
        return known[piles]

    for name in ("Nim-v0", "Nim-v0-medium"):
        session = Session(name, 0, adapter(name))
        assert winnable(tuple(sorted(session.env.state.game_state["piles"])), {})
    for name in ("Nim-v0", "Nim-v0-medium", "Nim-v0-large"):
        for seed in range(5):
            session, rng = Session(name, seed, adapter(name)), random.Random(seed)
            while not session.done:
                if session.seat == 0:
                    session.step(session.adapter.best(session.env, 0, rng))
                else:
                    step(session, rng)
            assert session.rewards() == (1.0, -1.0)


def test_pegs_agree_with_the_environment():
    session = Session("Mastermind-v0", 3, adapter("Mastermind-v0"))
    code = session.env.state.game_state["secret_code"]
    for guess in permutations(range(1, 7), 4):
        assert puzzles.pegs(code, guess) == session.env._evaluate_guess(list(guess))


def test_lights_are_turned_off_in_as_few_presses_as_breadth_first_search_finds():
    def press(state, cell):
        row, col = divmod(cell, 3)
        for r, c in ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)):
            if 0 <= row + r < 3 and 0 <= col + c < 3:
                state ^= 1 << ((row + r) * 3 + col + c)
        return state

    distance, layer = {0: 0}, [0]
    while layer:
        layer = [
            new
            for state in layer
            for cell in range(9)
            if (new := press(state, cell)) not in distance
            and distance.setdefault(new, distance[state] + 1)
        ]
    assert len(distance) == 512
    for state, presses in distance.items():
        grid = [[bool(state >> (r * 3 + c) & 1) for c in range(3)] for r in range(3)]
        assert len(puzzles.solve_lights(grid)) == presses


def test_blackjack_values_agree_with_simulation():
    rng, wins, n = random.Random(5), 0, 20_000
    for _ in range(n):
        total, ace = 6, False
        while (score := total + 10 if ace and total <= 11 else total) < 17:
            card = rng.choice(chance.CARDS)
            total, ace = total + card, ace or card == 1
        wins += score > 21 or score < 18
    assert abs(chance.stand_value(18, 6) - wins / n) < 4 * 0.5 / n**0.5
    assert abs(sum(chance.dealer(6, False)) - 1.0) < 1e-12
    assert chance.hit_value(20, False, 10) < chance.stand_value(20, 10)
    assert chance.hit_value(11, False, 6) > chance.stand_value(11, 6)


def test_the_secretary_rule_wins_as_often_as_dynamic_programming_says():
    n, grid = 5, 400
    # value[k][i]: chance to win with k draws to come and a highest value of i / grid so far.
    points = [(i + 0.5) / grid for i in range(grid)]
    value = [0.0] * grid
    for left in range(1, n + 1):
        gain = [max(points[i] ** (left - 1), value[i]) for i in range(grid)]
        above, fresh = 0.0, [0.0] * grid
        for i in reversed(range(grid)):
            fresh[i] = points[i] * value[i] + above / grid
            above += gain[i]
        value = fresh
    best = value[0]
    name, won, games = "Secretary-v0", 0.0, 1500
    made = adapter(name)
    for seed in range(games):
        session = Session(name, seed, made)
        assert n == session.env.N
        while not session.done:
            session.step(made.best(session.env, 0, random.Random(0)))
        won += session.rewards()[0]
    assert abs(won / games - best) < 4 * 0.5 / games**0.5 + 0.01


def test_the_documentation_holds_the_table():
    docs = Path(__file__).parents[3] / "docs" / "textarena.md"
    assert table() in docs.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", LISTED)
def test_chance_is_where_the_adapter_says(name):
    made = adapter(name)
    starts = {repr(Session(name, seed, made).env.state.game_state) for seed in range(8)}
    dealt = name in ("KuhnPoker-v0", "LiarsDice-v0-small", "Blackjack-v0")
    assert (len(starts) > 1) == (made.deals or dealt)
    session, rng = Session(name, 1, made), random.Random(1)
    drew = False
    for _ in range(60):
        if session.done:
            break
        before = session._state
        step(session, rng)
        drew = drew or session._state != before
    assert drew == made.draws
