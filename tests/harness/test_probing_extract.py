"""Extraction: the states of the library, whatever the batch, kept through a kill."""

from __future__ import annotations

import numpy as np
import pytest
from tiny_models import tiny_checkpoint

from harness.probing import extract as extraction
from harness.probing.extract import Item, Source, batches, extract, items_of, with_random_weights
from harness.probing.states import LOG, States
from harness.types import HarnessError, Message

ITEMS = [
    Item(f"i{n}", f"g{n}", (Message("user", "say " + "ab" * (1 + n % 5) + str(n)),), {"a": n % 2})
    for n in range(9)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_checkpoint(tmp_path_factory.mktemp("probe") / "tiny", max_position_embeddings=64)


def blocks(states):
    return np.stack([[states.block(p, layer) for layer in states.layers] for p in states.poolings])


def test_states_are_those_of_one_prompt_at_a_time(folder, tmp_path):
    source = Source(str(folder))
    states, facts = extract(source, ITEMS, tmp_path, batch_tokens=90)
    found = blocks(states)
    assert found.shape == (6, 2, 9, 64)
    model = source.open()
    prompts = extraction.prompts_of(model, ITEMS, template=True)
    for row, prompt in enumerate(prompts):
        alone = model.hidden_states([prompt], [(0, len(prompt))], [0, 1], extraction.POOLINGS)[0]
        np.testing.assert_allclose(found[:, :, row], alone, rtol=1e-4, atol=1e-4)
    assert facts["tokens"] == sum(map(len, prompts))
    assert facts["dtype"] == "float32"
    whole = np.load(states.folder / "states.npy", mmap_mode="r")
    assert (whole == found).all()


def test_the_batch_makes_no_difference_beyond_the_stated_noise(folder, tmp_path):
    source = Source(str(folder))
    one = blocks(extract(source, ITEMS, tmp_path / "a", batch_tokens=1)[0])
    all_at_once = blocks(extract(source, ITEMS, tmp_path / "b", batch_tokens=10_000)[0])
    size = np.abs(one).max(axis=(2, 3), keepdims=True)
    assert float((np.abs(one - all_at_once) / size).max()) < extraction.NOISE["float32"]


def test_prompts_with_and_without_the_chat_template(folder, tmp_path):
    model = Source(str(folder)).open()
    chat, plain = (extraction.prompts_of(model, ITEMS, t) for t in (True, False))
    assert chat != plain
    text = model.tokenizer.decode(plain[0])
    assert text.startswith("User: say ab0")
    assert text.endswith("Assistant:")
    found = [
        blocks(extract(Source(str(folder), template=t), ITEMS, tmp_path)[0]) for t in (True, False)
    ]
    assert not np.allclose(*found)


def test_random_weights_are_others_and_the_same_again(folder, tmp_path):
    source = with_random_weights(Source(str(folder)), 3)
    one, again = (blocks(extract(source, ITEMS, tmp_path / n)[0]) for n in "ab")
    trained = blocks(extract(Source(str(folder)), ITEMS, tmp_path / "c")[0])
    assert (one == again).all()
    assert not np.allclose(one, trained)


def test_a_killed_extraction_does_only_what_is_left(folder, tmp_path):
    source = Source(str(folder))
    whole, _ = extract(source, ITEMS, tmp_path / "whole", batch_tokens=90)
    states, _ = extract(source, ITEMS, tmp_path / "cut", batch_tokens=90)
    lines = (states.folder / LOG).read_bytes().splitlines(keepends=True)
    (states.folder / LOG).write_bytes(lines[0] + lines[1][:1])  # torn in the second line
    left = States.load(states.folder).missing()
    assert 0 < len(left) < len(ITEMS)
    for item in left:
        states.write([item], np.zeros((1, 6, 2, 64)))
    (states.folder / LOG).write_bytes(lines[0])
    again, facts = extract(source, ITEMS, tmp_path / "cut", batch_tokens=33)
    assert facts["done_before"] == len(ITEMS) - len(left)
    np.testing.assert_allclose(blocks(again), blocks(whole), rtol=1e-4, atol=1e-4)


def test_several_devices_share_the_work(support, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(support))
    items = [Item(f"{n}", f"{n}", (Message("user", str(n)),), {"a": 0}) for n in range(11)]
    source = Source("planted", registry_file=support / "probe_registry.toml")
    one, _ = extract(source, items, tmp_path / "one", batch_tokens=3)
    two, _ = extract(source, items, tmp_path / "two", batch_tokens=3, devices=["cpu", "cpu"])
    assert (blocks(one) == blocks(two)).all()


@pytest.mark.parametrize(("tokens", "sizes"), [(20, [2, 2]), (1, [1] * 4), (99, [4])])
def test_batches_are_bounded(tokens, sizes):
    found = list(batches([3, 9, 4, 8], range(4), tokens))
    assert [len(b) for b in found] == sizes
    assert sorted(row for batch in found for row in batch) == [0, 1, 2, 3]


def test_bad_input_is_one_line(folder, tmp_path, support):
    long = [Item("x", "x", (Message("user", "a" * 80),), {"a": 0})]
    with pytest.raises(HarnessError, match=r"exceeds the 64 of"):
        extract(Source(str(folder)), long, tmp_path)
    with pytest.raises(HarnessError, match="no layer 7"):
        extract(Source(str(folder)), ITEMS, tmp_path, layers=[7])
    with pytest.raises(HarnessError, match="has no hidden states"):
        Source("random").open()
    with pytest.raises(HarnessError, match="holds no hidden states"):
        States.load(tmp_path / "nowhere")
    states = States.open(tmp_path / "s", {}, 2, ["mean"], [0], 3)
    with pytest.raises(HarnessError, match="not finite"):
        states.write([0], np.full((1, 1, 1, 3), np.nan))
    with pytest.raises(HarnessError, match="other states"):
        States.open(tmp_path / "s", {}, 3, ["mean"], [0], 3)


def test_any_task_with_concepts_can_be_probed(toy_registry):
    for name in ("gamesolve", "counterfactual-tom", "hitom"):
        task = toy_registry.create("task", name, {})
        sample = next(iter(task.samples("test")))
        (item,) = items_of(task, [sample])
        assert item.labels == dict(task.concepts(sample))
        assert item.messages == tuple(task.messages(sample))
    copy = toy_registry.create("task", "copy", {})
    with pytest.raises(HarnessError, match="no concepts"):
        items_of(copy, list(copy.samples("test"))[:3])


def test_pairs_of_stories_stay_together(toy_registry):
    """Two stories of a pair have opposite sides: parted, each gives the other's label away."""
    task = toy_registry.create("task", "counterfactual-tom", {})
    samples = list(task.samples("test"))[:120]
    items = items_of(task, samples)
    assert len({s.cluster for s in samples}) < len(samples) == len({s.canonical for s in samples})
    for sample, item in zip(samples, items, strict=True):
        for other, there in zip(samples, items, strict=True):
            if sample.cluster == other.cluster or sample.canonical == other.canonical:
                assert item.group == there.group
