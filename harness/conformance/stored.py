"""Checks of what a task leaves behind: records, replays, figures, and the time that it takes."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from dataclasses import replace

import orjson

from ..journal import record_from_json
from ..player import Player, ReplayPlayer
from ..seeds import Streams, derive
from ..task import Task
from ..types import CLASSES, Metric, Outcome, Record, Sample
from .kit import Finding, Kit, Skip, Steps, named
from .table import Table
from .tasks import first_prompt

SLOW_TURN = 0.05
"""Seconds of the event loop that a turn may take: all other rollouts wait meanwhile."""


def records(kit: Kit) -> Steps:
    """Records come back from disk as they were, and replay to the same outcome and score."""
    table = Table.of(kit)
    name = "random" if "random" in table.task.players() else "oracle"
    if name not in table.task.players():
        raise Skip("there is no player random or oracle")
    outcomes = table.play(name)
    scores = table.scores(outcomes)
    for index, (outcome, score) in enumerate(zip(outcomes, scores, strict=True)):
        if outcome is None or score is None:
            continue
        sample = table.samples[index]
        if fault := _shape(table.task, sample, outcome):
            yield fault
            return
        try:
            line = orjson.dumps(table.record(index, outcome, score))
        except TypeError as error:
            yield Finding(
                f"{sample.id}: the record cannot be stored: {error}",
                "Move.parsed, Outcome.data, Score.parts and Score.raw hold JSON only",
            )
            return
        stored = record_from_json(orjson.loads(line))
        if orjson.dumps(stored) != line:
            yield Finding(
                f"{sample.id}: the record comes back changed from JSON",
                "use lists for tuples and texts for keys in data, parts and raw",
            )
            return
        again = asyncio.run(_replayed(table.task, sample, stored))
        if isinstance(again, Finding):
            yield again
            return
        if _said(again) != _said(stored.outcome):
            yield Finding(
                f"{sample.id}: replaying the stored replies gives another outcome",
                "every reply that was asked for is a move of the outcome, each seat's in the order "
                'of asking; chance comes from rng by name: rng.below(6, "die", turn)',
            )
            return
        if table.reward.deterministic:
            value = table.reward.score(sample, stored.outcome).value
            if abs(value - score.value) > 1e-12:
                yield Finding(
                    f"{sample.id}: the stored outcome scores {value}, before it was {score.value}",
                    "let the reward read what is stored: JSON, no tuples, no objects",
                )
                return
    yield f"{sum(o is not None for o in outcomes)} records stored, read, replayed"


def _said(outcome: Outcome) -> bytes:
    """An outcome without its prompts: players that read none may have been shown none."""
    moves = tuple(replace(move, messages=()) for move in outcome.moves)
    return orjson.dumps(replace(outcome, moves=moves))


def _shape(task: Task, sample: Sample, outcome: Outcome) -> Finding | None:
    """What is wrong with an outcome as such."""
    classes = {outcome.cls, *(m.cls for m in outcome.moves)}
    if odd := classes - set(CLASSES):
        return Finding(
            f"{sample.id}: {odd.pop()!r} is no class of the ledger", f"use {', '.join(CLASSES)}"
        )
    if task.seats > 1 and len(outcome.returns) not in (0, len(task.lineup(sample))):
        return Finding(
            f"{sample.id}: {len(outcome.returns)} returns for {len(task.lineup(sample))} seats",
            "give Outcome.returns one figure for each seat",
        )
    if not all(math.isfinite(value) for value in outcome.returns):
        return Finding(f"{sample.id}: a return is not finite", "returns are numbers")
    return None


async def _replayed(task: Task, sample: Sample, stored: Record) -> Outcome | Finding:
    """The outcome of playing the stored replies again, as `harness score` does."""
    seats: list[Player] = [
        ReplayPlayer([m.reply for m in stored.outcome.moves if m.seat == seat])
        for seat in range(len(task.lineup(sample)))
    ]
    try:
        return await task.rollout(sample, seats, Streams(derive(0, sample.id, 0)))
    except LookupError:
        return Finding(
            f"{sample.id}: the stored rollout has fewer replies than a replay asks for",
            "record every reply that was asked for as a move, failed attempts too",
        )


def metrics(kit: Kit) -> Steps:
    """The figures of a run: finite, named once, the same twice."""
    table = Table.of(kit)
    name = "random" if "random" in table.task.players() else "oracle"
    if name not in table.task.players():
        raise Skip("there is no player random or oracle")
    outcomes = table.play(name)
    kept = [
        table.record(i, o, s)
        for i, (o, s) in enumerate(zip(outcomes, table.scores(outcomes), strict=True))
        if o is not None and s is not None
    ]
    found, again = table.task.metrics(iter(kept)), table.task.metrics(iter(kept))
    if not all(isinstance(m, Metric) for m in found):
        yield Finding("metrics() returns something else than Metric", "return a list of Metric")
        return
    if orjson.dumps(found) != orjson.dumps(again):
        yield Finding(
            "metrics() differ for the same records", "let them depend on the records alone"
        )
    if bad := [m.name for m in found if m.value is not None and not math.isfinite(m.value)]:
        yield Finding(f"figures that are not finite: {named(bad)}", "use None where there is none")
    seen = Counter((m.name, m.group) for m in found)
    if twice := [f"{n}[{g}]" for (n, g), count in seen.items() if count > 1]:
        yield Finding(f"figures that come twice: {named(twice)}", "name and group make one figure")
    table.task.metrics(iter(()))  # a run that was interrupted at once
    if absent := [c for c in table.task.columns if all(m.name != c for m in found)]:
        yield Finding(
            f"columns that no figure has: {named(absent)}", "columns names metrics of the task"
        )
    yield f"{len(found)} figures"


def speed(kit: Kit) -> Steps:
    """The task's own time: all rollouts share one thread, so a slow turn holds up every other."""
    table = Table.of(kit)
    name = "random" if "random" in table.task.players() else "oracle"
    if name not in table.task.players():
        raise Skip("there is no player random or oracle")
    factory = table.task.players()[name]
    began = time.process_time()
    outcomes = [o for o in table.all(factory) if o is not None]
    seconds = time.process_time() - began
    turns = sum(max(1, len(o.moves)) for o in outcomes)
    if turns == 0:
        raise Skip("nothing can be played")
    if seconds / turns > SLOW_TURN:
        yield Finding(
            f"a turn takes {1000 * seconds / turns:.0f} ms of the task's own time",
            "move what is slow to samples(), keep it between rollouts, or ask it in a thread",
        )
    began = time.process_time()
    for sample in table.samples:
        first_prompt(table.task, sample)
    wording = (time.process_time() - began) / len(table.samples)
    yield f"{1000 * seconds / turns:.2f} ms a turn, {1000 * wording:.2f} ms a first prompt"
