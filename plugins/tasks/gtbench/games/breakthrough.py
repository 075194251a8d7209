"""Breakthrough on 3 columns and 8 rows: `a7->b6` moves a piece, capturing what stands there."""

from __future__ import annotations

import re
from typing import ClassVar

from ..game import Game, Skin, Words
from ..position import Position

COLUMNS, ROWS = 3, 8
STEPS = 6
"""OpenSpiel numbers actions ((row * columns + column) * 6 + direction) * 2 + capture; rows count
from row 8 down, directions 0 to 2 go down, 3 to 5 up, each from left to right."""


class Breakthrough(Game):
    key = "breakthrough"
    spiel = "breakthrough(rows=8,columns=3)"
    opening_plies = 4
    turns = 14.0
    rules = (
        "{name} is played on a board of 3 columns ({a}, {b}, {c}) and 8 rows (1 to 8). Player 1 "
        "has six pieces {first} on rows 8 and 7 and moves down, towards row 1. Player 2 has six "
        "pieces {second} on rows 1 and 2 and moves up, towards row 8. Player 1 moves first; then "
        "the players move in turn, one piece by one step forward: straight ahead onto an empty "
        "square, or diagonally forward onto an empty square or onto an opposing piece, which is "
        "captured and removed. Straight moves never capture. Whoever brings a piece to the far row "
        "(row 1 for player 1, row 8 for player 2) or captures all opposing pieces wins. There are "
        "no draws. A win counts +1, a loss -1."
    )
    form = (
        "A move is written as start->end: two squares, each a column letter and a row number, with "
        "an arrow between. Captures are written the same way."
    )
    words: ClassVar = {
        "plain": {
            "name": "Breakthrough",
            "first": "B",
            "second": "W",
            "a": "a",
            "b": "b",
            "c": "c",
        },
        "relabelled": {
            "name": "Ferry",
            "first": "#",
            "second": "@",
            "a": "p",
            "b": "q",
            "c": "r",
        },
    }

    def say(self, action: int, words: Words) -> str:
        (x, row), (x2, row2), _ = squares(action)
        files = words["a"] + words["b"] + words["c"]
        return f"{files[x]}{row}->{files[x2]}{row2}"

    def pattern(self, words: Words) -> str:
        square = r"([a-z])\s?(\d{1,2})"
        return rf"{square}\s{{0,2}}(?:->|-|>|to)?\s{{0,2}}{square}"

    def canonical(self, found: re.Match[str], words: Words) -> str:
        x, row, x2, row2 = found.groups()
        return f"{x.lower()}{int(row)}->{x2.lower()}{int(row2)}"

    def role(self, seat: int, words: Words) -> str:
        side, way = (("first", "down, towards row 1"), ("second", "up, towards row 8"))[seat]
        return f"You are player {seat + 1}: your pieces are {words[side]} and move {way}."

    def view(self, position: Position, seat: int, skin: Skin) -> str:
        marks = {0: skin.words["first"], 1: skin.words["second"], None: "."}
        grid = board(position)
        rows = [
            f"{row}  " + "  ".join(marks[grid.get((x, row))] for x in range(COLUMNS))
            for row in range(ROWS, 0, -1)
        ]
        foot = "   " + "  ".join(skin.words[name] for name in "abc")
        return "The board (. is empty):\n" + "\n".join([*rows, foot])


def squares(action: int) -> tuple[tuple[int, int], tuple[int, int], bool]:
    """Start and end of an action as (column from 0, row from 1), and whether it captures."""
    rest, capture = divmod(action, 2)
    cell, direction = divmod(rest, STEPS)
    down, x = divmod(cell, COLUMNS)
    row = ROWS - down
    step, side = divmod(direction, 3)
    return (x, row), (x + side - 1, row + (1 if step else -1)), bool(capture)


def board(position: Position) -> dict[tuple[int, int], int]:
    """Where pieces stand: (column, row) -> seat."""
    grid = {(x, row): 0 for x in range(COLUMNS) for row in (ROWS, ROWS - 1)}
    grid |= {(x, row): 1 for x in range(COLUMNS) for row in (1, 2)}
    for mover, action in position.moves:
        start, end, _ = squares(action)
        del grid[start]
        grid[end] = mover
    return grid
