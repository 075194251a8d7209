"""Folds, selection and figures against brute force, and concepts planted in noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.probing import concepts, controls, geometry
from harness.probing.extract import Item
from harness.probing.nested import Plan, Settings, choose, predict, predictions, sweep
from harness.probing.solver import Problem
from harness.types import HarnessError, Message

LAYERS, WIDTH = 4, 8


def planted(seed, items, strength, layer=2):
    """States (layers, items, width), with the label at one layer, and the labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=items)
    states = rng.normal(size=(LAYERS, items, WIDTH)).astype(np.float32)
    states[layer, :, 1] += strength * (labels - 0.5)
    return states, labels.astype(np.int64)


def nested(states, labels, groups=None):
    """The hits of the chosen probes, those of the majority, the hits of the sweep, the plan."""
    problem = Problem("coin", labels, 2)
    groups = groups or [str(i) for i in range(len(labels))]
    plan, fitting = Plan.of(groups, [0]), Settings()
    keys = [("mean", layer) for layer in range(len(states))]
    hits = sweep(lambda key: states[key[1]], keys, [problem], plan, fitting)
    choices = choose(hits, [problem], plan)
    found = predict(lambda key: states[key[1]], keys, choices, [problem], plan, fitting)
    mine = concepts.right(predictions(choices, found, 0, plan), problem)
    guess = np.zeros(plan.folds.shape, np.int64)
    for part in plan.parts():
        seen = np.concatenate([part.train, part.validation])
        guess[0, part.test] = controls.majority(problem, seen)
    return problem, mine, concepts.right(guess, problem), hits, plan, choices


# Folds


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=20, max_size=80), st.integers(0, 99))
def test_no_group_stands_on_two_sides_and_every_item_is_tested_once(numbers, seed):
    groups = [f"g{n}" for n in numbers]
    tested = np.zeros(len(groups), int)
    validated = tested.copy()
    for part in Plan.of(groups, [seed]).parts():
        sides = [{groups[i] for i in side} for side in (part.train, part.validation, part.test)]
        assert sum(map(len, sides)) == len(set(groups))
        assert len(part.train) + len(part.validation) + len(part.test) == len(groups)
        tested[part.test] += 1
        validated[part.validation] += 1
    assert (tested == 1).all()
    assert (validated == 1).all()


def test_seeds_deal_differently_and_again_alike():
    groups = [str(i) for i in range(50)]
    first, second = Plan.of(groups, [0, 1]).folds
    assert (first != second).any()
    assert (first == Plan.of(groups, [0]).folds[0]).all()


# Selection


def test_the_choice_is_the_best_on_validation_alone():
    states, labels = planted(3, 120, 2.5)
    problem, _, _, hits, plan, choices = nested(states, labels)
    for choice, part in zip(choices, plan.parts(), strict=True):
        means = hits[0, 0, 0][:, :, part.validation].mean(-1)
        assert means[choice.block, choice.strength] == means.max()
    hits[:, 1] = 0  # what the test items say changes nothing
    assert choose(hits, [problem], plan) == choices


def test_a_planted_concept_is_found_where_it_is_with_the_accuracy_that_it_allows():
    from statistics import NormalDist

    strength = 3.0
    states, labels = planted(0, 400, strength)
    problem, mine, other, hits, _, choices = nested(states, labels)
    assert {c.block for c in choices} == {2}
    groups = [str(i) for i in range(400)]
    bayes = NormalDist().cdf(strength / 2)
    accuracy = concepts.interval(mine, problem, groups)
    assert abs(accuracy["value"] - bayes) < 0.03
    assert concepts.gain(mine, other, problem, groups)["low"] > 0.3
    within, best, curve = concepts.critical_layers(hits[0, 0], problem, groups, range(LAYERS))
    assert (within, best) == ([2], 2)
    assert curve[2] == max(curve)
    assert max(curve[0], curve[1], curve[3]) < 0.62


