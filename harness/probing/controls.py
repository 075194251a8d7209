"""Controls: what can be told of a concept without the model.

``majority`` says the most frequent class; ``size`` sees how long the prompt is and how many numbers
it has; ``numbers`` sees the numbers of the prompt in order and their statistics (for a game, its
payoffs); ``words`` sees which words occur how often; ``shuffled`` is the same probe on the model's
states with the labels permuted; ``random`` is the same probe on the same architecture with weights
that have learnt nothing. Each goes through the same folds and the same selection as the probe.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..seeds import derive
from .extract import Item
from .solver import Problem

TEXT: Final = ("size", "numbers", "words")
MOST_NUMBERS: Final = 64
MOST_WORDS: Final = 1000
FEWEST: Final = 3
"""Prompts that a word must occur in to count."""

Array = Any  # of NumPy
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")
_WORD: Final = re.compile(r"[^\W\d_]+|-?\d+(?:\.\d+)?|[^\w\s]")


def text_of(item: Item) -> str:
    """What the model is told, as one text."""
    return "\n\n".join(message.content for message in item.messages)


def size_features(items: Sequence[Item]) -> Array:
    """Characters, lines, words and numbers of the prompt, and its count of numbers as a category:
    (items, 4 + counts that occur)."""
    texts = [text_of(item) for item in items]
    counts = [len(_NUMBER.findall(text)) for text in texts]
    kinds = sorted(set(counts))
    rows = [
        [len(t), t.count("\n"), len(t.split()), count, *(count == kind for kind in kinds)]
        for t, count in zip(texts, counts, strict=True)
    ]
    return np.array(rows, np.float32)


def number_features(items: Sequence[Item]) -> Array:
    """The first `MOST_NUMBERS` numbers in order (0 behind the last) and statistics of all: mean,
    deviation, least, median, greatest, shares below and at 0, distinct ones, and their count."""
    rows = []
    for item in items:
        values = np.array([float(n) for n in _NUMBER.findall(text_of(item))] or [0.0])
        first = np.zeros(MOST_NUMBERS)
        first[: len(values)] = values[:MOST_NUMBERS]
        statistics = [
            values.mean(), values.std(), values.min(), np.median(values), values.max(),
            (values < 0).mean(), (values == 0).mean(), len(set(values)), len(values),
        ]  # fmt: skip
        rows.append([*first, *statistics])
    return np.array(rows, np.float32)


def word_features(items: Sequence[Item]) -> Array:
    """log(1 + count) of each of the most frequent words, numbers and signs: (items, words)."""
    bags = [Counter(_WORD.findall(text_of(item).lower())) for item in items]
    spread = Counter(word for bag in bags for word in bag)
    words = [w for w, n in spread.most_common(MOST_WORDS) if n >= min(FEWEST, len(items))]
    counts = [[bag[word] for word in words] or [0] for bag in bags]
    return np.log1p(np.array(counts, np.float32))


def text_features(items: Sequence[Item]) -> dict[str, Array]:
    """The features of each control of the text, by its name."""
    found = (size_features(items), number_features(items), word_features(items))
    return dict(zip(TEXT, found, strict=True))


def shuffled(problem: Problem, seed: int) -> Problem:
    """The problem with its labels permuted among the items that have one."""
    labels = problem.labels.copy()
    valid = np.flatnonzero(labels >= 0)
    rng = np.random.default_rng(derive(seed, "shuffled", problem.name))
    labels[valid] = labels[valid[rng.permutation(len(valid))]]
    return Problem(f"{problem.name}, shuffled", labels, problem.classes)


def majority(problem: Problem, train: Array) -> int:
    """The most frequent class of the train items; of equal ones the first."""
    labels = problem.labels[train]
    return int(np.bincount(labels[labels >= 0], minlength=problem.classes).argmax())
