"""Equilibria and exploitability of the small games, by OpenSpiel.

    table = equilibrium("leduc_poker").table       # probabilities by information set
    exploitability("kuhn_poker", table)            # 0.0009

The exploitability of a policy (used in both seats) is half its NashConv: the mean over the seats of
what a best response gains over the policy itself. It is 0 at an equilibrium and nowhere else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from typing import Any

from harness.paths import cache_dir

from .games import game
from .opponents import cfr
from .position import load

ITERATIONS: Mapping[str, int] = {"leduc_poker": 200, "first_sealed_auction": 500}
"""Iterations of CFR+ where `cfr.ITERATIONS` has none; matrix games take `OTHERS`."""
OTHERS = 1000

Table = Mapping[str, Mapping[int, float]]


@cache
def equilibrium(key: str) -> cfr.Policy:
    """An equilibrium (one of them, in general-sum games), from the cache or by CFR+.

    CFR+ is sure to find one in zero-sum games only; for the others a test holds the NashConv of
    what it finds below 0.002.
    """
    if key in cfr.PLAYS:
        return cfr.policy(key)
    iterations = ITERATIONS.get(key, OTHERS)
    path = cache_dir("gtbench") / f"cfr-{key}-{iterations}.json"
    if path.exists():
        stored = json.loads(path.read_text())
        return cfr.Policy({k: {int(a): p for a, p in row.items()} for k, row in stored.items()})
    found = cfr.solve(key, iterations)
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    draft.write_text(json.dumps(found.table))
    draft.replace(path)
    return found


def nash_conv(key: str, table: Table) -> float:
    """OpenSpiel's NashConv of a policy of both seats; information sets by their text."""
    import pyspiel

    rows = {name: [(a, p) for a, p in row.items()] for name, row in table.items()}
    policy: Any = pyspiel.TabularPolicy(rows)
    return float(pyspiel.nash_conv(load(game(key).spiel), policy))


def exploitability(key: str, table: Table) -> float:
    """Half of NashConv."""
    return nash_conv(key, table) / 2.0
