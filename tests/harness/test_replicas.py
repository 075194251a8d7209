"""Replicas on a real Ray cluster of this machine: scripted models, a kill, late starts."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter

import pytest

from harness.api import evaluate
from harness.batching import ModelQueue
from harness.plan import RunSettings
from harness.registry import Registry
from harness.types import Decoding, HarnessError, Message, Request

ray = pytest.importorskip(
    "ray", reason="Ray is not installed (pip install 'strategic-harness[ray]')"
)

from harness.distributed.cluster import slot  # noqa: E402
from harness.distributed.replicas import SLACK, replicated  # noqa: E402


@pytest.fixture(scope="module")
def registry():
    return Registry.load()


@pytest.fixture(scope="module", autouse=True)
def cluster():
    yield
    ray.shutdown()


def made(registry, number, name="echo", **options):
    entry, argument = registry.for_model(name)
    return replicated(registry, entry, argument, options, number)


def request(number, text=None):
    return Request((Message("user", text or f"word {number}"),), Decoding(), number)


def records(path):
    return (path / "records.parquet").read_bytes(), (path / "metrics.json").read_bytes()


def run(tmp_path, label, **changes):
    settings = RunSettings(("gamesolve",), ("echo",), limit=60, out=tmp_path / label, **changes)
    ((_, done),) = evaluate(settings, Registry.load(), quiet=True)
    assert done.complete
    return done


def test_run_equals_a_run_in_this_process(tmp_path):
    one = run(tmp_path, "one")
    many = run(tmp_path, "many", replicas=2)
    assert records(one.path) == records(many.path)
    assert one.path.name == many.path.name  # the same specification


def test_a_lost_replica_loses_and_doubles_nothing(registry):
    model = made(registry, 3, delay=0.4)

    async def ask_all():
        queue = ModelQueue(model)
        asked = [asyncio.create_task(queue.ask(request(n))) for n in range(300)]
        await asyncio.sleep(0.2)
        busy = max(model._replicas, key=lambda each: len(each.flying))
        assert busy.flying
        facts = await busy.actor.facts.remote()
        os.kill(facts.process, signal.SIGKILL)
        return await asyncio.gather(*asked)

    try:
        replies = asyncio.run(ask_all())
    finally:
        model.close()
    assert [reply.text for reply in replies] == [f"word {n}" for n in range(300)]
    assert model.lost == 1


def test_requests_go_to_the_shortest_queue_and_conversations_back(registry):
    model = made(registry, 2)
    for each in model._replicas:
        each.ready = True
    try:
        seen = Counter()
        for number in range(40):
            place = model._choose(request(number))
            model._replicas[place].flying[number] = request(number)
            seen[place] += 1
        assert seen == {0: 20, 1: 20}
        told = request(1000, "a long story")
        first = model._choose(told)
        other = 1 - first
        for number in range(SLACK - 1):
            model._replicas[first].flying[2000 + number] = told
        longer = Request((*told.messages, Message("assistant", "yes")), Decoding(), 7)
        assert model._choose(told) == first  # its prefix is cached there
        model._replicas[first].flying[3000] = longer
        assert model._choose(told) == other  # but not at any price
        for each in model._replicas:
            each.flying = dict.fromkeys(range(model._room), told)
        assert model._choose(told) is None
    finally:
        for each in model._replicas:
            each.flying = {}
        model.close()


def test_all_replicas_lost_is_one_line(registry):
    model = made(registry, 1, delay=30)
    model._replicas[0].starts = 99  # no further start

    async def ask():
        asked = asyncio.create_task(model.generate(request(1)))
        await asyncio.sleep(0.2)
        ray.kill(model._replicas[0].actor)
        return await asked

    try:
        with pytest.raises(HarnessError, match="all replicas of echo are lost"):
            asyncio.run(ask())
    finally:
        model.close()


def test_faults_of_a_replica_arrive_as_what_they_are(registry):
    with pytest.raises(HarnessError, match="player of the task"):
        made(registry, 1, "oracle")
    with pytest.raises(HarnessError, match="delay cannot be negative"):
        made(registry, 1, delay=-1)


class _Cluster:
    def __init__(self, gpus):
        self.gpus = gpus

    def cluster_resources(self):
        return {"GPU": self.gpus} if self.gpus else {}


@pytest.mark.parametrize(
    ("gpus", "replicas", "options", "seats", "expected"),
    [
        (0, 4, {}, 1, (0.0, 1.0)),
        (8, 8, {}, 1, (1.0, 1.0)),
        (8, 2, {"tensor_parallel": 4}, 1, (4.0, 1.0)),
        (1, 4, {}, 1, (0.2499, 0.25)),
        (2, 2, {}, 2, (0.4999, 0.5)),
        (2, 3, {}, 1, (0.4999, 0.5)),
    ],
)
def test_what_a_replica_reserves(gpus, replicas, options, seats, expected):
    found = slot(_Cluster(gpus), replicas, options, True, seats)
    assert (found.gpus, found.share) == expected


def test_replicas_wider_than_the_machine(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(HarnessError, match="need 8 GPUs; there are 4"):
        slot(_Cluster(4), 2, {"tensor_parallel": 4}, True, 1)
