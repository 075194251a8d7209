"""A bag-of-words classifier over the places of a story: what the words alone give away.

Each mentioned place is described by the words of the line that names it first (names as their roles
in the chain, places as one word) and, if wanted, by its position from both ends. A conditional
logit over the places of a story is fitted to one half of the clusters and judged on the other,
both ways.

    hits = cross_validated([Facts.of(s.data) for s in samples], answers, clusters, positions=True)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from harness.seeds import derive

from .shortcuts import Facts

STEPS: Final = 60
"""Steps of gradient descent with momentum."""
LEAST: Final = 20
"""Occurrences that a word needs to be a feature."""
_WORD = re.compile(r"[A-Za-z_]+")


def words(facts: Facts, place: str) -> Counter[str]:
    """The bag of words of the first line that names a place."""
    roles = dict.fromkeys(facts.chain, "*middle*")
    roles[facts.chain[-1]] = "*inner*"
    roles[facts.chain[0]] = "*outer*"
    found: Counter[str] = Counter()
    for word in _WORD.findall(facts.first_lines[place]):
        if "_" in word:
            word = "*this*" if word == place else "*place*"
        elif word in roles:
            word = roles[word]
        elif word[0].isupper() and word[1:].islower() and word.lower() not in _OPENERS:
            word = "*other*"
        found[word.lower()] += 1
    return found


_OPENERS: Final = frozenset(
    [
        "a",
        "as",
        "away",
        "because",
        "before",
        "by",
        "far",
        "from",
        "if",
        "in",
        "into",
        "it",
        "kept",
        "neither",
        "no",
        "on",
        "only",
        "out",
        "seen",
        "standing",
        "taking",
        "the",
        "through",
        "to",
        "together",
        "unknown",
        "while",
        "with",
        "without",
        "all",
        "at",
    ]
)
"""Words that may open a line with a capital and are no names."""


def features(facts: Facts, place: str, positions: bool) -> Iterable[tuple[str, float]]:
    """Named features of one place of a story."""
    if place not in facts.bags:
        facts.bags[place] = words(facts, place)
    yield from facts.bags[place].items()
    yield "*length*", len(facts.first_lines[place]) / 200
    if positions:
        k = facts.mentions.index(place)
        yield f"*start {k}*", 1.0
        yield f"*end {len(facts.mentions) - k}*", 1.0


def cross_validated(
    stories: Sequence[Facts],
    answers: Sequence[str],
    clusters: Sequence[str],
    positions: bool,
) -> list[float]:
    """1 for each sample whose answer the classifier names, fitted on the other half."""
    rows = [[dict(features(f, p, positions)) for p in f.mentions] for f in stories]
    counts = Counter(name for row in rows for place in row for name in place)
    index = {name: i for i, name in enumerate(sorted(n for n, c in counts.items() if c >= LEAST))}
    halves = [derive("fold", cluster) % 2 for cluster in clusters]
    hits = [0.0] * len(stories)
    for half in (0, 1):
        fit = [i for i, h in enumerate(halves) if h != half and answers[i] in stories[i].mentions]
        weights = _fit(
            [rows[i] for i in fit], [stories[i].mentions.index(answers[i]) for i in fit], index
        )
        for i in (i for i, h in enumerate(halves) if h == half):
            scores = _matrix(rows[i], index) @ weights
            said = stories[i].mentions[int(scores.argmax())] if len(scores) else None
            hits[i] = float(said == answers[i])
    return hits


def _matrix(places: Sequence[dict[str, float]], index: dict[str, int]) -> Any:
    """Features of places, an array (places, features)."""
    import numpy as np

    matrix = np.zeros((len(places), len(index)), dtype=np.float32)
    for row, found in enumerate(places):
        for name, value in found.items():
            if name in index:
                matrix[row, index[name]] = value
    return matrix


def _fit(
    stories: Sequence[Sequence[dict[str, float]]], gold: Sequence[int], index: dict[str, int]
) -> Any:
    """Weights of a conditional logit by gradient descent with momentum; a small ridge."""
    import numpy as np

    weights = np.zeros(len(index), dtype=np.float32)
    if not stories:
        return weights
    matrix = _matrix([place for story in stories for place in story], index)
    sizes = np.array([len(story) for story in stories])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    owner = np.repeat(np.arange(len(sizes)), sizes)
    target = np.zeros(len(matrix), dtype=np.float32)
    target[starts + np.array(gold)] = 1.0
    scale = matrix.std(axis=0) + 1e-3
    matrix /= scale
    speed = np.zeros_like(weights)
    for _ in range(STEPS):
        scores = matrix @ weights
        scores -= np.maximum.reduceat(scores, starts)[owner]
        shares = np.exp(scores)
        shares /= np.add.reduceat(shares, starts)[owner]
        gradient = matrix.T @ (target - shares) / len(sizes) - 1e-3 * weights
        speed = 0.9 * speed + gradient
        weights = weights + 0.3 * speed
    return weights / scale
