"""Training data: only the train split, by canonical identity; orders, lengths, files."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import tiny_checkpoint, tiny_tokenizer

from harness.rendering import render
from harness.task import Task
from harness.training.data import Selection, ordered, size, skill, training_items, validation_items
from harness.training.export import sample_of, write_items
from harness.training.lengths import Lengths, overlong
from harness.training.tokens import supervised
from harness.types import HarnessError, Message, Sample


class Sums(Task):
    """Items with groups; ``leak`` puts a train item into the test split under another name."""

    name = "sums"
    reward = "exact"
    leak = False

    def samples(self, split):
        names = self.splits if split == "all" else (split,)
        for each in names:
            for number in range(8):
                kind = ("nash", "br")[number % 2]
                shape = ("3x3", "2x2")[number // 2 % 2]
                canonical = f"{each}-{number}"
                if self.leak and each == "test" and number == 3:
                    canonical = "train-5"
                yield Sample(
                    id=f"{each}-{number}",
                    split=each,
                    data={"n": number, "long": kind == "nash"},
                    truth={"answer": str(number)},
                    group=f"{kind}/{shape}/general",
                    canonical=canonical,
                    ordinal=number,
                )

    def messages(self, sample):
        return [Message("system", "Add."), Message("user", f"0 + {sample.data['n']}")]

    def target(self, sample):
        return "so " * (9 if sample.data["long"] else 1) + str(sample.data["n"])

    def concepts(self, sample):
        return {"odd": sample.data["n"] % 2, **({"big": 1} if sample.data["n"] > 5 else {})}


def test_only_the_train_split_can_be_trained_on():
    for split in ("test", "validation", "all"):
        with pytest.raises(HarnessError, match=f"{split}.*not for training"):
            training_items(Sums(), Selection(split=split))


def test_items_of_another_split_are_refused_by_canonical_identity():
    task = Sums()
    task.leak = True
    with pytest.raises(HarnessError, match=r"train-5 is test-3 of test"):
        training_items(task)


def test_a_task_that_yields_foreign_samples_for_train_is_refused():
    class Confused(Sums):
        def samples(self, split):
            for sample in super().samples(split):
                yield replace(sample, split="test") if sample.id == "train-2" else sample

    with pytest.raises(HarnessError, match="train-2 of the split 'test' cannot be training data"):
        training_items(Confused())


def test_the_real_splits_of_gamesolve_share_nothing():
    from harness.registry import Registry

    task = Registry.load(None).create("task", "gamesolve-skills", {})
    items = training_items(task)
    assert len(items) == 960
    held_out = {s.canonical for split in ("validation", "test") for s in task.samples(split)}
    assert not held_out & {i.identity for i in items}
    assert all(i.messages == tuple(task.messages(i.sample)) for i in items[:50])


def test_limit_and_groups_choose_from_the_stratified_order():
    assert [i.sample.id for i in training_items(Sums(), Selection(limit=2))] == [
        "train-0",
        "train-1",
    ]
    chosen = training_items(Sums(), Selection(groups=("br/2x2",)))
    assert {i.sample.group for i in chosen} == {"br/2x2/general"}
    assert len(validation_items(Sums(), 3)) == 3
    with pytest.raises(HarnessError, match="no samples of the groups kuhn"):
        training_items(Sums(), Selection(groups=("kuhn",)))


def keys(order, **more):
    found = training_items(Sums(), Selection(order=order, **more))
    return [(skill(i.sample), size(i.sample)) for i in found]


def test_orders_of_the_curriculum():
    flat = keys("flat")
    assert flat == [("nash", 9), ("br", 9), ("nash", 4), ("br", 4)] * 2
    assert (
        keys("skill-first")
        == [("br", 4)] * 2 + [("br", 9)] * 2 + [("nash", 4)] * 2 + [("nash", 9)] * 2
    )
    assert (
        keys("size-first")
        == [("br", 4)] * 2 + [("nash", 4)] * 2 + [("br", 9)] * 2 + [("nash", 9)] * 2
    )
    woven = keys("interleaved")
    assert [k for k, _ in woven] == ["br", "nash"] * 4
    assert [s for _, s in woven] == [4, 4, 4, 4, 9, 9, 9, 9]
    assert keys("skill-first", skills=("nash", "br"))[0] == ("nash", 4)
    with pytest.raises(HarnessError, match="flat, skill-first"):
        keys("random")
    with pytest.raises(HarnessError, match="the items have br, nash"):
        keys("skill-first", skills=("nash",))


@given(st.sampled_from(["flat", "skill-first", "size-first", "interleaved"]), st.integers(0, 8))
def test_every_order_is_a_permutation(order, limit):
    items = training_items(Sums(), Selection(limit=limit))
    found = ordered(list(items), Selection(order=order))
    assert sorted(i.sample.id for i in found) == sorted(i.sample.id for i in items)


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=300), st.integers(0, 5000))
def test_length_figures_against_their_definition(counts, limit):
    audit = Lengths.of("prompt", ((f"i{k}", n) for k, n in enumerate(counts)), limit)
    for share, value in ((50, audit.p50), (95, audit.p95), (99, audit.p99)):
        covered = sum(n <= value for n in counts) * 100
        assert covered >= share * len(counts)
        smaller = [n for n in counts if n < value]
        assert not smaller or len(smaller) * 100 < share * len(counts)
    assert audit.longest == max(counts)
    assert len(audit.offenders) == (sum(n > limit for n in counts) if limit else 0)


def test_what_is_too_long_is_an_error_or_leaves():
    audit = Lengths.of("prompt", [("a", 5), ("b", 50)], 10)
    assert overlong({"prompt": audit}, "filter") == {"b"}
    with pytest.raises(HarnessError, match=r"1 of 2 items have more than 10 prompt tokens.*; b\)"):
        overlong({"prompt": audit}, "error")
    with pytest.raises(HarnessError, match="error or filter"):
        overlong({"prompt": audit}, "cut")


def test_a_worked_item_in_tokens_is_prompt_reply_and_one_end():
    tokenizer = tiny_tokenizer()
    item = training_items(Sums())[0]
    made = supervised(tokenizer, item.messages, item.target)
    end = tokenizer.eos_token_id
    prompt = render(tokenizer, item.messages)
    assert list(made.ids[: made.prompt]) == prompt
    reply = made.ids[made.prompt :]
    assert reply.count(end) == 1
    assert reply[-1] == end
    assert tokenizer.decode(reply[:-1]) == item.target
    with pytest.raises(HarnessError, match="holds the end token"):
        supervised(tokenizer, item.messages, f"a{tokenizer.eos_token}b")


def test_verl_rows(tmp_path):
    items = training_items(Sums())
    path = tmp_path / "train.parquet"
    digest = write_items(items, Sums(), "verl", path)
    rows = pq.read_table(path).to_pylist()
    assert set(rows[0]) == {
        "data_source", "prompt", "ability", "reward_model", "extra_info", "sample",
    }  # fmt: skip
    first = rows[0]
    assert first["data_source"] == "sums"
    assert first["prompt"] == [
        {"role": "system", "content": "Add."},
        {"role": "user", "content": "0 + 0"},
    ]
    assert first["reward_model"]["style"] == "rule"
    assert json.loads(first["reward_model"]["ground_truth"]) == {"answer": "0"}
    info = first["extra_info"]
    assert (info["index"], info["id"], info["split"]) == (0, "train-0", "train")
    assert info["canonical"] == "train-0"
    assert info["concept_labels"] == {"odd": 0, "big": -1}
    assert rows[7]["extra_info"]["concept_labels"] == {"odd": 1, "big": 1}
    assert sample_of(first["sample"]) == items[0].sample
    assert write_items(items, Sums(), "verl", tmp_path / "again.parquet") == digest


def test_sft_and_jsonl_rows(tmp_path):
    items = training_items(Sums())
    write_items(items, Sums(), "sft", tmp_path / "a.parquet")
    messages = pq.read_table(tmp_path / "a.parquet").to_pylist()[1]["messages"]
    assert [m["role"] for m in messages] == ["system", "user", "assistant"]
    assert messages[-1]["content"] == "so 1"
    write_items(items, Sums(), "jsonl", tmp_path / "a.jsonl")
    row = json.loads((tmp_path / "a.jsonl").read_text().splitlines()[1])
    assert (row["id"], row["target"], row["truth"]) == ("train-1", "so 1", {"answer": "1"})


def test_a_task_without_worked_answers_cannot_be_exported_for_sft(tmp_path):
    class Bare(Sums):
        def target(self, sample):
            return None

    with pytest.raises(HarnessError, match="no worked answer for train-0"):
        write_items(training_items(Bare()), Bare(), "sft", tmp_path / "x")
    with pytest.raises(HarnessError, match="choose one of verl, sft, jsonl"):
        write_items(training_items(Bare()), Bare(), "csv", tmp_path / "x")


def test_exporting_from_the_command_line(harness_command, tmp_path):
    tiny_checkpoint(tmp_path / "tiny")
    done = harness_command(
        "data", "export", "copy", "--format", "verl", "--out", "d/copy.parquet", "--model",
        "tiny", "--set", "size=5", "--max-prompt", "64",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "prompt tokens: 5 items" in done.stdout
    assert "limit 64, 0 over it" in done.stdout
    assert pq.read_table(tmp_path / "d" / "copy.parquet").num_rows == 5
    refusals = [
        (("--split", "test"), "not for training"),
        (("--model", "tiny", "--max-prompt", "3"), "have more than 3 prompt tokens"),
        (("--max-prompt", "3"), "give --model too"),
        (("--format", "xml"), "choose one of verl"),
        (("--model", "echo"), "cannot be trained"),
    ]
    for words, told in refusals:
        form = () if "--format" in words else ("--format", "jsonl")
        done = harness_command("data", "export", "copy", *form, "--out", "x", *words)
        assert done.returncode == 2, words
        assert told in done.stderr, done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
        assert "Traceback" not in done.stderr


def test_looking_at_data_imports_no_training_library():
    code = "import harness.training.data, harness.training.export, harness.training.lengths, sys"
    code += "; assert not {'torch', 'verl', 'ray'} & set(sys.modules), sorted(sys.modules)"
    import subprocess

    subprocess.run([sys.executable, "-c", code], check=True)
