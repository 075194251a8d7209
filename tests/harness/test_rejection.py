"""Rejection sampling: gates, acceptance, and a data set that holds replies and no truth."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random

import orjson
import pytest

import harness
from harness.registry import Registry
from harness.rejection.build import Choice, Source, build, select
from harness.rejection.gates import ACCEPTED, Gates
from harness.rejection.pilot import pilot
from harness.rejection.score import Candidate, acceptance, read_candidates, score_candidates
from harness.reward import Reward
from harness.training.data import file_items
from harness.types import HarnessError, Move, Outcome, Reply, Sample, Score


def outcome(cls="ok", finish="stop"):
    return Outcome((Move(0, Reply("x", finish_reason=finish)),), cls)


def test_the_first_gate_that_fails_is_named():
    gates = Gates(("form", "states"), minimum=0.5, step=0.5)
    good = {"form": 1.0, "states": 1.0}
    steps = {"effective_reasoning_scores": [0.9, 0.5]}
    assert gates.verdict(outcome(), Score(0.9, good, steps)) == ACCEPTED
    assert gates.verdict(outcome("truncated"), Score(0.9, good, steps)) == "truncated"
    assert gates.verdict(outcome(), Score(0.0, {"form": 0.0, "states": 0.0})) == "form"
    assert gates.verdict(outcome(), Score(0.0, {"form": 1.0, "states": 0.0})) == "states"
    assert gates.verdict(outcome(), Score(0.4, good, steps)) == "reward too low"
    low = {"effective_reasoning_scores": [0.9, 0.4]}
    assert gates.verdict(outcome(), Score(0.9, good, low)) == "a step too low"
    assert gates.verdict(outcome(finish="length"), Score(0.9, good, steps)) == "not finished"
    with pytest.raises(HarnessError, match="'form' is no part of the reward; it has states"):
        gates.verdict(outcome(), Score(1.0, {"states": 1.0}))
    with pytest.raises(HarnessError, match="grades no steps"):
        gates.verdict(outcome(), Score(1.0, good))


def test_a_reward_without_gates_accepts_what_earns_one():
    class Plain(Reward):
        name = "plain"

    class Gated(Reward):
        name = "gated"
        gates = ("form",)

    assert Gates.of(Plain()).minimum == 1.0
    assert Gates.of(Gated()) == Gates(("form",), 0.0)
    assert Gates.of(Gated(), parts=()).minimum == 1.0
    with pytest.raises(HarnessError, match=r"--min-reward 2: must lie in \[0, 1\]"):
        Gates.of(Plain(), minimum=2)


def samples(groups=3, clusters=8):
    return [
        Sample(f"{g}-{c}-{side}", "train", {}, group=f"g{g}", cluster=f"c{g}-{c}")
        for c in range(clusters)
        for g in range(groups)
        for side in (0, 1)
    ]


def test_a_pilot_takes_whole_clusters_whatever_the_order():
    rows = samples()
    chosen = pilot(rows, 3, seed=5)
    assert len(chosen) == 3 * 3 * 2
    shuffled = rows[:]
    random.Random(0).shuffle(shuffled)
    assert {s.id for s in pilot(shuffled, 3, seed=5)} == {s.id for s in chosen}
    assert [s.id for s in chosen] == [s.id for s in rows if s in chosen]
    assert {s.id for s in pilot(rows, 3, seed=6)} != {s.id for s in chosen}
    with pytest.raises(HarnessError, match="g1 has 7 complete ones"):
        pilot([s for s in rows if s.id != "1-4-0"], 8)


def source(sample, key, reply="same", tokens=10, parsed=None):
    candidate = Candidate(
        key, 0, sample.id, sample.id, sample.group, sample.cluster, 0, tokens, 1.0, {}, parsed,
        ACCEPTED,
    )  # fmt: skip
    return Source(candidate, reply, sample, "run", ())


def test_rows_are_deduplicated_capped_and_shortest_first():
    one = samples()[0]
    rows = [
        source(one, "a", "Same  Words", 12, {"x": 1}),
        source(one, "b", "same words", 9, {"x": 1}),
        source(one, "c", "others", 30, {"x": 1}),
        source(one, "d", "more", 5, {"x": 2}),
    ]

    def keys(**choice):
        return [s.candidate.key for s in select(rows, Choice(**choice))]

    assert keys() == ["d", "b", "c"]
    assert keys(dedupe="none") == ["d", "b", "a", "c"]
    assert keys(dedupe="answer") == ["d", "b"]
    assert keys(cap=1) == ["d"]


def test_pairs_balance_and_bounds():
    rows = [source(s, s.id) for s in samples() if s.id != "0-0-1"]
    sizes = {s.cluster: 2 for s in samples()}
    whole = select(rows, Choice(pairs=True), sizes)
    assert "0-0-0" not in {s.sample.id for s in whole}
    assert len(whole) == len(rows) - 1
    few = [s for s in rows if s.sample.group != "g1" or s.sample.id.startswith("1-0")]
    balanced = select(few, Choice(balance=True))
    assert [sum(s.sample.group == f"g{g}" for s in balanced) for g in range(3)] == [2, 2, 2]
    most = select(rows, Choice(pairs=True, most=7), sizes)
    assert len(most) == 6
    assert len({s.sample.cluster for s in most}) == 3
    assert len(select(rows, Choice(most=7))) == 7
    first = [s.sample.id for s in select(rows, Choice(most=7, seed=1))]
    assert first == [s.sample.id for s in select(rows[::-1], Choice(most=7, seed=1))][::-1]
    assert first != [s.sample.id for s in select(rows, Choice(most=7, seed=2))]


def test_acceptance_counts_by_prompt_cluster_and_group():
    def made(sample, verdict, reward):
        return Candidate(
            "k", 0, sample.id, "", sample.group, sample.cluster, 0, 1, reward, {}, None, verdict
        )

    left, right = samples(groups=1, clusters=1)
    report = acceptance(
        [made(left, ACCEPTED, 1), made(left, "form", 0), made(right, "form", 0),
         made(right, "form", 0)]
    )  # fmt: skip
    assert (report["candidates"], report["accepted"], report["acceptance_rate"]) == (4, 1, 0.25)
    assert report["verdicts"] == {"accepted": 1, "form": 3}
    assert (report["prompts"], report["prompts_with_accepted"]) == (2, 1)
    assert (report["clusters"], report["clusters_complete"]) == (1, 0)
    assert report["group_reward_std_mean"] == 0.25  # population: (0.5 + 0) / 2
    assert (report["zero_variance_groups"], report["all_zero_groups"]) == (1, 1)
    assert report["groups"]["g0"]["accepted"] == 1


def test_acceptance_is_counted_by_stratum_within_its_group():
    def made(group, stratum, verdict):
        return Candidate(
            "k", 0, f"{stratum}-s", "", group, "c", 0, 1, 1.0, {"form": 0.5}, None, verdict, stratum
        )  # fmt: skip

    report = acceptance(
        [made("order-1", "order-1/hidden", ACCEPTED), made("order-1", "order-1/observed", "form"),
         made("order-1", "order-1/hidden", "form"), made("order-2", "order-2/hidden", "form")]
    )  # fmt: skip
    assert list(report["strata"]) == ["order-1/hidden", "order-1/observed", "order-2/hidden"]
    assert report["strata"]["order-1/hidden"]["verdicts"] == {"accepted": 1, "form": 1}
    assert report["groups"]["order-1"]["accepted"] == 1
    assert report["parts"] == {"form": 0.5}


def test_counterfactual_stories_are_counted_by_order_and_side():
    task = Registry.load().create("task", "counterfactual-tom", {})
    found = {task.stratum(s) for s in task.samples("train")}
    assert found == {f"order-{n}/{side}" for n in (1, 2, 3) for side in ("observed", "hidden")}
    plain = Registry.load().create("task", "gamesolve-skills", {})
    sample = next(iter(plain.samples("train")))
    assert plain.stratum(sample) == sample.group


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_sample_is_never_asked_beside_its_own_worked_answer(split, tmp_path):
    """Its answer would be copied, and gold text would become training data."""
    made = harness.run(
        task="counterfactual-tom", model="random", split=split, limit=12, fewshot=3,
        groups=("order-1",), out=tmp_path,
    )  # fmt: skip
    task = Registry.load().create("task", "counterfactual-tom", {})
    order = [s for s in task.samples("train") if s.group == "order-1"]
    shown = {s.cluster for s in order[:3]}
    records = list(made.records())
    assert len(records) == 12
    assert {r.group for r in records} == {"order-1"}
    assert not shown & {r.cluster for r in records}
    spec = made.manifest["spec"]
    assert spec["groups"] == ["order-1"]
    assert spec.get("shown", []) == (sorted(shown) if split == "train" else [])
    again = harness.run(
        task="counterfactual-tom", model="random", split=split, limit=12, out=tmp_path
    )
    assert again.path != made.path


@pytest.fixture(scope="module")
def sampled(tmp_path_factory):
    """240 random candidates of 60 train prompts, scored."""
    out = tmp_path_factory.mktemp("sampled")
    run = harness.run(
        task="gamesolve-skills", model="random", split="train", limit=60, n=4, out=out
    )
    report = asyncio.run(score_candidates(run.path, Registry.load(), Gates.of))
    return run, report


def test_accepted_replies_become_rows_and_nothing_else_does(sampled, tmp_path):
    run, report = sampled
    assert 0 < report["accepted"] < report["candidates"] == 240
    records = {(r.sample, r.repeat): r for r in run.records()}
    for candidate in read_candidates(run.path):
        record = records[candidate.sample, candidate.repeat]
        assert candidate.accepted == (record.score.value == 1.0)
    manifest = build([run.path], tmp_path / "data", Registry.load())
    rows = [orjson.loads(line) for line in (tmp_path / "data/train.jsonl").open("rb")]
    assert manifest["rows"] == len(rows)
    said = {hashlib.sha256(r.outcome.moves[-1].reply.text.encode()).hexdigest(): r
            for r in run.records()}  # fmt: skip
    for row in rows:
        record = said[row["reply_sha256"]]
        assert row["messages"][-1] == {
            "role": "assistant", "content": record.outcome.moves[-1].reply.text,
        }  # fmt: skip
        assert row["prompt_sha256"] == row["source_prompt_sha256"]
        assert not {"truth", "target"} & set(row)
    again = build([run.path], tmp_path / "again", Registry.load())
    assert again == manifest


def test_the_rows_are_what_sft_trains_on(sampled, tmp_path):
    run, _ = sampled
    registry = Registry.load()
    build([run.path], tmp_path / "data", registry)
    task = registry.create("task", "gamesolve-skills", {})
    file = tmp_path / "data/train.jsonl"
    items = file_items(task, file)
    rows = [orjson.loads(line) for line in file.open("rb")]
    assert [i.target for i in items] == [row["messages"][-1]["content"] for row in rows]
    assert [i.sample.id for i in items] == [row["sample"] for row in rows]
    other = registry.create("task", "gamesolve", {})
    with pytest.raises(HarnessError, match="gamesolve has no train sample"):
        file_items(other, file)
    for text, message in (("{}", "no rows of"), ("", "needs a prompt"), ("x", "no rows of")):
        (tmp_path / "bad.jsonl").write_text(text)
        with pytest.raises(HarnessError, match=message):
            file_items(task, tmp_path / "bad.jsonl")


def test_prompts_can_be_worded_anew_for_training(sampled, tmp_path):
    run, _ = sampled
    build([run.path], tmp_path / "data", Registry.load(), options={"format": "json"})
    rows = [orjson.loads(line) for line in (tmp_path / "data/train.jsonl").open("rb")]
    changed = [row["prompt_sha256"] != row["source_prompt_sha256"] for row in rows]
    assert any(changed)


def test_what_cannot_be_training_data_is_refused(sampled, tmp_path):
    run, _ = sampled
    registry = Registry.load()
    with pytest.raises(HarnessError, match="fewer than --min-samples 9999"):
        build([run.path], tmp_path / "a", registry, Choice(least=9999))
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").touch()
    with pytest.raises(HarnessError, match="is not empty"):
        build([run.path], tmp_path / "full", registry)
    test = harness.run(task="gamesolve-skills", model="random", limit=5, out=tmp_path)
    with pytest.raises(HarnessError, match="candidates of the split 'test' cannot be training"):
        asyncio.run(score_candidates(test.path, registry, Gates.of))
    with pytest.raises(HarnessError, match="not scored yet"):
        build([test.path], tmp_path / "b", registry)
    silent = harness.run(
        task="gamesolve-skills", model="empty", split="train", limit=5, n=2, out=tmp_path
    )
    report = asyncio.run(score_candidates(silent.path, registry, Gates.of))
    assert report["verdicts"] == {"empty": 10}
    with pytest.raises(HarnessError, match="was accepted: empty 10; sample more"):
        build([silent.path], tmp_path / "c", registry)


def test_the_commands(harness_command, tmp_path):
    done = harness_command(
        "sample", "--task", "gamesolve-skills", "--model", "random", "--n", 3, "--limit", 30,
        "--quiet", "--json", registry=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)
    spec = json.loads((tmp_path / run["folder"] / "manifest.json").read_text())["spec"]
    assert (spec["split"], spec["n"]) == ("train", 3)
    assert (spec["decoding"]["temperature"], spec["decoding"]["top_p"]) == (0.8, 0.95)
    scored = harness_command("rft", "score", run["folder"], registry=False)
    assert scored.returncode == 0, scored.stderr
    assert "verdicts: accepted" in scored.stdout
    built = harness_command("rft", "build", run["folder"], "--out", "data", registry=False)
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "data/manifest.json").exists()
    bad = harness_command("rft", "build", run["folder"], "--out", "data", registry=False)
    assert (bad.returncode, bad.stderr.count("\n")) == (2, 1)
    both = harness_command(
        "sample", "--task", "gamesolve", "--model", "random", "--pilot", 2, "--limit", 3,
        registry=False,
    )  # fmt: skip
    assert both.returncode == 2
    assert "give one of the two" in both.stderr
