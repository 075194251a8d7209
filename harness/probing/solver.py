"""The batched solver: multinomial logistic regression for many problems at once, in torch.

    found = solve(features, problems, train, rows, strengths)

Minimises for each block of features (a layer and pooling), problem and strength s

    mean over the train rows of  -log softmax(W'x + b)[label]  +  s/2 |W|^2

which is scikit-learn's LogisticRegression with C = 1 / (s x train rows), or twice that for two
classes (it penalises the difference of their weights alone); b is not penalised.

All problems that are labelled on the same rows share one eigendecomposition of their Gram matrix.
In its basis the curvature is bounded by a diagonal, lambda / (2 n) + s (Boehning, Annals of the
Institute of Statistical Mathematics 44, 1992), so that accelerated gradient steps (Nesterov, with
the restarts of O'Donoghue and Candes, 2015) need no line search and share two matrix products.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import torch

STRENGTHS: Final = (100.0, 10.0, 1.0, 0.1, 0.01)
"""Strengths of the penalty that validation chooses from, the strongest first; that one leaves
little but the majority, which is what a probe should say where there is nothing to read."""

TOLERANCE: Final = 1e-5
"""A problem is solved when its squared gradient, in the metric of the bound, is below this: its
mean loss is then within 5e-4 of the least in all that was tried."""

MOST_STEPS: Final = 1000
CHECK_EVERY: Final = 8
NEGLIGIBLE: Final = 1e-6
"""Eigenvalues below this share of the largest are left out (float32 holds no more)."""


class Problem(NamedTuple):
    """A concept's labels for all items, (items,) whole numbers from 0, -1 where there is none."""

    name: str
    labels: Any
    classes: int


class Scaler(NamedTuple):
    """Mean and standard deviation of each feature on the train rows, (blocks, 1, width) each."""

    mean: torch.Tensor
    deviation: torch.Tensor

    @classmethod
    def of(cls, train: torch.Tensor, noise: float) -> Scaler:
        """From the train rows, (blocks, rows, width).

        A feature that varies by less than ``noise`` x its size (its root mean square, or the
        median feature's where that is greater) is left out, by an infinite deviation: what is
        constant but for rounding, such as the state of a first token that all prompts share, would
        otherwise be blown up to a signal about the batch it was computed in.
        """
        mean = train.mean(1, keepdim=True)
        deviation = (train - mean).square().mean(1, keepdim=True).sqrt()
        size = train.square().mean(1, keepdim=True).sqrt()
        level = torch.maximum(size, size.median(2, keepdim=True).values)
        constant = deviation <= noise * level + 1e-30
        return cls(mean, torch.where(constant, torch.inf, deviation))

    def __call__(self, features: torch.Tensor) -> torch.Tensor:
        """The features at mean 0 and deviation 1 (0 where left out)."""
        return (features - self.mean) / self.deviation


class Solved(NamedTuple):
    """For each problem: predicted classes of the rows, (blocks, strengths, rows), and the weights
    in units of the given features, (blocks, strengths, width, classes), where asked for."""

    predictions: list[torch.Tensor]
    weights: list[torch.Tensor]
    biases: list[torch.Tensor]


def solve(
    features: torch.Tensor,
    problems: Sequence[Problem],
    train: Any,
    rows: Any,
    strengths: Sequence[float] = STRENGTHS,
    weights: bool = False,
) -> Solved:
    """Fit every problem at every strength on every block, and predict.

    :param features: (blocks, items, width), scaled.
    :param train: the items to fit on; a problem uses those that have a label.
    :param rows: the items to predict.
    :param weights: whether to keep the weights.
    """
    train, rows = np.asarray(train), np.asarray(rows)
    result = Solved(*([None] * len(problems) for _ in range(3)))
    for members in _alike(problems, train):
        valid = train[problems[members[0]].labels[train] >= 0]
        shared = _Shared(features, valid)
        chosen = [problems[member] for member in members]
        solution, bias = _descend(shared, chosen, valid, strengths)
        ahead = shared.project(features[:, torch.as_tensor(rows)])
        blocks, rank, pairs, classes = solution.shape
        logits = (ahead @ solution.reshape(blocks, rank, -1)).reshape(blocks, -1, pairs, classes)
        logits = logits + bias[:, None]
        for place, member in enumerate(members):
            part = slice(place * len(strengths), (place + 1) * len(strengths))
            size = problems[member].classes
            guess = logits[:, :, part, :size].argmax(-1).transpose(1, 2)
            result.predictions[member] = guess.to(torch.uint8).cpu()
            if weights:
                found = shared.back(solution[:, :, part, :size])
                result.weights[member] = found.transpose(1, 2).cpu()
                moved = torch.einsum("bd,bdpc->bpc", shared.mean[:, 0], found)
                result.biases[member] = (bias[:, part, :size] - moved).cpu()
    return result


