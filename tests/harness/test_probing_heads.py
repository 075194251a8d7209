"""Probe heads: pooling by the formulas, masks, weights, and parts that add up to the whole."""

from __future__ import annotations

import math

import pytest
import torch

from harness.probing.heads import (
    POOLINGS,
    ProbeHeads,
    pool_packed,
    pool_padded,
    position_weights,
)
from harness.types import HarnessError

CLASSES = {"type": 3, "best": 4}


def by_formula(states, pooling):
    """Of one prompt's states (positions, width)."""
    size = len(states)
    if pooling == "last":
        return states[-1]
    weights = [1.0] * size
    if pooling == "weighted":
        weights = [math.exp(2 * j / max(1, size - 1)) for j in range(size)]
    return sum(w * s for w, s in zip(weights, states, strict=True)) / sum(weights)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_padded_and_packed_rows_are_pooled_by_the_formula(pooling):
    torch.manual_seed(0)
    sizes, replies = [3, 1, 5], [2, 4, 0]
    prompts = [torch.randn(n, 6) for n in sizes]
    rows = [torch.cat([p, torch.randn(r, 6)]) for p, r in zip(prompts, replies, strict=True)]
    expected = torch.stack([by_formula(p, pooling) for p in prompts])

    longest = max(sizes)
    left = torch.full((3, longest + max(replies), 6), 1e4)  # prompt left-, reply right-padded
    for row, (both, size) in enumerate(zip(rows, sizes, strict=True)):
        left[row, longest - size : longest - size + len(both)] = both
    ends = torch.tensor([longest] * 3)
    torch.testing.assert_close(
        pool_padded(left, ends - torch.tensor(sizes), ends, pooling), expected
    )

    offsets = torch.tensor([0, len(rows[0]), len(rows[0]) + len(rows[1])])
    packed = torch.cat(rows)[None]
    found = pool_packed(packed, offsets, torch.tensor(sizes), pooling)
    torch.testing.assert_close(found, expected)


def test_weighted_positions_are_those_of_extraction():
    from harness_plugins.models.hidden import _weights

    found = position_weights(torch.tensor([7, 1]), 9, "weighted")
    torch.testing.assert_close(found[0, :7], _weights("weighted", 7))
    assert found[1].tolist() == [1.0] + [0.0] * 8
    assert float(found[0, 6] / found[0, 0]) == pytest.approx(math.exp(2), rel=1e-5)


def test_what_cannot_be_pooled_is_an_error():
    with pytest.raises(HarnessError, match="median"):
        position_weights(torch.tensor([2]), 3, "median")
    with pytest.raises(HarnessError, match="no positions"):
        position_weights(torch.tensor([2, 0]), 3, "mean")
    with pytest.raises(HarnessError, match="beyond"):
        pool_packed(torch.zeros(4, 2), torch.tensor([0, 3]), torch.tensor([3, 2]), "mean")


def batch(items=8, width=5, layers=(1, 3)):
    torch.manual_seed(1)
    pooled = {layer: torch.randn(items, width) for layer in layers}
    labels = {
        "type": torch.tensor([0, 1, 2, -1, 0, -1, 2, 1]),
        "best": torch.tensor([-1, -1, 3, 0, -1, 2, -1, -1]),
    }
    return pooled, labels


def test_the_loss_is_the_weighted_mean_of_masked_cross_entropies():
    pooled, labels = batch()
    heads = ProbeHeads(5, CLASSES, [1, 3], {"type": 1.5, "best": 0.5})
    loss, figures = heads.loss(pooled, labels)
    expected, each = 0.0, {}
    for name, weight in (("type", 1.5), ("best", 0.5)):
        rows = [i for i, label in enumerate(labels[name].tolist()) if label >= 0]
        terms = []
        for layer in (1, 3):
            head = heads.heads[f"{layer}:{name}"]
            logits = pooled[layer] @ head.weight.T + head.bias
            chances = logits.detach().softmax(-1)
            terms += [-math.log(float(chances[i, labels[name][i]])) for i in rows]
        each[name] = sum(terms) / len(terms)
        expected += weight * each[name] / 2.0
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    assert figures["probe/type/loss"] == pytest.approx(each["type"], rel=1e-5)
    assert figures["probe/type/count"] == 6
    assert figures["probe/type/majority"] == pytest.approx(2 / 6)
    assert figures["probe/best/count"] == 3


