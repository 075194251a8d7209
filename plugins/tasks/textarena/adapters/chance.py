"""Adapters of games of one player against chance.

The oracles are optimal play for what the player knows; neither sees hidden cards or values.

>>> round(stand_value(20, 10), 3), round(hit_value(11, False, 6), 3)
(0.546, 0.633)
"""

from __future__ import annotations

import random
import re
from functools import cache
from typing import Any

from ..adapter import Adapter

CARDS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10)
"""Values of the thirteen ranks, the ace as 1; the environment draws each with equal chance."""


class Blackjack(Adapter):
    """Several hands of blackjack; the reward is the share of hands won."""

    family = "Blackjack-v0"
    seats = 1
    draws = True
    oracle = True
    lowest = 0.0
    reward = "the share of hands won (a drawn hand pays nothing)"
    rules = (
        "The dealer draws to 16 and stands on 17 or more, also with an ace. Cards come from an "
        "endless deck. A hand with an equal score is drawn, and pays nothing."
    )
    form = "[Hit] or [Stand]"
    pattern = r"(hit|stand)"

    def canonical(self, found: re.Match[str]) -> str:
        return f"[{found[1].capitalize()}]"

    def legal(self, env: Any, seat: int) -> tuple[str, ...]:
        return ("[Hit]", "[Stand]")

    def best(self, env: Any, seat: int, rng: random.Random) -> str:
        game = env.state.game_state
        values = [_card(card) for card in game["player_hand"]]
        total, ace, shown = sum(values), 1 in values, _card(game["dealer_hand"][0])
        better = hit_value(total, ace, shown) > stand_value(_score(total, ace), shown)
        return "[Hit]" if better else "[Stand]"

    def figures(self, env: Any) -> dict[str, int]:
        return dict(env.state.game_state["results_summary"])


def _card(text: str) -> int:
    rank = text[:-1]
    return 1 if rank == "A" else 10 if rank in "JQK" else int(rank)


def _score(total: int, ace: bool) -> int:
    """The score of a hand whose aces count 1 in ``total``."""
    return total + 10 if ace and total <= 11 else total


@cache
def dealer(total: int, ace: bool) -> tuple[float, ...]:
    """The chances of the dealer's final scores 17 to 21 and, last, of going over."""
    score = _score(total, ace)
    if score >= 17:
        return tuple(float(score == end if end < 22 else score > 21) for end in range(17, 23))
    ends = [dealer(total + card, ace or card == 1) for card in CARDS]
    return tuple(sum(column) / len(CARDS) for column in zip(*ends, strict=True))


@cache
def stand_value(score: int, shown: int) -> float:
    """The chance to win by standing at a score against the dealer's open card (ace: 1)."""
    ends = dealer(shown, shown == 1)
    return ends[-1] + sum(ends[end - 17] for end in range(17, min(score, 22)))


@cache
def hit_value(total: int, ace: bool, shown: int) -> float:
    """The chance to win by drawing a card and going on as well as possible."""
    chances = []
    for card in CARDS:
        drawn, soft = total + card, ace or card == 1
        if drawn > 21:
            chances.append(0.0)
        else:
            stand = stand_value(_score(drawn, soft), shown)
            chances.append(max(stand, hit_value(drawn, soft, shown)))
    return sum(chances) / len(CARDS)


class Secretary(Adapter):
    """Values one by one: accept the current one, and win if it is the highest of all."""

    family = "Secretary-v0"
    deals = True
    seats = 1
    oracle = True
    board = False
    lowest = 0.0
    reward = "1 if the accepted value is the highest of all, else 0"
    rules = "The values are drawn independently and uniformly between 0 and 1."
    form = "[accept] or [continue]"
    pattern = r"(accept|continue)"

    def canonical(self, found: re.Match[str]) -> str:
        return f"[{found[1]}]"

    def legal(self, env: Any, seat: int) -> tuple[str, ...]:
        return ("[accept]", "[continue]")

    def view(self, env: Any, seat: int) -> str:
        game = env.state.game_state
        return f"This is value {game['current_idx']} of {env.N}."

    def best(self, env: Any, seat: int, rng: random.Random) -> str:
        """Accept a record if it is above the decision number for the draws that are left.

        Gilbert and Mosteller, Recognizing the maximum of a sequence (JASA 61, 1966), section 3.
        """
        game = env.state.game_state
        seen = [round(value, 4) for value in game["draws"][: game["current_idx"]]]
        left = env.N - len(seen)
        if seen[-1] < max(seen):
            return "[continue]"
        lost = sum((seen[-1] ** -j - 1) / j for j in range(1, left + 1)) if seen[-1] > 0 else 2.0
        return "[accept]" if lost <= 1.0 else "[continue]"
