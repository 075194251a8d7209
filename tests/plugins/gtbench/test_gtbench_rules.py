"""Every claim of the rules, played on the engine."""

from __future__ import annotations

import itertools
from random import Random

import pytest

from harness_plugins.tasks.gtbench.games import GAMES, skin
from harness_plugins.tasks.gtbench.games import breakthrough as bt
from harness_plugins.tasks.gtbench.games import connect4 as c4
from harness_plugins.tasks.gtbench.games import negotiation as ng
from harness_plugins.tasks.gtbench.games import nim as nm
from harness_plugins.tasks.gtbench.games import pig as pg
from harness_plugins.tasks.gtbench.games import prisoners_dilemma as pd

WORDS = {key: skin(key, "plain") for key in GAMES}


def random_position(key, seed, stop=None):
    """A position of random play, ended or after ``stop`` moves."""
    rng, position = Random(seed), GAMES[key].start(seed)
    while not position.over and (stop is None or len(position.moves) < stop):
        position.play({seat: rng.choice(position.legal(seat)) for seat in position.seats()})
    return position


@pytest.mark.parametrize("key", GAMES)
def test_vocabularies_fill_all_templates(key):
    for variant in ("plain", "relabelled"):
        look = skin(key, variant)
        text = look.system.content
        assert "{" not in text
        assert "}" not in text
        assert look.words["name"] in text
    plain, other = skin(key, "plain").words, skin(key, "relabelled").words
    assert plain["name"] not in skin(key, "relabelled").system.content
    assert set(plain) == set(other)


@pytest.mark.parametrize("key", GAMES)
def test_moves_have_one_text_each_that_reads_back(key):
    for variant in ("plain", "relabelled"):
        look = skin(key, variant)
        for seed in range(20):
            position = random_position(key, seed, stop=seed % 7)
            for seat in () if position.over else position.seats():
                legal = look.legal(position, seat)
                assert sorted(legal.values()) == sorted(position.legal(seat))
                assert all(look.read(text) == text for text in legal)


@pytest.mark.parametrize("key", GAMES)
def test_zero_sum_claims_and_bounds_hold(key):
    rules = GAMES[key]
    for seed in range(60 if key != "uno" else 10):
        position = random_position(key, seed)
        returns = position.returns()
        if rules.zero_sum:
            assert sum(returns) == 0
            assert max(returns) <= rules.top
        for own, most in zip(returns, rules.scale(position), strict=True):
            assert (-rules.top if rules.zero_sum else 0) <= own <= most
            assert 0.0 <= rules.payoff(own, most) <= 1.0


# Tic-tac-toe


def test_tictactoe_first_player_moves_first_and_lines_win(play):
    assert play("tictactoe").seats() == (0,)
    assert play("tictactoe", ["C1R1"]).seats() == (1,)
    across = play("tictactoe", ["C1R1", "C1R2", "C2R1", "C2R2", "C3R1"])
    down = play("tictactoe", ["C1R1", "C2R1", "C1R2", "C2R2", "C1R3"])
    diagonal = play("tictactoe", ["C1R1", "C2R1", "C2R2", "C3R1", "C3R3"])
    other = play("tictactoe", ["C3R1", "C2R1", "C2R2", "C1R1", "C1R3"])
    for position in (across, down, diagonal, other):
        assert position.over
        assert position.returns() == (1.0, -1.0)


def test_tictactoe_second_player_can_win_and_a_full_grid_is_a_draw(play):
    second = play("tictactoe", ["C1R1", "C1R2", "C2R1", "C2R2", "C3R3", "C3R2"])
    assert second.returns() == (-1.0, 1.0)
    moves = ["C1R1", "C2R1", "C3R1", "C2R2", "C1R2", "C3R2", "C2R3", "C1R3", "C3R3"]
    full = play("tictactoe", moves)
    assert full.over
    assert full.returns() == (0.0, 0.0)


def test_tictactoe_grid_shows_columns_and_rows_as_said(play, told):
    text = told("tictactoe", play("tictactoe", ["C3R1", "C1R2"]), 0)
    assert "R1  .  .  X" in text
    assert "R2  O  .  ." in text
    assert "1. You: C3R1\n2. Opponent: C1R2" in text
    assert "C3R1" not in text.split("Legal moves:")[1]


