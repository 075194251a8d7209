"""What constants earn under both rewards, cell by cell, and how long prompt, parse and reward take.

    python benchmarks/gamesolve_scoring.py [--preset gamesolve] [--split all] [--json]

Constants are answers that depend on the names of the actions alone. For equilibria the best one of
all sets of cells, with and without the uniform mixture, is searched up to 3x3 (``best subset``).
Times are microseconds of CPU a game, for a reply that ends in the form that the prompts ask for
(``parse``) and for the same reply read by the full grammar (``grammar``).
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from harness.types import Move, Outcome, Reply, Sample
from harness_plugins.rewards.gamesolve import judge
from harness_plugins.rewards.gamesolve_legacy import GameSolveLegacyReward
from harness_plugins.tasks.gamesolve import create_task, quick
from harness_plugins.tasks.gamesolve.answers import block, correct, parse
from harness_plugins.tasks.gamesolve.players import CONSTANTS
from harness_plugins.tasks.gamesolve.profiles import Arena, Subset, has_pure, weights
from harness_plugins.tasks.gamesolve.text import messages

Table = dict[str, dict[str, float]]


def mean(values: Sequence[float]) -> float:
    """The mean of at least one number."""
    return sum(values) / len(values)


def earned(samples: Iterable[Sample]) -> Table:
    """Cell (and cell with stratum) -> constant -> mean reward; ``legacy:`` for the study's."""
    legacy = GameSolveLegacyReward()
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for sample in samples:
        cell, stratum = (
            sample.group.rsplit("/", 1) if sample.data["stratum"] else (sample.group, "")
        )
        kind = f"all {sample.data['kind']}"
        for name, constant in CONSTANTS.items():
            value = constant(sample.data)
            if value is None:
                continue
            scores = {name: judge(sample.data, sample.truth, value).value}
            if sample.data["kind"] in ("nash", "best_response"):
                outcome = Outcome((Move(0, Reply(block(sample.data, value))),))
                scores[f"legacy:{name}"] = legacy.score(sample, outcome).value
            for key, score in scores.items():
                for group in {cell, sample.group, kind, f"stratum {stratum}" if stratum else kind}:
                    found[group][key].append(score)
    return {g: {k: mean(v) for k, v in row.items()} for g, row in sorted(found.items())}


def best_subsets(samples: Iterable[Sample]) -> dict[str, float]:
    """The most that any set of cells earns, with or without the uniform mixture, by cell."""
    rows: dict[tuple[str, int], list[tuple[int, int, bool, int]]] = defaultdict(list)
    for sample in samples:
        m, n = len(sample.data["row"]), len(sample.data["row"][0])
        if sample.data["kind"] == "nash" and m * n <= 9:
            rows[sample.group.rsplit("/", 1)[0], m * n].append(_facts(sample, m, n))
    return {
        cell: max(
            mean([_paid(row, cells, mixed) for row in facts])
            for cells in range(1 << size)
            for mixed in (False, True)
        )
        for (cell, size), facts in sorted(rows.items())
    }


def _facts(sample: Sample, m: int, n: int) -> tuple[int, int, bool, int]:
    """(equilibrium cells as bits, required, the uniform profile holds, what it finds)."""
    arena = Arena.of(sample.data)
    subsets = [Subset.of(s) for s in sample.truth["subsets"] if not has_pure(s)]
    x, y = weights([f"1/{m}"] * m, m), weights([f"1/{n}"] * n, n)
    assert x is not None
    assert y is not None
    holds = arena.holds(x, y)
    bits = sum(1 << (i * n + j) for i, j in sample.truth["pure"])
    found = sum(arena.within(x, y, s) for s in subsets) if holds else 0
    return bits, len(sample.truth["pure"]) + len(subsets), holds, found


def _paid(facts: tuple[int, int, bool, int], cells: int, mixed: bool) -> float:
    bits, required, holds, uniform = facts
    found = (bits & cells).bit_count()
    false = cells.bit_count() - found + (mixed and not holds)
    found += uniform if mixed else 0
    return found / (found + false) * found / required if found else 0.0


def times(samples: Sequence[Sample]) -> dict[str, float]:
    """Microseconds of CPU a sample for each step, the best of five rounds."""
    replies = ["Steps.\n\n" + block(s.data, correct(s.data, s.truth)) for s in samples]
    values = [parse(s.data, reply).value for s, reply in zip(samples, replies, strict=True)]
    data, truths = [s.data for s in samples], [s.truth for s in samples]
    row = {
        "prompt": _clock(messages, data),
        "parse": _clock(parse, data, replies),
        "reward": _clock(judge, data, truths, values),
    }
    short = quick.read
    quick.read = lambda data, text: None
    row["grammar"] = _clock(parse, data, replies)
    quick.read = short
    return row


def _clock(function: Callable[..., object], *columns: Sequence[Any]) -> float:
    best = float("inf")
    for _ in range(5):
        started = time.process_time()
        for row in zip(*columns, strict=True):
            function(*row)
        best = min(best, time.process_time() - started)
    return 1e6 * best / len(columns[0])


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="gamesolve")
    parser.add_argument("--split", default="all")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    task = create_task("gamesolve", {"preset": options.preset})
    samples = list(task.samples(options.split))
    sizes: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        shape = f"{len(sample.data['row'])}x{len(sample.data['row'][0])}"
        sizes[f"{sample.data['kind']} {shape}"].append(sample)
    tables: dict[str, Table] = {
        "constants": earned(samples),
        "best subset": {cell: {"": value} for cell, value in best_subsets(samples).items()},
        "microseconds": {key: times(rows) for key, rows in sorted(sizes.items())},
    }
    if options.json:
        print(json.dumps(tables, indent=2))
        return
    for title, table in tables.items():
        print(f"\n{title}")
        for key, row in table.items():
            figures = "  ".join(f"{k} {v:.3f}" if v < 1 else f"{k} {v:.0f}" for k, v in row.items())
            print(f"  {key:36s} {figures}")


if __name__ == "__main__":
    main()
