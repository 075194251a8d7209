"""Reference players against exact truth: search of all positions, sums over all chance events."""

from __future__ import annotations

import math
from functools import cache
from itertools import product
from random import Random

import pytest

from harness.seeds import Streams
from harness.types import HarnessError
from harness_plugins.tasks.gtbench import baseline
from harness_plugins.tasks.gtbench.games import GAMES, nim, skin
from harness_plugins.tasks.gtbench.games.negotiation import Deal
from harness_plugins.tasks.gtbench.opponents import (
    ORACLE,
    PLAYERS,
    TARGETS,
    best_response,
    cfr,
    perfect,
    pig_table,
)
from harness_plugins.tasks.gtbench.position import load
from harness_plugins.tasks.gtbench.view import View


def test_every_player_plays_its_games_to_the_end(roll):
    for name, player in PLAYERS.items():
        games = sorted(player.plays - ({"liars_dice"} if name in ("cfr", "oracle") else set()))
        if name in ("mcts-1000", "oracle", "ismcts"):
            games = [key for key in games if key not in ("connect4", "breakthrough", "pig")]
        outcomes = roll({"games": games, "pairs": 1}, name)
        assert len(outcomes) == 2 * len(games)
        if name != "empty":
            assert all(outcome.cls == "ok" for _, outcome in outcomes)


def test_oracles_and_targets_are_players():
    assert set(ORACLE) == set(GAMES)
    assert all(key in PLAYERS[name].plays for key, name in ORACLE.items())
    assert set(TARGETS) <= set(GAMES)


def test_a_player_that_does_not_play_a_game_says_what_it_plays(roll):
    with pytest.raises(HarnessError, match="'perfect' does not play connect4; it plays tictactoe"):
        roll({"games": ["connect4"], "pairs": 1}, "random", "perfect")


# Tic-tac-toe


def test_perfect_tictactoe_values_are_those_of_the_engine():
    """Every reachable position: our value against alpha-beta over the engine's own states."""

    @cache
    def truth(board, mover):
        state = boards[board]
        if state.is_terminal():
            return state.returns()[mover]
        children = [state.child(action) for action in state.legal_actions()]
        for child in children:
            boards[str(child)] = child
        return max(-truth(str(child), 1 - mover) for child in children)

    start = load("tic_tac_toe").new_initial_state()
    boards = {str(start): start}
    assert truth(str(start), 0) == 0
    assert len(boards) == 5478
    for board, state in boards.items():
        mover = (board.count("x") - board.count("o")) % 2
        cells = board.replace("\n", "")
        own = cells.translate(str.maketrans("xo", "ox")) if mover else cells
        if not state.is_terminal():
            assert perfect.value(own)[0] == truth(board, mover)


@pytest.mark.parametrize(("opponent", "pairs"), [("random", 300), ("mcts-200", 40)])
def test_perfect_tictactoe_never_loses_from_either_seat(roll, opponent, pairs):
    options = {"games": ["tictactoe"], "pairs": pairs, "openings": 0}
    for _, outcome in roll(options, "perfect", opponent):
        assert outcome.returns[outcome.data["model_seat"]] >= 0.0


def test_perfect_tictactoe_never_loses_to_any_course_of_play():
    """All replies of the opponent, all choices of the player, from both seats."""
    look = skin("tictactoe", "plain")

    def explore(position, seat):
        if position.over:
            assert position.returns()[seat] >= 0.0
            return 1
        [mover] = position.seats()
        if mover == seat:
            view = View(look, position, seat, look.legal(position, seat))
            actions = {perfect.tictactoe(view, Random(k)) for k in range(2)}
        else:
            actions = set(position.legal(mover))
        return sum(explore(_after(position, mover, a), seat) for a in actions)

    assert explore(look.game.start(0), 0) > 50
    assert explore(look.game.start(0), 1) > 200


def _after(position, seat, action):
    twin = position.copy()
    twin.play({seat: action})
    return twin


# Nim


@cache
def nim_wins(left):
    """Whether the player to move wins misere nim, by search."""
    if not any(left):
        return True
    return any(
        not nim_wins((*left[:i], left[i] - n, *left[i + 1 :]))
        for i in range(len(left))
        for n in range(1, left[i] + 1)
    )


def test_nim_sums_agree_with_search():
    for left in product(range(2), range(4), range(6), range(8)):
        if any(left):
            assert perfect.lost(list(left)) == (not nim_wins(left))
    assert not nim_wins((1, 3, 5, 7))


@pytest.mark.parametrize("opponent", ["random", "greedy", "mcts-200", "perfect"])
def test_perfect_nim_always_wins_from_the_winning_side(roll, opponent):
    won = 0
    for _, outcome in roll({"games": ["nim"], "pairs": 60}, "perfect", opponent):
        position = skin("nim", "plain").game.start(0)
        for move in outcome.data["opening"]:
            skin("nim", "plain").act(position, position.seats()[0], move)
        seat = outcome.data["model_seat"]
        if nim_wins(tuple(nim.piles(position))) == (position.seats() == (seat,)):
            assert outcome.returns[seat] == 1.0
            won += 1
    assert won == 60  # one of the two seats of each pair
    second = roll({"games": ["nim"], "pairs": 20, "openings": 0}, "perfect", opponent)
    assert all(o.returns[1] == 1.0 for _, o in second if o.data["model_seat"] == 1)


