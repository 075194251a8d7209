"""Labels that came with a file in the reference study's schema, checked against the exact truth.

The study's own files list too few equilibria for a third of the games, so a label may be
incomplete; it may also be wrong: a listed profile that is no equilibrium, wrong payoffs, counts or
flags. All of it is reported, for ``harness data audit`` and ``data build --verify``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from harness.types import Json, Sample

from .games import Game

ROUNDING: Final = 1e-4
"""What six printed decimals may cost, as a share of the range of the payoffs."""


def label_problems(sample: Sample) -> Iterator[str]:
    """Where the label of a record is not the whole truth, each in one line."""
    label, truth = sample.data.get("reference_truth"), sample.truth
    if not isinstance(label, dict):
        return
    try:
        if "equilibria" in label and "equilibria" in truth:
            yield from _nash(sample, label)
        if "best_response_actions" in label and "best" in truth:
            yield from _response(label, truth)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        yield f"its label cannot be read ({type(error).__name__}: {error})"


def _nash(sample: Sample, label: Mapping[str, Any]) -> Iterator[str]:
    truth, game = sample.truth, Game.from_data(sample.data)
    listed, exact = label["equilibria"], len(truth["equilibria"])
    if len(listed) < exact or truth["continuum"]:
        more = ", and there is a continuum" if truth["continuum"] else ""
        yield f"its label lists {len(listed)} of {exact} extreme equilibria{more}"
    if len(listed) > exact and not truth["continuum"]:
        yield f"its label lists {len(listed)} equilibria, and there are {exact}"
    for number, claim in enumerate(listed, start=1):
        yield from (f"its equilibrium {number} {what}" for what in _profile(game, claim))
    stated = label.get("equilibrium_class")
    if stated != truth["class"]:
        yield f"its label says {stated}, and the class is {truth['class']}"
    counts = {"n_equilibria": len(listed), "pure_ne_count": len(truth["pure"])}
    for name, count in counts.items():
        if label.get(name, count) != count:
            yield f"its label says {name} {label[name]}, and it is {count}"


def _profile(game: Game, claim: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with one listed equilibrium, by the definition."""
    row, col = [float(p) for p in claim["sigma_row"]], [float(p) for p in claim["sigma_col"]]
    if (len(row), len(col)) != game.shape:
        yield "has not one probability for each action"
        return
    if min(*row, *col) < 0 or max(abs(sum(row) - 1), abs(sum(col) - 1)) > ROUNDING:
        yield "is no pair of distributions"
        return
    mine = [sum(float(a) * q for a, q in zip(line, col, strict=True)) for line in game.row]
    theirs = [
        sum(float(line[j]) * p for line, p in zip(game.col, row, strict=True))
        for j in range(len(col))
    ]
    for who, values, weights, payoffs in (
        ("row", mine, row, game.row),
        ("column", theirs, col, game.col),
    ):
        value = sum(v * w for v, w in zip(values, weights, strict=True))
        slack = ROUNDING * max(1.0, _range(payoffs))
        if max(values) - value > slack:
            yield f"is none: the {who} player gains {max(values) - value:.4g} by deviating"
        stated = claim.get("payoffs")
        if stated and abs(float(stated[who == "column"]) - value) > slack:
            yield f"states the {who} player's payoff as {stated[who == 'column']}, not {value:.6g}"


def _range(payoffs: Sequence[Sequence[Any]]) -> float:
    numbers = [float(x) for line in payoffs for x in line]
    return max(numbers) - min(numbers)


def _response(label: Mapping[str, Any], truth: Mapping[str, Json]) -> Iterator[str]:
    best = truth["best"]
    if sorted(label["best_response_actions"]) != best:
        yield f"its label says {label['best_response_actions']}, and best are {best}"
    if label.get("is_unique", len(best) == 1) != (len(best) == 1):
        yield f"its label says is_unique {label['is_unique']}, and best are {best}"
    value = _decimal(truth["value"])
    slack = ROUNDING * max(1.0, abs(value))
    if "best_response_value" in label and abs(float(label["best_response_value"]) - value) > slack:
        yield f"its label says the best value is {label['best_response_value']}, not {value:.6g}"
    stated = label.get("expected_payoffs")
    if stated is None:
        return
    exact = [_decimal(payoff) for payoff in truth["payoffs"]]
    pairs = zip(map(float, stated), exact, strict=False)
    if len(stated) != len(exact) or any(abs(a - b) > slack for a, b in pairs):
        yield f"its label says the payoffs are {stated}, not {[round(x, 6) for x in exact]}"


def _decimal(text: Json) -> float:
    return float(Fraction(text))
