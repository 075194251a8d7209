"""Exact values: do the intervals cover, and how many games are saved.

    python benchmarks/exact_values.py coverage [--games kuhn_poker] [--players 1000]
                                               [--queries 20] [--resamples 1000]
    python benchmarks/exact_values.py saved [--half 0.02]

`coverage` simulates players with known mixed policies (Dirichlet, drawn anew for each player),
asks each information set, and counts how often the interval holds the true figure. `saved` counts
the turns of a model that a half-width takes, four ways.
"""

from __future__ import annotations

import argparse
import asyncio
from random import Random
from typing import Any, NamedTuple

import numpy as np

from harness.player import FixedPlayer, Player, Seat
from harness.progress import track
from harness.seeds import Streams, derive
from harness.types import Outcome, Sample, Turn
from harness_plugins.tasks.gtbench import policy_metrics
from harness_plugins.tasks.gtbench.policy_metrics import estimates, exact
from harness_plugins.tasks.gtbench.policy_solve import equilibrium
from harness_plugins.tasks.gtbench.policy_tree import Array, Side, build
from harness_plugins.tasks.gtbench.task import GTBench
from harness_plugins.tasks.gtbench.variates import estimates as luckless

FIGURES = (
    "value.random",
    "value.equilibrium",
    "value.self",
    "best_response",
    "exploitability",
    "exploitability.substituted",
)


def player(side: Side, spread: float, rng: np.random.Generator) -> Array:
    """A mixed policy of one seat: Dirichlet at every information set, giving up included."""
    policy: Array = np.ones(side.size)
    for _, places in side.blocks:
        legal = places.shape[1] - 1
        chances = rng.dirichlet(np.full(legal, spread), len(places))
        gone = 0.05 * rng.random((len(places), 1)) if legal > 1 else 0.0
        policy[places[:, :-1]] = chances * (1 - gone)
        policy[places[:, -1:]] = gone
    return policy


def asked(side: Side, policy: Array, queries: int, rng: np.random.Generator) -> Array:
    """Counts of the answers to so many queries of each information set with a choice."""
    counts: Array = np.zeros(side.size)
    for _, places in side.blocks:
        if places.shape[1] > 2:
            counts[places] = rng.multinomial(queries, policy[places])
    return counts


def coverage(
    key: str, players: int, queries: int, spread: float = 1.0, seed: int = 0
) -> dict[str, float]:
    """The share of players whose true figure lies in its interval, by figure."""
    tree, rng = build(key), np.random.default_rng(seed)
    hits: dict[str, int] = dict.fromkeys(FIGURES, 0)
    for number in track(range(players), f"players of {key}", players):
        both = [player(side, spread, rng) for side in tree.sides]
        counts = [asked(s, p, queries, rng) for s, p in zip(tree.sides, both, strict=True)]
        truth: dict[str, Any] = exact(tree, both[0], both[1])
        found = estimates(tree, (counts[0], counts[1]), number)
        for name in FIGURES:
            _, low, high = found[name]
            assert low is not None
            assert high is not None
            hits[name] += low - 1e-12 <= truth[name] <= high + 1e-12
    return {name: count / players for name, count in hits.items()}


class Saved(NamedTuple):
    """What a half-width takes: matches one by one, pairs with the seats swapped on the same cards,
    pairs with control variates, and queries of information sets; in turns of the model."""

    key: str
    matches: float
    pairs: float
    variates: float
    queries: float


def saved(key: str, half: float, pairs: int = 2000) -> Saved:
    """Turns of the model until a mean return against random is known to +-half (95 %).

    The model is a mixed policy without giving up (equilibrium and random play in equal shares).
    Variances are measured over simulated pairs, those of queries by the bootstrap.
    """
    tree = build(key)
    uniform = [side.uniform() for side in tree.sides]
    known = equilibrium(key).table
    model = [(u + side.policy(known)) / 2 for u, side in zip(uniform, tree.sides, strict=True)]
    reach = _turns(key, model, uniform)
    spreads = (
        tree.spread(model[0], uniform[1], 0) ** 2 + tree.spread(uniform[0], model[1], 1) ** 2
    ) / 2
    z = 1.96
    matches = spreads * (z / half) ** 2 * reach
    both, without = _played(key, model, pairs)
    by_pair = float(np.var(both, ddof=1)) * (z / half) ** 2 * 2 * reach
    by_variate = float(np.var(without, ddof=1)) * (z / half) ** 2 * 2 * reach
    rng, queries = np.random.default_rng(0), 200
    counts = [asked(s, p, queries, rng) for s, p in zip(tree.sides, model, strict=True)]
    _, low, high = estimates(tree, (counts[0], counts[1]))["value.random"]
    assert low is not None
    assert high is not None
    sets = sum(len(actions) > 1 for side in tree.sides for actions in side.actions)
    exact_ = queries * sets * ((high - low) / 2 / half) ** 2
    return Saved(key, matches, by_pair, by_variate, exact_)