# Pig


def exact_pig(policy, other):
    """P(the player to move wins) under two policies, by solving the linear equations."""
    import numpy as np
    from scipy.sparse import lil_matrix
    from scipy.sparse.linalg import spsolve

    states = [
        (who, i, j, k)
        for who in (0, 1)
        for i in range(20)
        for j in range(20)
        for k in range(20 - i)
    ]
    place = {state: n for n, state in enumerate(states)}
    matrix, right = lil_matrix((len(states), len(states))), np.zeros(len(states))
    matrix.setdiag(1.0)

    def win(row, weight, who, i, j, k):
        # Add weight * P(who wins at its own move) to a row.
        if i + k >= 20:
            right[row] += weight
        else:
            matrix[row, place[who, i, j, k]] -= weight

    for row, (who, i, j, k) in enumerate(states):
        if (policy, other)[who](i, j, k):
            right[row] += 1 / 6
            win(row, -1 / 6, 1 - who, j, i, 0)
            for face in range(2, 7):
                win(row, 1 / 6, who, i, j, k + face)
        else:
            right[row] += 1
            win(row, -1, 1 - who, j, i + k, 0)
    values = spsolve(matrix.tocsc(), right)
    return values[place[0, 0, 0, 0]], values[place[1, 0, 0, 0]]


def test_pig_policy_against_hold_at_20_is_the_exact_computation(roll):
    rolls = pig_table.best_rolls()

    def best(i, j, k):
        return (i, j, k) in rolls

    def hold(i, j, k):
        return k < 20 and i + k < 20

    first, second = exact_pig(best, hold)
    fair, _ = exact_pig(best, best)
    assert fair == pytest.approx(pig_table.values()[0, 0, 0], abs=1e-9)
    assert first >= fair - 1e-12  # nothing gains against best play
    pairs = 600
    outcomes = roll({"games": ["pig"], "pairs": pairs}, "perfect", "hold-at-20")
    for seat, chance in ((0, first), (1, 1 - second)):
        won = [o.returns[seat] > 0 for _, o in outcomes if o.data["model_seat"] == seat]
        assert abs(sum(won) / pairs - chance) < 4 * math.sqrt(chance * (1 - chance) / pairs)


def test_pig_values_satisfy_the_optimality_equations():
    table = pig_table.values()

    def at(i, j, k):
        return 1.0 if i + k >= 20 else table[i, j, k]

    for i, j, k in table:
        throw = ((1 - at(j, i, 0)) + sum(at(i, j, k + f) for f in range(2, 7))) / 6
        assert table[i, j, k] == pytest.approx(max(throw, 1 - at(j, i + k, 0)), abs=1e-9)


# Kuhn poker and liar's dice


def kuhn_value(policy, opponent):
    """The exact value to the first seat: all six deals, the tree written out."""
    total = 0.0
    for first, second in ((a, b) for a in range(3) for b in range(3) if a != b):
        high = 1 if first > second else -1
        p = policy(f"{first}")[1]
        q = opponent(f"{second}p")[1]
        r = policy(f"{first}pb")[1]
        s = opponent(f"{second}b")[1]
        passed = (1 - q) * high + q * (r * 2 * high - (1 - r))
        total += (1 - p) * passed + p * (s * 2 * high + (1 - s))
    return total / 6


def test_kuhn_cfr_value_and_bounds():
    policy = cfr.policy("kuhn_poker").probabilities
    assert len(cfr.policy("kuhn_poker").table) == 12

    def uniform(information):
        return {0: 0.5, 1: 0.5}

    assert abs(kuhn_value(policy, policy) - -1 / 18) < 0.002
    assert kuhn_value(uniform, uniform) == pytest.approx(0.125)
    # The known equilibrium family (Kuhn 1950): bluff a, bet the best card 3a, call a + 1/3.
    bluff = policy("0")[1]
    assert 0 <= bluff <= 1 / 3 + 0.01
    assert policy("2")[1] == pytest.approx(3 * bluff, abs=0.02)
    assert policy("1pb")[1] == pytest.approx(bluff + 1 / 3, abs=0.02)
    assert policy("0b")[1] == pytest.approx(0, abs=0.01)
    assert policy("2b")[1] == pytest.approx(1, abs=0.01)


def test_cfr_is_kept_in_the_cache_and_read_back():
    from harness.paths import cache_dir

    first = cfr.policy("kuhn_poker")
    cfr.policy.cache_clear()
    assert cfr.policy("kuhn_poker") == first
    assert len(list(cache_dir("gtbench").glob("cfr-kuhn_poker-*.json"))) == 1


