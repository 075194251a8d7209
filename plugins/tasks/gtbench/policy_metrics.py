"""Exact figures of an empirical policy, with bootstrap intervals over the queries.

Units are those of the game (chips, profit, points). As played, giving up is a move that loses;
``*.substituted`` puts a random legal move in its place.

* ``value.random``, ``value.equilibrium``: the expected return against a random opponent and against
  an equilibrium, mean of both seats; ``.first`` and ``.second`` by seat. ``value.self``: what the
  first seat gets where the policy plays itself.
* ``best_response``: what the best answer to the policy gets, mean of both seats.
* ``exploitability``: what a best response gains over the policy, mean of both seats (half of
  NashConv). ``exploitability.substituted`` is computed by OpenSpiel.
* ``forfeit``, ``legal.first``: shares of queries; ``covered``: the share of information sets asked.
* ``matches.needed``: episodes against random whose mean would have an interval as narrow as
  ``value.random`` has here; ``value.random.matches``: what as many turns in episodes would have
  shown, drawn from the same policy; ``saving``: turns of those matches over queries asked.
* ``random.*``: the same for random play.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from harness.seeds import derive
from harness.stats import LEVEL, t_quantile
from harness.types import Metric, Record

from .games import game
from .policy_solve import equilibrium, exploitability
from .policy_tree import Array, Side, Tree, build
from .presets import Plan

RESAMPLES = 1000
LARGE = 200
"""Resamples of games with over `MANY` sequences."""
MANY = 10_000
CHUNK = 50
FEWEST = 5
"""Queries of each information set below which there is no interval."""
POOLED = 10.0
"""Queries that the rate of giving up in all of a seat's information sets counts for in each."""
SEATS = ("first", "second")


class Counts(NamedTuple):
    """What was answered in a game: for each seat the counts of its sequences (as in `Side`)."""

    tree: Tree
    counts: tuple[Array, Array]
    queries: int
    first: int
    """Queries whose first reply was a legal move."""


def summarise(plan: Plan, records: Iterable[Record]) -> list[Metric]:
    """All figures, game by game; then the shares over all queries."""
    found: dict[str, Counts] = {}
    for record in records:
        data = record.outcome.data
        if record.group not in found:
            tree = build(data["game"])
            sizes = [np.zeros(side.size) for side in tree.sides]
            found[record.group] = Counts(tree, (sizes[0], sizes[1]), 0, 0)
        found[record.group] = _counted(found[record.group], data)
    metrics = [metric for group, counts in found.items() for metric in figures(group, counts)]
    queries = sum(c.queries for c in found.values())
    if queries:
        for name in ("forfeit", "legal.first"):
            shares = [m for m in metrics if m.name == name]
            value = math.fsum((m.value or 0.0) * m.n for m in shares) / queries
            metrics.insert(0, Metric(name, value, n=queries, clusters=queries, note="all queries"))
    return metrics


def _counted(counts: Counts, data: Mapping[str, Any]) -> Counts:
    side = counts.tree.sides[data["seat"]]
    i = side.place[data["information"]]
    actions = side.actions[i]
    action = data["action"]
    step = len(actions) if action is None else actions.index(action)
    counts.counts[data["seat"]][side.start[i] + step] += 1
    first = counts.first + (action is not None and data["attempts"] == 1)
    return counts._replace(queries=counts.queries + 1, first=first)


def figures(group: str, counts: Counts, seed: int = 0) -> list[Metric]:
    """The figures of one game."""
    tree, key = counts.tree, counts.tree.key
    sides = tree.sides
    asked = [_asked(side, c) for side, c in zip(sides, counts.counts, strict=True)]
    choices = sum(len(actions) > 1 for side in sides for actions in side.actions)
    sets = sum(len(a) for a in asked)
    note = "" if sets == choices else f"{choices - sets} information sets not asked: uniform there"
    point = [empirical(side, c) for side, c in zip(sides, counts.counts, strict=True)]
    metrics = [
        Metric(name, value, low, high, counts.queries, sets, group, note)
        for name, (value, low, high) in estimates(tree, counts.counts, seed).items()
    ]
    checked = exploitability(key, table(tree, point))
    metrics = [m if m.name != "exploitability.substituted" else _moved(m, checked) for m in metrics]
    return [
        *metrics,
        *_shares(group, counts, sets, choices),
        *_matches(group, counts, point, metrics),
        *_random(group, tree),
    ]


