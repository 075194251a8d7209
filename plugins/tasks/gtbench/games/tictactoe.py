"""Tic-tac-toe: `C2R3` marks column 2, row 3."""

from __future__ import annotations

import re
from typing import ClassVar

from ..game import Game, Skin, Words
from ..position import Position


class TicTacToe(Game):
    key = "tictactoe"
    spiel = "tic_tac_toe"
    opening_plies = 2
    turns = 2.7
    rules = (
        "{name} is played on a grid of 3 columns and 3 rows. Player 1 marks cells with {first}, "
        "player 2 with {second}. Player 1 moves first; then the players move in turn, each marking "
        "one empty cell. Whoever has three own marks in a line (a row, a column or a diagonal) "
        "wins at once. A full grid without such a line is a draw. "
        "A win counts +1, a draw 0, a loss -1."
    )
    form = (
        "A move is written {c}x{r}y: x is the column, from 1 (left) to 3 (right), and y is the "
        "row, from 1 (top) to 3 (bottom)."
    )
    words: ClassVar = {
        "plain": {
            "name": "Tic-tac-toe",
            "first": "X",
            "second": "O",
            "c": "C",
            "r": "R",
            "column": "col(?:umn)?",
            "row": "row",
        },
        "relabelled": {
            "name": "Trellis",
            "first": "#",
            "second": "@",
            "c": "K",
            "r": "M",
            "column": "kol",
            "row": "mew",
        },
    }

    def say(self, action: int, words: Words) -> str:
        row, column = divmod(action, 3)
        return f"{words['c']}{column + 1}{words['r']}{row + 1}"

    def pattern(self, words: Words) -> str:
        column = rf"(?:{words['c']}|{words['column']})\s{{0,2}}[:=]?\s{{0,2}}"
        row = rf"(?:{words['r']}|{words['row']})\s{{0,2}}[:=]?\s{{0,2}}"
        gap = r"\s{0,2}[,;]?\s{0,2}"
        return (
            rf"{column}(?P<x>\d{{1,3}}){gap}{row}(?P<y>\d{{1,3}})"
            rf"|{row}(?P<y2>\d{{1,3}}){gap}{column}(?P<x2>\d{{1,3}})"
        )

    def canonical(self, found: re.Match[str], words: Words) -> str:
        x, y = found["x"] or found["x2"], found["y"] or found["y2"]
        return f"{words['c']}{int(x)}{words['r']}{int(y)}"

    def role(self, seat: int, words: Words) -> str:
        return f"You are player {seat + 1} and mark with {words[('first', 'second')[seat]]}."

    def view(self, position: Position, seat: int, skin: Skin) -> str:
        cells = ["."] * 9
        for mover, action in position.moves:
            cells[action] = skin.words[("first", "second")[mover]]
        c, r = skin.words["c"], skin.words["r"]
        rows = [f"{r}{y + 1}  " + "  ".join(cells[3 * y : 3 * y + 3]) for y in range(3)]
        return f"The grid (. is empty):\n    {c}1 {c}2 {c}3\n" + "\n".join(rows)
