"""Nested selection: chosen on validation, refitted, tested once.

    plan = Plan.of(groups, seeds=[0])
    hits = sweep(read, keys, problems, plan, settings)
    choices = choose(hits, problems, plan)
    found = predict(read, keys, choices, problems, plan, settings)

The items are dealt into five folds by group (a canonical game never stands on two sides). In turn
each fold is tested once: probes are fitted without it and without the next fold, on which pooling,
layer and strength of the penalty are chosen; the chosen probe is fitted again with both and then
predicts the test fold. So every item is predicted once a seed, by a probe that never saw its group.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch

from ..progress import track
from ..seeds import Streams
from ..store import write_atomically
from .solver import STRENGTHS, Problem, Scaler, Solved
from .solver import solve as batched

FOLDS: Final = 5
Array = Any  # of NumPy
Read = Callable[[Any], Array]
"""The features of a block by its key, (items, width)."""


@dataclass(frozen=True)
class Settings:
    """How probes are fitted. ``noise``: see `Scaler.of`."""

    noise: float = 1e-4
    strengths: tuple[float, ...] = STRENGTHS
    solver: Callable[..., Solved] = batched
    device: str = "cpu"

    @property
    def blocks(self) -> int:
        """Blocks that are solved in one call: on a CPU more than one makes nothing faster."""
        return 1 if self.device == "cpu" else 12

    def fit(
        self,
        features: Array,
        problems: Sequence[Problem],
        train: Array,
        rows: Array,
        strengths: Sequence[float],
        weights: bool = False,
    ) -> Solved:
        """Scale on the train rows, fit there, predict the rows. ``features``: (blocks, items,
        width)."""
        tensor = torch.as_tensor(features, dtype=torch.float32, device=self.device)
        scaled = Scaler.of(tensor[:, torch.as_tensor(train)], self.noise)(tensor)
        return self.solver(scaled, problems, train, rows, strengths, weights)


@dataclass(frozen=True)
class Plan:
    """The fold of each item for each seed, (seeds, items)."""

    folds: Array
    count: int = FOLDS

    @classmethod
    def of(cls, groups: Sequence[str], seeds: Sequence[int], count: int = FOLDS) -> Plan:
        """Deal the groups out in a random order of their own for each seed."""
        names = list(dict.fromkeys(groups))
        rows = []
        for seed in seeds:
            order = list(range(len(names)))
            Streams(seed).stream("folds").shuffle(order)
            fold = {names[name]: place % count for place, name in enumerate(order)}
            rows.append([fold[group] for group in groups])
        return cls(np.array(rows), count)

    def parts(self) -> Iterator[Part]:
        """All (seed, fold) pairs with their items."""
        for seed, row in enumerate(self.folds):
            for fold in range(self.count):
                test, validation = row == fold, row == (fold + 1) % self.count
                yield Part(
                    seed,
                    np.flatnonzero(~test & ~validation),
                    np.flatnonzero(validation),
                    np.flatnonzero(test),
                )


class Part(NamedTuple):
    """The items of one fold's train, validation and test sets, for the seed at this place."""

    seed: int
    train: Array
    validation: Array
    test: Array


def sweep(
    read: Read,
    keys: Sequence[Any],
    problems: Sequence[Problem],
    plan: Plan,
    settings: Settings,
    cache: Path | None = None,
    label: str = "probes",
) -> Array:
    """Whether each probe was right, 0 or 1: (problems, 2, seeds, blocks, strengths, items), for an
    item in its validation fold (0) and its test fold (1). Items without a label stay 0.

    ``cache`` keeps each block, so that a killed sweep goes on.
    """
    seeds, items = plan.folds.shape
    shape = (len(problems), 2, seeds, len(settings.strengths), items)
    hits = np.zeros((len(keys), *shape), np.uint8)
    paths = [None if cache is None else cache / f"{'-'.join(map(str, k))}.bits" for k in keys]
    left = []
    for place, path in enumerate(paths):
        if path is None or not path.is_file():
            left.append(place)
        else:
            data = np.frombuffer(zlib.decompress(path.read_bytes()), np.uint8)
            hits[place] = np.unpackbits(data, count=int(np.prod(shape))).reshape(shape)
    step = settings.blocks
    for start in track(range(0, len(left), step), label):
        places = left[start : start + step]
        features = np.stack([read(keys[place]) for place in places])
        hits[places] = _sweep_blocks(features, problems, plan, settings)
        for place in places:
            if (path := paths[place]) is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(path, zlib.compress(np.packbits(hits[place]).tobytes()))
    return np.moveaxis(hits, 0, 3)


