"""rlcard's games: the rules as told, against independent accounting; isolation of random state."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from random import Random

import numpy as np
import pytest

from harness_plugins.tasks.gtbench.cards import BettingPosition, card
from harness_plugins.tasks.gtbench.games import GAMES, skin
from harness_plugins.tasks.gtbench.games.uno import ACTIONS

RANKS = "23456789TJQKA"


def strength(cards):
    """The strength of the best five of seven cards, by trying all: an evaluator of our own."""
    return max(five(hand) for hand in combinations(cards, 5))


def five(cards):
    ranks = sorted((RANKS.index(c[1]) for c in cards), reverse=True)
    groups = sorted(Counter(ranks).items(), key=lambda item: (-item[1], -item[0]))
    counts, order = [n for _, n in groups], [r for r, _ in groups]
    flush = len({c[0] for c in cards}) == 1
    wheel = ranks == [12, 3, 2, 1, 0]
    straight = len(order) == 5 and (ranks[0] - ranks[4] == 4 or wheel)
    if wheel:
        order = [3, 2, 1, 0, -1]
    kinds = [
        straight and flush,
        counts == [4, 1],
        counts == [3, 2],
        flush,
        straight,
        counts == [3, 1, 1],
        counts == [2, 2, 1],
        counts == [2, 1, 1, 1],
        True,
    ]
    return (-kinds.index(True), order)


@pytest.mark.parametrize(
    ("key", "limit", "small"), [("limit-holdem", 4, 2), ("leduc-holdem", 2, 2)]
)
def test_betting_follows_the_rules_told(key, limit, small):
    """Chips, legal moves, rounds and who acts first, kept by hand beside the engine."""
    words = skin(key, "plain")
    rounds = 4 if key == "limit-holdem" else 2
    folds = shown = shared = 0
    for seed in range(250):
        rng, position = Random(seed), GAMES[key].start(seed)
        assert isinstance(position, BettingPosition)
        [actor] = position.seats()
        chips = [2, 2]
        chips[actor] = 1
        round_, raises, acted, folded = 0, 0, 0, None
        while not position.over:
            assert position.seats() == (actor,)
            owed = max(chips) - chips[actor]
            legal = set(words.legal(position, actor))
            expected = {"fold", "call" if owed else "check"}
            assert legal == expected | ({"raise"} if raises < limit else set())
            assert list(position.table(0).chips) == chips
            weights = [1 if name == "fold" else 6 for name in sorted(legal)]
            move = rng.choices(sorted(legal), weights)[0]
            words.act(position, actor, move)
            if move == "fold":
                folded = actor
                break
            if move in ("call", "raise"):
                chips[actor] += owed
            if move == "raise":
                late = round_ >= (2 if key == "limit-holdem" else 1)
                chips[actor] += small * (2 if late else 1)
                raises += 1
            acted = 1 if move == "raise" else acted + 1
            actor = 1 - actor
            if acted == 2:
                round_, raises, acted = round_ + 1, 0, 0
        assert position.over
        won = position.returns()
        if folded is not None:
            assert won[1 - folded] == chips[folded]
            folds += 1
            continue
        assert round_ == rounds
        hands = [position.table(seat) for seat in (0, 1)]
        if key == "limit-holdem":
            marks = [strength(table.hand + table.board) for table in hands]
        else:
            rank = [table.hand[0][1] for table in hands]
            pair = [r == hands[0].board[0][1] for r in rank]
            marks = [(p, RANKS.index(r)) for p, r in zip(pair, rank, strict=True)]
        sign = (marks[0] > marks[1]) - (marks[0] < marks[1])
        assert won[0] == sign * chips[0]
        shown += 1
        shared += sign == 0
    assert folds > 30
    assert shown > 30
    assert shared > 0


def test_uno_follows_the_rules_told():
    """Turn order, hands and the top card after every move of random games."""
    played = Counter()
    for seed in range(40):
        rng, position = Random(seed), GAMES["uno"].start(seed)
        core = position.core
        top = core.round.target
        expected = 1 if top.trait in ("skip", "reverse") else 0
        assert position.seats() == (expected,)
        assert len(core.players[0].hand) == (9 if top.trait == "draw_2" else 7)
        while not position.over:
            [seat] = position.seats()
            top = core.round.target
            hand = [c.str for c in core.players[seat].hand]
            other = len(core.players[1 - seat].hand)
            legal = {ACTIONS[a] for a in position.legal(seat)}
            assert legal == allowed(hand, top)
            action = rng.choice(position.legal(seat))
            name = ACTIONS[action]
            position.play({seat: action})
            if position.stuck:
                break
            took = len(core.players[1 - seat].hand) - other
            trait = name.partition("-")[2]
            again = trait in ("skip", "draw_2", "wild_draw_4")
            if name != "draw":
                assert len(core.players[seat].hand) == len(hand) - 1
                assert position.top() == name
                assert took == {"draw_2": 2, "wild_draw_4": 4}.get(trait, 0)
                if not position.over:
                    assert position.seats() == ((seat,) if again else (1 - seat,))
                played[trait if len(trait) > 1 else "number"] += 1
                continue
            drawn = len(core.players[seat].hand) == len(hand) + 1
            now = core.round.target
            if drawn:
                kept = core.players[seat].hand[-1]
                assert kept.type != "wild"
                assert kept.color != top.color
                assert position.seats() == (1 - seat,)
            else:
                assert now.type == "wild" or now.color == top.color
                assert took == (2 if now.trait == "draw_2" else 0)
            played["kept" if drawn else "drawn and played"] += 1
        winner = 0 if position.returns()[0] > 0 else 1
        if any(position.returns()):
            assert not core.players[winner].hand
    assert set(played) == {
        "number", "skip", "reverse", "draw_2", "wild", "wild_draw_4", "kept", "drawn and played",
    }  # fmt: skip


def allowed(hand, top):
    """The legal moves by the rules told."""
    wild = top.trait.startswith("wild")
    names = set()
    for name in hand:
        colour, _, trait = name.partition("-")
        if trait == "wild":
            names |= {f"{c}-wild" for c in "rgby"}
        elif not trait.startswith("wild") and (
            colour == top.color or (not wild and trait == top.trait)
        ):
            names.add(name)
    if not names and any("wild_draw_4" in name for name in hand):
        names = {f"{c}-wild_draw_4" for c in "rgby"}
    return names or {"draw"}


@pytest.mark.parametrize("key", ["limit-holdem", "leduc-holdem", "uno"])
def test_card_games_leave_numpy_alone_and_are_the_same_again(key):
    def course(seed):
        rng, position, seen = Random(seed), GAMES[key].start(seed), []
        while not position.over and len(seen) < 30:
            [seat] = position.seats()
            action = rng.choice(position.legal(seat))
            seen.append((seat, action, tuple(position.legal(seat))))
            position.play({seat: action})
        return seen, position.returns()

    np.random.seed(5)
    before = np.random.get_state()[1].tolist()
    first = [course(seed) for seed in range(5)]
    assert np.random.get_state()[1].tolist() == before
    np.random.seed(6)
    assert [course(seed) for seed in range(5)] == first


@pytest.mark.parametrize("key", ["limit-holdem", "leduc-holdem", "uno"])
def test_card_prompts_do_not_depend_on_the_other_hand(key, told):
    for seed in range(10):
        position = GAMES[key].start(seed)
        [seat] = position.seats()
        text = told(key, position, seat)
        other, own = position.core.players[1 - seat], position.core.players[seat]
        cards = position.core.dealer.deck
        if key == "leduc-holdem":
            swapped, other.hand = other.hand, cards[0]
            assert swapped is not other.hand
        else:
            other.hand[:] = cards[: len(other.hand)]
        assert told(key, position, seat) == text
        if key == "limit-holdem":
            assert card(own.hand[0].get_index()) in text
