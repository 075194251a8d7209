"""What answers are judged by: the exact truth of a sample, computed from its data alone.

>>> data = {"kind": "best_response", "row": [[2, 0], [1, 1]], "col": [[0, 0], [0, 0]],
...         "responder": "row", "sigma": ["0.7500", "0.2500"]}
>>> truth(data)
{'payoffs': ['3/2', '1'], 'best': [0], 'value': '3/2'}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from harness.types import Json

from .games import Game, Matrix, Number
from .solver import Solution, expected, solve

NASH_KINDS = ("nash", "pure_equilibria")
RESPONSE_KINDS = ("best_response", "best_response_pure")
KINDS = (*NASH_KINDS, *RESPONSE_KINDS, "payoff", "dominance")


def truth(data: Mapping[str, Json]) -> dict[str, Json]:
    """The truth of a sample of any kind, as JSON with fractions as strings."""
    return _TRUTHS[data["kind"]](Game.from_data(data), data)


def nash_truth(solution: Solution) -> dict[str, Json]:
    """All extreme equilibria, the maximal Nash subsets, the pure equilibria and the flags."""
    return {
        "equilibria": [
            {"row": _texts(e.row), "col": _texts(e.col), "payoffs": _texts(e.payoffs)}
            for e in solution.equilibria
        ],
        "subsets": [
            {"rows": [_texts(x) for x in s.rows], "cols": [_texts(y) for y in s.cols]}
            for s in solution.subsets
        ],
        "pure": [list(profile) for profile in solution.pure],
        "degenerate": solution.degenerate,
        "continuum": solution.continuum,
        "class": solution.kind,
    }


def dominated(own: Matrix) -> list[int]:
    """The actions that some other pure action beats strictly, whatever the opponent does.

    >>> dominated(((1, 1), (2, 2), (0, 3)))
    [0]
    """
    return [i for i, line in enumerate(own) if any(_beats(other, line) for other in own)]


def dominant(own: Matrix) -> int | None:
    """The action that strictly beats every other one, whatever the opponent does, if there is one.

    >>> dominant(((1, 1), (2, 2), (0, 1)))
    1
    """
    losers = dominated(own)
    # All but one are dominated: the chain of dominators ends at the one that is left.
    rest = [i for i in range(len(own)) if i not in losers]
    if len(rest) == 1 and all(_beats(own[rest[0]], own[i]) for i in losers):
        return rest[0]
    return None


def responses(data: Mapping[str, Json]) -> tuple[Fraction, ...]:
    """The expected payoff of each action of the responder in a best-response sample."""
    own = Game.from_data(data).own(data["responder"])
    return expected(own, opponent_strategy(data, len(own[0])))


def opponent_strategy(data: Mapping[str, Json], actions: int) -> Sequence[Number]:
    """The opponent's strategy in a best-response sample: ``sigma``, or its one action."""
    if "sigma" in data:
        return [Fraction(p) for p in data["sigma"]]
    return [int(j == data["opponent_action"]) for j in range(actions)]


def difficulty(data: Mapping[str, Json], truth: Mapping[str, Json]) -> str:
    """``easy``, ``medium`` or ``hard`` by the reference study's rule; skills go by size alone.

    It is close to a function of the size, and kept for comparison only.
    """
    size = max(len(data["row"]), len(data["row"][0]))
    if data["kind"] == "nash":
        if size <= 2:
            return "easy" if truth["class"] == "pure" else "medium"
        return "hard" if truth["class"] == "mixed" else "medium"
    return "easy" if size <= 2 else "medium" if size <= 3 else "hard"


def _beats(one: Sequence[Number], other: Sequence[Number]) -> bool:
    return all(a > b for a, b in zip(one, other, strict=True))


def _texts(numbers: Sequence[Number]) -> list[str]:
    return [str(x) for x in numbers]


def _nash(game: Game, data: Mapping[str, Json]) -> dict[str, Json]:
    return nash_truth(solve(game))


def _response(game: Game, data: Mapping[str, Json]) -> dict[str, Json]:
    values = responses(data)
    value = max(values)
    best = [i for i, x in enumerate(values) if x == value]
    return {"payoffs": _texts(values), "best": best, "value": str(value)}


def _payoff(game: Game, data: Mapping[str, Json]) -> dict[str, Json]:
    i, j = data["cell"]
    return {"value": str((game.row if data["player"] == "row" else game.col)[i][j])}


def _dominance(game: Game, data: Mapping[str, Json]) -> dict[str, Json]:
    own = game.own(data["player"])
    return {"dominated": dominated(own), "dominant": dominant(own)}


_TRUTHS: dict[str, Callable[[Game, Mapping[str, Json]], dict[str, Json]]] = {
    "nash": _nash,
    "pure_equilibria": _nash,
    "best_response": _response,
    "best_response_pure": _response,
    "payoff": _payoff,
    "dominance": _dominance,
}
