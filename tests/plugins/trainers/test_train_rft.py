"""RFT on real verl, on a processor: the chain, what it counts, and that nothing is done twice."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import time

import pytest
from belief_toys import Belief, taught_checkpoint
from fault_server import FaultServer
from train_jobs import Training, missing

import harness
from harness.training import curves

pytestmark = [
    pytest.mark.train,
    pytest.mark.skipif(bool(missing()), reason=missing() or "verl is there"),
]

SETTINGS = {
    "sample__n": 10, "build__cap": 1, "batch_size": 8, "micro_batch": 8, "learning_rate": 1e-3,
    "epochs": 6, "max_prompt": 64, "max_reply": 48, "save_every": 10, "validation__limit": -1,
    "gpus": 0,
}  # fmt: skip
CANDIDATES = 800
EXACT = 1e-5


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rft")
    base = taught_checkpoint(folder / "base")
    return Training(folder, base, "belief", "belief_registry.toml")


@pytest.fixture(scope="module")
def whole(training):
    """The uninterrupted job."""
    return training.run("rft", "whole", **SETTINGS)


def losses(folder):
    return [row["train/loss"] for step, row in curves.steps(folder).items() if step]


def candidates(folder):
    (run,) = (folder / "sample").iterdir()
    return run, list(harness.load(run).records())


def rows_of(folder):
    lines = (folder / "accepted" / "train.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def right(record):
    """By a pattern of this test alone: one block with reasons, the right place, twice."""
    truth = {s.id: s.truth["answer"] for s in Belief({"pairs": 40}).samples("train")}
    place = truth[record.sample]
    text = record.outcome.moves[-1].reply.text
    whole = re.fullmatch(rf"Think 1: [^\n]+\nState: {place}\nAnswer: {place}\s*", text)
    return bool(whole) and record.outcome.moves[-1].reply.finish_reason == "stop"


def test_rft_acceptance_is_counted_by_gate_order_and_side(whole):
    chain = json.loads((whole / "training.json").read_text())["chain"]
    _, records = candidates(whole)
    assert len(records) == chain["sample"]["candidates"] == CANDIDATES
    accepted = [r for r in records if right(r)]
    assert 0 < len(accepted) == chain["score"]["accepted"] < CANDIDATES
    assert sum(chain["score"]["verdicts"].values()) == CANDIDATES
    assert chain["score"]["verdicts"]["accepted"] == len(accepted)
    strata = chain["score"]["strata"]
    assert set(strata) == {"order-1/observed", "order-1/hidden"}
    for name, counts in strata.items():
        side = name.partition("/")[2]
        assert counts["accepted"] == sum(r.sample.endswith(side) for r in accepted)
        assert counts["candidates"] == CANDIDATES // 2
    assert chain["build"]["accepted"] == len(accepted)


def test_rft_data_hold_replies_of_the_model_and_no_gold_text(whole):
    """By hashes: each reply was sampled for its prompt, and none is a target."""
    _, records = candidates(whole)
    said = {(r.sample, sha(r.outcome.moves[-1].reply.text.rstrip())) for r in records}
    task = Belief({"pairs": 40})
    samples = {s.id: s for s in task.samples("train")}
    gold = {sha(task.target(s)) for s in samples.values()}
    rows = rows_of(whole)
    assert rows
    for row in rows:
        *asked, reply = row["messages"]
        assert (row["sample"], sha(reply["content"])) in said
        assert sha(reply["content"]) not in gold
        assert [m["content"] for m in asked] == [
            m.content for m in task.messages(samples[row["sample"]])
        ]
        assert "gold" not in json.dumps(row)
    chain = json.loads((whole / "training.json").read_text())["chain"]
    for step in ("sample", "score", "build"):
        for name, wanted in chain[step]["files"].items():
            assert hashlib.sha256((whole / name).read_bytes()).hexdigest() == wanted


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


def test_rft_the_loss_falls_and_the_result_is_a_checkpoint(whole):
    found = losses(whole)
    assert len(found) >= 30
    assert sum(found[-3:]) < 0.7 * sum(found[:3])
    record = json.loads((whole / "training.json").read_text())
    assert (record["method"], record["complete"]) == ("rft", True)
    assert record["data"][0]["samples"] == len(rows_of(whole))
    assert (whole / "model.safetensors").is_file()


def test_rft_killed_in_sampling_and_in_training_does_nothing_twice(whole, training):
    kill_in_sampling(training, "killed")
    half = len(candidates(training.folder / "killed")[1])
    assert 0 < half < CANDIDATES
    folder = training.run("rft", "killed", "--resume", "--stage", "build", **SETTINGS)
    (run, _), (other, _) = candidates(folder), candidates(whole)
    assert (run / "records.parquet").read_bytes() == (other / "records.parquet").read_bytes()
    journal = (run / "journal.jsonl").read_text().splitlines()
    assert len(journal) == CANDIDATES, "no candidate was sampled twice"
    assert rows_of(folder) == rows_of(whole)
    before = {p: p.stat().st_mtime_ns for p in (*run.iterdir(), *(folder / "accepted").iterdir())}
    seen = training.kill_after(12, "rft", "killed", "--resume", **SETTINGS)
    assert seen < len(losses(whole))
    done = training.refused("rft", "killed", "--resume", **SETTINGS)
    assert done.returncode == 0, done.stderr
    assert "step 1 of 4, sample: done before, 800 candidates" in done.stderr
    assert "resuming at step 10 of" in done.stderr
    assert {p: p.stat().st_mtime_ns for p in before} == before, "no finished step wrote again"
    assert losses(folder) == pytest.approx(losses(whole), abs=EXACT)


def kill_in_sampling(training, out):
    """Kill -9 once some candidates are on disk, and not all."""
    process = subprocess.Popen(
        training.command("rft", out, **SETTINGS),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=training.folder,
        env=training.environment,
    )  # fmt: skip
    deadline = time.monotonic() + 300
    while True:
        journals = list((training.folder / out / "sample").glob("*/journal.jsonl"))
        if journals and journals[0].read_bytes().count(b"\n") >= 20:
            break
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def test_rft_what_cannot_work_is_one_line(whole, training):
    cases = [
        ("none", (), {"score__min_reward": 0.9}, "was accepted: all_states_correct"),
        ("whole", (), {}, "holds this job already (done: sample, score, build): --resume goes on"),
        ("whole", ("--resume",), {"build__cap": 2}, "another job (choice.cap: 1, now 2)"),
        ("fresh", ("--resume",), {}, "holds no job"),
        ("keyless", ("--reward", "tom-process"),
         {"reward__judge_model": "openai:x", "reward__judge_preset": "deepseek"},
         "DEEPSEEK_API_KEY"),
    ]  # fmt: skip
    for out, more, changes, told in cases:
        settings = {**SETTINGS, "sample__limit": 0 if out == "whole" else 8, **changes}
        done = training.refused("rft", out, *more, "--quiet", **settings)
        assert done.returncode == 2, (told, done.stderr)
        assert told in done.stderr, done.stderr
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert not (training.folder / "keyless" / "sample").exists()


def test_rft_dry_run_prints_the_plan_and_starts_nothing(training):
    done = training.refused("rft", "planned", "--dry-run", **SETTINGS)
    assert done.returncode == 0, done.stderr
    assert "1 sample: 80 prompts x 10 = 800 candidates" in done.stdout
    assert "3 build: at most 80 rows" in done.stdout
    assert not (training.folder / "planned").exists()


def graded(body):
    """A judge who likes one word, as an answer of a server."""
    asked = json.loads(body["messages"][1]["content"])["candidates"]
    rows = [
        {"candidate_id": c["candidate_id"], "reasoning_scores": [float("seen" in c["response"])]}
        for c in asked
    ]
    message = {"role": "assistant", "content": json.dumps({"evaluations": rows})}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    return 200, {}, {"choices": choices, "usage": {"prompt_tokens": 100, "completion_tokens": 20}}


def test_rft_a_judge_is_a_gate_and_its_budget_holds_over_resume(training):
    settings = {
        **SETTINGS, "sample__n": 6, "sample__limit": 12, "batch_size": 2, "score__min_step": 0.9,
        "reward__judge_model": "openai:toy", "reward__judge_preset": "openai",
    }  # fmt: skip
    words = ("--reward", "tom-process", "--stage", "build")
    with FaultServer(script=graded) as server:
        settings["reward__judge_model_options"] = json.dumps({"base_url": server.url})
        stopped = training.refused(
            "rft", "judged", *words, "--quiet", **settings, reward__judge_requests=3
        )
        assert (stopped.returncode, server.seen.requests) == (2, 3), stopped.stderr
        assert "budget of 3 requests is spent" in stopped.stderr
        assert len(stopped.stderr.strip().splitlines()) == 1, stopped.stderr
        folder = training.run(
            "rft", "judged", *words, "--resume", **settings, reward__judge_requests=100
        )
        assert max(server.seen.bodies.values()) == 1, "nothing was paid for twice"
    chain = json.loads((folder / "training.json").read_text())["chain"]
    assert chain["score"]["judge"]["requests"] == server.seen.requests - 3
    assert chain["score"]["judge"]["cache_hits"] == 3
    assert chain["score"]["verdicts"]["a step too low"] > 0
    assert all("seen" in row["messages"][-1]["content"] for row in rows_of(folder))
