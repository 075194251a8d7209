"""The reward `gamesolve`: answers are verified, not matched.

Equilibria: every claimed profile is checked for regret with the game itself, and

    value = precision x recall
    precision = found / (found + false)      recall = found / required

``required`` are all pure equilibria, and one point of each maximal Nash subset that holds no pure
one; ``found`` are the required ones among the claims; ``false`` the distinct claims that are no
equilibrium. Further true points of a continuum are neither paid nor charged, so that listing many
of them can't buy room for false ones. Best responses: precision over the actions claimed, times
1/2 + 3/10 for the expected payoffs + 1/5 for the value, so numbers without a best action earn
nothing. docs/gamesolve-scoring.md has the whole.

>>> data = {"kind": "best_response_pure", "row": [[2, 0], [1, 1]], "col": [[0, 0], [0, 0]],
...         "responder": "row", "opponent_action": 0}
>>> judge(data, {}, {"actions": [0, 1], "value": "2"}).value
0.5
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import lcm
from operator import mul
from typing import NamedTuple

from harness import HarnessError, hookimpl
from harness.reward import Reward
from harness.types import Json, Outcome, Sample, Score

from ..tasks.gamesolve.profiles import Arena, Numeral, Side, Subset, Weights, has_pure, weights

RESPONSE_WEIGHTS = (0.5, 0.3, 0.2)
"""Best response to a mixed strategy: action, expected payoffs, value."""

PURE_RESPONSE_WEIGHTS = (0.6, 0.4)
"""Best response to one action: action, payoff."""

DOMINANCE_WEIGHTS = (0.5, 0.5)
"""Dominance: the dominated actions, the dominant one."""

PARTS: Mapping[str, tuple[str, ...]] = {
    "nash": ("precision", "recall"),
    "pure_equilibria": ("precision", "recall"),
    "best_response": ("action", "payoffs", "value"),
    "best_response_pure": ("action", "value"),
    "dominance": ("dominated", "dominant"),
    "payoff": (),
}
"""The parts of a score, by the kind of question."""

SLOPE = 10
"""An expected payoff that is off by more than its rounding loses this many times the error as a
share of the payoff range: nothing is left at 10 % of the range."""


class GameSolveReward(Reward):
    """Precision times recall of verified equilibria; verified best responses and skills."""

    name = "gamesolve"

    def score(self, sample: Sample, outcome: Outcome) -> Score:
        """Score the parsed answer of the last move; 0 where nothing was committed."""
        answer = outcome.moves[-1].parsed if outcome.moves else None
        return judge(sample.data, sample.truth, answer)


@hookimpl
def create_reward(name: str, options: Mapping[str, Json]) -> GameSolveReward:
    """Make the reward; it has no options."""
    return GameSolveReward(options)


def judge(data: Mapping[str, Json], truth: Mapping[str, Json], answer: Json) -> Score:
    """Score an answer as `answers.parse` gives it (None: no answer).

    Raises HarnessError for a kind of question that does not exist.
    """
    if data["kind"] not in _JUDGES:
        raise HarnessError(f"no kind {data['kind']!r}; gamesolve has {', '.join(_JUDGES)}")
    if not isinstance(answer, Mapping):
        # The parts stay in every mean: no answer is 0, not missing.
        return Score(0.0, dict.fromkeys(PARTS[data["kind"]], 0.0))
    return _JUDGES[data["kind"]](data, truth, answer)


# Equilibria


class _Claims(NamedTuple):
    """The distinct claims of an answer: cells, mixed profiles, and how many are no profile."""

    pure: set[tuple[int, int]]
    mixed: list[tuple[Weights, Weights]]
    broken: int

    @classmethod
    def of(cls, answer: Mapping[str, Json], m: int, n: int) -> _Claims:
        """Duplicates are merged, however they are written; unit vectors are cells."""
        pure = {(i, j) for i, j in answer.get("pure") or ()}
        mixed: dict[tuple[tuple[int, ...], ...], tuple[Weights, Weights]] = {}
        broken = set()
        for claim in answer.get("mixed") or ():
            x, y = weights(claim["row"], m), weights(claim["col"], n)
            if x is None or y is None:
                broken.add((tuple(claim["row"]), tuple(claim["col"])))
            elif x.action is not None and y.action is not None:
                pure.add((x.action, y.action))
            else:
                mixed[x.key, y.key] = x, y
        return cls(pure, list(mixed.values()), len(broken) + (answer.get("invalid") or 0))


def _nash(data: Mapping[str, Json], truth: Mapping[str, Json], answer: Mapping[str, Json]) -> Score:
    arena = Arena.of(data)
    m, n = arena.shape
    claims = _Claims.of(answer, m, n)
    right = {(i, j) for i, j in claims.pure if 0 <= i < m and 0 <= j < n and arena.pure(i, j)}
    true = [claim for claim in claims.mixed if arena.holds(*claim)]
    subsets = [Subset.of(s) for s in truth["subsets"] if not has_pure(s)]
    found = len(right) + sum(any(arena.within(x, y, s) for x, y in true) for s in subsets)
    false = len(claims.pure) - len(right) + len(claims.mixed) - len(true) + claims.broken
    return _product(found, false, len(truth["pure"]) + len(subsets))


def _pure_equilibria(
    data: Mapping[str, Json], truth: Mapping[str, Json], answer: Mapping[str, Json]
) -> Score:
    claims = _Claims.of(answer, len(data["row"]), len(data["row"][0]))
    right = {(i, j) for i, j in truth["pure"]}
    false = len(claims.pure - right) + len(claims.mixed) + claims.broken
    if right:
        return _product(len(claims.pure & right), false, len(right))
    full = float(false == 0)
    return Score(
        full, {"precision": full, "recall": full}, {"found": 0, "false": false, "required": 0}
    )


def _product(found: int, false: int, required: int) -> Score:
    precision = found / (found + false) if found else 0.0
    recall = found / required
    return Score(
        precision * recall,
        {"precision": precision, "recall": recall},
        {"found": found, "false": false, "required": required},
    )


# Best responses


def _best_response(
    data: Mapping[str, Json], truth: Mapping[str, Json], answer: Mapping[str, Json]
) -> Score:
    side, pays, scale = _expected(data)
    action = _action(answer, pays)
    written = answer.get("payoffs") or ()
    payoffs = value = 0.0
    if action:
        if len(written) == len(pays):
            credits = [_credit(t, p, scale, side) for t, p in zip(written, pays, strict=True)]
            payoffs = sum(credits) / len(pays)
        value = _credit(answer.get("value"), max(pays), scale, side)
    return _weighted(RESPONSE_WEIGHTS, action, payoffs=payoffs, value=value)


def _best_response_pure(
    data: Mapping[str, Json], truth: Mapping[str, Json], answer: Mapping[str, Json]
) -> Score:
    _, pays, scale = _expected(data)
    action = _action(answer, pays)
    value = float(bool(action) and _equals(answer.get("value"), max(pays), scale))
    return _weighted(PURE_RESPONSE_WEIGHTS, action, value=value)


def _weighted(shares: Sequence[float], action: float, **credits: float) -> Score:
    """Full marks are 1: the action's part gates the rest."""
    value = action * (shares[0] + sum(map(mul, shares[1:], credits.values())))
    return Score(min(1.0, value), {"action": action, **credits})