def _sweep_blocks(
    features: Array, problems: Sequence[Problem], plan: Plan, settings: Settings
) -> Array:
    """(blocks, problems, 2, seeds, strengths, items)."""
    seeds, items = plan.folds.shape
    shape = (len(features), len(problems), 2, seeds, len(settings.strengths), items)
    hits: Array = np.zeros(shape, np.uint8)
    for part in plan.parts():
        rows = np.concatenate([part.validation, part.test])
        solved = settings.fit(features, problems, part.train, rows, settings.strengths)
        cut = len(part.validation)
        for place, (problem, guess) in enumerate(zip(problems, solved.predictions, strict=True)):
            correct = guess.numpy() == problem.labels[rows]
            hits[:, place, 0, part.seed][..., rows[:cut]] = correct[..., :cut]
            hits[:, place, 1, part.seed][..., rows[cut:]] = correct[..., cut:]
    return hits


class Choice(NamedTuple):
    """What validation chose for one problem in one fold: places of block and strength."""

    problem: int
    part: int
    block: int
    strength: int


def choose(hits: Array, problems: Sequence[Problem], plan: Plan) -> list[Choice]:
    """The best block and strength on each fold's validation items; of equal ones the stronger
    penalty, then the earlier block.

    :param hits: as of `sweep`, with the blocks to choose from.
    """
    found = []
    for number, part in enumerate(plan.parts()):
        for place, problem in enumerate(problems):
            rows = part.validation[problem.labels[part.validation] >= 0]
            counts = hits[place, 0, part.seed][:, :, rows].sum(-1, dtype=np.int64)
            strength, block = np.unravel_index(int(counts.T.argmax()), counts.T.shape)
            found.append(Choice(place, number, int(block), int(strength)))
    return found


def predict(
    read: Read,
    keys: Sequence[Any],
    choices: Sequence[Choice],
    problems: Sequence[Problem],
    plan: Plan,
    settings: Settings,
    label: str = "chosen probes",
) -> dict[Choice, Array]:
    """Fit what was chosen on train and validation, and predict the test items: the predicted
    classes of the part's test items for each choice."""
    parts, found = list(plan.parts()), dict[Choice, Array]()
    blocks = sorted({choice.block for choice in choices})
    for block in track(blocks, label):
        features = read(keys[block])[None]
        mine = sorted({c for c in choices if c.block == block})
        for number in sorted({c.part for c in mine}):
            part = parts[number]
            seen = np.sort(np.concatenate([part.train, part.validation]))
            for strength in sorted({c.strength for c in mine if c.part == number}):
                here = [c for c in mine if c.part == number and c.strength == strength]
                solved = settings.fit(
                    features,
                    [problems[c.problem] for c in here],
                    seen,
                    part.test,
                    [settings.strengths[strength]],
                )
                for choice, guess in zip(here, solved.predictions, strict=True):
                    found[choice] = guess[0, 0].numpy()
    return found


def predictions(
    choices: Sequence[Choice], found: dict[Choice, Array], problem: int, plan: Plan
) -> Array:
    """Predicted class of each item, (seeds, items), from one choice for each part."""
    result: Array = np.zeros(plan.folds.shape, np.int64)
    parts = list(plan.parts())
    for choice in choices:
        if choice.problem == problem:
            part = parts[choice.part]
            result[part.seed, part.test] = found[choice]
    return result
