"""Leduc poker as OpenSpiel deals it: six cards, two rounds, `Fold`, `Call` or `Raise`.

Played through `mode=policy` (936 information sets); the card game of the same name that rlcard
deals is `leduc-holdem`.
"""

from __future__ import annotations

import re
from typing import ClassVar

from ..game import Game, Skin, Words
from ..position import Position

FOLD, CALL, RAISE = 0, 1, 2
NAMES = ("fold", "call", "raise")
RANKS = ("low", "middle", "high")


class LeducPoker(Game):
    key = "leduc_poker"
    spiel = "leduc_poker"
    hidden = True
    top = 13.0
    turns = 2.1
    rules = (
        "{name}: there are six cards, two each of {low}, {middle} and {high}, ranked in this "
        "order with {high} the highest. Each of the two players puts 1 chip into the pot and is "
        "dealt one card, which only that player sees. There are two rounds; player 1 moves first "
        "in each. A move is {call}, {raise} or {fold}. {call} puts in what it takes to have as "
        "many in the pot as the other player (none, if both have as many). {raise} does the same "
        "and adds 2 chips in the first round, 4 in the second; a round holds at most two of them, "
        "by both players together. {fold} gives the pot to the other player; it is possible only "
        "when the other player has more in the pot. A round ends when both players have moved in "
        "it and have as many chips in the pot. Between the rounds one of the remaining cards is "
        "shown to both. At the end, a player whose card has the rank of the shown card wins the "
        "pot; otherwise the higher card wins it; equal ranks split it. Your score is the number of "
        "chips that you win, negative if you lose them."
    )
    form = "A move is written {call}, {raise} or {fold}."
    words: ClassVar = {
        "plain": {
            "name": "Leduc poker",
            "low": "Jack",
            "middle": "Queen",
            "high": "King",
            "fold": "Fold",
            "call": "Call",
            "raise": "Raise",
        },
        "relabelled": {
            "name": "Six stones",
            "low": "Amber",
            "middle": "Beryl",
            "high": "Coral",
            "fold": "Leave",
            "call": "Stay",
            "raise": "Push",
        },
    }

    def say(self, action: int, words: Words) -> str:
        return words[NAMES[action]]

    def pattern(self, words: Words) -> str:
        return "|".join(f"(?P<{name}>{words[name]})" for name in NAMES)

    def canonical(self, found: re.Match[str], words: Words) -> str:
        return words[next(name for name in NAMES if found[name])]

    def history(self, position: Position, seat: int, skin: Skin, opening: int) -> str:
        lines = []
        for number, moves in enumerate(_rounds(position), 1):
            told = "; ".join(
                f"{'you' if s == seat else 'opponent'} {skin.say(a)}" for s, a in moves
            )
            lines.append(f"Round {number}: {told or 'no move yet'}.")
        return "\n".join(lines)

    def view(self, position: Position, seat: int, skin: Skin) -> str:
        dealt = [skin.words[RANKS[card // 2]] for card in position.chance()]
        shown = f" The shown card is the {dealt[2]}." if len(dealt) > 2 else ""
        own, other = (_chips(position, s) for s in (seat, 1 - seat))
        return (
            f"Your card is the {dealt[seat]}.{shown} You have {own} chips in the pot, your "
            f"opponent has {other}."
        )


def _rounds(position: Position) -> list[list[tuple[int, int]]]:
    """The moves of each round that has begun."""
    rounds: list[list[tuple[int, int]]] = [[]]
    for seat, action in position.moves:
        rounds[-1].append((seat, action))
        if action == CALL and len(rounds[-1]) > 1 and len(rounds) == 1:
            rounds.append([])
    return rounds


def _chips(position: Position, seat: int) -> int:
    """What a seat has put in."""
    paid = [1, 1]
    for number, moves in enumerate(_rounds(position)):
        for mover, action in moves:
            if action != FOLD:
                paid[mover] = max(paid) + (2 + 2 * number if action == RAISE else 0)
    return paid[seat]
