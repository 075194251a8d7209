"""Steering: the states are changed as the formulas say, and nothing stays changed."""

from __future__ import annotations

import json
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from tiny_models import tiny_checkpoint

from harness.probing.extract import Source
from harness.probing.steering import Change, _answers, _steer
from harness.types import Decoding, HarnessError, Message, Request


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tiny_checkpoint(tmp_path_factory.mktemp("steer") / "tiny", num_hidden_layers=3)
    return Source(str(folder)).open()


PROMPT = [[5, 9, 77, 31]]
SPAN = [(0, 4)]


def states(model, layer):
    return model.hidden_states(PROMPT, SPAN, [layer], "mean")[0, 0]


def test_adding_moves_the_block_by_the_strength_and_later_blocks_too(model):
    direction = np.random.default_rng(0).normal(size=64)
    before, after = states(model, 1), states(model, 2)
    with model.steered(1, direction, 2.5):
        moved = states(model, 1)
        later = states(model, 2)
    expected = 2.5 * direction / np.linalg.norm(direction)
    np.testing.assert_allclose(moved - before, expected, atol=1e-4)
    assert np.abs(later - after).max() > 1e-2
    np.testing.assert_array_equal(states(model, 1), before)


def test_ablating_leaves_nothing_along_the_direction(model):
    direction = np.random.default_rng(1).normal(size=64)
    unit = direction / np.linalg.norm(direction)
    before = states(model, -2)
    with model.steered(-2, direction, 0.0, ablate=True):
        left = states(model, -2)
    assert abs(left @ unit) < 1e-4
    np.testing.assert_allclose(left, before - (before @ unit) * unit, atol=1e-4)


def test_replies_change_and_come_back(model):
    request = Request((Message("user", "hello"),), Decoding(max_tokens=8), 0)
    plain = model.generate_batch([request])[0].ids
    with model.steered(0, np.ones(64), 50.0):
        steered = model.generate_batch([request])[0].ids
    assert steered != plain
    assert model.generate_batch([request])[0].ids == plain


def test_bad_directions_are_refused(model):
    for layer, direction in ((0, np.zeros(64)), (0, np.ones(3)), (3, np.ones(64))):
        with (
            pytest.raises(HarnessError, match=r"direction|layer"),
            model.steered(layer, direction, 1.0),
        ):
            pass


def test_changes_of_answers_and_scores_are_counted(model, toy_registry):
    task = toy_registry.create("task", "gamesolve", {})
    samples = [next(iter(task.samples("test")))] * 2
    reward = toy_registry.create("reward", "gamesolve", {})
    decoding = Decoding(max_tokens=3)
    model.context_length = None  # the tiny model is asked for few tokens of a long prompt
    huge = Change("a", 1, "add", 0, np.ones(64), 1e3, False)
    none = Change("a", 1, "none", 0, np.ones(64), 0.0, False)
    rows = _steer(model, task, reward, samples, decoding, [huge, none])
    assert [row["replies_changed"] for row in rows] == [1.0, 0.0]
    assert rows[1]["score"]["value"] == 0.0
    assert rows[0]["n"] == 2
    json.dumps(rows)
    answers = _answers(model, task, reward, samples, decoding, nullcontext())
    assert answers[0] == answers[1]


def test_random_weights_leave_the_global_random_state(tmp_path):
    folder = tiny_checkpoint(tmp_path / "tiny")
    torch.manual_seed(4)
    expected = torch.rand(2)
    torch.manual_seed(4)
    one = Source(str(folder), random=1).open()
    torch.manual_seed(4)
    one.random_weights(2)
    assert torch.equal(torch.rand(2), expected)
    assert one.identity.endswith("-random-1-random-2")
