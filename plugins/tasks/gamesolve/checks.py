"""Checking a data set by other means than those that made it (``data build --verify``).

Equilibria are checked by the definition, in fractions; their completeness by nashpy's vertex
enumeration where the game is not degenerate (on degenerate ones nashpy itself misses some); best
responses and skills by direct evaluation; splits, labels, strategies and counts by the design.

>>> [problem for sample in [] for problem in sample_problems(sample)]
[]
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from importlib.util import find_spec
from itertools import product

from harness.types import HarnessError, Json, Sample

from .canonical import canonical
from .foreign import label_problems
from .games import Game, Strategy
from .items import split_of
from .presets import plan
from .solver import certificate
from .workers import spread

CLOSE = 1e-6
"""How far nashpy's floats may be from a probability."""


def problems(samples: Iterable[Sample], preset: str) -> Iterator[str]:
    """Everything that is wrong with a data set, each in one line.

    :param preset: the design it must follow; "" for samples from a file, where instead the labels
        that came with it are audited.
    """
    _need_nashpy()
    held = list(samples)
    check = sample_problems if preset else file_problems
    for sample, found in zip(held, spread(check, held, "verifying"), strict=True):
        yield from (f"{sample.id}: {problem}" for problem in found)
    if preset:
        yield from set_problems(held, preset)


def sample_problems(sample: Sample) -> list[str]:
    """What is wrong with one drawn sample."""
    return [*_form_problems(sample), *file_problems(sample)]


def file_problems(sample: Sample) -> list[str]:
    """What is wrong with the truth of one sample, or with the labels that a file gave it."""
    kind = sample.data["kind"]
    if kind in ("nash", "pure_equilibria"):
        return [*_nash_problems(sample), *label_problems(sample)]
    if kind in ("best_response", "best_response_pure"):
        return [*_response_problems(sample), *label_problems(sample)]
    return list(_skill_problems(sample))


# Form


def _form_problems(sample: Sample) -> Iterator[str]:
    data = sample.data
    rows, cols = data["row_labels"], data["col_labels"]
    if len({x.casefold() for x in (*rows, *cols)}) != len(rows) + len(cols):
        yield "two actions share a name"
    identity = canonical(Game.from_data(data))
    if not identity == sample.canonical == sample.cluster:
        yield "the canonical identity is not the game's"
    if split_of(identity) != sample.split:
        yield f"the game belongs to {split_of(identity)}, not {sample.split}"
    if "sigma" in data and sum(map(Fraction, data["sigma"])) != 1:
        yield "the opponent's strategy does not sum to 1"


# Truth


def _nash_problems(sample: Sample) -> Iterator[str]:
    game, truth = Game.from_data(sample.data), sample.truth
    listed = [(_numbers(e["row"]), _numbers(e["col"])) for e in truth["equilibria"]]
    for entry, (x, y) in zip(truth["equilibria"], listed, strict=True):
        proof = certificate(game, x, y)
        if not proof.holds or proof.payoffs != _numbers(entry["payoffs"]):
            yield f"{entry} is no equilibrium with these payoffs"
    yield from _subset_problems(game, truth["subsets"], set(listed))
    pure = [list(p) for p in product(*map(range, game.shape)) if _is_pure_equilibrium(game, *p)]
    if pure != truth["pure"]:
        yield f"the pure equilibria are {pure}"
    continuum = len({x for x, _ in listed}) < len(listed) or len({y for _, y in listed}) < len(
        listed
    )
    if continuum != truth["continuum"]:
        yield "the continuum flag is wrong"
    if not truth["degenerate"]:
        if len(listed) % 2 == 0:
            yield "an even number of equilibria in a game that is not degenerate"
        yield from _nashpy_problems(game, listed)
    if truth["class"] != _class(bool(pure), continuum or len(listed) > len(pure)):
        yield "the class is wrong"


def _subset_problems(
    game: Game, subsets: Sequence[Mapping[str, Json]], listed: set[tuple[Strategy, Strategy]]
) -> Iterator[str]:
    """Every pair of a subset must be listed, every listed pair in a subset, and the middle of each
    subset an equilibrium."""
    covered: set[tuple[Strategy, Strategy]] = set()
    for subset in subsets:
        xs, ys = [_numbers(x) for x in subset["rows"]], [_numbers(y) for y in subset["cols"]]
        covered |= set(product(xs, ys))
        if not certificate(game, _middle(xs), _middle(ys)).holds:
            yield "the middle of a Nash subset is no equilibrium"
    if covered != listed:
        yield "the Nash subsets and the extreme equilibria do not match"