def _alike(problems: Sequence[Problem], train: Any) -> Iterator[list[int]]:
    """The problems in groups that are labelled on the same train rows."""
    groups: dict[bytes, list[int]] = {}
    for place, problem in enumerate(problems):
        groups.setdefault((problem.labels[train] >= 0).tobytes(), []).append(place)
    yield from groups.values()


class _Shared:
    """The centred train rows in the eigenbasis of their Gram matrix."""

    def __init__(self, features: torch.Tensor, valid: Any) -> None:
        kept = features[:, torch.as_tensor(valid)]
        self.mean = kept.mean(1, keepdim=True)
        kept = kept - self.mean
        rows, width = kept.shape[1:]
        if rows <= width:
            values, vectors = _eigh(kept @ kept.mT)
            root = self._root(values)
            self.coordinates = vectors * root[:, None]
            self.basis = kept.mT @ (vectors * _inverse(root)[:, None])
        else:
            values, self.basis = _eigh(kept.mT @ kept)
            root = self._root(values)
            self.basis = self.basis * (root > 0)[:, None]
            self.coordinates = kept @ self.basis
        self.curvature = root.square() / rows

    @staticmethod
    def _root(values: torch.Tensor) -> torch.Tensor:
        small = values < NEGLIGIBLE * values.amax(-1, keepdim=True).clamp(min=1e-30)
        return torch.where(small, 0.0, values.clamp(min=0.0).sqrt())

    def project(self, features: torch.Tensor) -> torch.Tensor:
        """Other rows in the basis, (blocks, rows, rank)."""
        return (features - self.mean) @ self.basis

    def back(self, solution: torch.Tensor) -> torch.Tensor:
        """Weights in the basis as weights of the features, (blocks, width, ...)."""
        return torch.einsum("bdr,brpc->bdpc", self.basis, solution)


