"""Tournaments: every model against every other one, rated, until the intervals are narrow.

    settings = Tournament(("A", "B", "C"), "gtbench", {"games": ["kuhn_poker"]})
    standings = play(settings, Registry.load())
    standings.order, standings.fit.strength

Each pairing is a run folder like any other (`harness run --model A --opponent B`), so a tournament
that was interrupted goes on where it stopped, and one with a further model plays the new pairings
only.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final

from .api import Run, evaluate_job
from .confidence import ConfidenceSequence
from .observers import Observers
from .plan import Contender, Planner, RunSettings
from .ratings import (
    Fit,
    Game,
    Payoffs,
    Tally,
    Transitivity,
    alpha_rank,
    bradley_terry,
    nash_average,
    payoffs,
    rating_intervals,
    transitivity,
)
from .registry import Registry
from .stats import LEVEL
from .types import HarnessError, Json, Record

FIRST: Final = 40
"""Samples of each pairing before the first look."""
MOST: Final = 20_000
"""Samples of each pairing at most, with a target."""
GROWTH: Final = 1.5


@dataclass(frozen=True)
class Tournament:
    """What ``harness tournament`` was asked for.

    ``limit``: samples of each pairing; with ``target`` the first look. ``target``: the half-width
    of every model's mean score at which play ends (0: play ``limit`` samples). ``most``: samples of
    each pairing at most. ``more`` are settings of the runs (`harness.plan.RunSettings`).
    """

    models: tuple[str, ...]
    task: str
    options: Mapping[str, Json] = field(default_factory=dict)
    limit: int = FIRST
    target: float = 0.0
    most: int = MOST
    more: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Raise HarnessError for values that make no sense."""
        if len(self.models) < 2 or len(set(self.models)) < len(self.models):
            raise HarnessError("--models: name at least two models, each once")
        if self.limit < 2:
            raise HarnessError(f"--limit {self.limit}: a pairing needs at least 2 samples")
        if not 0.0 <= self.target < 0.5:
            raise HarnessError(f"--target-ci {self.target}: choose a half-width between 0 and 0.5")
        if self.target and self.most < self.limit:
            raise HarnessError(f"--most {self.most} is less than --limit {self.limit}")


@dataclass(frozen=True)
class Standings:
    """The result. ``order``: players from the highest rating down; ``scores`` and ``half_widths``:
    each model's mean score over its opponents, and half of the interval that holds at any time;
    ``samples``: of each pairing; ``reached``: whether the target was."""

    models: tuple[str, ...]
    order: tuple[int, ...]
    fit: Fit
    intervals: Any
    above: Any
    found: Payoffs
    nash: Any
    nash_scores: Any
    alpha: Any
    circles: Transitivity
    scores: tuple[float, ...]
    half_widths: tuple[float, ...]
    games: int
    samples: int
    reached: bool | None
    folders: tuple[str, ...] = ()

    def warnings(self) -> list[str]:
        """What a reader of the ranking must know."""
        found = []
        if self.circles.cycle:
            names = [self.models[i] for i in (*self.circles.cycle, self.circles.cycle[0])]
            found.append(f"the pool is cyclic: {' beats '.join(names)}; no ranking says that")
        elif self.circles.broken:
            found.append("the pay-offs are not transitive: a rating explains too little of them")
        if self.circles.broken:
            found.append(
                f"{self.circles.cyclic:.0%} of the squared pay-offs are cyclic (p = "
                f"{self.circles.p:.2g}): read the pay-off matrix and the Nash average instead"
            )
        if self.reached is False:
            worst = max(self.half_widths)
            found.append(f"the target was not reached: the widest half-width is {worst:.3f}")
        return found


class Pairing:
    """The games of two players so far, and the confidence sequence of the first one's score."""

    def __init__(self, first: int, second: int, alpha: float) -> None:
        self.players = (first, second)
        self.sequence = ConfidenceSequence(alpha)
        self.games: list[Game] = []
        self.blocks = 0
        self._read = 0
        self._clusters: dict[str, dict[str, list[float]]] = {}

    def read(self, records: Iterable[Record]) -> None:
        """Take in what is new. Records come in order, the old ones first."""
        for number, record in enumerate(records):
            if number >= self._read:
                self._add(record)
                self._read = number + 1
        self._look()

    def _add(self, record: Record) -> None:
        seat, scores, margin = result(record)
        model, opponent = self.players
        first, second = (model, opponent) if seat == 0 else (opponent, model)
        own = scores[seat]
        self.games.append(
            Game(first, second, scores[0], record.cluster, margin if seat == 0 else -margin)
        )
        clusters = self._clusters.setdefault(record.group, {})
        clusters.setdefault(record.cluster, []).append(own)

    def _look(self) -> None:
        """Give the sequence every block that is whole: the k-th cluster of each group, so that all
        blocks have the same mean. The last cluster of a group may be waiting for its other half."""
        means = [
            [sum(v) / len(v) for v in clusters.values()] for clusters in self._clusters.values()
        ]
        whole = min((len(m) for m in means), default=0)
        while self.blocks < whole:
            self.sequence.add(sum(m[self.blocks] for m in means) / len(means))
            self.blocks += 1