# Connect four


def test_connect4_discs_fall_and_four_in_line_win(play):
    down = play("connect4", ["C1", "C2", "C1", "C2", "C1", "C2", "C1"])
    across = play("connect4", ["C1", "C1", "C2", "C2", "C3", "C3", "C4"])
    rising = ["C1", "C2", "C2", "C3", "C3", "C4", "C3", "C4", "C4", "C6", "C4"]
    diagonal = play("connect4", rising)
    for position in (down, across, diagonal):
        assert position.over
        assert position.returns() == (1.0, -1.0)
    three = play("connect4", ["C1", "C1", "C2", "C2", "C3"])
    assert not three.over


def test_connect4_full_columns_are_illegal_and_the_grid_is_as_the_engine_has_it(play):
    full = play("connect4", ["C3"] * 6)
    assert "C3" not in WORDS["connect4"].legal(full, 0)
    assert len(WORDS["connect4"].legal(full, 0)) == 6
    for seed in range(30):
        position = random_position("connect4", seed, stop=20)
        rows = str(position.state).strip().split("\n")
        grid = c4.columns(position)
        for y, row in enumerate(reversed(rows)):
            ours = "".join("xo"[col[y]] if y < len(col) else "." for col in grid)
            assert ours == row


def test_connect4_full_grid_is_a_draw():
    for seed in range(3000):
        position = random_position("connect4", seed)
        if len(position.moves) == 42 and position.returns() == (0.0, 0.0):
            return
    pytest.fail("no drawn game was found")


# Breakthrough


def test_breakthrough_player_1_is_on_top_and_moves_down(play, told):
    start = play("breakthrough")
    assert start.seats() == (0,)
    assert set(WORDS["breakthrough"].legal(start, 0)) == {
        "a7->a6", "a7->b6", "b7->a6", "b7->b6", "b7->c6", "c7->b6", "c7->c6",
    }  # fmt: skip
    assert "your pieces are B and move down, towards row 1" in told("breakthrough", start, 0)
    after = play("breakthrough", ["a7->a6"])
    assert set(WORDS["breakthrough"].legal(after, 1)) == {
        "a2->a3", "a2->b3", "b2->a3", "b2->b3", "b2->c3", "c2->b3", "c2->c3",
    }  # fmt: skip
    assert "your pieces are W and move up, towards row 8" in told("breakthrough", after, 1)


def test_breakthrough_board_is_as_the_engine_has_it():
    for seed in range(40):
        position = random_position("breakthrough", seed, stop=seed)
        grid = bt.board(position)
        for line in str(position.state).strip().split("\n")[:8]:
            row = int(line[0])
            ours = "".join({0: "b", 1: "w", None: "."}[grid.get((x, row))] for x in range(3))
            assert ours == line[1:4]


def test_breakthrough_captures_are_diagonal_only():
    captures = straight = 0
    for seed in range(80):
        position = random_position("breakthrough", seed, stop=12)
        if position.over:
            continue
        grid, seat = bt.board(position), position.seats()[0]
        for action in position.legal(seat):
            (x, _), end, capture = bt.squares(action)
            assert capture == (grid.get(end) == 1 - seat)
            captures += capture
            straight += x == end[0]
            assert not (capture and x == end[0])
    assert captures > 20
    assert straight > 20


def test_breakthrough_ends_at_the_far_row_or_without_pieces_and_never_in_a_draw():
    far = wiped = 0
    for seed in range(300):
        position = random_position("breakthrough", seed)
        grid = bt.board(position)
        winner = 0 if position.returns()[0] > 0 else 1
        reached = any(s == winner and y == (8 if winner else 1) for (_, y), s in grid.items())
        alone = 1 - winner not in grid.values()
        assert reached or alone
        assert sorted(position.returns()) == [-1.0, 1.0]
        far += reached
        wiped += alone
    assert far
    assert wiped


# Nim


def test_nim_piles_and_the_last_stick_loses(play):
    assert nm.piles(play("nim")) == [1, 3, 5, 7]
    everything = ["pile 1, take 1", "pile 2, take 3", "pile 3, take 5", "pile 4, take 7"]
    assert play("nim", everything).returns() == (1.0, -1.0)
    slower = ["pile 1, take 1", "pile 2, take 3", "pile 3, take 5", "pile 4, take 6"]
    assert play("nim", [*slower, "pile 4, take 1"]).returns() == (-1.0, 1.0)


