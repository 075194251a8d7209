"""The batched solver beside scikit-learn and the conditions of an optimum."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.probing import reference
from harness.probing.solver import STRENGTHS, Problem, Scaler, solve


def data(seed, items, width, classes, flips=0.5):
    """Correlated features and labels that follow them noisily."""
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(width, width)) * np.exp(-np.arange(width) / 8)[:, None]
    features = rng.normal(size=(items, width)) @ mix
    features /= features.std(0)
    scores = features @ rng.normal(size=(width, classes)) / np.sqrt(width)
    labels = (scores + flips * rng.gumbel(size=scores.shape)).argmax(1)
    return torch.as_tensor(features, dtype=torch.float32)[None], labels.astype(np.int64)


def objective(features, labels, weights, bias, strength):
    """The mean loss with its penalty, in float64."""
    logits = features[0].double() @ weights.double() + bias.double()
    loss = torch.nn.functional.cross_entropy(logits, torch.as_tensor(labels))
    return float(loss + strength / 2 * weights.double().square().sum())


@pytest.mark.parametrize(("items", "width", "classes"), [(90, 20, 3), (60, 100, 2), (80, 30, 4)])
def test_it_finds_the_optimum_that_scikit_learn_finds(items, width, classes):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed (the extra probe)")
    features, labels = data(items, items, width, classes)
    train, rows = np.arange(0, items, 2), np.arange(1, items, 2)
    problem = Problem("a", labels, classes)
    ours = solve(features, [problem], train, rows, weights=True)
    theirs = reference.solve(features, [problem], train, rows, weights=True)
    assert (ours.predictions[0] == theirs.predictions[0]).float().mean() > 0.97
    for place, strength in enumerate(STRENGTHS):
        mine, other = (
            objective(
                features[:, train], labels[train], s.weights[0][0, place], s.biases[0][0, place],
                strength,
            )
            for s in (ours, theirs)
        )  # fmt: skip
        assert mine <= other + 5e-4
        assert abs(mine - other) < 1e-3


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 4), st.integers(3, 30))
def test_the_gradient_vanishes(seed, classes, width):
    features, labels = data(seed, 40, width, classes)
    everything = np.arange(40)
    found = solve(features, [Problem("a", labels, classes)], everything, everything, [0.1], True)
    weights = found.weights[0][0, 0].double().requires_grad_()
    finite = torch.isfinite(found.biases[0][0, 0])
    bias = found.biases[0][0, 0].double().requires_grad_()
    logits = features[0].double() @ weights + bias
    loss = torch.nn.functional.cross_entropy(logits, torch.as_tensor(labels))
    loss = loss + 0.05 * weights.square().sum()
    slopes = torch.autograd.grad(loss, [weights, bias])
    assert float(slopes[0].abs().max()) < 5e-3
    assert float(slopes[1][finite].abs().max()) < 5e-3


def test_problems_and_blocks_together_are_as_alone():
    one, labels = data(1, 80, 12, 3)
    two, other = data(2, 80, 12, 2)
    other[40:60] = -1
    problems = [
        Problem("a", labels, 3),
        Problem("b", other, 2),
        Problem("c", other[::-1].copy(), 2),
    ]
    train, rows = np.arange(50), np.arange(50, 80)
    together = solve(torch.cat([one, two]), problems, train, rows, weights=True)
    for place, problem in enumerate(problems):
        for block, features in enumerate((one, two)):
            alone = solve(features, [problem], train, rows, weights=True)
            assert torch.equal(alone.predictions[0][0], together.predictions[place][block])
            torch.testing.assert_close(
                alone.weights[0][0], together.weights[place][block], rtol=0.05, atol=0.02
            )


def test_items_without_a_label_are_not_fitted():
    features, labels = data(3, 60, 6, 2)
    masked = labels.copy()
    masked[::3] = -1
    kept = np.flatnonzero(masked >= 0)
    everything = np.arange(60)
    with_mask = solve(features, [Problem("a", masked, 2)], everything, everything, weights=True)
    without = solve(features, [Problem("a", labels, 2)], kept, everything, weights=True)
    assert torch.equal(with_mask.weights[0], without.weights[0])


def test_a_class_that_no_train_item_has_is_never_predicted():
    features, labels = data(4, 60, 6, 3, flips=0.01)
    train = np.flatnonzero(labels != 1)
    found = solve(features, [Problem("a", labels, 3)], train, np.arange(60), weights=True)
    assert set(found.predictions[0].unique().tolist()) == {0, 2}
    assert torch.isneginf(found.biases[0][..., 1]).all()


def test_without_features_it_says_the_majority():
    labels = np.array([0] * 10 + [1] * 20)
    found = solve(torch.zeros(1, 30, 3), [Problem("a", labels, 2)], np.arange(30), np.arange(30))
    assert found.predictions[0].eq(1).all()


def test_scaling_leaves_out_what_only_rounding_moves():
    rng = np.random.default_rng(0)
    states = torch.as_tensor(rng.normal(size=(1, 50, 3)), dtype=torch.float32)
    states[0, :, 1] = 100 + 1e-4 * states[0, :, 1]  # constant but for rounding
    scaled = Scaler.of(states, noise=1e-4)(states)
    assert scaled[0, :, 1].abs().max() == 0
    assert torch.allclose(scaled[0, :, [0, 2]].mean(0), torch.zeros(2), atol=1e-6)
    assert torch.allclose(scaled[0, :, [0, 2]].std(0, correction=0), torch.ones(2), atol=1e-5)


def test_scaling_uses_the_train_rows_only():
    states = torch.tensor([[[0.0], [2.0], [100.0]]])
    scaled = Scaler.of(states[:, :2], noise=1e-4)(states)
    assert scaled[0, :, 0].tolist() == [-1.0, 1.0, 99.0]


def test_sparse_counts_do_not_stop_it():
    """Repeated eigenvalues: each word in one text, as a bag of words has them."""
    features = torch.eye(120)[:, :90].repeat(2, 1)[None] * 9.7
    labels = np.arange(240) % 2
    train = np.arange(0, 240, 3)
    scaled = Scaler.of(features[:, train], noise=1e-6)(features)
    found = solve(scaled, [Problem("a", labels, 2)], train, np.arange(240))
    assert found.predictions[0].shape == (1, 5, 240)


def test_it_goes_on_where_float32_eigenvalues_fail(monkeypatch):
    whole, calls = torch.linalg.eigh, []

    def fails_once(matrix):
        calls.append(matrix.dtype)
        if matrix.dtype == torch.float32:
            raise torch.linalg.LinAlgError("did not converge")
        return whole(matrix)

    features, labels = data(7, 60, 10, 3)
    rows = np.arange(60)
    plain = solve(features, [Problem("a", labels, 3)], rows, rows, weights=True)
    monkeypatch.setattr(torch.linalg, "eigh", fails_once)
    found = solve(features, [Problem("a", labels, 3)], rows, rows, weights=True)
    assert calls == [torch.float32, torch.float64]
    torch.testing.assert_close(found.weights[0], plain.weights[0], rtol=0.02, atol=0.02)
