"""Kuhn poker: three cards, one each, `Pass` or `Bet`."""

from __future__ import annotations

import re
from typing import ClassVar

from ..game import Game, Skin, Words
from ..position import Position

PASS, BET = 0, 1


class KuhnPoker(Game):
    key = "kuhn_poker"
    spiel = "kuhn_poker"
    hidden = True
    top = 2.0
    turns = 1.1
    rules = (
        "{name}: there are three cards, {low}, {middle} and {high}, ranked in this order with "
        "{high} the highest. Each of the two players puts 1 chip into the pot and is dealt one "
        "card, which only that player sees; the third card stays unseen. Player 1 moves first, and "
        "each move is {pass} or {bet}. A {bet} puts 1 more chip into the pot. If both players "
        "{pass}, the higher card wins 1 chip from the other player. If a player plays {bet}, the "
        "other one answers: with {bet} (a call) the higher card wins 2 chips from the other "
        "player; with {pass} (a fold) the player who played {bet} wins 1 chip, whatever the cards. "
        "So the only courses of play are {pass}-{pass}, {pass}-{bet}-{pass}, {pass}-{bet}-{bet}, "
        "{bet}-{pass} and {bet}-{bet}. Your score is the number of chips that you win, negative if "
        "you lose them."
    )
    form = "A move is written {pass} or {bet}."
    words: ClassVar = {
        "plain": {
            "name": "Kuhn poker",
            "low": "Jack",
            "middle": "Queen",
            "high": "King",
            "pass": "Pass",
            "bet": "Bet",
        },
        "relabelled": {
            "name": "Three trees",
            "low": "Ash",
            "middle": "Birch",
            "high": "Cedar",
            "pass": "Wait",
            "bet": "Push",
        },
    }

    def say(self, action: int, words: Words) -> str:
        return words["bet" if action == BET else "pass"]

    def pattern(self, words: Words) -> str:
        return f"(?P<bet>{words['bet']})|{words['pass']}"

    def canonical(self, found: re.Match[str], words: Words) -> str:
        return words["bet" if found["bet"] else "pass"]

    def view(self, position: Position, seat: int, skin: Skin) -> str:
        card = ("low", "middle", "high")[position.chance()[seat]]
        return f"Your card is the {skin.words[card]}."