def result(record: Record) -> tuple[int, tuple[float, float], float]:
    """The model's seat, the scores of both seats (1, 1/2, 0), and the model's pay-off minus its
    opponent's, in [-1, 1]. Raises HarnessError for records that are not of two seats."""
    returns, data = record.outcome.returns, record.outcome.data
    seat = data.get("model_seat")
    if len(returns) != 2 or seat not in (0, 1):
        raise HarnessError(f"{record.task} has no results of two seats: a tournament needs them")
    lead = (returns[0] > returns[1]) - (returns[0] < returns[1])
    scores = ((1 + lead) / 2, (1 - lead) / 2)
    pays = record.score.per_seat
    margin = pays[seat] - pays[1 - seat] if len(pays) == 2 else float(lead if seat == 0 else -lead)
    return int(seat), scores, margin


def play(asked: Tournament, registry: Registry, quiet: bool = False) -> Standings:
    """Play the round robin. Raises HarnessError for bad input and for pairings that fail."""
    asked.check()
    count = len(asked.models)
    alpha = (1 - LEVEL) / (count * (count - 1) / 2)
    pairings = {(i, j): Pairing(i, j, alpha) for i, j in combinations(range(count), 2)}
    loaded: dict[str, Contender] = {}
    folders: dict[tuple[int, int], str] = {}
    samples = asked.limit
    planners = {
        pair: Planner(_settings(asked, registry, pair, samples), registry, loaded)
        for pair in pairings
    }
    for planner in planners.values():
        planner.check()
    with asyncio.Runner() as runner:
        try:
            while True:
                for pair, pairing in pairings.items():
                    run = _run(runner, asked, registry, pair, samples, loaded, quiet)
                    folders[pair] = str(run.path)
                    pairing.read(run.records())
                widest = max(_half_widths(pairings, count))
                if not asked.target or widest <= asked.target or samples >= asked.most:
                    break
                samples = min(asked.most, int(samples * GROWTH) + 1)
                samples += samples % 2
                if not quiet:
                    print(
                        f"half-width {widest:.3f}, target {asked.target}: on to {samples} samples "
                        "a pairing",
                        file=sys.stderr,
                        flush=True,
                    )
        finally:
            for planner in planners.values():
                planner.close()
    return standings(asked, list(pairings.values()), samples, tuple(folders.values()))


def _settings(
    asked: Tournament, registry: Registry, pair: tuple[int, int], samples: int
) -> RunSettings:
    options = dict(asked.options)
    # A task that deals in pairs must be able to deal as many as the target may take.
    if asked.target and "pairs" in registry.entry("task", asked.task).options:
        options.setdefault("pairs", asked.most)
    first, second = (asked.models[k] for k in pair)
    return RunSettings(
        (asked.task,), (first,), opponent=second, options=options, limit=samples, **asked.more
    )


def _run(
    runner: asyncio.Runner,
    asked: Tournament,
    registry: Registry,
    pair: tuple[int, int],
    samples: int,
    loaded: dict[str, Contender],
    quiet: bool,
) -> Run:
    planner = Planner(_settings(asked, registry, pair, samples), registry, loaded)
    job = planner.job(asked.task, asked.models[pair[0]])
    if job.opponent is None:
        raise HarnessError(f"{asked.task} has one seat: a tournament needs two")
    run = evaluate_job(runner, job, Observers.load(registry, ()), quiet)
    if not run.complete:
        raise HarnessError(f"{job.label}: records are missing; the same command tries them again")
    return run


def _half_widths(pairings: Mapping[tuple[int, int], Pairing], count: int) -> list[float]:
    """Half of the interval of each player's mean score: the mean over its pairings, since all
    sequences hold at once (their errors add up to 5 %)."""
    return [
        sum(p.sequence.half_width for pair, p in pairings.items() if k in pair) / (count - 1)
        for k in range(count)
    ]


def standings(
    asked: Tournament, pairings: list[Pairing], samples: int, folders: tuple[str, ...] = ()
) -> Standings:
    """Rate what was played."""
    count = len(asked.models)
    games = [game for pairing in pairings for game in pairing.games]
    fit = bradley_terry(Tally.of(games, count))
    intervals, above = rating_intervals(games, fit)
    found = payoffs(games, count)
    nash, nash_scores = nash_average(found.mean)
    order = tuple(sorted(range(count), key=lambda k: -float(fit.strength[k])))
    scores = tuple(
        sum(
            p.sequence.mean if p.players[0] == k else 1.0 - p.sequence.mean
            for p in pairings
            if k in p.players
        )
        / (count - 1)
        for k in range(count)
    )
    halves = _half_widths({p.players: p for p in pairings}, count)
    return Standings(
        models=asked.models,
        order=order,
        fit=fit,
        intervals=intervals,
        above=above,
        found=found,
        nash=nash,
        nash_scores=nash_scores,
        alpha=alpha_rank(found.mean),
        circles=transitivity(found),
        scores=scores,
        half_widths=tuple(halves),
        games=len(games),
        samples=samples,
        reached=max(halves) <= asked.target if asked.target else None,
        folders=folders,
    )
