"""Steering: does what a probe reads matter? Change it at inference and see what the answers do.

A concept's direction is the mean state of the items of a class minus that of the others, at the
concept's best layer, by mean pooling. ``add`` adds it at every position (strength 1: the whole
distance of the means), ``ablate`` removes the states' part along it, and ``random`` adds a random
direction of the same length: what any push of that size does. Rows name how many replies and
parsed answers change beside the unchanged model's, and how the task's score changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..player import Player
from ..progress import track
from ..registry import Registry
from ..seeds import Streams, derive
from ..stats import TOO_FEW, cluster_t
from ..task import Task
from ..types import Decoding, HarnessError, Json, Outcome, Reply, Request, Sample, Turn
from .concepts import problems_of
from .extract import Item, Source
from .geometry import class_direction
from .results import write
from .states import States
from .study import labelled


class Answer(NamedTuple):
    """What was said to one sample, what was read of it, and its score."""

    text: str
    parsed: Json
    score: float


def steer_all(
    task: Task,
    registry: Registry,
    samples: Sequence[Sample],
    items: Sequence[Item],
    reports: Mapping[str, Mapping[str, Any]],
    sources: Sequence[Source],
    out: Path,
    directions: Sequence[tuple[str, int]],
    count: int,
    strength: float,
    tokens: int | None,
) -> dict[str, list[dict[str, Any]]]:
    """Steer every model along every (concept, class); writes ``steering.json`` beside each
    probes.json. Raises HarnessError for tasks with several turns, and for unknown directions."""
    if task.seats != 1 or any(task.turns(sample) != 1 for sample in samples[:1]):
        raise HarnessError(f"--steer: {task.name} is a game of several turns; it steers one answer")
    reward = registry.create("reward", task.reward, {})
    decoding = replace(task.decoding, max_tokens=tokens or task.decoding.max_tokens)
    known = {item.id for item in items}
    chosen = [sample for sample in samples if sample.id in known][:count]
    found = {}
    for label, source in labelled(sources).items():
        report = reports[label]
        changes = list(_changes(report, items, out, directions, strength))
        model: Any = source.open()
        try:
            rows = _steer(model, task, reward, chosen, decoding, changes)
        finally:
            model.close()
        found[label] = rows
        write((out if len(sources) == 1 else out / label) / "steering.json", rows)
    return found


class Change(NamedTuple):
    """One way to change a model: which block, along what, how."""

    concept: str
    kind: int
    name: str
    layer: int
    direction: Any
    strength: float
    ablate: bool

    def apply(self, model: Any) -> AbstractContextManager[None]:
        """The model is changed within it."""
        found: AbstractContextManager[None] = model.steered(
            self.layer, self.direction, self.strength, self.ablate
        )
        return found


def _changes(
    report: Mapping[str, Any],
    items: Sequence[Item],
    out: Path,
    directions: Sequence[tuple[str, int]],
    strength: float,
) -> Iterator[Change]:
    problems = {problem.name: problem for problem in problems_of(items)[0]}
    states = States.load(out / "states" / report["states"]["folder"])
    pooling = "mean" if "mean" in states.poolings else states.poolings[0]
    for concept, kind in directions:
        if concept not in problems:
            raise HarnessError(f"--steer {concept}: probed are {', '.join(problems)}")
        layer = report["concepts"][concept]["poolings"][pooling]["peak"]["layer"]
        try:
            direction = class_direction(states.block(pooling, layer), problems[concept], kind)
        except ValueError as error:
            raise HarnessError(f"--steer {concept}:{kind}: {error}") from None
        size = float(np.linalg.norm(direction))
        rng = np.random.default_rng(derive("steering", concept, kind))
        other = rng.normal(size=direction.shape)
        for name, along, amount, ablate in (
            ("add", direction, strength * size, False),
            ("subtract", direction, -strength * size, False),
            ("ablate", direction, 0.0, True),
            ("random", other, strength * size, False),
        ):
            yield Change(concept, kind, name, layer, along, amount, ablate)


def _steer(
    model: Any,
    task: Task,
    reward: Any,
    samples: Sequence[Sample],
    decoding: Decoding,
    changes: Sequence[Change],
) -> list[dict[str, Any]]:
    plain = _answers(model, task, reward, samples, decoding, nullcontext())
    rows = []
    for change in track(changes, f"steering {model.name}"):
        now = _answers(model, task, reward, samples, decoding, change.apply(model))
        pairs = list(zip(plain, now, strict=True))
        moved = [new.score - old.score for old, new in pairs]
        clusters = [s.cluster or s.id for s in samples]
        enough = len(set(clusters)) >= TOO_FEW
        low, high = cluster_t(moved, clusters) if enough else (None, None)
        rows.append(
            {
                "concept": change.concept,
                "class": change.kind,
                "change": change.name,
                "layer": change.layer,
                "length": abs(change.strength),
                "n": len(pairs),
                "replies_changed": float(np.mean([old.text != new.text for old, new in pairs])),
                "answers_changed": float(np.mean([old.parsed != new.parsed for old, new in pairs])),
                "answered": float(np.mean([new.parsed is not None for _, new in pairs])),
                "score": {"value": float(np.mean(moved)), "low": low, "high": high},
            }
        )
    return rows


def _answers(
    model: Any,
    task: Task,
    reward: Any,
    samples: Sequence[Sample],
    decoding: Decoding,
    changed: AbstractContextManager[None],
) -> list[Answer]:
    """The model's replies, read and scored by the task's own rollout."""
    found = []
    with changed:
        requests = [
            Request(tuple(task.messages(sample)), decoding, derive("steer", sample.id))
            for sample in samples
        ]
        replies: list[Reply] = []
        for start in range(0, len(requests), model.batch_limit):
            replies += model.generate_batch(requests[start : start + model.batch_limit])
    for sample, reply in zip(samples, replies, strict=True):
        outcome = asyncio.run(_played(task, sample, reply))
        score = float(reward.score(sample, outcome).value)
        found.append(Answer(reply.text, outcome.moves[-1].parsed, score))
    return found


class _Said(Player):
    """A player who gives the reply that is already there."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply

    async def act(self, turn: Turn) -> Reply:
        return self.reply


async def _played(task: Task, sample: Sample, reply: Reply) -> Outcome:
    return await task.rollout(sample, [_Said(reply)], Streams(0))
