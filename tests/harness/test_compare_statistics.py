"""Comparisons against SciPy, statsmodels, enumeration and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from harness.board.ranking import adjust, pairwise, rank, two_sided_all
from harness.comparisons import (
    clusters_needed,
    holm,
    mcnemar,
    paired,
    paired_from_sums,
    sign_flip,
    two_sided,
    unpaired,
    welch,
)
from harness.stats import wilson

ABLATION = {
    "none": (0.728, 0.716, 0.724),
    "probe at 6": (0.725, 0.722, 0.738),
    "probe at 17": (0.723, 0.717, 0.700),
    "probe at 30": (0.706, 0.698, 0.704),
    "probe at 35": (0.690, 0.677, 0.689),
}
"""Peak validation rewards of the reference ablation, three seeds each."""


@pytest.mark.parametrize("df", [1, 2, 19, 499, 1e5])
def test_two_sided_p_equals_scipy_one_by_one_and_all_at_once(df):
    t = np.linspace(-9, 9, 41)
    expected = 2 * scipy_stats.t.sf(np.abs(t), df)
    assert two_sided_all(t, df) == pytest.approx(expected, rel=1e-6)
    assert [two_sided(x, df) for x in t] == pytest.approx(expected, rel=1e-6)


def test_paired_without_clusters_is_the_paired_t_test():
    rng = np.random.default_rng(1)
    a, b = rng.normal(0.2, 1, 60), rng.normal(0, 1, 60)
    result, expected = paired(a, b), scipy_stats.ttest_rel(a, b)
    interval = expected.confidence_interval()
    assert result.p == pytest.approx(expected.pvalue, rel=1e-6)
    assert (result.low, result.high) == pytest.approx((interval.low, interval.high), rel=1e-6)


def test_paired_with_clusters_is_the_cluster_robust_regression_of_statsmodels():
    import statsmodels.api as sm

    rng = np.random.default_rng(2)
    clusters = np.repeat(np.arange(30), rng.integers(1, 6, 30))
    difference = rng.normal(0.1, 1, len(clusters)) + rng.normal(0, 1, 30)[clusters]
    fit = sm.OLS(difference, np.ones(len(clusters))).fit(
        cov_type="cluster", cov_kwds={"groups": clusters}, use_t=True
    )
    result = paired(difference, np.zeros(len(clusters)), list(clusters))
    assert result.p == pytest.approx(float(fit.pvalues[0]), rel=1e-5)
    assert (result.low, result.high) == pytest.approx(tuple(fit.conf_int()[0]), rel=1e-5)


def test_paired_needs_as_many_figures():
    with pytest.raises(ValueError, match="3 and 2"):
        paired([1, 2, 3], [1, 2])


def test_equal_differences_fall_back_to_the_sign_flips():
    result = paired([1.0] * 5, [0.0] * 5)
    assert result.p == pytest.approx(sign_flip([1.0] * 5, [0.0] * 5)) == 2 / 2**5
    assert paired([1.0] * 5, [1.0] * 5).p == 1.0


def test_few_clusters_give_no_interval_but_a_p_value():
    result = paired([1, 0, 1, 1], [0, 0, 1, 0])
    assert result.low is None
    assert 0 < result.p < 1


@given(st.lists(st.integers(-3, 3), min_size=2, max_size=9))
@settings(derandomize=True, deadline=None, max_examples=40)
def test_sign_flips_equal_scipys_exact_permutation_test(differences):
    found = sign_flip(differences, [0] * len(differences))
    expected = scipy_stats.permutation_test(
        (np.array(differences, float), np.zeros(len(differences))),
        lambda a, b, axis: np.mean(a - b, axis=axis),
        permutation_type="samples",
        n_resamples=np.inf,
        vectorized=True,
    )
    assert found == pytest.approx(expected.pvalue)


def test_random_sign_flips_are_near_the_exact_ones_and_repeatable():
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 2, 60), rng.integers(0, 2, 60)
    again = [sign_flip(a, b) for _ in range(2)]
    assert again[0] == again[1]
    wins, losses = int((a > b).sum()), int((a < b).sum())
    assert again[0] == pytest.approx(mcnemar(wins, losses).exact, abs=0.01)


def test_sign_flips_move_whole_clusters():
    a, b = [1.0] * 6, [0.0] * 6
    assert sign_flip(a, b, [0, 0, 0, 1, 1, 1]) == 0.5


@given(st.integers(0, 60), st.integers(0, 60))
@settings(derandomize=True, deadline=None)
def test_mcnemar_equals_statsmodels_and_the_mid_p_definition(first, second):
    from statsmodels.stats.contingency_tables import mcnemar as reference

    found = mcnemar(first, second)
    expected = reference([[3, first], [second, 4]], exact=True).pvalue if first + second else 1.0
    assert found.exact == pytest.approx(expected, rel=1e-9)
    n, k = first + second, min(first, second)
    if n:
        mid = 2 * scipy_stats.binom.cdf(k, n, 0.5) - scipy_stats.binom.pmf(k, n, 0.5)
        expected = 1 - scipy_stats.binom.pmf(k, n, 0.5) if first == second else mid
        assert found.mid == pytest.approx(min(1.0, expected), rel=1e-9)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
@settings(derandomize=True, deadline=None)
def test_holm_equals_statsmodels(ps):
    from statsmodels.stats.multitest import multipletests

    assert holm(ps) == pytest.approx(multipletests(ps, method="holm")[1])


@pytest.mark.parametrize(
    ("condition", "t", "df", "p"),
    [
        ("probe at 6", 0.94, 3.6, 0.41),
        ("probe at 17", -1.21, 3.0, 0.31),
        ("probe at 30", -4.69, 3.5, 0.013),
        ("probe at 35", -6.83, 3.9, 0.003),
    ],
)
def test_welch_gives_the_ablations_p_values(condition, t, df, p):
    found = welch(ABLATION[condition], ABLATION["none"])
    assert found.t == pytest.approx(t, abs=0.06)
    assert found.df == pytest.approx(df, abs=0.1)
    assert round(found.p, 2 if p > 0.1 else 3) == p
    expected = scipy_stats.ttest_ind(ABLATION[condition], ABLATION["none"], equal_var=False)
    interval = expected.confidence_interval()
    assert found.p == pytest.approx(expected.pvalue, rel=1e-6)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-6)


def test_welch_of_constants():
    assert welch([1, 1], [1, 1]).p == 1.0
    assert welch([1, 1], [0, 0]).p == 0.0
    with pytest.raises(ValueError, match="two figures"):
        welch([1], [1, 2])


def test_unpaired_differences_of_rates_are_newcombes():
    from statsmodels.stats.proportion import confint_proportions_2indep

    one, other = wilson(31, 60), wilson(20, 70)
    found = unpaired((31 / 60, *one), (20 / 70, *other))
    expected = confint_proportions_2indep(31, 60, 20, 70, method="newcomb", compare="diff")
    assert found == pytest.approx(expected, abs=1e-6)
    assert unpaired((0.5, None, None), (0.4, 0.3, 0.5)) == (None, None)


@pytest.mark.parametrize(("difference", "spread"), [(0.1, 0.5), (0.03, 0.6), (0.3, 0.4)])
def test_clusters_needed_reach_the_power_by_statsmodels(difference, spread):
    from statsmodels.stats.power import TTestPower

    found = clusters_needed(difference, spread)
    expected = TTestPower().solve_power(difference / spread, power=0.8, alpha=0.05)
    assert found == pytest.approx(math.ceil(expected), abs=1)
    assert clusters_needed(0.0, spread) is None


def test_pairwise_is_the_paired_test_of_each_pair_with_and_without_gaps():
    rng = np.random.default_rng(4)
    matrix = rng.integers(0, 2, (5, 60)).astype(float)
    matrix[3] = matrix[2]
    matrix[4, ::7] = np.nan
    clusters = np.arange(60) // 3
    p = pairwise(matrix, clusters)
    for i in range(5):
        for j in range(i):
            keep = ~np.isnan(matrix[i]) & ~np.isnan(matrix[j])
            expected = paired(matrix[i][keep], matrix[j][keep], list(clusters[keep]))
            assert p[i, j] == p[j, i] == pytest.approx(expected.p, rel=1e-6)
    assert p[2, 3] == 1.0


@given(st.integers(2, 9), st.integers(0, 2**31))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_rows_share_a_letter_exactly_if_they_are_not_apart(rows, seed):
    rng = np.random.default_rng(seed)
    p = np.triu(rng.random((rows, rows)) * 0.2, 1)
    p = p + p.T + np.eye(rows)
    means = rng.random(rows).tolist()
    ranks, letters = rank(means, p)
    for i in range(rows):
        better = sum(means[j] > means[i] and p[i, j] < 0.05 for j in range(rows))
        assert ranks[i] == 1 + better
        for j in range(i):
            assert bool(set(letters[i]) & set(letters[j])) == (p[i, j] >= 0.05)


def test_holm_over_all_pairs():
    p = np.array([[1, 0.01, 0.04], [0.01, 1, 0.03], [0.04, 0.03, 1]])
    assert adjust(p)[0, 1] == pytest.approx(0.03)
    assert adjust(p)[2, 0] == adjust(p)[0, 2] == pytest.approx(0.06)


@pytest.mark.parametrize(("clusters", "size"), [(20, 1), (20, 10), (50, 2), (200, 1)])
def test_paired_tests_reject_a_true_null_five_times_in_a_hundred(clusters, size):
    """Correlated yes/no verdicts of two equal models; 4,000 simulations (standard error 0.3 %)."""
    rng = np.random.default_rng(clusters + size)
    rounds = 4_000
    ability = rng.random((rounds, clusters, size))
    ability = 0.5 * ability + 0.5 * rng.random((rounds, clusters, 1))
    one, other = rng.random((2, rounds, clusters, size)) < ability
    sums = one.sum(2).astype(float) - other.sum(2)
    n = clusters * size
    mean = sums.sum(1) / n
    error = np.sqrt(((sums - mean[:, None] * size) ** 2).sum(1) * clusters / (clusters - 1)) / n
    rejected = float((two_sided_all(mean / error, clusters - 1) < 0.05).mean())
    assert 0.04 <= rejected <= 0.06
    sizes = np.full(clusters, float(size))
    spot = [paired_from_sums(row, sizes).p for row in sums[:50]]
    assert spot == pytest.approx(two_sided_all(mean / error, clusters - 1)[:50], rel=1e-6)


def test_permutation_and_mid_p_reject_a_true_null_five_times_in_a_hundred():
    rng = np.random.default_rng(9)
    verdicts = rng.random((2, 1_500, 400)) < rng.random(400)
    wins = (verdicts[0] > verdicts[1]).sum(1)
    losses = (verdicts[0] < verdicts[1]).sum(1)
    ps = [mcnemar(int(w), int(x)).mid for w, x in zip(wins, losses, strict=True)]
    assert 0.035 <= float(np.mean(np.array(ps) < 0.05)) <= 0.065
    scores = rng.normal(size=(600, 12))
    flips = [sign_flip(row, np.zeros(12)) for row in scores]
    assert 0.03 <= float(np.mean(np.array(flips) < 0.05)) <= 0.07
