"""Coverage of the intervals that tables show; the full grid is benchmarks/coverage.py."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from harness.stats import TOO_FEW, mean_metric, score_interval, wilson

FILE = Path(__file__).parents[2] / "benchmarks" / "coverage.py"


@pytest.fixture(scope="module")
def grid():
    spec = importlib.util.spec_from_file_location("benchmark_coverage", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
@pytest.mark.parametrize(("clusters", "size"), [(20, 2), (20, 10), (50, 2)])
def test_intervals_of_clustered_rates_cover(grid, clusters, size, rate):
    covered = grid.coverage(grid.Case(clusters, size, rate, correlation=0.1), rounds=2_000)
    assert 0.93 <= covered <= 0.97


@pytest.mark.parametrize(("clusters", "rate"), [(20, 0.1), (20, 0.3), (50, 0.1), (200, 0.1)])
def test_wilson_covers(grid, clusters, rate):
    assert grid.coverage(grid.Case(clusters, 1, rate), rounds=2_000) >= 0.92


def test_partial_credit_covers_where_plain_t_does_not(grid):
    case = grid.Case(20, 1, 0.1, kind="partial")
    assert 0.93 <= grid.coverage(case, rounds=2_000) <= 0.97
    assert grid.coverage(case, rounds=2_000, interval="t") < 0.92


def test_paired_differences_cover(grid):
    for case in (grid.Case(20, 1, 0.3), grid.Case(20, 10, 0.1, correlation=0.2)):
        assert 0.93 <= grid.coverage(case, rounds=2_000, interval="paired") <= 0.97


def test_bootstrap_t_covers_and_the_percentile_interval_does_not(grid):
    case = grid.Case(20, 10, 0.3, correlation=0.1)
    assert 0.93 <= grid.coverage(case, rounds=1_000, interval="bootstrap-t") <= 0.975
    assert grid.coverage(grid.Case(20, 1, 0.1), rounds=1_000, interval="percentile") < 0.92


def test_score_interval_is_wilsons_without_clusters_and_stays_open():
    values = [1.0] * 7 + [0.0] * 13
    assert score_interval(values) == wilson(7, 20)
    low, high = score_interval([0.0] * 40, [str(i // 2) for i in range(40)])
    assert low == 0.0
    assert high == pytest.approx(wilson(0, 20).high)


def test_full_correlation_counts_clusters_and_none_counts_records():
    values = [float(i % 3 == 0) for i in range(300)]
    tens = [v for v in values for _ in range(10)]
    clustered = score_interval(tens, [str(i // 10) for i in range(3_000)])
    single = wilson(100, 300)
    assert clustered == pytest.approx(single, abs=0.004)


def test_metrics_choose_the_interval_by_their_values():
    few = mean_metric("score", [1.0] * (TOO_FEW - 1))
    assert (few.low, few.high) == (None, None)
    alike = mean_metric("score", [0.5] * 30)
    assert (alike.low, alike.high) == (0.5, 0.5)
    wide = mean_metric("length", [float(i) for i in range(40)])
    assert wide.low < 19.5 < wide.high
    assert wide.high > 1.0
