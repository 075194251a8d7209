"""Iterated prisoner's dilemma: `Silent` or `Testify`, both at once, round after round."""

from __future__ import annotations

import re
from typing import ClassVar

from ..game import Game, Skin, Words
from ..position import Position

COOPERATE, DEFECT = 0, 1
PAYOFFS = ((5, 0), (10, 1))
"""Own points by (own action, other's action)."""


class PrisonersDilemma(Game):
    key = "prisoners_dilemma"
    spiel = "python_iterated_prisoners_dilemma"
    zero_sum = False
    simultaneous = True
    top = 10.0
    turns = 8.0
    rules = (
        "{name}: in each round both players choose {silent} or {testify} at the same time, without "
        "seeing the other's choice. If both choose {silent}, each gets 5 points. If both choose "
        "{testify}, each gets 1 point. If one chooses {testify} and the other {silent}, the one "
        "with {testify} gets 10 points and the one with {silent} gets 0. After each round both see "
        "the choices, and the game ends with probability 1/8; otherwise another round "
        "follows. Your score is the sum of your points."
    )
    form = "A move is written {silent} or {testify}."
    words: ClassVar = {
        "plain": {
            "name": "Iterated prisoner's dilemma",
            "silent": "Silent",
            "testify": "Testify",
        },
        "relabelled": {"name": "Two doors", "silent": "Oak", "testify": "Elm"},
    }

    def say(self, action: int, words: Words) -> str:
        return words["testify" if action == DEFECT else "silent"]

    def pattern(self, words: Words) -> str:
        return f"(?P<defect>{words['testify']})|{words['silent']}"

    def canonical(self, found: re.Match[str], words: Words) -> str:
        return words["testify" if found["defect"] else "silent"]

    def history(self, position: Position, seat: int, skin: Skin, opening: int) -> str:
        lines = []
        for number, pair in enumerate(rounds(position), 1):
            own, other = pair[seat], pair[1 - seat]
            lines.append(
                f"Round {number}: you chose {skin.say(own)} and got {PAYOFFS[own][other]}; your "
                f"opponent chose {skin.say(other)} and got {PAYOFFS[other][own]}"
            )
        return "\n".join(lines) if lines else "No round has been played yet."

    def view(self, position: Position, seat: int, skin: Skin) -> str:
        return f"Round {len(rounds(position)) + 1} begins."

    def scale(self, position: Position) -> tuple[float, float]:
        most = self.top * max(1, len(rounds(position)))
        return (most, most)


def rounds(position: Position) -> list[tuple[int, int]]:
    """The actions of finished rounds, by seat."""
    actions = [action for _, action in position.moves]
    return list(zip(actions[::2], actions[1::2], strict=True))
