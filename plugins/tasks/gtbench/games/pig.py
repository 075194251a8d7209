"""Pig to 20 points: `roll` or `stop`."""

from __future__ import annotations

import re
from typing import ClassVar, NamedTuple

from ..game import Game, Skin, Words
from ..position import Position

TARGET = 20
ROLL, STOP = 0, 1
HORIZON = 1000


class Score(NamedTuple):
    """Points of both seats and what the running turn has gathered."""

    points: tuple[int, int]
    turn: int


class Pig(Game):
    key = "pig"
    spiel = f"pig(winscore={TARGET},horizon={HORIZON})"
    turns = 10.0
    rules = (
        "{name}: two players take turns to collect points; player 1 has the first turn. A turn "
        "consists of any number of moves. The move {roll} throws a six-sided die: a result from 2 "
        "to 6 is added to the turn total, and the turn goes on; a 1 ends the turn at once and the "
        "turn total is lost. The move {stop} adds the turn total to the player's points and ends "
        "the turn. As soon as a player's points and turn total make 20 or more together, {stop} "
        "is the only move. The first player to have 20 points or more after a {stop} wins. A win "
        "counts +1, a loss -1. (A game of 1000 moves and throws without a winner is a draw, 0.)"
    )
    form = "A move is written {roll} or {stop}."
    words: ClassVar = {
        "plain": {"name": "Pig", "roll": "roll", "stop": "stop"},
        "relabelled": {"name": "Orchard", "roll": "climb", "stop": "return"},
    }

    def say(self, action: int, words: Words) -> str:
        return words["stop" if action == STOP else "roll"]

    def pattern(self, words: Words) -> str:
        return f"(?P<stop>{words['stop']})|{words['roll']}"

    def canonical(self, found: re.Match[str], words: Words) -> str:
        return words["stop" if found["stop"] else "roll"]

    def history(self, position: Position, seat: int, skin: Skin, opening: int) -> str:
        turns = [
            f"{number}. {'You' if mover == seat else 'Opponent'}: {', '.join(map(str, rolls))}"
            f"{' - ' if rolls else ''}{'turn lost' if gain is None else f'{gain} points'}"
            for number, (mover, rolls, gain) in enumerate(finished(position), 1)
        ]
        if not turns:
            return "No turn has been finished yet."
        return "Finished turns (results of the die, then what they brought):\n" + "\n".join(turns)

    def view(self, position: Position, seat: int, skin: Skin) -> str:
        points, turn = score(position)
        return (
            f"You have {points[seat]} points, your opponent has {points[1 - seat]}. "
            f"It is your turn; the turn total is {turn}."
        )


def finished(position: Position) -> list[tuple[int, list[int], int | None]]:
    """Turns that have ended: seat, results of the die, points gained (None: lost)."""
    turns: list[tuple[int, list[int], int | None]] = []
    faces = iter(position.chance())
    rolls: list[int] = []
    for mover, action in position.moves:
        if action == STOP:
            turns.append((mover, rolls, sum(rolls)))
        else:
            rolls.append(next(faces) + 1)
            if rolls[-1] > 1:
                continue
            turns.append((mover, rolls, None))
        rolls = []
    return turns


def score(position: Position) -> Score:
    """The points now."""
    points, turn = [0, 0], 0
    faces = iter(position.chance())
    for mover, action in position.moves:
        if action == STOP:
            points[mover] += turn
            turn = 0
        else:
            face = next(faces) + 1
            turn = turn + face if face > 1 else 0
    return Score((points[0], points[1]), turn)
