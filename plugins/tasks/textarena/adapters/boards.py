"""Adapters of board games in which nothing is hidden and nothing is left to chance.

>>> TicTacToe().read("04"), TicTacToe().read("cell 4"), TicTacToe().read("4.0")
('[4]', '[4]', None)
>>> ConnectFour().read("Column 3"), Nim().read("0, 3")
('[col 3]', '[0 3]')
"""

from __future__ import annotations

import random
import re
from functools import cache, reduce
from operator import xor
from typing import Any

from ..adapter import Adapter

LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
"""The rows of three of a 3 x 3 board, by the numbers of their cells."""


def cells(env: Any) -> str:
    """A 3 x 3 board as nine characters, ``.`` for an empty cell."""
    return "".join(cell or "." for row in env.state.game_state["board"] for cell in row)


class TicTacToe(Adapter):
    """Three in a row; seat 0 has O."""

    family = "TicTacToe-v0"
    openings = True
    oracle = True
    form = "[cell]"
    pattern = r"(?:cell|square|position)?\s{0,2}(-?\d{1,4})"

    def canonical(self, found: re.Match[str]) -> str:
        return f"[{int(found[1])}]"

    def legal(self, env: Any, seat: int) -> tuple[str, ...]:
        return tuple(f"[{i}]" for i, cell in enumerate(cells(env)) if cell == ".")

    def best(self, env: Any, seat: int, rng: random.Random) -> str:
        own, other = ("O", "X") if seat == 0 else ("X", "O")
        board = cells(env)
        found = {
            i: -three_value(board[:i] + own + board[i + 1 :], other, own)
            for i, cell in enumerate(board)
            if cell == "."
        }
        return f"[{max(found, key=lambda i: (found[i], -i))}]"


@cache
def three_value(board: str, mover: str, other: str) -> int:
    """The value for the mover of a position of tic-tac-toe: 1, 0 or -1 (5,478 positions)."""
    if any(board[a] == board[b] == board[c] == other for a, b, c in LINES):
        return -1
    if "." not in board:
        return 0
    return max(
        -three_value(board[:i] + mover + board[i + 1 :], other, mover)
        for i, cell in enumerate(board)
        if cell == "."
    )


class WildTicTacToe(Adapter):
    """Three in a row of either mark; a player may place any mark."""

    family = "WildTicTacToe-v0"
    openings = True
    oracle = True
    form = "[X cell] or [O cell]"
    pattern = r"([xo])[\s,]{1,3}(-?\d{1,4})"

    def canonical(self, found: re.Match[str]) -> str:
        return f"[{found[1].upper()} {int(found[2])}]"

    def legal(self, env: Any, seat: int) -> tuple[str, ...]:
        free = [i for i, cell in enumerate(cells(env)) if cell == "."]
        return tuple(f"[{mark} {i}]" for i in free for mark in "XO")

    def best(self, env: Any, seat: int, rng: random.Random) -> str:
        board = cells(env)
        found = {
            (mark, i): -wild_value(board[:i] + mark + board[i + 1 :])
            for i, cell in enumerate(board)
            if cell == "."
            for mark in "XO"
        }
        mark, cell = max(found, key=lambda move: found[move])
        return f"[{mark} {cell}]"


@cache
def wild_value(board: str) -> int:
    """The value of a position of wild tic-tac-toe for the player to move: 1, 0 or -1."""
    if any(board[a] == board[b] == board[c] != "." for a, b, c in LINES):
        return -1
    if "." not in board:
        return 0
    return max(
        -wild_value(board[:i] + mark + board[i + 1 :])
        for i, cell in enumerate(board)
        if cell == "."
        for mark in "XO"
    )


