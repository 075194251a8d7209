"""Whole runs: the same records at any concurrency, scored again, against another model."""

from __future__ import annotations

import asyncio
import sys

import pytest

pytest.importorskip("textarena")

import harness
from harness.registry import Entry, Option, Registry

SLEEPY = '''
import asyncio
from harness import hookimpl
from harness.model import Model
from harness.player import Player

class Drowsy(Player):
    """The task's random player, asleep for a while before each answer."""
    def __init__(self, inner, seed):
        self.inner, self.seed = inner, seed

    async def act(self, turn):
        for _ in range((self.seed + 7 * turn.number) % 5):
            await asyncio.sleep(0)
        return await self.inner.act(turn)

class Sleepy(Model):
    name = identity = "sleepy"
    def player(self, seat):
        return Drowsy(seat.task.players()["random"](seat), seat.seed)

@hookimpl
def create_model(name, options):
    return Sleepy()
'''


@pytest.fixture
def registry(tmp_path, monkeypatch):
    (tmp_path / "sleepy_model_of_textarena.py").write_text(SLEEPY)
    monkeypatch.syspath_prepend(tmp_path)
    defaults = {"games": [], "pairs": 0, "preset": "standard", "retries": -1}
    options = {name: Option(value) for name, value in defaults.items()}
    yield Registry(
        [
            Entry("task", "textarena", "harness_plugins.tasks.textarena", "", "test", options),
            Entry("reward", "textarena", "harness_plugins.rewards.textarena", "", "test"),
            Entry("model", "sleepy", "sleepy_model_of_textarena", "", "test"),
        ]
    )
    sys.modules.pop("sleepy_model_of_textarena", None)


def test_records_are_the_same_at_any_concurrency(registry, tmp_path):
    files = []
    for concurrency in (1, 64):
        run = harness.run(
            "textarena",
            "sleepy",
            registry,
            options={
                "games": "KuhnPoker-v0,PigDice-v0-50,LiarsDice-v0-small,Blackjack-v0,FrozenLake-v0",
                "pairs": 5,
            },
            out=tmp_path / str(concurrency),
            concurrency=concurrency,
        )
        assert run.complete
        assert run.metrics["ledger"]["moves"]["illegal"] == 0
        files.append((run.path / "records.parquet").read_bytes())
        files.append((run.path / "metrics.json").read_bytes())
    assert files[0] == files[2]
    assert files[1] == files[3]


def test_a_run_can_be_scored_again_without_its_model(registry, tmp_path):
    from harness.rescore import rescore

    run = harness.run(
        "textarena", "sleepy", registry, out=tmp_path, options={"games": "all", "pairs": 1}
    )
    assert run.metrics["records"] == 2 * 16 + 6
    report = asyncio.run(rescore(run.path, registry))
    assert report.moved == ()
    assert report.summary["score"] == run.metrics["score"]


def test_the_opponent_may_be_another_model(registry, tmp_path):
    run = harness.run(
        "textarena", "sleepy", registry, opponent="sleepy", out=tmp_path,
        options={"games": "Nim-v0", "pairs": 2},
    )  # fmt: skip
    assert run.metrics["opponent"] == "sleepy"
    assert run.complete


def test_nothing_heavy_is_loaded_before_an_episode_starts():
    import subprocess

    code = (
        "import sys; from harness_plugins.tasks.textarena import create_task;"
        "from harness_plugins.rewards.textarena import create_reward;"
        "t = create_task('textarena', {}); n = sum(1 for _ in t.samples('test'));"
        "assert n == 720, n;"
        "bad = [m for m in ('textarena', 'numpy', 'torch', 'nltk') if m in sys.modules];"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