def _nashpy_problems(game: Game, listed: list[tuple[Strategy, Strategy]]) -> Iterator[str]:
    import nashpy  # type: ignore[import-untyped]
    import numpy as np

    a, b = (np.array([[float(x) for x in line] for line in m]) for m in (game.row, game.col))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [np.concatenate(pair) for pair in nashpy.Game(a, b).vertex_enumeration()]
    ours = [np.array([float(p) for p in (*x, *y)]) for x, y in listed]
    for one, other, text in ((ours, found, "nashpy lacks"), (found, ours, "only nashpy has")):
        for profile in one:
            if not any(np.abs(profile - candidate).max() < CLOSE for candidate in other):
                yield f"{text} the equilibrium {profile.round(4).tolist()}"


def _response_problems(sample: Sample) -> Iterator[str]:
    data, truth = sample.data, sample.truth
    own = Game.from_data(data).own(data["responder"])
    if "sigma" in data:
        weights = [Fraction(p) for p in data["sigma"]]
    else:
        weights = [Fraction(j == data["opponent_action"]) for j in range(len(own[0]))]
    values = [sum(p * x for p, x in zip(weights, line, strict=True)) for line in own]
    best = [i for i, value in enumerate(values) if value == max(values)]
    stated = truth["best"], _numbers(truth["payoffs"]), Fraction(truth["value"])
    if stated != (best, tuple(values), max(values)):
        yield f"the best responses are {best} with {max(values)}"


def _skill_problems(sample: Sample) -> Iterator[str]:
    data, truth = sample.data, sample.truth
    own = Game.from_data(data).own(data["player"])
    if data["kind"] == "payoff":
        i, j = data["cell"] if data["player"] == "row" else reversed(data["cell"])
        if Fraction(truth["value"]) != own[i][j]:
            yield f"the payoff is {own[i][j]}"
        return
    beaten = {
        (k, i)
        for k, i in product(range(len(own)), repeat=2)
        if all(a > b for a, b in zip(own[k], own[i], strict=True))
    }
    dominated = sorted({i for _, i in beaten})
    dominant = [k for k in range(len(own)) if sum(one == k for one, _ in beaten) == len(own) - 1]
    if truth["dominated"] != dominated or truth["dominant"] != (dominant[0] if dominant else None):
        yield f"dominated are {dominated}, dominant {dominant}"


def _is_pure_equilibrium(game: Game, i: int, j: int) -> bool:
    better_row = any(line[j] > game.row[i][j] for line in game.row)
    return not better_row and not any(x > game.col[i][j] for x in game.col[i])


def _class(pure: bool, others: bool) -> str:
    return ("both" if others else "pure") if pure else "mixed"


def _numbers(texts: Sequence[str]) -> Strategy:
    return tuple(Fraction(text) for text in texts)


def _middle(points: Sequence[Strategy]) -> Strategy:
    return tuple(sum(column) / Fraction(len(points)) for column in zip(*points, strict=True))


# The set as a whole


def set_problems(samples: Sequence[Sample], preset: str) -> Iterator[str]:
    """Where a set departs from its design, and games that occur in several splits."""
    yield from _design_problems(samples, preset)
    yield from _leaks(samples)


def _design_problems(samples: Sequence[Sample], preset: str) -> Iterator[str]:
    planned = Counter((item.cell.name, item.stratum, item.split) for item in plan(preset))
    selected = {name for name, stratum, _ in planned if stratum}
    found = Counter(
        (s.data["design"], s.data["stratum"] if s.data["design"] in selected else "", s.split)
        for s in samples
    )
    for key in sorted(planned | found):
        if planned[key] != found[key]:
            yield f"{'/'.join(key)}: {found[key]} items instead of {planned[key]}"


def _leaks(samples: Sequence[Sample]) -> Iterator[str]:
    splits: dict[str, set[str]] = {}
    for sample in samples:
        splits.setdefault(sample.canonical, set()).add(sample.split)
    for identity, names in splits.items():
        if len(names) > 1:
            yield f"the game {identity} is in {' and '.join(sorted(names))}"


def _need_nashpy() -> None:
    if find_spec("nashpy") is None:
        raise HarnessError(
            "verifying needs nashpy; install it with: pip install 'strategic-harness[dev]'"
        )
