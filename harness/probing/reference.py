"""The reference solver: scikit-learn's multinomial logistic regression, one problem at a time."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..types import HarnessError
from .solver import STRENGTHS, Problem, Solved


def solve(
    features: torch.Tensor,
    problems: Sequence[Problem],
    train: Any,
    rows: Any,
    strengths: Sequence[float] = STRENGTHS,
    weights: bool = False,
) -> Solved:
    """As `solver.solve`, by scikit-learn (L-BFGS, at most 1,000 iterations).

    Raises HarnessError where scikit-learn is not installed.
    """
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        raise HarnessError("--solver sklearn: pip install 'strategic-harness[probe]'") from None
    train, rows = np.asarray(train), np.asarray(rows)
    result = Solved([], [], [])
    blocks = features.cpu().numpy()
    for problem in problems:
        valid = train[problem.labels[train] >= 0]
        guesses, slopes, offsets = [], [], []
        for block in blocks:
            for strength in strengths:
                # For two classes it penalises the difference w of the two weight vectors, |w|^2,
                # which in terms of softmax's two vectors +-w/2 is twice their |W|^2.
                double = 2 if len(np.unique(problem.labels[valid])) == 2 else 1
                model = LogisticRegression(C=double / (strength * len(valid)), max_iter=1000)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    model.fit(block[valid], problem.labels[valid])
                guesses.append(model.predict(block[rows]))
                if weights:
                    slope, offset = _all_classes(model, problem.classes)
                    slopes.append(slope)
                    offsets.append(offset)
        shape = (len(blocks), len(strengths))
        result.predictions.append(
            torch.as_tensor(np.stack(guesses).reshape(*shape, len(rows))).to(torch.uint8)
        )
        if weights:
            stacked = torch.as_tensor(np.stack(slopes)).reshape(*shape, -1, problem.classes)
            result.weights.append(stacked)
            result.biases.append(torch.as_tensor(np.stack(offsets)).reshape(*shape, -1))
    return result


def _all_classes(model: Any, classes: int) -> tuple[Any, Any]:
    """Weights (width, classes) and offsets as softmax has them; two classes come as one."""
    slope, offset = model.coef_, model.intercept_
    if len(slope) == 1:
        slope, offset = np.concatenate([-slope, slope]) / 2, np.concatenate([-offset, offset]) / 2
    full, ends = np.zeros((slope.shape[1], classes)), np.full(classes, -np.inf)
    full[:, model.classes_], ends[model.classes_] = slope.T, offset
    return full, ends