def test_where_nothing_is_planted_nothing_is_found():
    found = 0
    for seed in range(12):
        states, labels = planted(100 + seed, 80, 0.0)
        problem, mine, other, *_ = nested(states, labels)
        gain = concepts.gain(mine, other, problem, [str(i) for i in range(80)])
        found += gain["low"] > 0
    assert found <= 2  # 2.5 % each by chance: three or more have probability 0.003


def test_groups_that_share_a_label_do_not_leak():
    """Each group has a state of its own, which says nothing of other groups."""
    rng = np.random.default_rng(5)
    groups = np.repeat(np.arange(40), 4)
    own = rng.normal(size=(1, 40, 64)) * 3
    labels = rng.integers(2, size=40)[groups].astype(np.int64)
    states = (own[:, groups] + 0.01 * rng.normal(size=(1, 160, 64))).astype(np.float32)
    _, grouped, *_ = nested(states, labels, [str(g) for g in groups])
    _, leaked, *_ = nested(states, labels)
    assert grouped.mean() < 0.65
    assert leaked.mean() > 0.95


def test_a_killed_sweep_goes_on(tmp_path):
    states, labels = planted(1, 60, 2.0)
    problem = Problem("coin", labels, 2)
    plan = Plan.of([str(i) for i in range(60)], [0])
    keys, reads = [("mean", layer) for layer in range(LAYERS)], []

    def read(key):
        reads.append(key)
        if len(reads) == 3:
            raise KeyboardInterrupt
        return states[key[1]]

    with pytest.raises(KeyboardInterrupt):
        sweep(read, keys, [problem], plan, Settings(), tmp_path)
    resumed = sweep(read, keys, [problem], plan, Settings(), tmp_path)
    assert reads[3:] == keys[2:]
    whole = sweep(lambda key: states[key[1]], keys, [problem], plan, Settings())
    assert (resumed == whole).all()


# Figures


