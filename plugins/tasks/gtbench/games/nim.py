"""Nim with piles of 1, 3, 5 and 7, misere: `pile 2, take 3`; who takes the last object loses."""

from __future__ import annotations

import re
from typing import ClassVar

from ..game import Game, Skin, Words
from ..position import Position

PILES = (1, 3, 5, 7)


class Nim(Game):
    key = "nim"
    spiel = "nim"
    opening_plies = 2
    turns = 2.5
    rules = (
        "{name} starts with four {piles}: {pile} 1 holds 1 {thing}, {pile} 2 holds 3 {thing}s, "
        "{pile} 3 holds 5 and {pile} 4 holds 7. Player 1 moves first; then the players move in "
        "turn, each choosing one {pile} and taking at least one {thing} from it, up to all that it "
        "holds. Whoever takes the very last {thing} of all loses. There are no draws. "
        "A win counts +1, a loss -1."
    )
    form = (
        "A move is written {pile} x, {take} y: x is the number of the {pile}, and y is how many "
        "{thing}s you take from it."
    )
    words: ClassVar = {
        "plain": {
            "name": "Nim",
            "pile": "pile",
            "piles": "piles",
            "take": "take",
            "thing": "stick",
        },
        "relabelled": {
            "name": "Quarry",
            "pile": "cart",
            "piles": "carts",
            "take": "unload",
            "thing": "brick",
        },
    }

    def say(self, action: int, words: Words) -> str:
        less, pile = divmod(action, len(PILES))
        return f"{words['pile']} {pile + 1}, {words['take']} {less + 1}"

    def pattern(self, words: Words) -> str:
        gap = r"\s{0,2}[:=]?\s{0,2}"
        pile = rf"{words['pile']}{gap}"
        take = rf"{words['take']}{gap}"
        return (
            rf"{pile}(?P<x>\d{{1,3}})\s{{0,2}}[,;]?\s{{0,2}}(?:and\s{{1,2}})?{take}(?P<y>\d{{1,3}})"
            rf"|{take}(?P<y2>\d{{1,3}})(?:\s{{0,2}}[,;]\s{{0,2}}|\s{{1,2}}(?:from\s{{1,2}})?)"
            rf"{pile}(?P<x2>\d{{1,3}})"
        )

    def canonical(self, found: re.Match[str], words: Words) -> str:
        x, y = found["x"] or found["x2"], found["y"] or found["y2"]
        return f"{words['pile']} {int(x)}, {words['take']} {int(y)}"

    def view(self, position: Position, seat: int, skin: Skin) -> str:
        pile = skin.words["pile"]
        held = (f"{pile} {i}: {left}" for i, left in enumerate(piles(position), 1))
        return f"What the {skin.words['piles']} hold now: " + ", ".join(held) + "."


def piles(position: Position) -> list[int]:
    """What is left in each pile."""
    left = list(PILES)
    for _, action in position.moves:
        less, pile = divmod(action, len(PILES))
        left[pile] -= less + 1
    return left
