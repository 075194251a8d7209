"""What a rollout worker makes of a judge behind a real server, without Ray: totals in the tags of
rollouts, figures of a step from them, and a stop that is told."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from types import SimpleNamespace

import pytest
from belief_toys import Belief
from fault_server import FaultServer
from train_jobs import missing

from harness.types import OK, Move, Outcome, Reply
from harness_plugins.rewards.tom_process import create_reward
from harness_plugins.trainers.verl import payment

pytestmark = [
    pytest.mark.train,
    pytest.mark.skipif(bool(missing()), reason=missing() or "verl is there"),
]


def graded(body):
    asked = json.loads(body["messages"][1]["content"])["candidates"]
    rows = [
        {"candidate_id": c["candidate_id"], "reasoning_scores": [float("seen" in c["response"])]}
        for c in asked
    ]
    message = {"role": "assistant", "content": json.dumps({"evaluations": rows})}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    return 200, {}, {"choices": choices, "usage": {"prompt_tokens": 100, "completion_tokens": 20}}


@pytest.fixture
def queue(monkeypatch):
    from harness_plugins.trainers.verl import rollouts

    told = SimpleNamespace(prompts={}, tags=[], rows=0)

    async def put(key, partition_id, tag):
        told.prompts[key] = tag["status"]

    async def batch(keys, fields, tags, partition_id):
        told.tags += tags
        told.rows += len(fields)

    monkeypatch.setattr(rollouts, "tq", SimpleNamespace(async_kv_put=put, async_kv_batch_put=batch))
    return told


def worker(tmp_path, server, **options):
    """A worker whose model says two fixed replies to each prompt, one of them with good reasons."""
    from harness_plugins.trainers.verl import rollouts
    from harness_plugins.trainers.verl.sessions import Call, Session

    made = object.__new__(rollouts.Worker)
    made.task, made.out, made.told = Belief({"pairs": 40}), tmp_path, 0
    made.options = {"rollouts": 2}
    given = {
        "judge_model": "openai:toy", "judge_preset": "openai", "judge_delay": 0.01,
        "judge_model_options": {"base_url": server.url, "input_price": 5, "output_price": 5},
        **options,
    }  # fmt: skip
    made.reward = create_reward("tom-process", payment.kept_judge(given, tmp_path))
    made.rules = create_reward("tom-process", {})

    async def session(sample, step, number, validate):
        place, why = sample.truth["answer"], ("seen", "so")[number]
        reply = Reply(f"Think 1: {why} {step}\nState: {place}\nAnswer: {place}")
        messages = tuple(made.task.messages(sample))
        parsed = made.task.parse(sample, reply)
        outcome = Outcome((Move(0, reply, parsed.value, OK, messages),), OK)
        return Session([Call((1, 2), (3, 4), (0.0, 0.0), step)], outcome)

    made._session = session
    return made


def run(made, step, count=4):
    samples = list(made.task.samples("train"))[:count]

    async def all_of_them():
        await asyncio.gather(*(
            made._run_prompt(
                {"uid": s.id, "sample": json.dumps(asdict(s)), "global_steps": step}, None,
                {"validate": False},
            )
            for s in samples
        ))  # fmt: skip

    asyncio.run(all_of_them())


def test_totals_travel_with_the_rollouts_and_make_the_figures_of_a_step(tmp_path, queue):
    with FaultServer(script=graded) as server:
        made, totals = worker(tmp_path, server), payment.JudgeTotals()
        run(made, 1)
        assert set(queue.prompts.values()) == {"finished"}
        assert queue.rows == 8
        first = totals.step(queue.tags)
        assert (first["judge/groups"], first["judge/requests"]) == (4, 4)
        assert first["judge/total_tokens"] == 480
        assert first["judge/cost"] == pytest.approx(480 * 5 / 1e6)
        figures = payment.figures((t["group"], t) for t in queue.tags)
        assert (figures["reward/max"], figures["reward/min"]) == pytest.approx((1.0, 0.55))
        assert figures["reward/of/order-1/hidden"] == pytest.approx(0.775)
        queue.tags.clear()
        run(made, 1)
        again = totals.step(queue.tags)
        assert (again["judge/groups"], again["judge/requests"]) == (4, 0)
        assert (again["judge/cache_hits"], again["judge/cost"]) == (4, 0)
        queue.tags.clear()
        fresh = worker(tmp_path, server)  # after kill -9
        run(fresh, 1)
        assert payment.JudgeTotals().step(queue.tags)["judge/requests"] == 0
        assert server.seen.requests == 4


def test_a_spent_budget_stops_the_job_and_is_told(tmp_path, queue):
    with FaultServer(script=graded) as server:
        run(worker(tmp_path, server, judge_requests=3), 1)
        assert server.seen.requests == 3
        assert sorted(queue.prompts.values()) == ["failure", "finished", "finished", "finished"]
        assert "budget of 3 requests is spent" in payment.halted(tmp_path)
        larger = worker(tmp_path, server, judge_requests=4)
        run(larger, 1)
        assert set(queue.prompts.values()) == {"finished"}
        assert server.seen.requests == 4, "three answers came from the job's own cache"
