"""What a data set holds: the counts that ``stats.json`` shows, and the cells that stay empty.

>>> overview([], "gamesolve")["empty_strata"]["nash/2x2/symmetric"]
{'mixed': 'a symmetric 2x2 game has a pure equilibrium'}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from harness.types import Json, Sample

from .presets import get_preset

FACTORS = (
    "kind",
    "game_type",
    "stratum",
    "format",
    "context",
    "responder",
    "category",
    "difficulty",
)


def overview(samples: Iterable[Sample], preset: str) -> dict[str, Json]:
    """Counts by split and by every factor, the games that occur, and the empty strata.

    :param preset: the design the samples follow, or "" for samples from a file.
    """
    cells: dict[str, dict[str, Counter[str]]] = {}
    factors: dict[str, Counter[str]] = {name: Counter() for name in FACTORS}
    best: dict[str, Counter[int]] = {}
    games: dict[str, set[str]] = {}
    counts: Counter[str] = Counter()
    for sample in samples:
        data = sample.data
        cell = cells.setdefault(data["design"], {})
        cell.setdefault(data["stratum"] or "all", Counter())[sample.split] += 1
        for name, counter in factors.items():
            if data.get(name):
                counter[data[name]] += 1
        if "best" in sample.truth:
            best.setdefault(data["design"], Counter()).update(sample.truth["best"])
        games.setdefault(sample.canonical, set()).add(sample.split)
        counts[sample.split] += 1
    return {
        "splits": dict(counts),
        "cells": {name: {s: dict(c) for s, c in strata.items()} for name, strata in cells.items()},
        "factors": {name: dict(sorted(c.items())) for name, c in factors.items() if c},
        "best_actions": {
            name: {str(i): c[i] for i in sorted(c)} for name, c in sorted(best.items())
        },
        "canonical": {
            "games": len(games),
            "in_several_splits": sum(len(splits) > 1 for splits in games.values()),
        },
        "empty_strata": _empty(preset),
    }


def _empty(preset: str) -> dict[str, dict[str, str]]:
    """The strata that a design asks for and that hold no game, with the reason."""
    cells = get_preset(preset).cells if preset else ()
    return {cell.name: cell.empty() for cell in cells if cell.empty()}