def test_nim_legal_moves_take_from_one_pile_what_it_holds():
    for seed in range(30):
        position = random_position("nim", seed, stop=seed % 5)
        if position.over:
            continue
        left = nm.piles(position)
        expected = {
            f"pile {i}, take {n}" for i, held in enumerate(left, 1) for n in range(1, held + 1)
        }
        assert set(WORDS["nim"].legal(position, position.seats()[0])) == expected


# Auction


def test_auction_profits_ties_and_bids():
    seen, coin = set(), set()
    for seed in range(400):
        for bids in ((0, 0), (1, 1), (2, 1), (0, 3)):
            position = GAMES["first_sealed_auction"].start(seed)
            worth = position.chance()[:2]
            seen.update(worth)
            assert [len(position.legal(0))] == [worth[0]]
            if bids[0] >= worth[0] or bids[1] >= worth[1]:
                continue
            assert position.legal(0) == list(range(worth[0]))
            position.play({0: bids[0]})
            assert position.legal(1) == list(range(worth[1]))
            position.play({1: bids[1]})
            won = [float(worth[s] - bids[s]) for s in (0, 1)]
            if bids[0] == bids[1]:
                assert position.returns() in ((won[0], 0.0), (0.0, won[1]))
                coin.add(position.returns()[0] > 0)
            else:
                best = 0 if bids[0] > bids[1] else 1
                assert position.returns()[best] == won[best]
                assert position.returns()[1 - best] == 0.0
    assert seen == set(range(1, 11))
    assert coin == {True, False}


# Kuhn poker


def test_kuhn_payoffs_of_all_deals_and_courses():
    """Checked against the rules written out by hand, not against the engine's own tables."""
    courses = {
        ("Pass", "Pass"): lambda a, b: 1 if a > b else -1,
        ("Pass", "Bet", "Pass"): lambda a, b: -1,
        ("Pass", "Bet", "Bet"): lambda a, b: 2 if a > b else -2,
        ("Bet", "Pass"): lambda a, b: 1,
        ("Bet", "Bet"): lambda a, b: 2 if a > b else -2,
    }
    deals = set()
    for seed in range(60):
        for course, won in courses.items():
            position = GAMES["kuhn_poker"].start(seed)
            first, second = position.chance()
            deals.add((first, second))
            for number, move in enumerate(course):
                assert position.seats() == (number % 2,)
                WORDS["kuhn_poker"].act(position, number % 2, move)
            assert position.over
            assert position.returns() == (won(first, second), -won(first, second))
    assert deals == set(itertools.permutations(range(3), 2))


# Liar's dice


def test_liars_dice_bids_rise_and_calls_decide_with_wild_sixes(play):
    words = WORDS["liars_dice"]
    outcomes = set()
    for seed in range(150):
        start = GAMES["liars_dice"].start(seed)
        dice = [face + 1 for face in start.chance()]
        assert len(words.legal(start, 0)) == 12
        assert "Liar" not in words.legal(start, 0)
        for quantity, value in itertools.product((1, 2), range(1, 7)):
            name = f"{quantity} {'die' if quantity == 1 else 'dice'}, value {value}"
            position = play("liars_dice", [name], seed)
            higher = {
                f"{q} {'die' if q == 1 else 'dice'}, value {v}"
                for q in (1, 2)
                for v in range(1, 7)
                if q > quantity or (q == quantity and v > value)
            }
            assert set(words.legal(position, 1)) == higher | {"Liar"}
            words.act(position, 1, "Liar")
            true = sum(die in (value, 6) for die in dice) >= quantity
            assert position.returns() == ((1.0, -1.0) if true else (-1.0, 1.0))
            outcomes.add(true)
    assert outcomes == {True, False}


# Negotiation