def _eigh(gram: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Eigenvalues and eigenvectors. In float32, LAPACK gives up on some matrices whose eigenvalues
    repeat (sparse counts of words); in float64, with the ties broken, it does not."""
    try:
        values, vectors = torch.linalg.eigh(gram)
    except torch.linalg.LinAlgError:
        size = gram.shape[-1]
        level = gram.diagonal(dim1=-2, dim2=-1).double().mean(-1)[..., None] + 1e-30
        ties = level * 1e-9 * torch.arange(size, device=gram.device) / size
        values, vectors = torch.linalg.eigh(gram.double() + torch.diag_embed(ties))
    return values.to(gram.dtype), vectors.to(gram.dtype)


def _inverse(root: torch.Tensor) -> torch.Tensor:
    return torch.where(root > 0, 1 / root.clamp(min=1e-30), 0.0)


def _descend(
    shared: _Shared,
    problems: Sequence[Problem],
    valid: Any,
    strengths: Sequence[float],
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights (blocks, rank, pairs, classes) and biases (blocks, pairs, classes; -infinity for a
    class that no train row has); the pairs are problem by problem, each with all strengths."""
    data = shared.coordinates
    blocks, rows, rank = data.shape
    device, most = data.device, max(p.classes for p in problems)
    pairs = len(problems) * len(strengths)
    truth = torch.zeros(rows, pairs, most, device=device)
    closed = torch.zeros(pairs, most, device=device)
    start = torch.zeros(pairs, most, device=device)
    for place, problem in enumerate(problems):
        part = slice(place * len(strengths), (place + 1) * len(strengths))
        labels = torch.as_tensor(problem.labels[valid], device=device)
        truth[:, part] = torch.nn.functional.one_hot(labels, most).float()[:, None]
        counts = torch.bincount(labels, minlength=most)
        closed[part, counts == 0] = -torch.inf  # such a class would take its bias to -infinity
        start[part] = torch.where(counts > 0, counts.clamp(min=1).log(), 0.0)
    penalty = torch.tensor(list(strengths) * len(problems), device=device)
    state = _State(data, truth, closed, penalty, shared.curvature, start)
    solution = torch.zeros(blocks, rank, pairs, most, device=device)
    bias = torch.zeros(blocks, pairs, most, device=device)
    alive = torch.arange(pairs, device=device)
    for step in range(1, MOST_STEPS + 1):
        gap = state.step(check := step % CHECK_EVERY == 0 or step == MOST_STEPS)
        if not check:
            continue
        finished = (gap < TOLERANCE).all(0) | (step == MOST_STEPS)
        if finished.any():
            solution[:, :, alive[finished]] = state.weights[:, :, finished]
            bias[:, alive[finished]] = state.bias[:, finished]
            alive = alive[~finished]
            if not len(alive):
                break
            state.keep(~finished)
    return solution, bias + closed


class _State:
    """Accelerated descent on the pairs that are not solved yet."""

    def __init__(
        self,
        data: torch.Tensor,
        truth: torch.Tensor,
        closed: torch.Tensor,
        penalty: torch.Tensor,
        curvature: torch.Tensor,
        start: torch.Tensor,
    ) -> None:
        self.data, self.truth, self.closed, self.penalty = data, truth, closed, penalty
        self.scale = 1 / (curvature[:, :, None] / 2 + penalty)
        shape = (data.shape[0], data.shape[2], *closed.shape)
        self.weights = torch.zeros(shape, device=data.device)
        self.bias = start.expand(data.shape[0], -1, -1)
        self.ahead, self.bias_ahead = self.weights, self.bias
        self.pace = torch.ones(data.shape[0], len(penalty), device=data.device)

    def step(self, check: bool) -> torch.Tensor:
        """One step. Where ``check``, returns the squared gradient of each pair in the metric of
        the bound."""
        blocks, rows, rank = self.data.shape
        shape = (blocks, rows, *self.closed.shape)
        logits = self.data @ self.ahead.reshape(blocks, rank, -1)
        logits = logits.reshape(shape) + (self.bias_ahead[:, None] + self.closed)
        error = (logits.softmax(-1) - self.truth) / rows
        slope = self.data.mT @ error.reshape(blocks, rows, -1)
        slope = slope.reshape(self.weights.shape) + self.penalty[:, None] * self.ahead
        bias_slope = error.sum(1)
        move, bias_move = self.scale[..., None] * slope, 2 * bias_slope
        gap = slope.new_zeros(0)
        if check:
            gap = (slope * move).sum((1, 3)) + (bias_slope * bias_move).sum(2)
        weights, bias = self.ahead - move, self.bias_ahead - bias_move
        change, bias_change = weights - self.weights, bias - self.bias
        uphill = (slope * change).sum((1, 3)) + (bias_slope * bias_change).sum(2) > 0
        pace = torch.where(uphill, 1.0, self.pace)
        following = (1 + (1 + 4 * pace.square()).sqrt()) / 2
        momentum = torch.where(uphill, 0.0, (pace - 1) / following)
        self.ahead = weights + momentum[:, None, :, None] * change
        self.bias_ahead = bias + momentum[:, :, None] * bias_change
        self.weights, self.bias, self.pace = weights, bias, following
        return gap

    def keep(self, pairs: torch.Tensor) -> None:
        """Go on with these pairs only."""
        self.truth, self.closed = self.truth[:, pairs], self.closed[pairs]
        self.penalty, self.scale = self.penalty[pairs], self.scale[:, :, pairs]
        self.weights, self.ahead = self.weights[:, :, pairs], self.ahead[:, :, pairs]
        self.bias, self.bias_ahead = self.bias[:, pairs], self.bias_ahead[:, pairs]
        self.pace = self.pace[:, pairs]
