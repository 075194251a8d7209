"""Geometry of what probes read: how many components it takes, and how directions lie to each other.

`pca_curve` fits probes on the first principal components of the train rows alone; `cosines`
compares the directions of concepts in one block of states.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch

from .nested import Plan, Settings
from .solver import Problem, Scaler

COMPONENTS: Final = (1, 2, 5, 10, 20, 50, 100)

Array = Any  # of NumPy


def pca_curve(
    features: Array, problem: Problem, plan: Plan, settings: Settings, strength: float
) -> list[tuple[int, Array]]:
    """Predicted classes, (seeds, items), by probes on the first k principal components, for the
    k of `COMPONENTS` that there are and at last for all.

    Scaling and components come from the train and validation rows of each fold; its test rows are
    projected.

    :param features: (items, width).
    """
    counts: list[int] = []
    found: list[Array] = []
    for part in plan.parts():
        seen = np.sort(np.concatenate([part.train, part.validation]))
        tensor = torch.as_tensor(features, dtype=torch.float32, device=settings.device)[None]
        scaled = Scaler.of(tensor[:, torch.as_tensor(seen)], settings.noise)(tensor)
        _, _, axes = torch.linalg.svd(scaled[0, torch.as_tensor(seen)], full_matrices=False)
        rank = len(axes)
        if not counts:
            least = min(rank, features.shape[1])
            counts = [*(k for k in COMPONENTS if k < least), least]
            found = [np.zeros(plan.folds.shape, np.int64) for _ in counts]
        for place, count in enumerate(counts):
            parts = scaled @ axes[: min(count, rank)].mT
            solved = settings.solver(parts, [problem], seen, part.test, [strength])
            found[place][part.seed, part.test] = solved.predictions[0][0, 0].numpy()
    return list(zip(counts, found, strict=True))


def class_weights(
    features: Array, problems: Sequence[Problem], settings: Settings, strengths: Sequence[float]
) -> list[Array]:
    """Each problem's weights (width, classes), fitted on all items that have a label, in units of
    the scaled features, at its own strength."""
    everything = np.arange(len(features))
    return [
        settings.fit(
            features[None], [problem], everything, everything[:1], [strength], weights=True
        )
        .weights[0][0, 0]
        .numpy()
        for problem, strength in zip(problems, strengths, strict=True)
    ]


def cosines(weights: Sequence[Array]) -> tuple[Array, Array]:
    """How near the directions of concepts lie, (concepts, concepts), and what random ones give.

    A concept of K classes spans up to K - 1 directions, the differences of its classes' weights
    (their mean says nothing: softmax does not see it). Two spans are compared by the root mean
    square of the cosines of their principal angles (Bjoerck and Golub, 1973): for two classes each
    this is the absolute cosine. Random spans of dimensions j <= k in a space of ``width`` give
    sqrt(k / width).
    """
    bases = [_basis(w.astype(float)) for w in weights]
    found, chance = np.eye(len(bases)), np.eye(len(bases))
    for i, first in enumerate(bases):
        for j, second in enumerate(bases):
            if i != j:
                less, more = sorted((first.shape[1], second.shape[1]))
                found[i, j] = np.linalg.norm(first.T @ second) / np.sqrt(max(1, less))
                chance[i, j] = np.sqrt(more / len(first))
    return found, chance


def _basis(weights: Array) -> Array:
    """An orthonormal basis of the differences of the columns."""
    left, values, _ = np.linalg.svd(weights - weights.mean(1, keepdims=True), full_matrices=False)
    kept: Array = left[:, values > 1e-4 * max(values[0], 1e-30)]
    return kept


def class_direction(features: Array, problem: Problem, kind: int) -> Array:
    """Mean state of the items of a class minus that of the other labelled items, (width,).

    Raises ValueError for a class without items.
    """
    inside = problem.labels == kind
    outside = (problem.labels >= 0) & ~inside
    if not inside.any() or not outside.any():
        raise ValueError(f"{problem.name} has no class {kind} among the items")
    direction: Array = features[inside].mean(0) - features[outside].mean(0)
    return direction
