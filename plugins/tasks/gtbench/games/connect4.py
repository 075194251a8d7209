"""Connect four: `C4` drops a disc into column 4."""

from __future__ import annotations

import re
from typing import ClassVar

from ..game import Game, Skin, Words
from ..position import Position

COLUMNS, ROWS = 7, 6


class ConnectFour(Game):
    key = "connect4"
    spiel = "connect_four"
    opening_plies = 4
    turns = 8.8
    rules = (
        "{name} is played on an upright grid of 7 columns and 6 rows. Player 1 has discs marked "
        "{first}, player 2 discs marked {second}. Player 1 moves first; then the players move in "
        "turn, each dropping one disc into a column that is not full, where it falls to the lowest "
        "empty cell. Whoever has four own discs in a line without a gap (across, down or "
        "diagonally) wins at once. A full grid without such a line is a draw. "
        "A win counts +1, a draw 0, a loss -1."
    )
    form = "A move is written {c}x: x is the column, from 1 (left) to 7 (right)."
    words: ClassVar = {
        "plain": {
            "name": "Connect four",
            "first": "X",
            "second": "O",
            "c": "C",
            "column": "col(?:umn)?",
        },
        "relabelled": {
            "name": "Chutes",
            "first": "#",
            "second": "@",
            "c": "S",
            "column": "chute",
        },
    }

    def say(self, action: int, words: Words) -> str:
        return f"{words['c']}{action + 1}"

    def pattern(self, words: Words) -> str:
        return (
            rf"(?:(?:{words['c']}|{words['column']})\s{{0,2}}[:=]?\s{{0,2}})?"
            r"(?P<x>[+-]?\d{1,4})(?:\.0{1,3})?"
        )

    def canonical(self, found: re.Match[str], words: Words) -> str:
        return f"{words['c']}{int(found['x'])}"

    def role(self, seat: int, words: Words) -> str:
        return f"You are player {seat + 1} and drop {words[('first', 'second')[seat]]}."

    def view(self, position: Position, seat: int, skin: Skin) -> str:
        grid = columns(position)
        marks = (skin.words["first"], skin.words["second"])
        rows = [
            "  ".join(marks[column[y]] if y < len(column) else "." for column in grid)
            for y in reversed(range(ROWS))
        ]
        head = " ".join(f"{skin.words['c']}{x + 1}" for x in range(COLUMNS))
        return f"The grid from top to bottom (. is empty):\n{head}\n" + "\n".join(rows)


def columns(position: Position) -> list[list[int]]:
    """The seats whose discs lie in each column, from the bottom."""
    grid: list[list[int]] = [[] for _ in range(COLUMNS)]
    for mover, action in position.moves:
        grid[action].append(mover)
    return grid
