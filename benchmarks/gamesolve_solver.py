"""Time of one exact and complete solution, beside nashpy's two enumerations, on one core.

    python benchmarks/gamesolve_solver.py [--games 60] [--sizes 2x2,3x3] [--json]

For each size: the median milliseconds a game, over general games with payoffs -5..5 (many of them
degenerate) and over games with two decimals (hardly any); and in how many of the games nashpy lists
every extreme equilibrium. nashpy's support enumeration is what the reference study labelled with;
above 5x5 it is asked for few games. CPU time is measured: other work on the machine counts little.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import nashpy
import numpy as np

from harness_plugins.tasks.gamesolve.draws import Draws
from harness_plugins.tasks.gamesolve.games import Game
from harness_plugins.tasks.gamesolve.samplers import Payoffs, draw_game
from harness_plugins.tasks.gamesolve.solver import solve

PAYOFFS = {"integers": Payoffs(-5, 5), "decimals": Payoffs(-5, 5, 2)}
SIZES = "2x2,3x3,4x4,5x5,6x6"
FEW = 8
"""Games of 6x6 and larger for nashpy's support enumeration, which takes a second for each."""


def timed(function: Callable[[Any], Any], argument: object) -> tuple[float, Any]:
    """Milliseconds of CPU time of a call, and what it returned."""
    started = time.process_time()
    result = function(argument)
    return 1e3 * (time.process_time() - started), result


def complete(game: Game, found: Iterable[tuple[np.ndarray, np.ndarray]]) -> bool:
    """Whether a list of profiles holds every extreme equilibrium, to six digits."""
    listed = [np.concatenate(pair) for pair in found]
    exact = (np.array([float(p) for p in (*e.row, *e.col)]) for e in solve(game).equilibria)
    return all(any(np.abs(e - one).max() < 1e-6 for one in listed) for e in exact)


def peers(game: Game) -> nashpy.Game:
    """The game as nashpy takes it."""
    return nashpy.Game(*(np.array(m, dtype=float) for m in (game.row, game.col)))


def measure(m: int, n: int, payoffs: Payoffs, count: int) -> dict[str, float]:
    """The figures of one size and kind of payoffs."""
    games = [draw_game(Draws(seed), "general", m, n, payoffs) for seed in range(count)]
    row = {"ours": statistics.median(timed(solve, game)[0] for game in games)}
    for name, method in (("support", "support_enumeration"), ("vertex", "vertex_enumeration")):
        few = games[:FEW] if name == "support" and max(m, n) > 5 else games
        runs = [timed(list, getattr(peers(game), method)()) for game in few]
        row[name] = statistics.median(ms for ms, _ in runs)
        hits = [complete(game, found) for game, (_, found) in zip(few, runs, strict=True)]
        row[f"{name}_complete"] = sum(hits) / len(hits)
    return row


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="GameSolve's solver beside nashpy's")
    parser.add_argument("--games", type=int, default=60, help="games for each size")
    parser.add_argument("--sizes", default=SIZES, help="sizes, separated by commas")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for size in given.sizes.split(","):
        m, n = map(int, size.split("x"))
        for kind, payoffs in PAYOFFS.items():
            rows.append({"size": size, "payoffs": kind, **measure(m, n, payoffs, given.games)})
    if given.json:
        print(json.dumps(rows, indent=2))
        return
    print("                 median ms a game           games listed completely")
    print("size  payoffs       ours  support   vertex  support  vertex")
    for row in rows:
        print(
            f"{row['size']:<6}{row['payoffs']:<9}{row['ours']:>9.3f}{row['support']:>9.2f}"
            f"{row['vertex']:>9.2f}{row['support_complete']:>9.0%}{row['vertex_complete']:>8.0%}"
        )


if __name__ == "__main__":
    main()