def test_critical_layers_by_hand():
    rng = np.random.default_rng(2)
    hits = (rng.random((1, 6, 3, 200)) < np.linspace(0.4, 0.6, 6)[None, :, None, None]).astype(int)
    labels = np.zeros(200, np.int64)
    labels[150:] = -1
    groups = [str(i // 2) for i in range(200)]
    within, best, curve = concepts.critical_layers(hits, Problem("a", labels, 2), groups, range(6))
    means = hits[0, :, :, :150].mean(-1)
    assert curve == pytest.approx(means.max(1))
    assert best == int(means.max(1).argmax())
    series = hits[0, best, means[best].argmax(), :150]
    residuals = (series - series.mean()).reshape(75, 2).sum(1)
    error = np.sqrt(75 / 74 * (residuals**2).sum()) / 150
    assert within == [i for i in range(6) if curve[i] >= max(curve) - error]


def test_macro_f1_is_scikit_learns():
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    rng = np.random.default_rng(0)
    labels, guess = rng.integers(-1, 3, 80), rng.integers(0, 3, (2, 80))
    rows = labels >= 0
    expected = np.mean([metrics.f1_score(labels[rows], g[rows], average="macro") for g in guess])
    assert concepts.macro_f1(guess, Problem("a", labels, 3)) == pytest.approx(expected)


def test_a_gain_is_paired():
    from scipy import stats

    rng = np.random.default_rng(1)
    hits, others = rng.integers(0, 2, (1, 90)), rng.integers(0, 2, (1, 90))
    problem = Problem("a", np.zeros(90, np.int64), 2)
    found = concepts.gain(hits, others, problem, [str(i) for i in range(90)])
    expected = stats.ttest_rel(hits[0], others[0]).confidence_interval()
    assert (found["low"], found["high"]) == pytest.approx(tuple(expected))


def test_the_best_control_is_the_one_that_does_best_on_the_test():
    problem = Problem("a", np.array([0, 0, 0, -1]), 2)
    hits = {"a": np.array([[1, 0, 0, 1]]), "b": np.array([[1, 1, 0, 0]])}
    assert concepts.best_control(hits, problem) == "b"


# Concepts and controls


def item(number, text="x", **labels):
    return Item(f"i{number}", f"g{number}", (Message("user", text),), labels)


def test_rare_classes_and_concepts_are_left_out_with_the_reason():
    items = [item(i, a=i % 2, b=0, c=2 if i < 3 else i % 2, d=i % 2 if i < 30 else -1)
             for i in range(60)]  # fmt: skip
    problems, skipped = concepts.problems_of(items)
    assert [p.name for p in problems] == ["a", "c"]
    assert (problems[1].labels[:3] == -1).all()
    assert problems[1].classes == 3
    assert set(skipped) == {"b", "d"}
    assert "30 items" in skipped["d"]
    with pytest.raises(HarnessError, match="no concept can be probed"):
        concepts.problems_of(items[:10])


def test_features_of_the_text():
    items = [item(0, "Pay 3, -2 and 0.5\nnow"), item(1, "pay pay 3"), item(2, "pay")]
    sizes = controls.size_features(items)
    assert sizes[:, :4].tolist() == [[21, 1, 6, 3], [9, 0, 3, 1], [3, 0, 1, 0]]
    assert sizes[:, 4:].sum(1).tolist() == [1, 1, 1]
    numbers = controls.number_features(items)
    assert numbers[0, :4].tolist() == [3, -2, 0.5, 0]
    assert numbers[0, -9:].tolist() == pytest.approx(
        [0.5, np.std([3, -2, 0.5]), -2, 0.5, 3, 1 / 3, 0, 3, 3]
    )
    words = controls.word_features(items)
    assert words.shape == (3, 1)  # only "pay" occurs in all three
    assert words[:, 0].tolist() == pytest.approx(np.log1p([1, 2, 1]))


def test_shuffled_labels_keep_the_counts_and_the_gaps():
    labels = np.array([0, 1, -1, 2, 1, -1, 0, 0] * 5)
    mixed = controls.shuffled(Problem("a", labels, 3), seed=1).labels
    assert ((mixed < 0) == (labels < 0)).all()
    assert (np.bincount(mixed[mixed >= 0]) == np.bincount(labels[labels >= 0])).all()
    assert (mixed != labels).any()


# Geometry


def test_the_pca_curve_finds_a_concept_in_its_component():
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=150).astype(np.int64)
    states = 0.3 * rng.normal(size=(150, 30))
    states += np.outer(labels - 0.5, rng.normal(size=30)) * 2
    plan = Plan.of([str(i) for i in range(150)], [0])
    problem = Problem("a", labels, 2)
    curve = geometry.pca_curve(states, problem, plan, Settings(), 0.1)
    assert [count for count, _ in curve] == [1, 2, 5, 10, 20, 30]
    assert concepts.right(curve[0][1], problem).mean() > 0.95


def test_cosines_of_planted_directions():
    rng = np.random.default_rng(0)
    one, two = np.linalg.qr(rng.normal(size=(20, 2)))[0].T
    first = np.stack([-one, one], 1)
    turned = np.stack([np.zeros(20), np.cos(0.4) * one + np.sin(0.4) * two], 1)
    plane = np.stack([one, two, -one - two], 1)
    found, chance = geometry.cosines([first, turned, plane])
    assert found[0, 1] == pytest.approx(np.cos(0.4))
    assert found[0, 2] == pytest.approx(1.0)  # the plane holds the direction
    assert chance[0, 1] == pytest.approx(np.sqrt(1 / 20))
    assert chance[0, 2] == pytest.approx(np.sqrt(2 / 20))
    assert (found == found.T).all()


def test_random_spans_have_the_cosine_that_is_shown_for_them():
    rng = np.random.default_rng(3)
    found = [
        geometry.cosines([rng.normal(size=(40, 3)), rng.normal(size=(40, 4))]) for _ in range(200)
    ]
    squares = np.mean([cosine[0, 1] ** 2 for cosine, _ in found])
    assert np.sqrt(squares) == pytest.approx(found[0][1][0, 1], rel=0.05)
