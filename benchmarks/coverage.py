"""Coverage of every interval and type-I error of every test in use; docs/statistics.md has figures.

    python benchmarks/coverage.py [--rounds 2000] [--json FILE] [--only WORD]

Yes/no scores in clusters are beta-binomial with an intra-cluster correlation; partial credit is 0
or uniform on [0.2, 1]; lengths are gamma (shape 4) times a common gamma factor of the cluster. Each
figure is the share of simulations whose 95 % interval holds the truth, or of pairs of equal models
that a test at 5 % tells apart. With 2,000 simulations a figure has a standard error of 0.5 points.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final, NamedTuple

import numpy as np

from harness.board.cells import Cell, over_runs
from harness.comparisons import mcnemar, paired_from_sums, sign_flip, unpaired, welch
from harness.stats import Interval, cluster_t, exact_interval, score_interval, wilson

Array = np.ndarray[Any, Any]

CLUSTERS: Final = (20, 50, 200, 1000)
SIZES: Final = (1, 2, 10)
RATES: Final = (0.1, 0.3, 0.5)


class Case(NamedTuple):
    """A cell of the grid: clusters, records in each, mean, correlation within clusters."""

    clusters: int
    size: int
    rate: float
    correlation: float = 0.0
    kind: str = "yes/no"


def draw(case: Case, rng: np.random.Generator) -> Array:
    """One simulated run: (clusters, size) scores whose expected mean is the case's rate."""
    shape = (case.clusters, case.size)
    if case.kind == "length":
        common = rng.gamma(10, 0.1, (case.clusters, 1)) if case.size > 1 else 1.0
        return rng.gamma(4, case.rate / 4, shape) * common
    if case.kind == "partial":
        paid = rng.random((case.clusters, 1) if case.correlation else shape) < case.rate / 0.6
        return np.where(paid, rng.uniform(0.2, 1.0, shape), 0.0)
    rates: Any = case.rate
    if case.correlation:
        weight = (1 - case.correlation) / case.correlation
        rates = rng.beta(case.rate * weight, (1 - case.rate) * weight, (case.clusters, 1))
    return (rng.random(shape) < rates).astype(float)


def percentile(values: list[float], clusters: list[str], resamples: int = 500) -> Interval:
    """The plain percentile bootstrap, for comparison: it is too short."""
    grid = np.array(values).reshape(len(set(clusters)), -1)
    drawn = np.random.default_rng(0).integers(0, len(grid), (resamples, len(grid)))
    low, high = np.quantile(grid.mean(1)[drawn].mean(1), [0.025, 0.975])
    return Interval(float(low), float(high))


INTERVALS: Final[dict[str, Callable[[list[float], list[str]], Interval]]] = {
    "score": score_interval,
    "t": cluster_t,
    "bootstrap-t": lambda v, c: exact_interval(v, c, resamples=1_000),
    "percentile": percentile,
}