def estimates(
    tree: Tree, counts: tuple[Array, Array], seed: int = 0
) -> dict[str, tuple[float, float | None, float | None]]:
    """The exact figures of the empirical policy with their intervals."""
    first, second = (empirical(s, c) for s, c in zip(tree.sides, counts, strict=True))
    values = exact(tree, first, second)
    asked = [n for side, c in zip(tree.sides, counts, strict=True) for n in _asked(side, c)]
    fewest = min(asked, default=0)
    if fewest < FEWEST:
        return {name: (float(value), None, None) for name, value in values.items()}
    drawn = _bootstrap(tree, counts, derive("policy bootstrap", tree.key, seed))
    return {
        name: (float(value), *_interval(name, float(value), drawn[name], fewest))
        for name, value in values.items()
    }


def exact(tree: Tree, first: Array, second: Array) -> dict[str, Array]:
    """All exact figures of policies (..., sequences) of both seats."""
    found: dict[str, Array] = {}
    for name, opponents in (("random", _uniform(tree)), ("equilibrium", _equilibrium(tree))):
        by_seat = [
            (tree.gains(s, tree.sides[1 - s].plan(opponents[1 - s])) * tree.sides[s].plan(p)).sum(
                -1
            )
            for s, p in enumerate((first, second))
        ]
        found[f"value.{name}"] = (by_seat[0] + by_seat[1]) / 2
        for seat, place in enumerate(SEATS):
            found[f"value.{name}.{place}"] = by_seat[seat]
    best, own, gap = exploited(tree, first, second)
    found |= {"value.self": own, "best_response": best, "exploitability": gap}
    legal = [side.legalised(p) for side, p in zip(tree.sides, (first, second), strict=True)]
    found["exploitability.substituted"] = exploited(tree, legal[0], legal[1])[2]
    return found


def exploited(tree: Tree, first: Array, second: Array) -> tuple[Array, Array, Array]:
    """What best responses get (mean of the seats), what the first seat gets in self-play, and the
    exploitability."""
    plans = tree.sides[0].plan(first), tree.sides[1].plan(second)
    own = [(tree.gains(s, plans[1 - s]) * plans[s]).sum(-1) for s in (0, 1)]
    best = (tree.best(0, second) + tree.best(1, first)) / 2
    return best, own[0], best - (own[0] + own[1]) / 2


def _uniform(tree: Tree) -> tuple[Array, Array]:
    return tree.sides[0].uniform(), tree.sides[1].uniform()


def _equilibrium(tree: Tree) -> tuple[Array, Array]:
    known = equilibrium(tree.key).table
    return tree.sides[0].policy(known), tree.sides[1].policy(known)


def empirical(side: Side, counts: Array) -> Array:
    """Relative frequencies; uniform where nothing was asked."""
    policy = side.uniform()
    for _, places in side.blocks:
        total = counts[places].sum(1, keepdims=True)
        policy[places] = np.where(total > 0, counts[places] / np.maximum(total, 1), policy[places])
    return policy


def table(tree: Tree, point: list[Array]) -> dict[str, dict[int, float]]:
    """A policy as OpenSpiel takes it, with random legal moves in place of giving up."""
    found = {}
    for side, policy in zip(tree.sides, point, strict=True):
        legal = side.legalised(policy)
        for name, actions, first in zip(side.names, side.actions, side.start, strict=True):
            found[name] = {a: float(legal[first + k]) for k, a in enumerate(actions)}
    return found


def resampled(side: Side, counts: Array, times: int, rng: np.random.Generator) -> Array:
    """Policies as other queries might have shown them, (times, sequences).

    At each information set with n queries, n - 1 are drawn (so that the spread is that of an
    unbiased variance: Rao and Wu, 1988) from smoothed frequencies, as 20 equal answers of 20 do not
    prove that a 21st would be the same: one query is spread over the legal actions (Perks, 1947),
    and the rate of giving up is drawn towards that of all queries, with the weight of `POOLED`.
    """
    drawn = np.repeat(side.uniform()[None], times, 0)
    rate = _given_up(side, counts)
    for _, places in side.blocks:
        seen = counts[places]
        total = seen.sum(1).astype(int)
        some = total > 1
        legal = places.shape[1] - 1
        if legal < 2 or not some.any():
            continue
        n, seen = total[some, None], seen[some]
        quits = (seen[:, -1:] + POOLED * rate) / (n + POOLED)
        moves = (seen[:, :-1] + 1.0 / legal) / (n - seen[:, -1:] + 1.0)
        smooth = np.concatenate([moves * (1.0 - quits), quits], 1)
        smooth /= smooth.sum(1, keepdims=True)
        drawn[:, places[some]] = rng.multinomial(n[:, 0] - 1, smooth, (times, len(n))) / (n - 1)
    return drawn


def _given_up(side: Side, counts: Array) -> float:
    """The rate of giving up over all queries of a seat, with Jeffreys' half on either side: none
    in 40 does not show that there are none."""
    asked = [counts[places] for _, places in side.blocks if places.shape[1] > 2]
    gone, total = sum(float(c[:, -1].sum()) for c in asked), sum(float(c.sum()) for c in asked)
    return (gone + 0.5) / (total + 1.0)