def test_liars_dice_policy_covers_all_information_and_beats_uniform_play():
    """A few iterations: every information set, and a gain on uniform play by exact values."""
    import pyspiel

    found = cfr.solve("liars_dice", 3)
    assert len(found.table) == 6 * 2**12  # dice x increasing sequences of bids
    assert all(abs(sum(row.values()) - 1) < 1e-9 for row in found.table.values())
    spiel = load("liars_dice(numdice=1)")
    ours = pyspiel.TabularPolicy({k: list(v.items()) for k, v in found.table.items()})
    even = pyspiel.UniformRandomPolicy(spiel)
    root = spiel.new_initial_state()
    first = pyspiel.expected_returns(root, [ours, even], -1, True)[0]
    second = pyspiel.expected_returns(root, [even, ours], -1, True)[1]
    assert first + second > 0.5


# Search


def test_best_bids_are_best_by_the_engine(roll):
    """Mean profits by playing all bids against all values and bids on the engine."""
    totals = {}
    for seed in range(3000):
        position = GAMES["first_sealed_auction"].start(seed)
        worth, other = position.chance()[:2]
        bids = [Streams(seed).below(other, "bid")]
        for bid in range(worth):
            twin = _after(position, 0, bid)
            twin.play({1: bids[0]})
            row = totals.setdefault((worth, bid), [])
            row.append(twin.returns()[0])
    for (worth, bid), row in totals.items():
        mean = sum(row) / len(row)
        error = max(1e-9, (sum((x - mean) ** 2 for x in row) / len(row)) ** 0.5 / len(row) ** 0.5)
        assert abs(mean - best_response.bid_profit(worth, bid)) < 5 * error + 1e-9
    assert best_response.auction_value() == pytest.approx(
        sum(max(best_response.bid_profit(v, b) for b in range(v)) for v in range(1, 11)) / 100
    )


def test_negotiation_reserves_are_those_of_a_full_expectation():
    """The same values by brute force over what the opponent may do."""

    def value(deal, seat, made, offer):
        """To the seat on move with ``made`` proposals made: the best it can get."""
        agree = -1.0 if offer is None else float(deal.worth(seat, offer))
        return max(agree, max(propose(deal, seat, made, kept) for kept in shares(deal)))

    def shares(deal):
        return list(product(*(range(n + 1) for n in deal.pool)))

    @cache
    def propose(deal, seat, made, kept):
        if made + 1 >= deal.proposals:
            return 0.0
        options = shares(deal)
        total = float(deal.worth(seat, kept))
        for theirs in options:
            rest = tuple(n - k for n, k in zip(deal.pool, theirs, strict=True))
            if made + 2 < deal.proposals:
                total += value(deal, seat, made + 2, rest)
        return total / (len(options) + 1)

    for pool, values, proposals in (
        ((1, 2, 0), (3, 5, 7), 4),
        ((1, 1, 1), (10, 1, 2), 5),
        ((0, 0, 1), (0, 4, 9), 4),
    ):
        deal = Deal(proposals, pool, (values, values[::-1]))
        for seat in (0, 1):
            ours = best_response.reserves(deal, seat)
            for made in range(seat, proposals, 2):
                truth = max(propose(deal, seat, made, kept) for kept in shares(deal))
                assert ours[made] == pytest.approx(truth)


def test_best_responses_reach_their_ceilings_against_random_play(roll):
    for key, pairs in (("negotiation", 300), ("prisoners_dilemma", 150)):
        outcomes = roll({"games": [key], "pairs": pairs}, "best-response")
        payoffs = [
            GAMES[key].payoff(o.returns[s], o.data["scale"][s])
            for _, o in outcomes
            for s in (o.data["model_seat"],)
        ]
        mean = sum(payoffs) / len(payoffs)
        spread = (sum((x - mean) ** 2 for x in payoffs) / len(payoffs)) ** 0.5
        # Pairs share deals: count them as one each.
        assert abs(mean - baseline.ceiling(key)) < 4.5 * spread / pairs**0.5


def test_tit_for_tat_copies(roll):
    for _, outcome in roll({"games": ["prisoners_dilemma"], "pairs": 10}, "tit-for-tat"):
        seat = outcome.data["model_seat"]
        own = [row[1] for row in outcome.data["line"] if row[0] == seat]
        other = [row[1] for row in outcome.data["line"] if row[0] != seat]
        assert own == ["Silent", *other[:-1]]


def test_the_ladder_rises(roll):
    """Random, greedy, then search: each rung beats the one below in connect four."""
    for better, worse in (("greedy", "random"), ("mcts-50", "greedy"), ("mcts-200", "mcts-50")):
        outcomes = roll({"games": ["connect4"], "pairs": 15}, better, worse)
        gains = [o.returns[o.data["model_seat"]] for _, o in outcomes]
        assert sum(gains) / len(gains) > 0.2
