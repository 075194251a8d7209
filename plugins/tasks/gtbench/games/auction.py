"""First-price sealed-bid auction: a whole number, less than what the item is worth to the bidder.

A win is not the aim here, money is: overbidding wins the item and loses the profit. The score is
the profit itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar

from ..game import Game, Skin, Words
from ..position import Position

VALUES = 10


class Auction(Game):
    key = "first_sealed_auction"
    spiel = "first_sealed_auction(max_value=10,players=2)"
    hidden = True
    zero_sum = False
    top = 10.0
    turns = 0.9
    rules = (
        "{name}: one {item} is sold to one of two {players}. Each {player} is told in secret what "
        "the {item} is worth to it: a whole number from 1 to 10, all equally likely, drawn "
        "independently for each {player}. Each makes one sealed {bid}, a whole number from 0 to "
        "its own worth minus 1, without seeing the other's. The higher {bid} gets the {item} and "
        "earns its worth minus its {bid}; the other {player} earns 0. If both {bid}s are equal, a "
        "fair coin decides who gets it. Your score is what you earn."
    )
    form = "A move is written as one whole number, your {bid}."
    words: ClassVar = {
        "plain": {
            "name": "First-price sealed-bid auction",
            "item": "item",
            "player": "bidder",
            "players": "bidders",
            "bid": "bid",
        },
        "relabelled": {
            "name": "Letterbox",
            "item": "contract",
            "player": "firm",
            "players": "firms",
            "bid": "tender",
        },
    }

    def say(self, action: int, words: Words) -> str:
        return str(action)

    def pattern(self, words: Words) -> str:
        return rf"(?:{words['bid']}\s{{0,2}}[:=]?\s{{0,2}})?(?P<n>[+-]?\d{{1,6}}(?:\.\d{{1,4}})?)"

    def canonical(self, found: re.Match[str], words: Words) -> str:
        whole, _, rest = found["n"].partition(".")
        return f"{int(whole)}.{rest}" if rest.strip("0") else str(int(whole))

    def history(self, position: Position, seat: int, skin: Skin, opening: int) -> str:
        return skin.fill("Neither {player} sees the other's {bid} before both are made.")

    def view(self, position: Position, seat: int, skin: Skin) -> str:
        return skin.fill("The {item} is worth {worth} to you.", worth=position.chance()[seat])

    def legal_text(self, position: Position, seat: int, skin: Skin, legal: Iterable[str]) -> str:
        return skin.fill("Legal {bid}s: ") + "; ".join(legal)

    def forfeit(self, position: Position, losers: Iterable[int]) -> tuple[float, float]:
        gone = set(losers)
        first, second = position.chance()[:2]
        return (0.0 if 0 in gone else float(first), 0.0 if 1 in gone else float(second))