def test_parts_with_global_counts_add_up_to_the_whole():
    pooled, labels = batch()
    heads = ProbeHeads(5, CLASSES, [1, 3], {"type": 2.0})
    whole, _ = heads.loss(pooled, labels)
    counts = {name: float((values >= 0).sum()) for name, values in labels.items()}
    total = torch.zeros(())
    for part in (slice(0, 2), slice(2, 5), slice(5, 8)):
        sums = heads.sums(
            {layer: states[part] for layer, states in pooled.items()},
            {name: values[part] for name, values in labels.items()},
        )
        total = total + heads.combine(sums, counts)
    assert total.item() == pytest.approx(whole.item(), rel=1e-6)


def test_a_batch_without_labels_gives_no_loss_and_no_gradient():
    pooled, labels = batch()
    states = {layer: values.requires_grad_() for layer, values in pooled.items()}
    heads = ProbeHeads(5, CLASSES, [1, 3])
    loss, figures = heads.loss(states, {name: torch.full((8,), -1) for name in labels})
    loss.backward()
    assert loss.item() == 0.0
    assert figures == {"probe/loss": 0.0}
    assert all(float(p.grad.abs().sum()) == 0.0 for p in heads.parameters())
    assert float(states[1].grad.abs().sum()) == 0.0


def test_gradients_reach_the_states_of_labelled_items_only():
    pooled, labels = batch(layers=(1,))
    states = pooled[1].requires_grad_()
    labels["best"] = torch.full((8,), -1)
    ProbeHeads(5, CLASSES, [1]).loss({1: states}, labels)[0].backward()
    moved = states.grad.abs().sum(1) > 0
    assert moved.tolist() == [label >= 0 for label in labels["type"].tolist()]


def test_the_seed_decides_and_the_global_random_state_stays():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one, two, other = (ProbeHeads(5, CLASSES, [0], seed=s) for s in (1, 1, 2))
    assert torch.equal(torch.rand(3), expected)
    for name, values in one.state_dict().items():
        assert torch.equal(values, two.state_dict()[name])
        assert not torch.equal(values, other.state_dict()[name])


def test_saved_heads_come_back(tmp_path):
    one, two = ProbeHeads(5, CLASSES, [0], seed=1), ProbeHeads(5, CLASSES, [0], seed=2)
    torch.save(one.state_dict(), tmp_path / "heads.pt")
    two.load_state_dict(torch.load(tmp_path / "heads.pt", weights_only=True))
    pooled, labels = batch(layers=(0,))
    assert torch.equal(one.loss(pooled, labels)[0], two.loss(pooled, labels)[0])


def test_heads_learn_what_is_planted():
    torch.manual_seed(0)
    labels = torch.randint(0, 2, (300,))
    states = torch.randn(300, 6)
    states[:, 2] += 4.0 * (labels - 0.5)
    heads = ProbeHeads(6, {"coin": 2}, [0])
    optimiser = torch.optim.Adam(heads.parameters(), lr=0.05)
    for _ in range(60):
        optimiser.zero_grad()
        heads.loss({0: states[:200]}, {"coin": labels[:200]})[0].backward()
        optimiser.step()
    _, figures = heads.loss({0: states[200:]}, {"coin": labels[200:]})
    assert figures["probe/coin/accuracy"] > figures["probe/coin/majority"] + 0.3


def test_heads_refuse_what_cannot_be():
    pooled, labels = batch(layers=(0,))
    for make in (
        lambda: ProbeHeads(5, {}, [0]),
        lambda: ProbeHeads(5, CLASSES, []),
        lambda: ProbeHeads(5, {"a": 1}, [0]),
        lambda: ProbeHeads(5, CLASSES, [0], {"type": 0.0}),
        lambda: ProbeHeads(5, {"type": 2}, [0]).loss(pooled, labels),
        lambda: ProbeHeads(5, {"absent": 2}, [0]).loss(pooled, labels),
    ):
        with pytest.raises(HarnessError):
            make()


@pytest.mark.parametrize("pooling", POOLINGS)
def test_padded_and_packed_rows_get_the_same_gradient(pooling):
    torch.manual_seed(0)
    sizes, lengths = torch.tensor([3, 1, 5]), [4, 6, 5]
    rows = [torch.randn(n, 6, requires_grad=True) for n in lengths]
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    starts = torch.zeros_like(sizes)
    offsets = torch.tensor([0, 4, 10])
    weights = torch.randn(3, 6)
    found = []
    for pooled in (
        pool_padded(padded, starts, sizes, pooling),
        pool_packed(torch.cat(rows), offsets, sizes, pooling),
    ):
        found.append(torch.autograd.grad((pooled * weights).sum(), rows))
    for one, two, size in zip(*found, sizes.tolist(), strict=True):
        torch.testing.assert_close(one, two)
        assert not one[size:].any(), "replies have no part in it"
        assert one[:size].any()
