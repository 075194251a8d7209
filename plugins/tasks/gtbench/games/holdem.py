"""Hold'em with fixed raises, on rlcard: limit Texas hold'em and Leduc hold'em.

Moves are `fold`, `check`, `call` and `raise`. The score is the number of chips won.
"""

from __future__ import annotations

import re
from typing import ClassVar

from ..cards import BettingPosition, cards
from ..game import Game, Skin, Words
from ..position import Position


class LimitHoldemPosition(BettingPosition):
    """A position of limit Texas hold'em."""

    module = "rlcard.games.limitholdem"
    __slots__ = ()


class LeducHoldemPosition(BettingPosition):
    """A position of Leduc hold'em."""

    module = "rlcard.games.leducholdem"
    __slots__ = ()


class Holdem(Game):
    """What both games share."""

    hidden = True
    position: type[BettingPosition]
    form = "A move is written {fold}, {check}, {call} or {raise}."
    betting = (
        "The players act in turn. The move {fold} gives up the pot; {check} puts nothing in and is "
        "possible only if nothing is owed; {call} puts in what is owed; {raise} puts in what is "
        "owed and {raises}, at most {limit} times in a round. A round ends when both players have "
        "acted and nothing is owed; in the next round the player who did not act last acts first. "
        "Your score is the number of chips that you win, negative if you lose them."
    )
    verbs: ClassVar = {"fold": "fold", "check": "check", "call": "call", "raise": "raise"}
    others: ClassVar = {"fold": "yield", "check": "wait", "call": "match", "raise": "push"}

    def start(self, seed: int) -> Position:
        return self.position(seed)

    def say(self, action: int, words: Words) -> str:
        return words[BettingPosition.actions[action]]

    def pattern(self, words: Words) -> str:
        return "|".join(f"(?P<{name}_>{words[name]})" for name in BettingPosition.actions)

    def canonical(self, found: re.Match[str], words: Words) -> str:
        return next(words[name] for name in BettingPosition.actions if found[f"{name}_"])

    def history(self, position: Position, seat: int, skin: Skin, opening: int) -> str:
        assert isinstance(position, BettingPosition)
        lines = []
        for number, (mover, action) in enumerate(position.moves, 1):
            lines.append(f"{number}. {'You' if mover == seat else 'Opponent'}: {skin.say(action)}")
            if number in position.dealt:
                lines.append("(next round)")
        return "Moves so far:\n" + "\n".join(lines) if lines else "No move has been made yet."

    def view(self, position: Position, seat: int, skin: Skin) -> str:
        assert isinstance(position, BettingPosition)
        table = position.table(seat)
        shown = cards(table.board) or "none yet"
        return (
            f"Your cards: {cards(table.hand)}. Public cards: {shown}. "
            f"Chips put in so far: {table.chips[seat]} by you, {table.chips[1 - seat]} by your "
            "opponent."
        )


class LimitHoldem(Holdem):
    key = "limit-holdem"
    top = 50.0
    turns = 1.4
    position = LimitHoldemPosition
    rules = (
        "{name} for two players with a deck of 52 cards. A coin decides who puts in a small blind "
        "of 1 chip, the other player puts in a big blind of 2 chips, and the small blind acts "
        "first. Each player gets two private cards. There are four rounds of betting: before any "
        "public card, after three public cards, after a fourth and after a fifth. The best poker "
        "hand of five cards out of the two private and five public cards wins the pot; equal hands "
        "share it. " + Holdem.betting
    )
    words: ClassVar = {
        name: {
            **verbs,
            "name": title,
            "raises": "2 chips more in the first two rounds, 4 in the last two",
            "limit": "four",
        }
        for name, verbs, title in (
            ("plain", Holdem.verbs, "Limit Texas hold'em"),
            ("relabelled", Holdem.others, "Four rivers"),
        )
    }


class LeducHoldem(Holdem):
    key = "leduc-holdem"
    top = 14.0
    turns = 1.2
    position = LeducHoldemPosition
    rules = (
        "{name} for two players with six cards: jack, queen and king of spades and of hearts. A "
        "coin decides who puts in 1 chip, the other player puts in 2 chips, and the one with 1 "
        "chip acts first. Each player gets one private card. There are two rounds of betting, and "
        "one public card is shown between them. At the end a private card of the public card's "
        "rank wins the pot; otherwise the higher rank (king over queen over jack) wins; equal "
        "ranks share it. " + Holdem.betting
    )
    words: ClassVar = {
        name: {
            **verbs,
            "name": title,
            "raises": "2 chips more in the first round, 4 in the second",
            "limit": "two",
        }
        for name, verbs, title in (
            ("plain", Holdem.verbs, "Leduc hold'em"),
            ("relabelled", Holdem.others, "Six leaves"),
        )
    }
