"""Equilibrium play of Kuhn poker and liar's dice, by counterfactual regret minimisation (CFR+).

    policy("kuhn_poker").probabilities("0b")     # with the lowest card, facing a bet

The policy is computed once (Kuhn: 50 ms; liar's dice: some 6 s) and kept in the cache folder; it
looks up what OpenSpiel says the seat knows, so it cannot use more than that.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from random import Random
from typing import Any, NamedTuple

from harness.paths import cache_dir
from harness.progress import track

from ..games import game
from ..position import load
from ..view import View

ITERATIONS: Mapping[str, int] = {"kuhn_poker": 1000, "liars_dice": 50}
"""Kuhn: NashConv below 0.002. Liar's dice: 0.034, where winning counts 1 and losing -1."""
PLAYS = frozenset(ITERATIONS)


class Policy(NamedTuple):
    """Probabilities of actions by information state."""

    table: Mapping[str, Mapping[int, float]]

    def probabilities(self, information: str) -> Mapping[int, float]:
        """Action -> probability."""
        return self.table[information]


def choose(view: View, rng: Random) -> int:
    """An action drawn from the policy."""
    chances = policy(view.game.key).probabilities(view.information())
    return rng.choices(list(chances), list(chances.values()))[0]


@cache
def policy(key: str) -> Policy:
    """The policy of a game, from the cache or computed."""
    path = cache_dir("gtbench") / f"cfr-{key}-{ITERATIONS[key]}.json"
    if path.exists():
        stored = json.loads(path.read_text())
        return Policy({k: {int(a): p for a, p in row.items()} for k, row in stored.items()})
    found = solve(key, ITERATIONS[key])
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    draft.write_text(json.dumps(found.table))
    draft.replace(path)
    return found


def solve(key: str, iterations: int) -> Policy:
    """Run CFR+ (Tammelin, 2014) and take the average policy."""
    import pyspiel

    spiel = load(game(key).spiel)
    solver = pyspiel.CFRPlusSolver(spiel)
    for _ in track(range(iterations), f"equilibrium of {key}", iterations):
        solver.evaluate_and_update_policy()
    average = solver.average_policy()
    table: dict[str, dict[int, float]] = {}
    _collect(spiel.new_initial_state(), average, table)
    return Policy(table)


def _collect(state: Any, average: Any, table: dict[str, dict[int, float]]) -> None:
    if state.is_terminal():
        return
    if not state.is_chance_node():
        name = state.information_state_string(state.current_player())
        if name not in table:
            table[name] = {int(a): float(p) for a, p in average.get_state_policy(name)}
    for action in state.legal_actions():
        _collect(state.child(action), average, table)
