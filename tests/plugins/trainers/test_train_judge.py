"""GRPO paid by rules and a judge behind a real HTTP server, on real verl, on a processor."""

from __future__ import annotations

import json

import pytest
from belief_toys import taught_checkpoint
from fault_server import FaultServer
from train_jobs import Training, missing

from harness.training import curves

pytestmark = [
    pytest.mark.train,
    pytest.mark.skipif(bool(missing()), reason=missing() or "verl is there"),
]

SETTINGS = {
    "batch_size": 4, "rollouts": 6, "micro_batch": 24, "steps": 5, "learning_rate": 3e-3,
    "schedule": "constant", "warmup": 0, "max_prompt": 64, "max_reply": 48, "temperature": 1.0,
    "top_p": 1.0, "kl": "loss", "save_every": 2, "validation__limit": 4, "gpus": 0,
}  # fmt: skip
PRICE = 2.0
"""Of a million tokens, prompt or reply; each request is said to have 100 and 20."""

BUDGET = 6


def graded(body):
    """A judge who likes one word: reasons that say ``seen`` are right, others half so."""
    asked = json.loads(body["messages"][1]["content"])
    rows = [
        {"candidate_id": c["candidate_id"],
         "reasoning_scores": [1.0 if "seen" in c["response"] else 0.5]}
        for c in asked["candidates"]
    ]  # fmt: skip
    text = json.dumps({"evaluations": rows})
    message = {"role": "assistant", "content": text}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    return 200, {}, {"choices": choices, "usage": {"prompt_tokens": 100, "completion_tokens": 20}}


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    folder = tmp_path_factory.mktemp("judged")
    base = taught_checkpoint(folder / "base")
    return Training(folder, base, "belief", "belief_registry.toml")


@pytest.fixture(scope="module")
def server():
    with FaultServer(script=graded) as made:
        yield made


def settings(server, **changes):
    options = {"base_url": server.url, "input_price": PRICE, "output_price": PRICE}
    return {
        **SETTINGS, "reward__judge_model": "openai:toy", "reward__judge_preset": "openai",
        "reward__judge_model_options": json.dumps(options), "reward__judge_swap": "true", **changes,
    }  # fmt: skip


def column(rows, name):
    return {step: row[name] for step, row in rows.items() if name in row}


@pytest.fixture(scope="module")
def job(training, server):
    """One job, stopped by its budget, taken up with a larger one, killed, and taken up again."""
    words = ("--reward", "tom-process")
    stopped = training.refused(
        "grpo", "job", *words, "--quiet", **settings(server, reward__judge_requests=BUDGET)
    )
    paid = server.seen.requests
    larger = settings(server, reward__judge_requests=1000)
    seen = training.kill_after(3, "grpo", "job", "--resume", *words, **larger)
    folder = training.run("grpo", "job", "--resume", *words, **larger)
    return stopped, paid, seen, folder


def test_judge_budget_stops_the_job_in_one_line(job):
    stopped, paid, _, _ = job
    assert stopped.returncode == 2
    assert "the judge's budget of 6 requests is spent" in stopped.stderr
    assert "larger judge_requests goes on" in stopped.stderr
    assert len(stopped.stderr.strip().splitlines()) == 1, stopped.stderr
    assert paid == BUDGET


def test_judge_is_not_paid_twice_over_budget_stop_and_kill(job, server):
    """Requests that were under way when the job was killed may be sent again, and no others."""
    _, _, seen, folder = job
    again = sum(count - 1 for count in server.seen.bodies.values())
    assert again <= SETTINGS["batch_size"] * 2 * (seen < 5)
    ledger = [json.loads(x) for x in (folder / "judge" / "ledger.jsonl").read_text().splitlines()]
    assert sum(entry["requests"] for entry in ledger) == server.seen.requests
    *_, killed, last = sorted((folder / "logs").glob("metrics-*.jsonl"), key=lambda p: p.name)
    before, after = dict(curves.Figures(killed).new()), dict(curves.Figures(last).new())
    repeated = 3
    assert after[repeated]["reward/mean"] == pytest.approx(
        before[repeated]["reward/mean"], abs=0.02
    )
    assert before[repeated]["judge/requests"] > 0
    if after[repeated]["reward/mean"] == before[repeated]["reward/mean"]:
        assert after[repeated]["judge/requests"] == after[repeated]["judge/cost"] == 0
        assert after[repeated]["judge/cache_hit_rate"] == 1.0


def test_judge_statistics_are_among_the_figures_of_each_step(job):
    rows = {s: r for s, r in curves.steps(job[3]).items() if "reward/mean" in r}
    assert sorted(rows) == [1, 2, 3, 4, 5]
    for row in rows.values():
        requests, tokens = row["judge/requests"], row["judge/total_tokens"]
        assert row["judge/candidates"] <= 24
        assert tokens == 120 * requests
        assert row["judge/cost"] == pytest.approx(tokens * PRICE / 1e6)
        assert row["judge/unjudged"] == row["judge/failures"] == 0
        assert row["reward/part/judged"] == 1.0
        assert requests + row["judge/cache_hits"] == 2 * row["judge/groups"]
    assert any(row["judge/latency_mean"] > 0 for row in rows.values())
    asked = [
        row["judge/swap_difference"] for row in rows.values() if "judge/swap_difference" in row
    ]
    assert asked
    assert set(asked) == {0.0}, "this judge does not care about the order"


def test_judge_pays_more_than_rules_alone_and_the_reference_is_frozen(job):
    """Rules pay 0.55 at most; the KL to the base begins at nothing and grows."""
    rows = curves.steps(job[3])
    assert max(column(rows, "reward/max").values()) == pytest.approx(1.0)
    kl = column(rows, "actor/kl_loss")
    assert kl[1] == pytest.approx(0.0, abs=1e-6)
    assert kl[5] > 1e-4
    validated = curves.validations(job[3])
    assert all("judged" not in row["parts"] for row in validated), "validation is by rules"