def coverage(case: Case, rounds: int, interval: str = "score", seed: int = 1) -> float:
    """The share of simulations whose interval holds the truth.

    ``paired`` simulates two models of the same rate minus 0.05 and plus 0.05 on common items.
    """
    rng = np.random.default_rng([seed, *map(int, (case.clusters, case.size, 100 * case.rate))])
    names = [str(i // case.size) for i in range(case.clusters * case.size)]
    hits = 0
    for _ in range(rounds):
        if interval == "paired":
            sums = pair(case, rng, 0.05)
            found = paired_from_sums(sums, np.full(case.clusters, float(case.size)))
            hits += holds(Interval(found.low, found.high), 0.1)
            continue
        values = draw(case, rng).ravel().tolist()
        hits += holds(INTERVALS[interval](values, names), case.rate)
    return hits / rounds


def holds(interval: Interval, truth: float) -> bool:
    """Whether the interval contains the truth (up to rounding)."""
    assert interval.low is not None
    assert interval.high is not None
    return interval.low - 1e-12 <= truth <= interval.high + 1e-12


def verdicts(case: Case, rng: np.random.Generator, shift: float) -> Array:
    """(2, clusters, size) yes/no of two models of rates + shift and - shift on the same items: a
    common difficulty of item and cluster makes them alike."""
    shape = (case.clusters, case.size)
    hard = rng.normal(size=shape) * 0.7 + rng.normal(size=(case.clusters, 1)) * 0.7
    noise = rng.normal(size=(2, *shape)) * 0.7
    spread = np.sqrt(3 * 0.49)
    cuts = [NormalDist().inv_cdf(case.rate + s) * spread for s in (shift, -shift)]
    return np.stack([hard + noise[k] < cuts[k] for k in (0, 1)])


def pair(case: Case, rng: np.random.Generator, shift: float) -> Array:
    """(clusters,) sums of the differences of two such models."""
    one, other = verdicts(case, rng, shift)
    return np.asarray((one.astype(float) - other).sum(1))


def seeds_coverage(seeds: int, rounds: int, difference: bool = False) -> float:
    """Coverage of the t interval over training seeds, or of Welch's of two such rows; the scores
    of seeds are normal with spreads 0.006 and 0.012, about those of the reference ablation."""
    rng = np.random.default_rng([2, seeds])
    hits = 0
    for _ in range(rounds):
        one, other = rng.normal(0.72, 0.006, seeds), rng.normal(0.70, 0.012, seeds)
        if difference:
            found = welch(one.tolist(), other.tolist())
            hits += holds(Interval(found.low, found.high), 0.02)
        else:
            cell = over_runs(Cell(None), one.tolist())
            hits += holds(Interval(cell.low, cell.high), 0.72)
    return hits / rounds


def gap_coverage(n: int, rates: tuple[float, float], rounds: int) -> float:
    """Coverage of the interval of the ID-OOD gap: two rates on n samples each of their own."""
    rng = np.random.default_rng([3, n, int(100 * rates[0])])
    hits = 0
    for one, other in rng.binomial(n, rates, (rounds, 2)):
        found = unpaired((one / n, *wilson(one, n)), (other / n, *wilson(other, n)))
        hits += holds(found, rates[0] - rates[1])
    return hits / rounds


def type_one(case: Case, rounds: int, test: str) -> float:
    """The share of pairs of equal models that a test at 5 % tells apart."""
    rng = np.random.default_rng([4, *map(int, (case.clusters, case.size, 100 * case.rate))])
    sizes = np.full(case.clusters, float(case.size))
    found = 0
    for _ in range(rounds):
        if test.startswith("McNemar"):
            one, other = verdicts(case, rng, 0.0)
            result = mcnemar(int((one & ~other).sum()), int((~one & other).sum()))
            p = result.mid if "mid" in test else result.exact
        elif test == "sign flips":
            sums = pair(case, rng, 0.0)
            p = sign_flip(sums.tolist(), [0.0] * case.clusters, flips=999)
        elif test == "paired t":
            p = paired_from_sums(pair(case, rng, 0.0), sizes).p
        else:
            p = welch(*rng.normal(0.72, [[0.006], [0.012]], (2, case.clusters)).tolist()).p
        found += p < 0.05
    return found / rounds


class Table(NamedTuple):
    """A table of the report: which figure, of which data, up to how many clusters."""

    heading: str
    figure: str
    kind: str = "yes/no"
    correlation: float = 0.0
    most: int = 1_000
    sizes: tuple[int, ...] = SIZES


def tables() -> Iterator[Table]:
    """Every table: intervals, then tests, then what is here for comparison."""
    yield Table("score interval (Wilson at size 1), yes/no, independent", "score")
    yield Table("score interval, yes/no, correlation 0.1", "score", correlation=0.1)
    yield Table("score interval, yes/no, correlation 0.3", "score", correlation=0.3)
    yield Table("score interval, partial credit, independent", "score", "partial")
    yield Table("score interval, partial credit, paid by cluster", "score", "partial", 1.0)
    yield Table("t over clusters, lengths (mean 100)", "t", "length")
    yield Table("paired t over clusters, difference 0.1", "paired")
    yield Table("bootstrap-t (--exact), yes/no, correlation 0.1", "bootstrap-t", most=200,
                correlation=0.1)  # fmt: skip
    yield Table("bootstrap-t (--exact), partial credit", "bootstrap-t", "partial", most=200)
    yield Table("type I: paired t over clusters", "paired t")
    yield Table("type I: sign flips over clusters", "sign flips", most=200)
    yield Table("type I: McNemar, mid p", "McNemar mid p", sizes=(1,))
    yield Table("type I: McNemar, exact", "McNemar exact", sizes=(1,))
    yield Table("for comparison: plain t, yes/no, correlation 0.1", "t", correlation=0.1, most=200)
    yield Table("for comparison: percentile bootstrap, correlation 0.1", "percentile",
                correlation=0.1, most=50)  # fmt: skip


def rows(table: Table, rounds: int, most: int) -> Iterator[tuple[str, list[float]]]:
    """(clusters x size, a figure for each rate) of a table."""
    rates = (100.0,) if table.kind == "length" else RATES
    for clusters in (c for c in CLUSTERS if c <= min(most, table.most)):
        for size in table.sizes:
            cases = [Case(clusters, size, r, table.correlation, table.kind) for r in rates]
            if table.heading.startswith("type I"):
                yield f"{clusters} x {size}", [type_one(c, rounds, table.figure) for c in cases]
            else:
                yield f"{clusters} x {size}", [coverage(c, rounds, table.figure) for c in cases]


def small_tables(
    rounds: int,
) -> Iterator[tuple[str, tuple[str, ...], list[tuple[str, list[float]]]]]:
    """(heading, columns, rows) of what depends on seeds, or on two rates."""
    yield (
        "over training seeds",
        ("t interval", "Welch interval", "type I of Welch's test"),
        [
            (
                f"{n} seeds",
                [
                    seeds_coverage(n, rounds),
                    seeds_coverage(n, rounds, difference=True),
                    type_one(Case(n, 1, 0.5), rounds, "Welch"),
                ],
            )
            for n in (3, 5, 10)
        ],
    )
    pairs = ((0.9, 0.7), (0.5, 0.3), (0.3, 0.1))
    yield (
        "ID-OOD gap (Newcombe), rates",
        tuple(f"{a} and {b}" for a, b in pairs),
        [(f"{n} each", [gap_coverage(n, p, rounds) for p in pairs]) for n in CLUSTERS],
    )


def main() -> int:
    """Print all tables as Markdown, and save the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2_000)
    parser.add_argument("--most", type=int, default=1_000, help="clusters at most")
    parser.add_argument("--only", default="", help="a word of the heading")
    parser.add_argument("--json", type=Path, help="a file for the figures (--only: updated)")
    given = parser.parse_args()
    saved: dict[str, dict[str, list[float]]] = {}
    if given.only and given.json is not None and given.json.exists():
        saved = json.loads(given.json.read_text())["tables"]

    def show(heading: str, columns: tuple[str, ...], lines: Any) -> None:
        print(f"\n{heading}\n\n| {'clusters x size':15} | " + " | ".join(columns) + " |")
        print("| --- |" + " --- |" * len(columns))
        for name, found in lines:
            saved.setdefault(heading, {})[name] = [round(f, 4) for f in found]
            print(f"| {name} | " + " | ".join(f"{100 * f:.1f}" for f in found) + " |", flush=True)

    for table in (t for t in tables() if given.only in t.heading):
        columns = ("coverage",) if table.kind == "length" else tuple(map(str, RATES))
        show(table.heading, columns, rows(table, given.rounds, given.most))
    for heading, columns, lines in small_tables(given.rounds):
        if given.only in heading:
            show(heading, columns, lines)
    if given.json is not None:
        value = {"rounds": given.rounds, "rates": RATES, "tables": saved}
        given.json.write_text(json.dumps(value, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
