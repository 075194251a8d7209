"""Adapters of puzzles for one player.

>>> Mastermind().read("1, 2 3 4"), FrozenLake().read("W")
('[1 2 3 4]', '[up]')
"""

from __future__ import annotations

import random
import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import count, permutations, product
from typing import Any

from ..adapter import Adapter


class GuessTheNumber(Adapter):
    """Find a number by bisection."""

    family = "GuessTheNumber-v0"
    deals = True
    seats = 1
    oracle = True
    late_limit = late_told = True
    lowest = 0.0
    reward = "1 if found; else 1 - (distance of the last guess) / (width of the range)"
    form = "[number]"
    pattern = r"(-?\d{1,6})"

    def canonical(self, found: re.Match[str]) -> str:
        return f"[{int(found[1])}]"

    def legal(self, env: Any, seat: int) -> tuple[str, ...]:
        numbers = range(env.min_number, env.max_number + 1)
        return tuple(f"[{n}]" for n in numbers if n not in env.guessed_numbers)

    def describe(self, env: Any, seat: int) -> str:
        return (
            f"Legal moves: a number from {env.min_number} to {env.max_number} that you have not "
            "guessed yet, in brackets."
        )

    def best(self, env: Any, seat: int, rng: random.Random) -> str:
        low, high = env.min_number, env.max_number
        for guess, hint in env.state.game_state["guess_history"]:
            low, high = (guess + 1, high) if hint == "higher" else (low, guess - 1)
        return f"[{(low + high) // 2}]"


class Mastermind(Adapter):
    """Find a code from black and white pegs."""

    family = "Mastermind-v0"
    deals = True
    seats = 1
    oracle = True
    board = False
    late_limit = late_told = True
    lowest = 0.0
    reward = "1 if found; else (black + white / 2) / length of the last guess"
    form = "[number number ...]"
    pattern = r"(-?\d{1,3}(?:[\s,]{1,3}-?\d{1,3}){0,11})"

    def canonical(self, found: re.Match[str]) -> str:
        return "[" + " ".join(str(int(n)) for n in re.findall(r"-?\d+", found[1])) + "]"

    def legal(self, env: Any, seat: int) -> None:
        return None

    def permits(self, env: Any, seat: int, move: str) -> bool:
        code = [int(number) for number in move[1:-1].split()]
        return (
            len(code) == env.code_length
            and all(1 <= number <= env.num_numbers for number in code)
            and (env.duplicate_numbers or len(set(code)) == len(code))
            and all(entry["guess"] != code for entry in env.state.game_state["history"])
        )

    def describe(self, env: Any, seat: int) -> str:
        different = "" if env.duplicate_numbers else "different "
        return (
            f"Legal moves: {env.code_length} {different}numbers from 1 to {env.num_numbers}, a "
            "code that you have not tried yet."
        )

    def guess(self, env: Any, seat: int, rng: random.Random) -> str:
        numbers = range(1, env.num_numbers + 1)
        while True:
            if env.duplicate_numbers:
                code = rng.choices(numbers, k=env.code_length)
            else:
                code = rng.sample(numbers, env.code_length)
            move = f"[{' '.join(map(str, code))}]"
            if self.permits(env, seat, move):
                return move

    def best(self, env: Any, seat: int, rng: random.Random) -> str:
        """The first code that agrees with all answers so far: it is found within the limit."""
        history = env.state.game_state["history"]
        for code in self._codes(env):
            answers = (pegs(code, entry["guess"]) for entry in history)
            if all(a == (e["black"], e["white"]) for a, e in zip(answers, history, strict=True)):
                return f"[{' '.join(map(str, code))}]"
        raise RuntimeError("mastermind: no code agrees with the answers")

    @staticmethod
    def _codes(env: Any) -> Iterable[tuple[int, ...]]:
        numbers = range(1, env.num_numbers + 1)
        if env.duplicate_numbers:
            return product(numbers, repeat=env.code_length)
        return permutations(numbers, env.code_length)


def pegs(code: Iterable[int], guess: Iterable[int]) -> tuple[int, int]:
    """Black and white pegs of a guess.

    >>> pegs((1, 2, 3, 4), (1, 3, 2, 5))
    (1, 2)
    """
    code, guess = list(code), list(guess)
    black = sum(a == b for a, b in zip(code, guess, strict=True))
    common = sum(min(code.count(n), guess.count(n)) for n in set(guess))
    return black, common - black


