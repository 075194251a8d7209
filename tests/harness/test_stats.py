"""Statistics against SciPy, brute force and simulation."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from harness.stats import (
    cluster_bootstrap,
    cluster_key,
    cluster_t,
    grouped_means,
    incomplete_beta,
    mean_metric,
    pass_at_k,
    t_quantile,
    wilson,
)
from harness.types import Outcome, Record, Score


@pytest.mark.parametrize("df", [1, 2, 5, 19, 99, 1000, 10_000_000])
@pytest.mark.parametrize("p", [0.6, 0.9, 0.975, 0.9995])
def test_t_quantile_equals_scipy(p, df):
    assert t_quantile(p, df) == pytest.approx(scipy_stats.t.ppf(p, df), rel=1e-6)


@given(st.floats(0, 1), st.floats(0.5, 50), st.floats(0.5, 50))
@settings(derandomize=True)
def test_incomplete_beta_equals_scipy(x, a, b):
    expected = scipy_stats.beta.cdf(x, a, b)
    assert incomplete_beta(x, a, b) == pytest.approx(expected, abs=1e-10)


@given(st.integers(1, 200), st.data())
@settings(derandomize=True)
def test_wilson_equals_scipy(n, data):
    k = data.draw(st.integers(0, n))
    expected = scipy_stats.binomtest(k, n).proportion_ci(method="wilson")
    assert wilson(k, n) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_cluster_t_without_clusters_is_the_t_interval():
    values = [random.Random(3).gauss(0, 1) for _ in range(40)]
    values = [v + i / 10 for i, v in enumerate(values)]
    expected = scipy_stats.ttest_1samp(values, 0).confidence_interval()
    assert cluster_t(values, None) == pytest.approx((expected.low, expected.high), rel=1e-6)


def test_doubling_every_record_within_its_cluster_changes_nothing():
    values = [0.1, 0.9, 0.4, 0.7, 0.2]
    once = cluster_t(values, list("abcde"))
    twice = cluster_t(values * 2, list("abcde") * 2)
    assert once == pytest.approx(twice)


@pytest.mark.parametrize("interval", [cluster_t, lambda v, c: cluster_bootstrap(v, c, 1000)])
def test_coverage_of_clustered_means_is_nominal(interval):
    rng = random.Random(11)
    hits = 0
    rounds = 400
    for _ in range(rounds):
        values, clusters = [], []
        for cluster in range(40):
            base = rng.gauss(0.5, 0.3)
            for _ in range(3):
                values.append(base + rng.gauss(0, 0.1))
                clusters.append(str(cluster))
        low, high = interval(values, clusters)
        hits += low <= 0.5 <= high
    assert 0.92 <= hits / rounds <= 0.98


def test_bootstrap_is_deterministic_and_near_t():
    values = list(np.random.default_rng(0).normal(size=60))
    first, second = cluster_bootstrap(values), cluster_bootstrap(values)
    assert first == second
    assert first == pytest.approx(cluster_t(values, None), abs=0.08)


@pytest.mark.parametrize("n", [1, 3, 6])
def test_pass_at_k_equals_enumeration(n):
    for correct, k in itertools.product(range(n + 1), range(1, n + 1)):
        tries = [1] * correct + [0] * (n - correct)
        draws = list(itertools.combinations(tries, k))
        assert pass_at_k(n, correct, k) == pytest.approx(sum(map(any, draws)) / len(draws))


def test_pass_at_k_rejects_impossible_k():
    with pytest.raises(ValueError, match="k = 3"):
        pass_at_k(2, 1, 3)


def test_few_clusters_show_no_interval():
    metric = mean_metric("score", [0.0, 1.0] * 10, [str(i // 2) for i in range(20)])
    assert (metric.low, metric.high, metric.clusters) == (None, None, 10)


def test_bounded_values_keep_a_bounded_interval():
    metric = mean_metric("score", [1.0] * 29 + [0.5])
    assert 0.99 < metric.high <= 1.0


def test_no_values_give_no_figure():
    assert mean_metric("score", []).value is None


def _record(index, value, group):
    return Record(
        index, "t", f"s{index}", "test", 0, 0, group, f"s{index}", "", Outcome(()), Score(value)
    )


def test_grouped_means_split_by_group():
    records = [_record(i, float(i % 2), "ab"[i % 2]) for i in range(40)]
    metrics = {m.group: m for m in grouped_means(records)}
    assert metrics[""].value == 0.5
    assert (metrics["a"].value, metrics["b"].value) == (0.0, 1.0)
    assert math.isclose(metrics["b"].low, wilson(20, 20).low)


def test_clusters_may_be_keys_in_place_of_names():
    values = [0.0, 1.0, 0.25, 0.5, 1.0, 0.0] * 20
    names = [f"pair-{i // 3 % 30}" for i in range(len(values))]
    keys = [cluster_key(name) for name in names]
    assert len(set(keys)) == len(set(names)) == 30
    assert mean_metric("score", values, keys) == mean_metric("score", values, names)
    order = sorted(range(len(values)), key=lambda i: (i % 7, i))
    shuffled = [values[i] for i in order], [keys[i] for i in order]
    again = mean_metric("score", *shuffled)
    assert again.low == pytest.approx(mean_metric("score", values, keys).low, abs=1e-12)
