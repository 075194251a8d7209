"""Effect sizes, paired differences and trends of few figures, against SciPy and the reference."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from harness.comparisons import welch
from harness.effects import cohens_d, hedges_g, paired_t, ranks, spearman

# Peak validation rewards of the reference study's ablation, seeds 0, 1, 2 (three decimals).
NONE = (0.728, 0.716, 0.724)
PROBE = {
    6: (0.725, 0.722, 0.738),
    17: (0.723, 0.717, 0.700),
    30: (0.706, 0.698, 0.704),
    35: (0.690, 0.677, 0.689),
}
REPORTED = {6: (0.94, 3.6, 0.41), 17: (-1.21, 3.0, 0.31), 30: (-4.69, 3.5, 0.013),
            35: (-6.83, 3.9, 0.003)}  # fmt: skip
"""t, degrees of freedom and p of each against no probe."""

figures = st.lists(st.integers(-20, 20).map(lambda i: i / 7), min_size=3, max_size=12)


@pytest.mark.parametrize("layer", PROBE)
def test_welch_of_the_reference_ablation(layer):
    found = welch(PROBE[layer], NONE)
    t, df, p = REPORTED[layer]
    assert found.t == pytest.approx(t, abs=0.006)
    assert found.df == pytest.approx(df, abs=0.06)
    assert found.p == pytest.approx(p, abs=0.006 if p > 0.1 else 0.0006)


def test_trend_of_the_reference_ablation():
    x = [layer for layer, values in PROBE.items() for _ in values]
    y = [value for values in PROBE.values() for value in values]
    found = spearman(x, y)
    assert round(found.rho, 2) == -0.91
    wanted = stats.spearmanr(x, y)
    assert found.p == pytest.approx(wanted.pvalue, rel=1e-6)
    assert found.permutation < 0.001


@given(figures, st.randoms(use_true_random=False))
def test_spearman_is_scipys(x, random):
    y = [random.randint(-3, 3) for _ in x]
    if len(set(x)) < 2 or len(set(y)) < 2:
        with pytest.raises(ValueError, match="alike"):
            spearman(x, y)
        return
    found, wanted = spearman(x, y, draws=10), stats.spearmanr(x, y)
    assert found.rho == pytest.approx(wanted.statistic, abs=1e-12)
    assert found.p == pytest.approx(wanted.pvalue, rel=1e-6, abs=1e-9)


def test_all_orders_are_counted():
    x, y = [1, 2, 3, 4, 5, 5], [2, 1, 4, 3, 6, 5]
    wanted = stats.permutation_test(
        (y,), lambda v: stats.spearmanr(x, v).statistic, permutation_type="pairings",
        n_resamples=math.inf, vectorized=False,
    )  # fmt: skip
    assert spearman(x, y).permutation == pytest.approx(wanted.pvalue, abs=1e-12)


def test_drawn_orders_come_near_the_share_of_all():
    x, y = list(range(10)), [1, 0, 4, 2, 3, 7, 5, 9, 6, 8]
    rng = np.random.default_rng(5)
    centred = np.argsort(y) - 4.5
    rho = abs(np.corrcoef(x, y)[0, 1])
    drawn = rng.permuted(np.tile(centred, (200_000, 1)), axis=1) @ (np.arange(10) - 4.5)
    share = (np.abs(drawn) >= rho * 82.5 - 1e-9).mean()
    assert spearman(x, y).permutation == pytest.approx(share, abs=3 * math.sqrt(share / 20_000))


@given(figures)
def test_ranks_are_scipys(values):
    assert ranks(values) == stats.rankdata(values).tolist()


@given(figures, st.randoms(use_true_random=False))
def test_paired_t_is_scipys(first, random):
    second = [v + random.uniform(-1, 1) for v in first]
    assume(np.ptp(np.subtract(first, second)) > 1e-3)
    found, wanted = paired_t(first, second), stats.ttest_rel(first, second)
    assert (found.t, found.p) == pytest.approx((wanted.statistic, wanted.pvalue), rel=1e-6)
    interval = wanted.confidence_interval()
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-6)


def test_paired_t_without_spread():
    assert paired_t([1.0, 2.0], [1.0, 2.0]).p == 1.0
    assert paired_t([1.5, 2.5], [1.0, 2.0]).p == 0.0
    with pytest.raises(ValueError, match="at least two"):
        paired_t([1.0], [2.0])


def test_effect_sizes_by_their_definitions():
    """d by the pooled variance of NumPy; g by Hedges' factor in gamma functions of SciPy."""
    from scipy.special import gamma

    for values in PROBE.values():
        pooled = math.sqrt((np.var(values, ddof=1) + np.var(NONE, ddof=1)) / 2)
        d = (np.mean(values) - np.mean(NONE)) / pooled
        assert cohens_d(values, NONE) == pytest.approx(d)
        assert hedges_g(values, NONE) == pytest.approx(
            d * gamma(2) / (math.sqrt(2) * gamma(1.5)), rel=1e-12
        )


def test_hedges_g_has_no_bias():
    """Mean of g over many small samples of a known effect; that of d is a quarter too large."""
    rng = np.random.default_rng(11)
    first, second = rng.normal(1.0, 1.0, (4000, 3)), rng.normal(0.0, 1.0, (4000, 3))
    found = np.array([(cohens_d(a, b), hedges_g(a, b)) for a, b in zip(first, second, strict=True)])
    d, g = found.mean(0)
    assert g == pytest.approx(1.0, abs=0.06)
    assert d > 1.15


def test_effect_sizes_that_do_not_exist():
    assert cohens_d([1.0, 1.0], [0.5, 0.5]) is None
    assert cohens_d([1.0], [0.5]) is None
    assert hedges_g([1.0, 2.0], [0.5]) is None