class ConnectFour(Adapter):
    """Four in a row on a board that fills from below."""

    family = "ConnectFour-v0"
    openings = True
    form = "[col number]"
    pattern = r"(?:col(?:umn)?)?\s{0,2}(-?\d{1,4})"

    def canonical(self, found: re.Match[str]) -> str:
        return f"[col {int(found[1])}]"

    def legal(self, env: Any, seat: int) -> tuple[str, ...]:
        top = env.state.game_state["board"][0]
        return tuple(f"[col {c}]" for c, cell in enumerate(top) if cell == ".")

    def view(self, env: Any, seat: int) -> str:
        return "" if env.is_open else "You don't see the board."


class Nim(Adapter):
    """Nim in normal play: who takes the last object wins. (Misere nim, in which that player
    loses, is another game.)"""

    family = "Nim-v0"
    openings = True
    oracle = True
    note = "normal play: the last taker wins"
    form = "[pile quantity]"
    pattern = r"(?:pile\s{0,2})?(-?\d{1,4})(?:\s{0,3},\s{0,3}|\s{1,4})(-?\d{1,4})"

    def canonical(self, found: re.Match[str]) -> str:
        return f"[{int(found[1])} {int(found[2])}]"

    def legal(self, env: Any, seat: int) -> tuple[str, ...]:
        piles = env.state.game_state["piles"]
        return tuple(f"[{i} {q}]" for i, size in enumerate(piles) for q in range(1, size + 1))

    def best(self, env: Any, seat: int, rng: random.Random) -> str:
        """Leave piles whose binary sum is 0 (Bouton 1901); where none can be left, take one."""
        piles = env.state.game_state["piles"]
        total = reduce(xor, piles)
        for i, size in enumerate(piles):
            if size ^ total < size:
                return f"[{i} {size - (size ^ total)}]"
        return f"[{next(i for i, size in enumerate(piles) if size)} 1]"


class Othello(Adapter):
    """Othello on a square board; seat 0 has black.

    The environment asks a player who can't move, and skips the turn whatever is said: such a turn
    is passed here without asking.
    """

    family = "Othello-v0"
    openings = True
    form = "[row, col]"
    pattern = r"(-?\d{1,4})(?:\s{0,3},\s{0,3}|\s{1,4})(-?\d{1,4})"

    def canonical(self, found: re.Match[str]) -> str:
        return f"[{int(found[1])}, {int(found[2])}]"

    def legal(self, env: Any, seat: int) -> tuple[str, ...]:
        # The environment keeps them for the seat that moves.
        return tuple(f"[{r}, {c}]" for r, c in env.state.game_state["valid_moves"])

    def forced(self, env: Any, seat: int) -> str:
        return "" if self.legal(env, seat) else "[skip]"

    def figures(self, env: Any) -> dict[str, int]:
        black, white = env._counts()
        return {"black": black, "white": white}


class Chopsticks(Adapter):
    """Fingers on four hands; who has lost both hands has lost."""

    family = "Chopsticks-v0"
    openings = True
    late_limit = True
    note = "the turn limit is not announced by the environment; it is told here"
    form = "[attack M O] or [split L R]"
    pattern = r"(attack|split)[\s,]{1,3}(-?\d{1,4})(?:\s{0,3},\s{0,3}|\s{1,4})(-?\d{1,4})"

    def canonical(self, found: re.Match[str]) -> str:
        return f"[{found[1]} {int(found[2])} {int(found[3])}]"

    def legal(self, env: Any, seat: int) -> tuple[str, ...]:
        hands = env.state.game_state["hands"]
        own, other = hands[seat], hands[1 - seat]
        attacks = [f"[attack {m} {o}]" for m in (0, 1) for o in (0, 1) if own[m] and other[o]]
        total = sum(own)
        splits = [
            f"[split {left} {total - left}]"
            for left in range(total + 1)
            if [left, total - left] != list(own)
        ]
        return tuple(attacks + splits)

    def told(self, env: Any) -> str:
        return (
            f"A hand with 0 fingers is dead. You win when both hands of the opponent are dead. "
            f"After {env.max_turns} turns in all the game is a draw."
        )