def test_negotiation_turns_proposals_limit_and_payoffs():
    words = WORDS["negotiation"]
    agreed = ended = 0
    for seed in range(40):
        rng, position = Random(seed), GAMES["negotiation"].start(seed)
        deal = position.deal
        assert 4 <= deal.proposals <= 10
        assert all(0 <= n <= 5 for n in deal.pool)
        assert all(0 <= v <= 10 for row in deal.values for v in row)
        assert min(GAMES["negotiation"].scale(position)) > 0
        made, proposer, kept = 0, None, None
        while not position.over:
            [seat] = position.seats()
            assert seat == made % 2
            legal = words.legal(position, seat)
            count = 1
            for n in deal.pool:
                count *= n + 1
            assert len(legal) == count + (made > 0)
            if made and rng.random() < 0.15:
                words.act(position, seat, "Agree")
                break
            name = rng.choice([text for text in legal if text != "Agree"])
            words.act(position, seat, name)
            proposer, kept = seat, [int(c) for c in name if c.isdigit()]
            made += 1
            assert position.seats() == (seat,)
            assert len(position.legal(seat)) == 125
            words.act(position, seat, "Utterance: [0, 4, 2]")
        if made == deal.proposals and not any(a == ng.AGREE for _, a in position.moves):
            assert position.returns() == (0.0, 0.0)
            ended += 1
        else:
            rest = [n - k for n, k in zip(deal.pool, kept, strict=True)]
            expected = [0.0, 0.0]
            expected[proposer] = float(deal.worth(proposer, kept))
            expected[1 - proposer] = float(deal.worth(1 - proposer, rest))
            assert list(position.returns()) == expected
            agreed += 1
    assert agreed > 5
    assert ended > 5


def test_negotiation_numbers_and_deals_agree_with_the_engine():
    for seed in range(30):
        position = GAMES["negotiation"].start(seed)
        text = str(position.state)
        assert f"Max steps: {position.deal.proposals}" in text
        assert f"Item pool: {' '.join(map(str, position.deal.pool))}" in text
        for action in position.legal(0):
            assert position.state.action_to_string(0, action) == WORDS["negotiation"].say(action)
        position.play({0: position.legal(0)[-1]})
        for action in position.legal(0):
            name = position.state.action_to_string(0, action).lstrip(", ")
            assert name == WORDS["negotiation"].say(action)


# Pig


def test_pig_turns_ones_and_target(play):
    rolled_one = won = 0
    for seed in range(400):
        rng, position = Random(seed), GAMES["pig"].start(seed)
        points, turn, mover = [0, 0], 0, 0
        while not position.over:
            assert position.seats() == (mover,)
            assert pg.score(position) == ((points[0], points[1]), turn)
            enough = points[mover] + turn >= 20
            moves = {"stop"} if enough else {"roll", "stop"}
            assert set(WORDS["pig"].legal(position, mover)) == moves
            throw = not enough and rng.random() < 0.7
            WORDS["pig"].act(position, mover, "roll" if throw else "stop")
            if throw:
                face = position.chance()[-1] + 1
                assert 1 <= face <= 6
                turn = turn + face if face > 1 else 0
                mover = mover if face > 1 else 1 - mover
                rolled_one += face == 1
            else:
                points[mover] += turn
                if points[mover] >= 20:
                    assert position.over
                    assert position.returns()[mover] == 1.0
                    won += 1
                turn, mover = 0, 1 - mover
            assert position.over == (max(points) >= 20)
    assert rolled_one > 100
    assert won == 400


def test_pig_is_drawn_at_the_limit(play):
    position = play("pig", ["stop"] * 999)
    assert not position.over
    WORDS["pig"].act(position, position.seats()[0], "stop")
    assert position.over
    assert position.returns() == (0.0, 0.0)


# Prisoner's dilemma


def test_dilemma_payoffs_simultaneity_and_length():
    points = {(0, 0): (5, 5), (0, 1): (0, 10), (1, 0): (10, 0), (1, 1): (1, 1)}
    lengths = []
    for seed in range(400):
        rng, position = Random(seed), GAMES["prisoners_dilemma"].start(seed)
        total = [0, 0]
        while not position.over:
            assert position.seats() == (0, 1)
            pair = (rng.randrange(2), rng.randrange(2))
            position.play(dict(enumerate(pair)))
            total = [a + b for a, b in zip(total, points[pair], strict=True)]
            assert list(position.returns()) == total
        lengths.append(len(pd.rounds(position)))
    # A geometric length with probability 1/8: mean 8, standard deviation sqrt(56).
    assert abs(sum(lengths) / 400 - 8.0) < 4 * 56**0.5 / 20
    assert min(lengths) == 1