def _expected(data: Mapping[str, Json]) -> tuple[Side, list[int], int]:
    """The responder's side, and the expected payoff of each action times the scale."""
    row = data["responder"] == "row"
    side = Side.of(data["row"]) if row else Side.of(data["col"], transposed=True)
    if "opponent_action" in data:
        return side, [line[data["opponent_action"]] for line in side.table], side.scale
    read = [Numeral.of(text) for text in data["sigma"]]
    unit = lcm(*[number.bottom for number in read])
    parts = [number.top * (unit // number.bottom) for number in read]
    return side, [sum(map(mul, line, parts)) for line in side.table], side.scale * unit


def _action(answer: Mapping[str, Json], pays: Sequence[int]) -> float:
    """The share of best actions among those claimed."""
    claimed = set(answer.get("actions") or ())
    best = max(pays)
    right = sum(0 <= i < len(pays) and pays[i] == best for i in claimed)
    return right / (len(claimed) + (answer.get("invalid") or 0)) if right else 0.0


def _credit(text: str | None, exact: int, scale: int, side: Side) -> float:
    """1 within the rounding of the last digit shown (at most 1 % of the payoff range), then down
    in a line from 0.9 to nothing at 10 % of the range."""
    number = _numeral(text)
    if number is None:
        return 0.0
    error = abs(number.top * scale - exact * number.bottom)
    if error == 0:
        return 1.0
    spread = side.spread * (scale // side.scale) * number.bottom
    if error <= number.slack * scale and 100 * error <= spread:
        return 1.0
    return max(0.0, 1 - SLOPE * error / spread) if spread else 0.0


def _equals(text: str | None, exact: int, scale: int) -> bool:
    number = _numeral(text)
    return number is not None and number.top * scale == exact * number.bottom


def _numeral(text: str | None) -> Numeral | None:
    try:
        return None if text is None else Numeral.of(text)
    except ValueError:
        return None


# Other skills


def _payoff(
    data: Mapping[str, Json], truth: Mapping[str, Json], answer: Mapping[str, Json]
) -> Score:
    exact = Numeral.of(truth["value"])
    return Score(float(_equals(answer.get("value"), exact.top, exact.bottom)))


def _dominance(
    data: Mapping[str, Json], truth: Mapping[str, Json], answer: Mapping[str, Json]
) -> Score:
    claims, right = set(answer.get("dominated") or ()), set(truth["dominated"])
    hits = len(claims & right)
    invalid = answer.get("invalid") or 0
    if right:
        dominated = hits / (len(claims) + invalid) * hits / len(right) if hits else 0.0
    else:
        dominated = float(not claims and not invalid)
    dominant = float(answer.get("dominant", -1) == truth["dominant"])
    value = dominated * (DOMINANCE_WEIGHTS[0] + DOMINANCE_WEIGHTS[1] * dominant)
    return Score(value, {"dominated": dominated, "dominant": dominant})


_JUDGES: dict[
    str, Callable[[Mapping[str, Json], Mapping[str, Json], Mapping[str, Json]], Score]
] = {
    "nash": _nash,
    "best_response": _best_response,
    "best_response_pure": _best_response_pure,
    "payoff": _payoff,
    "dominance": _dominance,
    "pure_equilibria": _pure_equilibria,
}
