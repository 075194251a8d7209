"""Reference players: the ceiling, the floor, and what can be earned without reading the game.

All of them write the form that the prompts ask for. A named constant answers the kinds it is made
for and says nothing to the others; ``constant`` gives each kind the strongest one that we know.

>>> data = {"kind": "nash", "row_labels": ["A", "B"], "col_labels": ["X", "Y"]}
>>> CONSTANTS["diagonal"](data)
{'pure': [[0, 0], [1, 1]], 'mixed': []}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

from harness.player import FixedPlayer, Player, PlayerFactory, Seat
from harness.seeds import Streams
from harness.types import Json

from .answers import Value, block, correct

Data = Mapping[str, Json]
Constant = Callable[[Data], Value | None]
"""A value for a question, from the names of the actions alone; None: says nothing."""

EQUILIBRIA = ("nash", "pure_equilibria")
RESPONSES = ("best_response", "best_response_pure")


def _cells(choose: Callable[[int, int], list[list[int]]]) -> Constant:
    """Pure equilibria at cells that depend on the size alone."""

    def constant(data: Data) -> Value | None:
        if data["kind"] not in EQUILIBRIA:
            return None
        return {"pure": choose(len(data["row_labels"]), len(data["col_labels"])), "mixed": []}

    return constant


def _uniform(data: Data) -> Value | None:
    """One mixed equilibrium: all actions equally likely."""
    if data["kind"] != "nash":
        return None
    sizes = len(data["row_labels"]), len(data["col_labels"])
    row, col = ([str(Fraction(1, size))] * size for size in sizes)
    return {"pure": [], "mixed": [{"row": row, "col": col}]}


def _actions(choose: Callable[[int], list[int]]) -> Constant:
    """Best actions that depend on their number alone, all payoffs 0."""

    def constant(data: Data) -> Value | None:
        if data["kind"] not in RESPONSES:
            return None
        size = actions(data)
        return {"actions": choose(size), "payoffs": ["0"] * size, "value": "0"}

    return constant


def _dominated(dominated: list[int], dominant: int | None) -> Constant:
    def constant(data: Data) -> Value | None:
        if data["kind"] != "dominance":
            return None
        return {"dominated": dominated, "dominant": dominant}

    return constant


def _zero(data: Data) -> Value | None:
    return {"value": "0"} if data["kind"] == "payoff" else None


CONSTANTS: Mapping[str, Constant] = {
    "all-cells": _cells(lambda m, n: [[i, j] for i in range(m) for j in range(n)]),
    "first-cell": _cells(lambda m, n: [[0, 0]]),
    "first-row": _cells(lambda m, n: [[0, j] for j in range(n)]),
    "diagonal": _cells(lambda m, n: [[i, i] for i in range(min(m, n))]),
    "none": _cells(lambda m, n: []),
    "uniform": _uniform,
    "all-actions": _actions(lambda size: list(range(size))),
    "first-action": _actions(lambda size: [0]),
    "last-action": _actions(lambda size: [size - 1]),
    "undominated": _dominated([], None),
    "second-dominates": _dominated([0], 1),
    "zero": _zero,
}
"""The constants by name."""

STRONGEST: Mapping[str, str] = {
    "nash": "all-cells",
    "pure_equilibria": "all-cells",
    "best_response": "first-action",
    "best_response_pure": "first-action",
    "dominance": "undominated",
    "payoff": "zero",
}
"""The constant that earns most on each kind of question; docs/gamesolve-scoring.md has a table."""


def players() -> Mapping[str, PlayerFactory]:
    """The reference players by name."""
    table: dict[str, PlayerFactory] = {
        "random": _random,
        "oracle": _oracle,
        "constant": _player(lambda data: CONSTANTS[STRONGEST[data["kind"]]](data)),
        "empty": lambda seat: FixedPlayer(lambda turn: ""),
    }
    table |= {name: _player(constant) for name, constant in CONSTANTS.items()}
    return table


def actions(data: Data) -> int:
    """How many actions the player has who is asked (or asked about)."""
    asked = data.get("responder") or data.get("player")
    return len(data["row_labels"] if asked == "row" else data["col_labels"])


def _player(constant: Constant) -> PlayerFactory:
    def make(seat: Seat) -> Player:
        value = constant(seat.sample.data)
        text = "" if value is None else block(seat.sample.data, value)
        return FixedPlayer(lambda turn: text)

    return make


def _oracle(seat: Seat) -> Player:
    """Writes the truth of the turn."""
    data = seat.sample.data
    return FixedPlayer(lambda turn: block(data, correct(data, turn.truth)))


def _random(seat: Seat) -> Player:
    """A well-formed guess from the form of the question: one cell, one action, numbers in the range
    of the payoffs, each answer equally likely."""
    data, streams = seat.sample.data, Streams(seat.seed)
    return FixedPlayer(lambda turn: block(data, guess(data, streams, turn.number, turn.attempt)))


def guess(data: Data, streams: Streams, *key: object) -> Value:
    """A random answer; the same for the same streams and key."""

    def below(n: int, *more: object) -> int:
        return streams.below(n, "gamesolve", *key, *more)

    kind = data["kind"]
    if kind in EQUILIBRIA:
        cell = [below(len(data["row_labels"]), "row"), below(len(data["col_labels"]), "col")]
        return {"pure": [cell], "mixed": []}
    if kind == "payoff":
        return {"value": _number(data, below(101, "value"))}
    size = actions(data)
    if kind == "dominance":
        dominated = below(size + 1, "dominated")
        dominant = below(size + 1, "dominant")
        return {
            "dominated": [] if dominated == size else [dominated],
            "dominant": None if dominant == size else dominant,
        }
    payoffs = [_number(data, below(101, "payoff", i)) for i in range(size)]
    best = below(size, "action")
    return {"actions": [best], "payoffs": payoffs, "value": payoffs[best]}


def _number(data: Data, hundredths: int) -> str:
    """A whole number from the range of all payoffs, at a share of it."""
    values = [Fraction(x) for side in ("row", "col") for line in data[side] for x in line]
    low, high = min(values), max(values)
    return str(round(low + (high - low) * Fraction(hundredths, 100)))
