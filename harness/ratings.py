"""Ratings of a pool from its pairings: Bradley-Terry, Nash averaging, alpha-rank, and whether the
pay-off matrix is transitive enough for a ranking to mean something.

    games = [Game(0, 1, 1.0, "deal-0"), Game(1, 0, 0.5, "deal-0"), ...]
    fit = bradley_terry(Tally.of(games, 3))
    fit.strength, fit.seat, fit.ties        # logits, mean 0

A cluster is what was drawn independently (a deal, played with the seats swapped); the bootstrap
resamples clusters within each pair of players.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from .stats import LEVEL

Array = np.ndarray[Any, Any]

RIDGE: Final = 0.1
"""Weight of the normal prior (variance 1 / RIDGE) on strengths: a player who won every game has a
finite rating."""
NEWTON: Final = 100


class Game(NamedTuple):
    """One game: who sat first, who second, the first one's score (1, 1/2 or 0), the cluster, and
    the pay-off of first minus second in [-1, 1] (by default 2 x score - 1)."""

    first: int
    second: int
    score: float
    cluster: str = ""
    margin: float | None = None


class Tally(NamedTuple):
    """Counts by ordered pair of seats, (players, players): wins, ties and losses of the first."""

    wins: Array
    ties: Array
    losses: Array

    @classmethod
    def of(cls, games: Iterable[Game], players: int) -> Tally:
        """Count games."""
        counts = np.zeros((3, players, players))
        for game in games:
            counts[_kind(game.score), game.first, game.second] += 1
        return cls(*counts)


def _kind(score: float) -> int:
    return 0 if score == 1.0 else 2 if score == 0.0 else 1


@dataclass(frozen=True)
class Fit:
    """Strengths in logits (mean 0), the first seat's advantage, log of the tie parameter (None: no
    ties were seen), and the log-likelihood."""

    strength: Array
    seat: float
    ties: float | None
    likelihood: float

    def expected(self, first: int, second: int) -> float:
        """The expected score of the first seat."""
        lead = float(self.strength[first] - self.strength[second]) + self.seat
        if self.ties is None:
            return 1.0 / (1.0 + math.exp(-lead))
        weights = np.array([lead / 2, self.ties, -lead / 2])
        odds = np.exp(weights - weights.max())
        return float((odds[0] + odds[1] / 2) / odds.sum())


def bradley_terry(tally: Tally, start: Fit | None = None, ridge: float = RIDGE) -> Fit:
    """Bradley-Terry with ties (Davidson, 1970) and a seat term (Davidson and Beaver, 1977).

    With x = strength(first) - strength(second) + seat, a game is won, tied or lost with weights
    exp(x / 2), exp(ties), exp(-x / 2). Penalised maximum likelihood, by Newton's method with step
    halving; the problem is concave.
    """
    n = len(tally.wins)
    first, second = np.nonzero((tally.wins + tally.ties + tally.losses) > 0)
    counts = np.stack([kind[first, second] for kind in tally])
    tied = bool(counts[1].any())
    size = n + 1 + tied
    design = np.zeros((len(first), n + 1))
    rows = np.arange(len(first))
    design[rows, first] += 1.0
    design[rows, second] -= 1.0
    design[:, n] = 1.0
    penalty = np.full(size, 1e-3)
    penalty[:n] = ridge
    at = np.zeros(size)
    if start is not None:
        at[:n], at[n] = start.strength, start.seat
        if tied and start.ties is not None:
            at[n + 1] = start.ties
    total = counts.sum(0)

    def chances(point: Array) -> tuple[Array, float]:
        lead = design @ point[: n + 1]
        weights = np.stack(
            [lead / 2, np.full_like(lead, point[-1] if tied else -np.inf), -lead / 2]
        )
        most = weights.max(0)
        norm = most + np.log(np.exp(weights - most).sum(0))
        logs = np.where(counts > 0, weights - norm, 0.0)
        odds = np.exp(weights - norm)
        return odds, float((counts * logs).sum() - 0.5 * (penalty * point * point).sum())

    odds, value = chances(at)
    for _ in range(NEWTON):
        slope = 0.5 * (counts[0] - counts[2] - total * (odds[0] - odds[2]))
        gradient: Array = np.append(design.T @ slope, [(counts[1] - total * odds[1]).sum()] * tied)
        gradient -= penalty * at
        spread = 0.25 * total * (odds[0] + odds[2] - (odds[0] - odds[2]) ** 2)
        bent = np.zeros((size, size))
        bent[: n + 1, : n + 1] = design.T @ (spread[:, None] * design)
        if tied:
            cross = -0.5 * total * odds[1] * (odds[0] - odds[2])
            bent[: n + 1, -1] = bent[-1, : n + 1] = design.T @ cross
            bent[-1, -1] = (total * odds[1] * (1 - odds[1])).sum()
        step = np.linalg.solve(bent + np.diag(penalty), gradient)
        share = 1.0
        while True:
            odds, new = chances(at + share * step)
            if new >= value - 1e-12 or share < 1e-6:
                break
            share /= 2
        at, moved, value = at + share * step, float(np.abs(share * step).max()), new
        if moved < 1e-9:
            break
    strength = at[:n] - at[:n].mean()
    likelihood = value + 0.5 * float((penalty * at * at).sum())
    return Fit(strength, float(at[n]), float(at[-1]) if tied else None, likelihood)


class Payoffs(NamedTuple):
    """The pay-off matrix: mean margin of the row against the column, antisymmetric; the standard
    errors of its entries over clusters, and how many clusters there are."""

    mean: Array
    error: Array
    clusters: Array


def payoffs(games: Iterable[Game], players: int) -> Payoffs:
    """The pay-off matrix, each cluster with equal weight."""
    sums: dict[tuple[int, int], dict[str, list[float]]] = {}
    for number, game in enumerate(games):
        low, high = sorted((game.first, game.second))
        margin = 2.0 * game.score - 1.0 if game.margin is None else game.margin
        sign = 1.0 if game.first == low else -1.0
        cluster = game.cluster or f"#{number}"
        sums.setdefault((low, high), {}).setdefault(cluster, []).append(sign * margin)
    mean, error, count = (np.zeros((players, players)) for _ in range(3))
    for (i, j), clusters in sums.items():
        values = np.array([math.fsum(v) / len(v) for v in clusters.values()])
        m, k = float(values.mean()), len(values)
        # One imagined win and loss keep a series of equal results from being certain.
        square = (float(((values - m) ** 2).sum()) + 2.0) / (k + 1)
        mean[i, j], mean[j, i] = m, -m
        error[i, j] = error[j, i] = math.sqrt(square / k)
        count[i, j] = count[j, i] = k
    return Payoffs(mean, error, count)


def nash_average(matrix: Array) -> tuple[Array, Array]:
    """The Nash equilibrium of largest entropy of the game "choose a player", and what each player
    gets against it (Balduzzi et al., Re-evaluating evaluation, 2018).

    :param matrix: (n, n), antisymmetric.
    :returns: the mixture (n,), and the scores (n,): 0 for those in the mixture, below for others.

    The support of that equilibrium is the union of all supports: player i is in it if a linear
    programme finds an equilibrium with p_i > 0. Within it the entropy is maximised from the mean of
    those solutions, an inner point.
    """
    from scipy.optimize import linprog, minimize

    matrix = np.asarray(matrix, float)
    n = len(matrix)
    ones, zeros = np.ones((1, n)), np.zeros(n)
    found = []
    for i in range(n):
        aim = np.zeros(n)
        aim[i] = -1.0
        best = linprog(aim, A_ub=matrix, b_ub=zeros + 1e-12, A_eq=ones, b_eq=[1.0], bounds=(0, 1))
        found.append(best.x)
    inner: Array = np.mean(found, 0)
    support = inner > 1e-9
    if support.sum() > 1:
        inner = _spread_out(matrix, inner, support, minimize)
    inner = np.where(support, np.maximum(inner, 0.0), 0.0)
    inner /= inner.sum()
    return inner, matrix @ inner


def _spread_out(matrix: Array, inner: Array, support: Array, minimize: Any) -> Array:
    own = matrix[:, support]
    result = minimize(
        lambda p: float((p * np.log(np.maximum(p, 1e-300))).sum()),
        inner[support],
        jac=lambda p: np.log(np.maximum(p, 1e-300)) + 1.0,
        bounds=[(1e-12, 1.0)] * int(support.sum()),
        constraints=[
            {"type": "eq", "fun": lambda p: p.sum() - 1.0, "jac": lambda p: np.ones_like(p)},
            {"type": "ineq", "fun": lambda p: -own @ p, "jac": lambda p: -own},
        ],
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )
    better = inner.copy()
    # A solver that leaves the equilibria is not believed: the inner point is one already.
    if result.success and (own @ result.x).max() < 1e-6:
        better[support] = result.x
    return better


def alpha_rank(matrix: Array, epsilon: float = 0.01) -> Array:
    """The stationary distribution of alpha-rank (Omidshafiei et al., 2019), by OpenSpiel, in the
    limit of strong selection; (n,), higher is better. Players in one cycle share their weight.

    :param epsilon: the chance of a step that selection does not favour.
    """
    from open_spiel.python.egt import alpharank

    if len(matrix) == 1:
        return np.ones(1)
    found: Array = np.asarray(
        alpharank.compute([np.asarray(matrix, float)], use_inf_alpha=True, inf_alpha_eps=epsilon)[
            2
        ],
        float,
    )
    return found


class Transitivity(NamedTuple):
    """How far a pay-off matrix is from a ranking.

    ``cyclic`` is the share of its squared pay-offs that no rating explains (the curl of its Hodge
    decomposition: Jiang et al., 2011), ``noise`` the share to expect from chance alone; ``cycle`` a
    circle of players each of which beats the next beyond doubt (Holm, 5 %), empty if there is none.
    ``p`` tests that the curl is noise.
    """

    cyclic: float
    noise: float
    p: float
    cycle: tuple[int, ...]

    @property
    def broken(self) -> bool:
        """Whether a ranking misleads: a circle beyond doubt, or a curl that is no noise and more
        than a tenth of the pay-offs."""
        return bool(self.cycle) or (self.p < 0.01 and self.cyclic > 0.1)


def transitivity(found: Payoffs) -> Transitivity:
    """Look for circles in a pay-off matrix of a full round robin."""
    mean, error = found.mean, found.error
    n = len(mean)
    upper = np.triu_indices(n, 1)
    flow = np.zeros((len(upper[0]), n))
    rows = np.arange(len(upper[0]))
    flow[rows, upper[0]], flow[rows, upper[1]] = 1.0, -1.0
    values, spread = mean[upper], np.maximum(error[upper], 1e-12)
    ratings = np.linalg.lstsq(flow, values, rcond=None)[0]
    curl = values - flow @ ratings
    total = float((values**2).sum())
    # Weighted for the test: then the curl's sum of squares is chi-squared under transitivity.
    weighted = np.linalg.lstsq(flow / spread[:, None], values / spread, rcond=None)[0]
    square = float((((values - flow @ weighted) / spread) ** 2).sum())
    freedom = len(values) - (n - 1)
    share = float((curl**2).sum()) / total if total > 0 else 0.0
    noise = min(1.0, float((spread**2).mean()) * freedom / total) if total > 0 else 0.0
    p = _chi_square_tail(square, freedom) if freedom > 0 else 1.0
    return Transitivity(share, noise, p, _circle(mean, error, found.clusters))


def _chi_square_tail(value: float, freedom: int) -> float:
    from scipy.stats import chi2

    return float(chi2.sf(value, freedom))


def _circle(mean: Array, error: Array, clusters: Array) -> tuple[int, ...]:
    """The shortest circle of pairings that are won beyond doubt."""
    from .comparisons import holm

    n = len(mean)
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n) if clusters[i, j] > 1]
    tails = [_two_sided(mean[i, j] / error[i, j], int(clusters[i, j]) - 1) for i, j in pairs]
    beats: dict[int, list[int]] = {i: [] for i in range(n)}
    for (i, j), p in zip(pairs, holm(tails), strict=True):
        if p < 1 - LEVEL:
            winner, loser = (i, j) if mean[i, j] > 0 else (j, i)
            beats[winner].append(loser)
    best: tuple[int, ...] = ()
    for start in range(n):
        paths: list[tuple[int, ...]] = [(start,)]
        seen = {start}
        while paths:
            path = paths.pop(0)
            for after in beats[path[-1]]:
                if after == start and (not best or len(path) < len(best)):
                    best, paths = path, []
                    break
                if after not in seen:
                    seen.add(after)
                    paths.append((*path, after))
    return best


def _two_sided(t: float, freedom: int) -> float:
    from scipy.stats import t as student

    return float(2 * student.sf(abs(t), freedom))


def resamples(games: Sequence[Game], players: int, times: int = 300, seed: int = 0) -> list[Tally]:
    """Tallies of resampled games: whole clusters are drawn, within each pair of players."""
    rng = np.random.default_rng(seed)
    groups: dict[tuple[int, ...], dict[str, Array]] = {}
    for number, game in enumerate(games):
        pair = tuple(sorted((game.first, game.second)))
        clusters = groups.setdefault(pair, {})
        counts = clusters.setdefault(game.cluster or f"#{number}", np.zeros((2, 3)))
        counts[int(game.first != pair[0]), _kind(game.score)] += 1
    found = [np.zeros((3, players, players)) for _ in range(times)]
    for (i, j), clusters in groups.items():
        stack = np.stack(list(clusters.values())).reshape(len(clusters), 6)
        n = len(stack)
        weights = rng.multinomial(n, np.full(n, 1.0 / n), times)
        drawn = (weights @ stack).reshape(times, 2, 3)
        for counts, row in zip(found, drawn, strict=True):
            counts[:, i, j] += row[0]
            counts[:, j, i] += row[1]
    return [Tally(*counts) for counts in found]


def rating_intervals(
    games: Sequence[Game], fit: Fit, times: int = 300, seed: int = 0
) -> tuple[Array, Array]:
    """95 % intervals of the strengths, (players, 2), and the chance that each player is rated above
    each other one, (players, players), over resampled games."""
    n = len(fit.strength)
    drawn = np.array(
        [bradley_terry(tally, fit).strength for tally in resamples(games, n, times, seed)]
    )
    tails = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0).T
    above = (drawn[:, :, None] > drawn[:, None, :]).mean(0)
    return tails, above
