"""Solutions for supervised training: every step is computed, and the answer follows from them.

An equilibrium question is solved by striking out strictly dominated actions, marking best replies
cell by cell, and solving the indifference equations of each mixed equilibrium in fractions; a
continuum is named and described by its extreme points. The end is the answer section.

>>> data = {"kind": "best_response_pure", "row": [[3, 0], [1, 2]], "col": [[1, 1], [0, 4]],
...         "row_labels": ["Up", "Down"], "col_labels": ["X", "Y"], "format": "compact",
...         "context": "market", "responder": "row", "opponent_action": 1}
>>> print(target(data, {"payoffs": ["0", "2"], "best": [1], "value": "2"}))
If Firm 2 plays Y, Firm 1 gets 0 from Up and 2 from Down.
The most is 2, from Down.
<BLANKLINE>
ANSWER:
Best response: Down
Best response value: 2
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction

from harness.types import Json

from .answers import block, correct
from .board import Board, show
from .mixing import mixed_steps
from .text import both, start


def target(data: Mapping[str, Json], truth: Mapping[str, Json]) -> str:
    """The solution of a sample, from its data and truth, ending in the answer section."""
    steps = _STEPS[data["kind"]](Board.of(data), data, truth)
    return "\n".join((*steps, "", block(data, correct(data, truth))))


# Equilibria


def _nash(board: Board, data: Mapping[str, Json], truth: Mapping[str, Json]) -> Iterator[str]:
    yield "Step 1: strictly dominated actions."
    alive = ([*range(board.shape[0])], [*range(board.shape[1])])
    struck = list(_eliminate(board, alive))
    yield from struck or ["No action is strictly dominated by another one."]
    yield "Step 2: best replies" + (" among the actions that are left." if struck else ".")
    yield from _pure_steps(board, alive)
    yield "Step 3: mixed equilibria."
    yield from mixed_steps(board, alive, truth)


def _pure(board: Board, data: Mapping[str, Json], truth: Mapping[str, Json]) -> Iterator[str]:
    return _pure_steps(board, ([*range(board.shape[0])], [*range(board.shape[1])]))


def _eliminate(board: Board, alive: tuple[list[int], list[int]]) -> Iterator[str]:
    """Strike out dominated actions one by one, as long as there are some; ``alive`` shrinks."""
    while True:
        found = next(_dominations(board, alive), None)
        if found is None:
            return
        player, loser, winner = found
        yield (
            f"{_domination(board, player, loser, winner, alive[1 - player])} Strike out"
            f" {board.names[player][loser]}."
        )
        alive[player].remove(loser)


def _dominations(
    board: Board, alive: tuple[list[int], list[int]]
) -> Iterator[tuple[int, int, int]]:
    """(player, dominated action, dominating action), for all such pairs among those alive."""
    for player in (0, 1):
        own = board.own[player]
        for loser in alive[player]:
            for winner in alive[player]:
                if all(own[winner][o] > own[loser][o] for o in alive[1 - player]):
                    yield player, loser, winner


def _domination(board: Board, player: int, loser: int, winner: int, others: list[int]) -> str:
    names, against = board.names[player], board.names[1 - player]
    own = board.own[player]
    wins = [f"{show(own[winner][o])} > {show(own[loser][o])} against {against[o]}" for o in others]
    return (
        f"For {board.roles[player]}, {names[winner]} strictly dominates {names[loser]}:"
        f" {both(wins)}."
    )


def _pure_steps(board: Board, alive: tuple[list[int], list[int]]) -> Iterator[str]:
    best: tuple[dict[int, list[int]], dict[int, list[int]]] = ({}, {})
    for player in (0, 1):
        for other in alive[1 - player]:
            pays = {a: board.own[player][a][other] for a in alive[player]}
            best[player][other] = [a for a, pay in pays.items() if pay == max(pays.values())]
            gets = both([f"{show(pay)} from {board.names[player][a]}" for a, pay in pays.items()])
            named = both([board.names[player][a] for a in best[player][other]])
            yield (
                f"Against {board.names[1 - player][other]}, {board.roles[player]} gets {gets}:"
                f" best {named}."
            )
    found = []
    for j in alive[1]:
        for i in best[0][j]:
            cell = board.cell(i, j)
            if j in best[1][i]:
                found.append(cell)
                yield f"{cell}: both actions are best replies, so this is an equilibrium."
            else:
                yield f"{cell}: {board.roles[1]} would deviate to {board.names[1][best[1][i][0]]}."
    yield f"Pure equilibria: {', '.join(found)}." if found else "There is no pure equilibrium."


# Best responses


def _best_response(
    board: Board, data: Mapping[str, Json], truth: Mapping[str, Json]
) -> Iterator[str]:
    me = int(data["responder"] == "column")
    sigma = [Fraction(p) for p in data["sigma"]]
    place = ("first", "second")[me]
    yield (
        f"{start(board.roles[me])} is asked, whose payoffs come {place}. Each action's payoffs,"
        f" weighted with the probabilities of {both(board.names[1 - me])}:"
    )
    for name, line in zip(board.names[me], board.own[me], strict=True):
        parts = [p * x for p, x in zip(sigma, line, strict=True)]
        products = " + ".join(
            f"{text} * {_bracketed(x)}" for text, x in zip(data["sigma"], line, strict=True)
        )
        sums = " + ".join(map(_bracketed, parts))
        yield f"{name}: {products} = {sums} = {show(sum(parts))}"
    yield _most(board, me, truth)


def _best_response_pure(
    board: Board, data: Mapping[str, Json], truth: Mapping[str, Json]
) -> Iterator[str]:
    me = int(data["responder"] == "column")
    other = data["opponent_action"]
    gets = [
        f"{show(line[other])} from {name}"
        for name, line in zip(board.names[me], board.own[me], strict=True)
    ]
    yield (
        f"If {board.roles[1 - me]} plays {board.names[1 - me][other]}, {board.roles[me]} gets"
        f" {both(gets)}."
    )
    yield _most(board, me, truth)


def _most(board: Board, me: int, truth: Mapping[str, Json]) -> str:
    names = both([board.names[me][i] for i in truth["best"]])
    tie = ", which tie" if len(truth["best"]) > 1 else ""
    return f"The most is {show(Fraction(truth['value']))}, from {names}{tie}."


def _bracketed(value: Fraction | int) -> str:
    return f"({show(value)})" if value < 0 else show(value)


# Other skills


def _payoff(board: Board, data: Mapping[str, Json], truth: Mapping[str, Json]) -> Iterator[str]:
    i, j = data["cell"]
    me = int(data["player"] == "column")
    pays = f"({show(board.own[0][i][j])}, {show(board.own[1][j][i])})"
    yield (
        f"The cell {board.cell(i, j)} pays {pays}; {board.roles[me]}'s payoff is the"
        f" {('first', 'second')[me]} number."
    )


def _dominance(board: Board, data: Mapping[str, Json], truth: Mapping[str, Json]) -> Iterator[str]:
    me = int(data["player"] == "column")
    names, others = board.names[me], [*range(board.shape[1 - me])]
    everything = ([*range(board.shape[0])], [*range(board.shape[1])])
    found = [(b, a) for player, a, b in _dominations(board, everything) if player == me]
    for loser, name in enumerate(names):
        winner = next((b for b, a in found if a == loser), None)
        if winner is not None:
            yield _domination(board, me, loser, winner, others)
        else:
            yield f"{name} is not dominated: {_undominated(board, me, loser)}."
    top = truth["dominant"]
    if top is None:
        yield "No action strictly dominates all the others."
    else:
        yield f"{names[top]} strictly dominates each of the others, so it is dominant."


def _undominated(board: Board, me: int, action: int) -> str:
    """For each other action an opponent's action against which it is not better."""
    names, against, own = board.names[me], board.names[1 - me], board.own[me]
    reasons = []
    for other, line in enumerate(own):
        if other != action:
            at = next(o for o, pay in enumerate(line) if pay <= own[action][o])
            reasons.append(
                f"{names[other]} pays only {show(line[at])} against {against[at]}, where"
                f" {names[action]} pays {show(own[action][at])}"
            )
    return both(reasons)


_STEPS: Mapping[str, Callable[[Board, Mapping[str, Json], Mapping[str, Json]], Iterator[str]]] = {
    "nash": _nash,
    "pure_equilibria": _pure,
    "best_response": _best_response,
    "best_response_pure": _best_response_pure,
    "payoff": _payoff,
    "dominance": _dominance,
}