KEYS = {"w": "up", "a": "left", "s": "down", "d": "right"}
"""Abbreviations that the environment tells the player of."""


class FrozenLake(Adapter):
    """Walk to the goal around the holes."""

    family = "FrozenLake-v0"
    deals = True
    seats = 1
    oracle = True
    lowest = 0.0
    reward = "1 at the goal; else the share of the way made, also for falling into a hole"
    note = "the environment pays for the way made even to those who fall in"
    form = "[up], [down], [left] or [right]"
    pattern = r"(up|down|left|right|[wasd])"

    def canonical(self, found: re.Match[str]) -> str:
        return f"[{KEYS.get(found[1], found[1])}]"

    def legal(self, env: Any, seat: int) -> tuple[str, ...]:
        return tuple(
            f"[{name}]" for name, _ in self._steps(env, env.state.game_state["player_pos"])
        )

    def told(self, env: Any) -> str:
        if not env.randomize_start_goal:
            return "You can't leave the grid."
        return (
            "You can't leave the grid. You may start in any corner; the goal is in the other one."
        )

    def best(self, env: Any, seat: int, rng: random.Random) -> str:
        """The first step of a shortest way (breadth first)."""
        game = env.state.game_state
        start = tuple(game["player_pos"])
        queue = deque([(start, "")])
        seen = {start}
        while queue:
            place, first = queue.popleft()
            if place == tuple(game["goal_pos"]):
                return f"[{first}]"
            for name, there in self._steps(env, place):
                if there not in seen and game["grid"][there[0]][there[1]] != "H":
                    seen.add(there)
                    queue.append((there, first or name))
        raise RuntimeError("frozen lake: the goal can't be reached")

    @staticmethod
    def _steps(env: Any, place: tuple[int, int]) -> Iterator[tuple[str, tuple[int, int]]]:
        for name, (down, right) in env.actions.items():
            there = (place[0] + down, place[1] + right)
            if 0 <= there[0] < env.size and 0 <= there[1] < env.size:
                yield name, there


class LightsOut(Adapter):
    """Press lights until all are off; a press toggles the light and its neighbours."""

    family = "LightsOut-v0"
    deals = True
    seats = 1
    oracle = True
    board = False
    lowest = 0.0
    reward = "1 if solved; else 1 - (lights on) / (lights on at the start), at least 0"
    note = "the environment's reward may be negative; it shows its progress as a share, not percent"
    form = "[row col]"
    pattern = r"(-?\d{1,4})(?:\s{0,3},\s{0,3}|\s{1,4})(-?\d{1,4})"

    def reset(self, env: Any, seats: int, seed: int) -> None:
        """As shipped, a scramble that cancels itself out divides by zero: the next seed is used."""
        for extra in count():
            try:
                env.reset(num_players=seats, seed=seed + extra)
            except ZeroDivisionError:
                continue
            return

    def canonical(self, found: re.Match[str]) -> str:
        return f"[{int(found[1])} {int(found[2])}]"

    def legal(self, env: Any, seat: int) -> tuple[str, ...]:
        return tuple(f"[{row} {col}]" for row in range(env.size) for col in range(env.size))

    def describe(self, env: Any, seat: int) -> str:
        return f"Legal moves: [row col], each from 0 to {env.size - 1}."

    def best(self, env: Any, seat: int, rng: random.Random) -> str:
        presses = solve_lights(env.state.game_state["grid"])
        return f"[{presses[0][0]} {presses[0][1]}]"


def solve_lights(grid: list[list[bool]]) -> list[tuple[int, int]]:
    """A shortest list of presses that turns all lights off (light chasing from each first row).

    Raises ValueError for a grid that has none. Takes 2^n steps of n^2 for a side of n.
    """
    size = len(grid)
    best: list[tuple[int, int]] | None = None
    for first in product((False, True), repeat=size):
        lit = [list(row) for row in grid]
        presses = []
        for row in range(size):
            wanted = first if row == 0 else tuple(lit[row - 1])
            for col in range(size):
                if wanted[col]:
                    presses.append((row, col))
                    for r, c in ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)):
                        if 0 <= row + r < size and 0 <= col + c < size:
                            lit[row + r][col + c] ^= True
        if not any(lit[-1]) and (best is None or len(presses) < len(best)):
            best = presses
    if best is None:
        raise ValueError("these lights can't all be turned off")
    return best
