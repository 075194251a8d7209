"""Labels of a list of items as problems, and what is reported of each concept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from ..stats import TOO_FEW, cluster_t, mean_metric
from ..types import HarnessError, Json
from .extract import Item
from .solver import Problem

FEWEST_ITEMS: Final = 40
FEWEST_OF_CLASS: Final = 5

Array = Any  # of NumPy


def problems_of(items: Sequence[Item]) -> tuple[list[Problem], dict[str, Json]]:
    """A problem for each concept that can be probed, and the others with the reason.

    Classes with fewer than `FEWEST_OF_CLASS` items are left out of a concept; a concept needs two
    classes and `FEWEST_ITEMS` items. Raises HarnessError where none is left.
    """
    names = list(dict.fromkeys(name for item in items for name in item.labels))
    problems, skipped = [], dict[str, Json]()
    for name in names:
        labels = np.array([item.labels.get(name, -1) for item in items], np.int64)
        classes = int(labels.max()) + 1
        counts = np.bincount(labels[labels >= 0], minlength=max(1, classes))
        labels[np.isin(labels, np.flatnonzero(counts < FEWEST_OF_CLASS))] = -1
        left, kinds = int((labels >= 0).sum()), int((counts >= FEWEST_OF_CLASS).sum())
        if kinds < 2 or left < FEWEST_ITEMS:
            skipped[name] = f"{left} items in {kinds} classes of at least {FEWEST_OF_CLASS}"
        else:
            problems.append(Problem(name, labels, classes))
    if not problems:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in skipped.items())
        raise HarnessError(f"no concept can be probed with {len(items)} items ({reasons})")
    return problems, skipped


def interval(values: Array, problem: Problem, groups: Sequence[str]) -> dict[str, Json]:
    """Mean of one figure an item over those with a label, with its 95 % interval over groups.

    :param values: (seeds, items), in [0, 1]; the seeds are averaged first: they share the items.
    """
    rows = np.flatnonzero(problem.labels >= 0).tolist()
    means = values[:, rows].mean(0)
    metric = mean_metric("", means.tolist(), [groups[row] for row in rows])
    return {
        "value": metric.value,
        "low": metric.low,
        "high": metric.high,
        "n": metric.n,
        "clusters": metric.clusters,
    }


def gain(hits: Array, others: Array, problem: Problem, groups: Sequence[str]) -> dict[str, Json]:
    """Mean difference of two probes on the same items, with its 95 % t interval over groups.

    :param hits: whether the one was right, (seeds, items); ``others`` the same of the other.
    """
    rows = np.flatnonzero(problem.labels >= 0).tolist()
    means = (hits - others)[:, rows].mean(0)
    names = [groups[row] for row in rows]
    count = len(set(names))
    low, high = (None, None) if count < TOO_FEW else cluster_t(means.tolist(), names)
    value = float(means.mean())
    return {"value": value, "low": low, "high": high, "n": len(rows), "clusters": count}


def right(predicted: Array, problem: Problem) -> Array:
    """1 where the predicted class is the label, (seeds, items)."""
    found: Array = (predicted == problem.labels).astype(float)
    return found


def macro_f1(predicted: Array, problem: Problem) -> float:
    """Mean over the classes that occur of 2 TP / (2 TP + FP + FN), averaged over the seeds."""
    rows = problem.labels >= 0
    truth, scores = problem.labels[rows], []
    for guess in predicted[:, rows]:
        for kind in np.unique(truth):
            true = int(((guess == kind) & (truth == kind)).sum())
            wrong = int(((guess == kind) != (truth == kind)).sum())
            scores.append(2 * true / (2 * true + wrong))
    return float(np.mean(scores))


def counts_of(problem: Problem) -> dict[str, Json]:
    """How many items have which class, and the share of the most frequent one."""
    labels = problem.labels[problem.labels >= 0]
    counts = np.bincount(labels, minlength=problem.classes)
    share = float(counts.max() / len(labels))
    return {"n": len(labels), "counts": counts.tolist(), "majority": share}


def standard_error(values: Array, groups: Sequence[str]) -> float:
    """Standard error of a mean over groups: ratio estimator (Cochran, 1977, section 9A)."""
    names, place = np.unique(np.asarray(groups), return_inverse=True)
    sums = np.bincount(place, weights=values - values.mean(), minlength=len(names))
    count = len(names)
    spread = float((sums**2).sum()) * count / max(1, count - 1)
    return float(np.sqrt(spread) / len(values))


def critical_layers(
    validation: Array, problem: Problem, groups: Sequence[str], layers: Sequence[int]
) -> tuple[list[int], int, list[float]]:
    """The layers whose validation accuracy lies within one standard error of the best layer's
    (the rule of Breiman et al., Classification and Regression Trees, 1984, section 3.4.3).

    :param validation: (seeds, layers, strengths, items), hits on the validation folds; a layer
        stands with its best strength over all folds.
    :returns: those layers, the best one (the earliest of equal ones), the accuracy of each.
    """
    rows = np.flatnonzero(problem.labels >= 0).tolist()
    means = validation[..., rows].astype(float).mean(0)
    accuracy = means.mean(-1).max(-1)
    best = int(accuracy.argmax())
    values = means[best, int(means[best].mean(-1).argmax())]
    error = standard_error(values, [groups[row] for row in rows])
    within = [layers[i] for i in np.flatnonzero(accuracy >= accuracy[best] - error).tolist()]
    return within, layers[best], accuracy.tolist()


def best_control(controls: Mapping[str, Array], problem: Problem) -> str:
    """The control with the highest accuracy on the tested items themselves: the choice that
    favours the controls, so that a gain over it is not the luck of a choice."""
    rows = problem.labels >= 0
    return max(controls, key=lambda name: float(controls[name][:, rows].mean()))
