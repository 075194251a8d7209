"""Liar's dice with one die each: `2 dice, value 3` or `Liar`."""

from __future__ import annotations

import re
from typing import ClassVar

from ..game import Game, Skin, Words
from ..position import Position

FACES = 6
CALL = 12
"""OpenSpiel's action for calling; a bid of q dice with value v is (q - 1) * 6 + v - 1."""


class LiarsDice(Game):
    key = "liars_dice"
    spiel = "liars_dice(numdice=1)"
    hidden = True
    turns = 1.4
    rules = (
        "{name}: each of the two players rolls one {die} with the {value}s 1 to 6, in secret. "
        "Player 1 starts with a bid; then the players move in turn. A bid claims that, of the two "
        "{dice} together, at least so many show a certain {value}. The {value} 6 is wild: a {die} "
        "showing 6 counts as every {value}. Each bid must be higher than the one before: more "
        "{dice} with any {value}, or as many {dice} with a higher {value}. Instead of bidding, a "
        "player may answer the last bid with {call}: then both {dice} are shown. If the bid was "
        "true, the bidder wins; if not, the player who said {call} wins. Winning counts +1, losing "
        "-1."
    )
    form = (
        "A bid is written 1 {die}, {value} v or 2 {dice}, {value} v, where v is from 1 to 6; "
        "the other move is written {call}."
    )
    words: ClassVar = {
        "plain": {
            "name": "Liar's dice",
            "die": "die",
            "dice": "dice",
            "value": "value",
            "call": "Liar",
        },
        "relabelled": {
            "name": "Two spinners",
            "die": "spinner",
            "dice": "spinners",
            "value": "mark",
            "call": "Doubt",
        },
    }

    def say(self, action: int, words: Words) -> str:
        if action == CALL:
            return words["call"]
        more, face = divmod(action, FACES)
        return bid(more + 1, face + 1, words)

    def pattern(self, words: Words) -> str:
        dice = rf"(?:{words['dice']}s?|{words['die']}|x)"
        value = rf"(?:(?:{words['value']}|face)\s{{0,2}}[:=]?\s{{0,2}})"
        return (
            rf"(?P<call>{words['call']})"
            rf"|(?P<q>\d{{1,3}})\s{{0,2}}{dice}\s{{0,2}}[,;:]?\s{{0,2}}(?:(?:of|showing)\s{{1,2}})?"
            rf"{value}?(?P<v>\d{{1,3}})(?:\s{{1,2}}{words['value']}s?|s)?"
            rf"|(?:quantity|count|{words['dice']})\s{{0,2}}[:=]?\s{{0,2}}(?P<q2>\d{{1,3}})"
            rf"\s{{0,2}}[,;]?\s{{0,2}}{value}(?P<v2>\d{{1,3}})"
        )

    def canonical(self, found: re.Match[str], words: Words) -> str:
        if found["call"]:
            return words["call"]
        return bid(int(found["q"] or found["q2"]), int(found["v"] or found["v2"]), words)

    def view(self, position: Position, seat: int, skin: Skin) -> str:
        die = skin.words["die"]
        return f"Your {die} shows {position.chance()[seat] + 1}."


def bid(quantity: int, value: int, words: Words) -> str:
    """The text of a bid."""
    return f"{quantity} {words['die' if quantity == 1 else 'dice']}, {words['value']} {value}"
