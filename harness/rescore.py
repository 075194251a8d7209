"""Scoring a stored run again: with today's parser and reward, and without a model.

The stored replies are played again through the task, so a game's moves are replayed under its rules
and a better parser reads old answers.

    report = await rescore(run_path, registry, reward="gamesolve-legacy")
    report.summary["score"], report.moved
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from .batching import ModelQueue
from .model import Model
from .plan import Contender, Job, Planner, RunSettings
from .player import Player, ReplayPlayer
from .registry import Registry
from .reward import Reward
from .seeds import Streams, derive
from .shots import Shots
from .store import RunFolder
from .summary import summarise
from .task import Task
from .types import Decoding, HarnessError, Json, Outcome, Record, Sample


@dataclass(frozen=True, slots=True)
class Change:
    """A record whose verdict differs from the stored one."""

    sample: str
    seed: int
    repeat: int
    before: float
    after: float
    class_before: str
    class_after: str


@dataclass(frozen=True, slots=True)
class Report:
    """The new summary beside the stored records."""

    summary: dict[str, Json]
    moved: tuple[Change, ...]


class _Stored(Model):
    """Stands for the model of a stored run; it cannot be asked."""

    def __init__(self, name: str, identity: str) -> None:
        self.name, self.identity = name, identity


async def rescore(
    path: Path,
    registry: Registry,
    reward: str = "",
    reward_options: Mapping[str, Json] | None = None,
) -> Report:
    """Score all records of a run again. Raises HarnessError for a run that cannot be replayed.

    ``reward`` names another reward than the run's (or a weighted sum).
    """
    folder = RunFolder.read(path)
    try:
        job = stored_job(folder, registry, reward, reward_options)
        records: list[Record] = []
        moved: list[Change] = []
        for sample, group in by_sample(job, folder):
            for record in group:
                outcome = await replay(job, sample, record)
                score = (await job.reward.score_group(sample, [outcome]))[0]
                fresh = replace(record, outcome=outcome, score=score)
                records.append(fresh)
                if _differs(record, fresh):
                    moved.append(_change(record, fresh))
        expected = int(folder.manifest.get("expected", len(records)))
        summary = await summarise(job, lambda: iter(records), expected)
    finally:
        folder.close()
    return Report(summary, tuple(moved))


def stored_job(
    folder: RunFolder,
    registry: Registry,
    reward: str = "",
    reward_options: Mapping[str, Json] | None = None,
) -> Job:
    """The job that a run folder was made by, without its model. Raises HarnessError for a manifest
    that does not say."""
    try:
        return _stored_job(folder, registry, reward, dict(reward_options or {}))
    except (KeyError, TypeError) as error:
        raise HarnessError(
            f"{folder.path}/manifest.json: damaged ({type(error).__name__} {error}); copy it again"
        ) from None


def _stored_job(
    folder: RunFolder, registry: Registry, reward: str, reward_options: dict[str, Json]
) -> Job:
    spec: dict[str, Any] = dict(folder.manifest["spec"])
    task_spec = spec["task"]
    settings = RunSettings(
        tasks=(task_spec["name"],),
        models=(folder.manifest["model_name"],),
        split=spec["split"],
        limit=folder.manifest.get("limit"),
        seeds=tuple(spec["seeds"]),
        repeats=spec["repeats"],
        n=spec["n"],
        options=task_spec["options"],
        reward=reward,
        reward_options=reward_options,
        opponent=(spec["opponent"] or "").removeprefix("player:"),
        system=spec["system"],
    )
    planner = Planner(settings, registry)
    task: Task = registry.create("task", task_spec["name"], task_spec["options"])
    if reward or reward_options:
        judge = planner.reward(task)
    else:
        given = folder.manifest["settings"]["reward_options"]
        judge = stored_reward(spec["reward"], registry, planner, task, given)
    model = _Stored(folder.manifest["model_name"], spec["model"])
    contender = Contender(model.name, model.identity, model, ModelQueue(model))
    opponent = None
    if spec["opponent"] is not None:
        factory = task.players().get(settings.opponent)
        opponent = Contender(settings.opponent, spec["opponent"], factory=factory)
    decoding = Decoding(**{**spec["decoding"], "stop": tuple(spec["decoding"]["stop"])})
    return Job(settings, task, contender, opponent, judge, decoding, Shots(), spec)


def stored_reward(
    spec: Any, registry: Registry, planner: Planner, task: Task, given: Mapping[str, Json]
) -> Reward:
    """The reward that a specification names, with its options; ``given`` are those of the command,
    some of which are no part of the specification."""
    if isinstance(spec, list):
        return Planner(
            RunSettings(
                tasks=planner.settings.tasks,
                models=planner.settings.models,
                reward=",".join(f"{part['name']}={part['weight']}" for part in spec),
                reward_options={k: v for p in spec for k, v in p["options"].items()} | dict(given),
            ),
            registry,
        ).reward(task)
    declared = registry.entry("reward", spec["name"]).options
    more = {k: v for k, v in given.items() if k in declared}
    made: Reward = registry.create("reward", spec["name"], {**spec["options"], **more})
    return made


def by_sample(job: Job, folder: RunFolder) -> Iterator[tuple[Sample, Iterator[Record]]]:
    """Each sample with its records; both come in the same order."""
    task = job.task
    samples = iter(task.samples(job.settings.split))
    for name, group in groupby(folder.records(), key=lambda r: r.sample):
        sample = next((s for s in samples if s.id == name), None)
        if sample is None:
            raise HarnessError(
                f"{folder.path}: the task {task.name} no longer has the sample {name!r}; use the "
                "version that made the run"
            )
        yield sample, group


async def replay(job: Job, sample: Sample, record: Record) -> Outcome:
    """Play the stored replies of a record through the task once more."""
    seats = len(job.task.lineup(sample))
    players: list[Player] = [
        ReplayPlayer([m.reply for m in record.outcome.moves if m.seat == seat])
        for seat in range(seats)
    ]
    seed = derive(record.seed, sample.id, record.repeat)
    try:
        return await job.task.rollout(sample, players, Streams(seed))
    except LookupError as error:
        raise HarnessError(f"{record.sample}: cannot be replayed: {error}") from None


def _differs(before: Record, after: Record) -> bool:
    moved = abs(before.score.value - after.score.value) > 1e-12
    return moved or before.outcome.cls != after.outcome.cls


def _change(before: Record, after: Record) -> Change:
    return Change(
        before.sample,
        before.seed,
        before.repeat,
        before.score.value,
        after.score.value,
        before.outcome.cls,
        after.outcome.cls,
    )
