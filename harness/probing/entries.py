"""What probes.json says of one concept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import concepts
from .nested import Choice, choose, predictions

if TYPE_CHECKING:
    from .probe import Probe, Swept

Array = Any  # of NumPy


def entry(
    probe: Probe,
    mine: Swept,
    problem: Any,
    place: int,
    choices: Sequence[Choice],
    guess: Array,
    others: dict[str, list[Array]],
) -> dict[str, Any]:
    """The concept's accuracy, controls, gain, selection, critical layers and curves.

    :param place: of the concept in the sweep.
    :param guess: predicted classes of the chosen probes, (seeds, items).
    """
    hit = concepts.right(guess, problem)
    found: dict[str, Any] = {
        "classes": problem.classes,
        **concepts.counts_of(problem),
        "accuracy": concepts.interval(hit, problem, probe.groups),
        "macro_f1": concepts.macro_f1(guess, problem),
        "controls": {
            name: concepts.interval(hits[place], problem, probe.groups)
            for name, hits in others.items()
        },
    }
    if others:
        mine_of = {name: hits[place] for name, hits in others.items()}
        best = concepts.best_control(mine_of, problem)
        gain = concepts.gain(hit, mine_of[best], problem, probe.groups)
        found |= {"best_control": best, "gain": gain}
        found["decodable"] = bool(gain["low"] is not None and gain["low"] > 0)
    else:
        found |= {"best_control": None, "gain": None, "decodable": False}
    found["selected"] = [
        {
            "pooling": mine.keys[c.block][0],
            "layer": mine.keys[c.block][1],
            "strength": mine.settings.strengths[c.strength],
        }
        for c in choices
        if c.problem == place
    ]
    found["poolings"] = {
        pooling: _pooling(probe, mine, problem, place, number)
        for number, pooling in enumerate(mine.states.poolings)
    }
    best_pooling = max(
        found["poolings"], key=lambda name: float(found["poolings"][name]["peak"]["validation"])
    )
    found["peak"] = {"pooling": best_pooling, **found["poolings"][best_pooling]["peak"]}
    found["critical_layers"] = found["poolings"][best_pooling]["critical_layers"]
    return found


def _pooling(probe: Probe, mine: Swept, problem: Any, place: int, number: int) -> dict[str, Any]:
    """One pooling alone: the accuracy of what validation chose, critical layers, curve."""
    layers = mine.states.layers
    blocks = slice(number * len(layers), (number + 1) * len(layers))
    validation = mine.hits[place, 0][:, blocks]
    within, best, accuracy = concepts.critical_layers(validation, problem, probe.groups, layers)
    rows = np.flatnonzero(problem.labels >= 0)
    means = validation[:, layers.index(best)][..., rows].mean((0, 2))
    found: dict[str, Any] = {
        "peak": {
            "layer": best,
            "strength": mine.settings.strengths[int(means.argmax())],
            "validation": float(means.max()),
        },
        "critical_layers": within,
    }
    curve = []
    for layer in range(len(layers)):
        block = mine.hits[place : place + 1][:, :, :, blocks][:, :, :, layer : layer + 1]
        tested = np.zeros(probe.plan.folds.shape)
        parts = list(probe.plan.parts())
        for choice in choose(block, [problem], probe.plan):
            part = parts[choice.part]
            tested[part.seed, part.test] = block[0, 1, part.seed, 0, choice.strength, part.test]
        curve.append(
            {
                "layer": layers[layer],
                "validation": accuracy[layer],
                **concepts.interval(tested, problem, probe.groups),
            }
        )
    found["curve"] = curve
    return found


def pooling_comparison(
    probe: Probe, mine: Swept, found: dict[Choice, Array]
) -> dict[str, dict[str, Any]]:
    """For each concept and pooling, the accuracy of what validation chose within the pooling,
    fitted again and tested once, and the layers it chose."""
    problems, _ = probe.problems
    result: dict[str, dict[str, Any]] = {problem.name: {} for problem in problems}
    for number, pooling in enumerate(mine.states.poolings):
        choices = probe.within(mine, number)
        for place, problem in enumerate(problems):
            guess = predictions(choices, found, place, probe.plan)
            picked = Counter(mine.keys[c.block][1] for c in choices if c.problem == place)
            result[problem.name][pooling] = {
                **concepts.interval(concepts.right(guess, problem), problem, probe.groups),
                "layers": {str(layer): count for layer, count in sorted(picked.items())},
            }
    return result