def _bootstrap(tree: Tree, counts: tuple[Array, Array], seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    times = RESAMPLES if max(side.size for side in tree.sides) <= MANY else LARGE
    parts: list[dict[str, Array]] = []
    for _ in range(0, times, CHUNK):
        both = [resampled(side, c, CHUNK, rng) for side, c in zip(tree.sides, counts, strict=True)]
        parts.append(exact(tree, both[0], both[1]))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _interval(name: str, value: float, drawn: Array, fewest: int) -> tuple[float, float]:
    """Percentiles of the resampled figures, moved so that their mean is the estimate (a maximum is
    biased upwards, by as much again in every resample), and widened from the normal's to Student's
    quantile with the degrees of freedom of the least asked information set."""
    wide = t_quantile(0.5 + LEVEL / 2, fewest - 1) / t_quantile(0.5 + LEVEL / 2, 1e9)
    tails = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) - drawn.mean()
    low, high = value + wide * float(tails[0]), value + wide * float(tails[1])
    return (max(0.0, low) if name.startswith("exploitability") else low, high)


def _asked(side: Side, counts: Array) -> list[int]:
    """Queries of each information set that was asked."""
    found: list[int] = []
    for _, places in side.blocks:
        found += [int(n) for n in counts[places].sum(1) if n]
    return found


def _moved(metric: Metric, value: float) -> Metric:
    """The same figure from OpenSpiel, with its interval beside it."""
    move = value - (metric.value or 0.0)
    low = None if metric.low is None else metric.low + move
    high = None if metric.high is None else metric.high + move
    return Metric(
        metric.name, value, low, high, metric.n, metric.clusters, metric.group, metric.note
    )


def _shares(group: str, counts: Counts, sets: int, choices: int) -> list[Metric]:
    gone = sum(
        float(c[places[:, -1]].sum())
        for side, c in zip(counts.tree.sides, counts.counts, strict=True)
        for _, places in side.blocks
    )
    n = counts.queries
    return [
        Metric("forfeit", gone / n, n=n, clusters=sets, group=group),
        Metric("legal.first", counts.first / n, n=n, clusters=sets, group=group),
        Metric("covered", sets / choices, n=choices, clusters=choices, group=group),
    ]


def _matches(group: str, counts: Counts, point: list[Array], metrics: list[Metric]) -> list[Metric]:
    """The same figure from matches: how many are needed, and what as many turns would show."""
    tree, n = counts.tree, counts.queries
    uniform = _uniform(tree)
    turns = game(tree.key).turns
    episodes = max(2, 2 * round(n / turns / 2))
    rng = np.random.default_rng(derive("policy matches", tree.key, n))
    halves = [
        drawn_returns(tree, 0, point[0], uniform[1], episodes // 2, rng),
        drawn_returns(tree, 1, uniform[0], point[1], episodes // 2, rng),
    ]
    mean = float(halves[0].mean() + halves[1].mean()) / 2
    spreads = [
        tree.spread(point[0], uniform[1], 0) ** 2,
        tree.spread(uniform[0], point[1], 1) ** 2,
    ]
    half = t_quantile(0.5 + LEVEL / 2, 1e9) * math.sqrt(sum(spreads) / 2 / episodes)
    found = [
        Metric(
            "value.random.matches", mean, mean - half, mean + half, episodes, episodes, group,
            f"{episodes} episodes drawn from the same policy: about as many turns as queries",
        )
    ]  # fmt: skip
    exactly = next(m for m in metrics if m.name == "value.random")
    if exactly.low is not None and exactly.high is not None and exactly.high > exactly.low:
        own = (exactly.high - exactly.low) / 2
        needed = episodes * (half / own) ** 2
        note = f"episodes for a half-width of {own:.3f}"
        found += [
            Metric("matches.needed", needed, n=n, clusters=episodes, group=group, note=note),
            Metric("saving", needed * turns / n, n=n, clusters=episodes, group=group, note=note),
        ]
    return found


def drawn_returns(
    tree: Tree, seat: int, first: Array, second: Array, episodes: int, rng: np.random.Generator
) -> Array:
    """Returns of a seat in so many episodes between two policies, (episodes,)."""
    chance, left, right, returns = tree.endings
    odds = chance * tree.sides[0].plan(first)[left] * tree.sides[1].plan(second)[right]
    picked = rng.choice(len(odds), episodes, p=odds / odds.sum())
    found: Array = returns[picked, seat]
    return found


def _random(group: str, tree: Tree) -> list[Metric]:
    """What random play gets: known exactly."""
    values = exact(tree, *_uniform(tree))
    return [
        Metric(f"random.{name}", float(value), group=group, note="exact")
        for name, value in values.items()
    ]
