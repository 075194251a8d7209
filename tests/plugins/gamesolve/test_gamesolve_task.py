"""The task as the core sees it: names, options, samples, wiring, and what importing it costs."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice

import pytest

from harness.player import FixedPlayer, Seat
from harness.seeds import Streams
from harness.types import OK, UNPARSED, HarnessError, Sample
from harness_plugins.tasks.gamesolve import create_task
from harness_plugins.tasks.gamesolve.presets import FORMATS
from harness_plugins.tasks.gamesolve.task import GameSolve

NAMES = ("gamesolve", "gamesolve-ood", "gamesolve-skills")


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_CACHE", str(tmp_path_factory.getbasetemp() / "gamesolve-cache"))
        yield


def first(task: GameSolve, count: int = 30) -> list[Sample]:
    return list(islice(task.samples("test"), count))


@pytest.mark.parametrize("name", NAMES)
def test_each_name_makes_its_task(name):
    task = create_task(name, {"preset": name, "data_seed": 1, "data": "", "format": ""})
    assert task.name == name
    assert task.reward == "gamesolve"
    assert task.splits == (
        ("test",) if name == "gamesolve-ood" else ("train", "validation", "test")
    )
    sample = first(task, 1)[0]
    assert sample.id.startswith(f"{name}-")


def test_options_that_make_no_sense_are_refused():
    with pytest.raises(HarnessError, match="no preset 'gamesolv'"):
        create_task("gamesolve", {"preset": "gamesolv"})
    with pytest.raises(HarnessError, match="no format 'latex'"):
        create_task("gamesolve", {"format": "latex"})
    with pytest.raises(HarnessError, match="no task 'nash' in gamesolve"):
        create_task("nash", {})


def test_the_reference_preset_and_other_seeds_are_options():
    reference = create_task("gamesolve", {"preset": "reference"})
    assert first(reference, 1)[0].id.startswith("reference-")
    other = create_task("gamesolve-skills", {"data_seed": 5})
    usual = create_task("gamesolve-skills", {})
    assert first(other, 1)[0].data["row"] != first(usual, 1)[0].data["row"]


@pytest.mark.parametrize("shown", FORMATS)
def test_a_format_can_be_forced(shown):
    plain, forced = GameSolve({}), GameSolve({"format": shown})
    for one, other in zip(first(plain), first(forced), strict=True):
        assert other.data == {**one.data, "format": shown}
        assert other.id == one.id
    prompts = {task.messages(first(task, 1)[0])[-1].content for task in (plain, forced)}
    assert len(prompts) == (1 if first(plain, 1)[0].data["format"] == shown else 2)


@pytest.mark.parametrize("name", NAMES)
def test_the_parts_of_the_task_fit_together(name):
    """Prompt, target, parser, players and probe labels all work on the samples as drawn."""
    task = create_task(name, {})
    players = task.players()
    assert {"oracle", "random"} <= set(players)
    for sample in first(task):
        assert all(message.content for message in task.messages(sample))
        assert task.target(sample)
        assert all(isinstance(label, int) for label in task.concepts(sample).values())
        oracle = players["oracle"](Seat(task, sample, 0, 1))
        outcome = asyncio.run(task.rollout(sample, [oracle], Streams(1)))
        assert outcome.cls == OK
        silent = FixedPlayer(lambda turn: "I would rather not say.")
        outcome = asyncio.run(task.rollout(sample, [silent], Streams(1)))
        assert outcome.cls == UNPARSED


def test_the_oracle_scores_one_and_its_figures_are_complete():
    from harness.types import Record
    from harness_plugins.rewards.gamesolve import GameSolveReward

    task, reward = create_task("gamesolve", {}), GameSolveReward({})
    players = task.players()

    def records() -> Iterator[Record]:
        for k, sample in enumerate(task.samples("test")):
            oracle = players["oracle"](Seat(task, sample, 0, 1))
            outcome = asyncio.run(task.rollout(sample, [oracle], Streams(1)))
            score = reward.score(sample, outcome)
            yield Record(
                k, task.name, sample.id, sample.split, 0, 0, sample.group, sample.cluster,
                sample.canonical, outcome, score,
            )  # fmt: skip

    figures = {(m.name, m.group): m for m in task.metrics(records())}
    assert figures["score", ""].value == 1.0
    assert figures["score", ""].n == 244
    assert figures["parsed", ""].value == 1.0
    for group in ("nash", "best_response", "2x2", "4x4", "pure", "mixed", "both", "continuum"):
        assert figures["score", group].value == 1.0
    assert figures["recall", "continuum"].value == 1.0


def test_the_run_path_loads_no_heavy_library(tmp_path):
    program = (
        "import sys\n"
        "import harness_plugins.tasks.gamesolve as package\n"
        "loaded = [m for m in sys.modules if m.startswith('harness_plugins.tasks.gamesolve.')]\n"
        "assert not loaded, loaded\n"
        "task = package.create_task('gamesolve-skills', {})\n"
        "sample = next(iter(task.samples('test')))\n"
        "task.messages(sample)\n"
        "print(*[m for m in ('numpy', 'scipy', 'torch', 'nashpy', 'pandas') if m in sys.modules])"
    )
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "HARNESS_CACHE": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""
