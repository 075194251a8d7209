"""The figures of a run: by game, and averaged over games with equal weight.

* ``return``: the normalised return. Zero-sum games: (r_own - r_other) / (u_max - u_min), in
  [-1, 1]. Others: the own payoff with random play at 0 and a best response to it at 1.
* ``return.first`` and ``return.second``: the same by the model's seat.
* ``win``, ``draw``, ``loss``, and ``win.first`` and ``win.second`` by seat.
* ``nra``: (S own - S other) / (S |own| + S |other|) over returns.
* ``legal.first``: decisions whose first reply was a legal move; ``attempts`` replies a decision;
  ``forfeit`` and ``opponent.forfeit``: episodes given up.
* ``return.legal``: only episodes without a forfeit (a selection: read it beside ``forfeit``);
  ``return.substituted``: random legal moves instead of forfeited ones (option ``substitute``).
* ``random.*``: random against random in the same game after the same number of opening moves.
* ``legacy.*``: the reference study's formulas: (W + D / 2) / normal, normal / all, NRA of normal
  episodes; normal are those without a forfeit.
* ``distinct``: different courses of play. Deterministic players repeat themselves; this many games
  carry the information.
* ``relabelled.difference``: return under other names minus return under the usual ones, by pair.

Forfeits are losses and stay in every denominator except those of ``return.legal`` and ``legacy``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from statistics import stdev
from typing import NamedTuple

from harness.stats import mean_metric
from harness.types import Metric, Record

from .baseline import Baseline, ceiling, random_play
from .course import Course
from .figures import Figure, Row, averages, distinct, known, mean, nra, rate_error, ratio
from .games import game
from .presets import Plan

AVERAGED = (
    "return", "return.first", "return.second", "win", "win.first", "win.second", "draw", "loss",
    "nra", "legal.first", "attempts", "forfeit", "opponent.forfeit", "return.legal",
    "return.substituted", "legacy.score", "legacy.completion", "legacy.nra",
)  # fmt: skip
"""Figures that are averaged over games."""


class Group(NamedTuple):
    """The episodes of one game in one vocabulary, and how their payoffs become returns."""

    name: str
    key: str
    rows: list[Row]
    base: Baseline
    scaled: Callable[[float], float]

    def gain(self, course: Course) -> float:
        """The normalised return of an episode."""
        return self.scaled(course.payoff)

    def seat(self, seat: int) -> list[Row]:
        """The episodes with the model in a seat."""
        return [row for row in self.rows if row[1].seat == seat]

    def normal(self) -> list[Row]:
        """The episodes without a forfeit."""
        return [row for row in self.rows if _is_normal(row[1])]


def summarise(plan: Plan, records: Iterable[Record]) -> list[Metric]:
    """All figures: the averages over games, then figure by figure the games."""
    rows: dict[str, list[Row]] = {}
    for record in records:
        rows.setdefault(record.group, []).append((record.cluster, Course.of(record.outcome)))
    groups = {name: _group(plan, name, found) for name, found in rows.items()}
    figures = [_figures(plan, group) for group in groups.values()]
    by_name: dict[str, list[Metric]] = {}
    for found in figures:
        for figure in found:
            by_name.setdefault(figure.metric.name, []).append(figure.metric)
    return [
        *averages(AVERAGED, figures),
        *_differences(groups),
        *(metric for metrics in by_name.values() for metric in metrics),
    ]


def _group(plan: Plan, name: str, rows: list[Row]) -> Group:
    key = rows[0][1].key
    base = random_play(key, opening_plies(plan, key))
    return Group(name, key, rows, base, scale(key, base))


def opening_plies(plan: Plan, key: str) -> int:
    """Random opening moves of a game under a plan."""
    most = game(key).opening_plies
    return most if plan.openings is None or not most else plan.openings


def scale(key: str, base: Baseline) -> Callable[[float], float]:
    """From payoffs in [0, 1] to normalised returns."""
    if game(key).zero_sum:
        return lambda payoff: 2.0 * payoff - 1.0
    floor = sum(base.payoff) / 2.0
    width = ceiling(key) - floor
    return lambda payoff: (payoff - floor) / width


def _figures(plan: Plan, group: Group) -> list[Figure]:
    return [
        *_results(group),
        *_by_seat(group),
        *_conduct(group),
        *(_substituted(group) if plan.conduct.substitute else ()),
        *_legacy(group),
    ]


def _results(group: Group) -> list[Figure]:
    name, rows, base = group.name, group.rows, group.base
    wins = sum(base.win) / 2.0
    level = sum(map(group.scaled, base.payoff)) / 2.0
    slope = group.scaled(1.0) - group.scaled(0.0)
    error = slope * math.hypot(*base.spread) / 2.0 / math.sqrt(base.episodes)
    return [
        mean("return", rows, group.gain, name, _beside(level)),
        known("random.return", level, error, base.episodes, name),
        mean("win", rows, lambda c: float(c.result > 0), name, _beside(wins)),
        known("random.win", wins, rate_error(wins, base.episodes), base.episodes, name),
        mean("draw", rows, lambda c: float(c.result == 0), name, _beside(base.draw)),
        known("random.draw", base.draw, rate_error(base.draw, base.episodes), base.episodes, name),
        mean("loss", rows, lambda c: float(c.result < 0), name, _beside(wins)),
        nra("nra", rows, name),
    ]


def _by_seat(group: Group) -> list[Figure]:
    found = []
    base, n = group.base, group.base.episodes
    slope = group.scaled(1.0) - group.scaled(0.0)
    for seat, place in enumerate(("first", "second")):
        rows, win = group.seat(seat), base.win[seat]
        level, error = group.scaled(base.payoff[seat]), slope * base.spread[seat] / math.sqrt(n)
        found += [
            mean(f"win.{place}", rows, lambda c: float(c.result > 0), group.name, _beside(win)),
            known(f"random.win.{place}", win, rate_error(win, n), n, group.name),
            mean(f"return.{place}", rows, group.gain, group.name, _beside(level)),
            known(f"random.return.{place}", level, error, n, group.name),
        ]
    return found


def _conduct(group: Group) -> list[Figure]:
    name, rows = group.name, group.rows
    selected = "only episodes without a forfeit: a selection"
    return [
        ratio("legal.first", rows, lambda c: c.first, lambda c: c.decisions, name),
        ratio("attempts", rows, lambda c: c.attempts, lambda c: c.decisions, name),
        mean("forfeit", rows, lambda c: float(c.forfeited), name),
        mean("opponent.forfeit", rows, lambda c: float(c.opponent_forfeited), name),
        mean("return.legal", group.normal(), group.gain, name, selected),
        distinct(rows, name),
    ]


def _substituted(group: Group) -> list[Figure]:
    def gain(course: Course) -> float:
        played = course.payoff if course.substituted is None else course.substituted
        return group.scaled(played)

    note = "random legal moves instead of forfeited ones"
    return [mean("return.substituted", group.rows, gain, group.name, note)]


def _legacy(group: Group) -> list[Figure]:
    name, rows, normal = group.name, group.rows, group.normal()
    return [
        mean("legacy.score", normal, lambda c: (c.result + 1) / 2.0, name, "(W + D / 2) / normal"),
        mean("legacy.completion", rows, lambda c: float(_is_normal(c)), name, "normal / all"),
        nra("legacy.nra", normal, name),
    ]


def _differences(groups: dict[str, Group]) -> list[Metric]:
    """Relabelled minus plain, pair by pair: the average over games, then the games."""
    name = "relabelled.difference"
    note = "return under other names minus return under the usual ones, by pair"
    found = []
    for key, group in groups.items():
        other = groups.get(f"{group.key}/relabelled")
        if key != group.key or other is None:
            continue
        plain, renamed = _by_cluster(group), _by_cluster(other)
        both = sorted(set(plain) & set(renamed))
        values = [renamed[cluster] - plain[cluster] for cluster in both]
        error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
        found.append(Figure(mean_metric(name, values, both, group.key, note), error))
    return [*averages((name,), [found]), *(figure.metric for figure in found)]


def _by_cluster(group: Group) -> dict[str, float]:
    sums: dict[str, list[float]] = {}
    for cluster, course in group.rows:
        sums.setdefault(cluster, []).append(group.gain(course))
    return {cluster: math.fsum(v) / len(v) for cluster, v in sums.items()}


def _is_normal(course: Course) -> bool:
    return not (course.forfeited or course.opponent_forfeited)


def _beside(level: float) -> str:
    return f"random against random: {level:.3f}"