def _turns(key: str, model: list[Array], uniform: list[Array]) -> float:
    """Turns of the model in an episode, mean of the seats; a single legal move is no turn."""
    tree, total = build(key), 0.0
    chance, first, second, _ = tree.endings
    for seat in (0, 1):
        own, other = tree.sides[seat], tree.sides[1 - seat]
        mine, theirs = (first, second) if seat == 0 else (second, first)
        arrives = np.bincount(mine, chance * other.plan(uniform[1 - seat])[theirs], own.size)
        plan = own.plan(model[seat])
        for members, places in own.blocks:
            if places.shape[1] > 2:
                before = plan[np.array(own.parent)[members]]
                total += float((before * arrives[places[:, -1]]).sum())
    return total / 2


def _played(key: str, model: list[Array], pairs: int) -> tuple[list[float], list[float]]:
    """Mean returns of simulated pairs, as they are and with the luck taken out."""
    tree = build(key)

    def mixed(seat: Seat) -> Player:
        rng = Random(derive("benchmark", seat.seed, seat.seat))

        def choose(turn: Turn) -> str:
            view = turn.state
            side = tree.sides[view.seat]
            i = side.place[view.information()]
            first = side.start[i]
            weights = model[view.seat][first : first + len(side.actions[i])]
            return str(view.skin.say(rng.choices(side.actions[i], list(weights))[0]))

        return FixedPlayer(choose)

    task = GTBench({"games": [key], "pairs": pairs, "variates": True})
    random = task.players()["random"]

    async def roll() -> list[tuple[Sample, Outcome]]:
        found = []
        for sample in track(task.samples("test"), f"matches of {key}", 2 * pairs):
            seed = derive(0, sample.id, 0)
            seats = [
                (mixed if who == "model" else random)(Seat(task, sample, place, seed))
                for place, who in enumerate(task.lineup(sample))
            ]
            found.append((sample, await task.rollout(sample, seats, Streams(seed))))
        return found

    episodes = asyncio.run(roll())
    taken = luckless([(sample.cluster, outcome.data) for sample, outcome in episodes])
    plain = [outcome.returns[sample.data["model_seat"]] for sample, outcome in episodes]
    both = [(plain[k] + plain[k + 1]) / 2 for k in range(0, len(plain), 2)]
    without = [((taken[k] or 0.0) + (taken[k + 1] or 0.0)) / 2 for k in range(0, len(taken), 2)]
    return both, without


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    cover = verbs.add_parser("coverage")
    cover.add_argument("--games", default="kuhn_poker,first_sealed_auction,matrix_rps")
    cover.add_argument("--players", type=int, default=1000)
    cover.add_argument("--queries", type=int, default=20)
    cover.add_argument("--resamples", type=int, default=policy_metrics.RESAMPLES)
    cover.add_argument("--spread", type=float, default=1.0)
    save = verbs.add_parser("saved")
    save.add_argument("--games", default="kuhn_poker,first_sealed_auction")
    save.add_argument("--half", type=float, default=0.02)
    save.add_argument("--pairs", type=int, default=2000)
    options = parser.parse_args()
    if options.verb == "saved":
        print(f"turns of the model for a half-width of {options.half}:")
        for key in options.games.split(","):
            row = saved(key, options.half, options.pairs)
            print(
                f"{key}: matches {row.matches:,.0f}, pairs {row.pairs:,.0f}, pairs with control "
                f"variates {row.variates:,.0f}, information sets {row.queries:,.0f}",
                flush=True,
            )
        return
    policy_metrics.RESAMPLES = options.resamples
    for key in options.games.split(","):
        found = coverage(key, options.players, options.queries, options.spread)
        rates = ", ".join(f"{name} {rate:.3f}" for name, rate in found.items())
        print(f"{key}, {options.queries} queries, {options.players} players: {rates}", flush=True)


if __name__ == "__main__":
    main()
