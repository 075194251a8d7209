"""The summary of a run: figures with intervals, the outcome ledger, floor and ceiling.

What ``metrics.json`` holds is a function of the records (and of the task and the reward): no times,
no attempts, no latencies.

    summary = await summarise(job, folder.records, expected=200)
    summary["score"]["value"], summary["ledger"]["records"]["unparsed"]
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Final

from .plan import Contender, Job
from .player import Player, Seat
from .seeds import Streams, derive
from .stats import cluster_key, mean_metric, pass_at_k
from .types import CLASSES, MODEL_FAULTS, OK, Json, Metric, Record, Sample

LEVEL_SAMPLES: Final = 500
"""Samples over which the floor and the ceiling of a run are computed."""

SOLVED: Final = 1.0 - 1e-9
"""A score from here on counts as solved in pass@k."""


@dataclass(slots=True)
class Tally:
    """What one pass over the records counts."""

    values: array[float] = field(default_factory=lambda: array("d"))
    clusters: array[int] = field(default_factory=lambda: array("q"))
    fair: array[float] = field(default_factory=lambda: array("d"))
    fair_clusters: array[int] = field(default_factory=lambda: array("q"))
    records: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CLASSES, 0))
    moves: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CLASSES, 0))
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cut_off: int = 0
    solved: dict[str, list[int]] = field(default_factory=dict)


async def summarise(
    job: Job, records: Callable[[], Iterator[Record]], expected: int, levels: bool = True
) -> dict[str, Json]:
    """The summary of the finished records; ``expected`` is how many a complete run has."""
    data, prompts = hashlib.sha256(), hashlib.sha256()
    tally = Tally()
    tries = job.settings.repeats * job.settings.n
    for record in records():
        _count(tally, record, tries)
        data.update(f"{record.sample}\0{record.canonical}\0".encode())
        if record.outcome.moves:
            for message in record.outcome.moves[0].messages:
                prompts.update(f"{message.role}\0{message.content}\0".encode())
    score = mean_metric("score", tally.values, tally.clusters)
    scripted = job.opponent is None or job.opponent.factory is not None
    floor_ceiling = await _levels(job) if levels and scripted else {}
    return {
        "complete": len(tally.values) == expected,
        "records": len(tally.values),
        "expected": expected,
        "task": job.task.name,
        "model": job.contender.name,
        "opponent": None if job.opponent is None else job.opponent.name,
        "reward": job.reward.name,
        "split": job.settings.split,
        "score": asdict(score),
        "columns": list(job.task.columns),
        "metrics": [asdict(m) for m in (*job.task.metrics(records()), *_over_tries(tally, tries))],
        "ledger": {"records": tally.records, "moves": tally.moves},
        "policies": {
            "as_played": asdict(score),
            "given_valid": asdict(mean_metric("given_valid", tally.fair, tally.fair_clusters)),
        },
        "levels": floor_ceiling,
        "normalised": _normalised(score.value, floor_ceiling),
        "usage": {
            "prompt_tokens": tally.prompt_tokens,
            "completion_tokens": tally.completion_tokens,
            "cut_off": tally.cut_off,
        },
        "hashes": {"data": data.hexdigest()[:16], "prompts": prompts.hexdigest()[:16]},
    }


def _count(tally: Tally, record: Record, tries: int) -> None:
    outcome, value = record.outcome, record.score.value
    tally.values.append(value)
    cluster = cluster_key(record.cluster)
    tally.clusters.append(cluster)
    tally.records[outcome.cls] += 1
    if outcome.cls not in MODEL_FAULTS:
        tally.fair.append(value)
        tally.fair_clusters.append(cluster)
    for move in outcome.moves:
        tally.moves[move.cls] += 1
        tally.prompt_tokens += move.reply.prompt_tokens
        tally.completion_tokens += move.reply.completion_tokens
        tally.cut_off += move.reply.finish_reason == "length"
    if tries > 1:
        seen = tally.solved.setdefault(f"{record.sample}\0{record.seed}", [0, 0])
        seen[0] += 1
        seen[1] += value >= SOLVED


def _over_tries(tally: Tally, tries: int) -> list[Metric]:
    """pass@k and avg@k over the repeats of a sample, where there are several."""
    if tries < 2:
        return []
    full = [(key, n, c) for key, (n, c) in tally.solved.items() if n == tries]
    clusters = [key.partition("\0")[0] for key, _, _ in full]
    note = "solved means a score of 1; unbiased estimator over the repeats"
    sizes = sorted({k for k in (1, 2, 4, 8, 16, 32, 64, tries) if k <= tries})
    metrics = [
        mean_metric(f"pass@{k}", [pass_at_k(n, c, k) for _, n, c in full], clusters, note=note)
        for k in sizes
    ]
    rates = [c / n for _, n, c in full]
    return [*metrics, mean_metric(f"avg@{tries}", rates, clusters, note="rate solved")]


def _normalised(value: float | None, levels: dict[str, float]) -> float | None:
    """(score - random) / (oracle - random); None where a level is missing or they coincide."""
    floor, ceiling = levels.get("random"), levels.get("oracle")
    if value is None or floor is None or ceiling is None or ceiling - floor < 1e-9:
        return None
    return (value - floor) / (ceiling - floor)


async def _levels(job: Job) -> dict[str, float]:
    """Mean score of the reference players over the first samples of the run."""
    factories = job.task.players()
    levels: dict[str, float] = {}
    for name in sorted(job.task.level_players):
        if name in factories:
            contender = Contender(name, f"player:{name}", factory=factories[name])
            samples = islice(job.samples(), LEVEL_SAMPLES)
            values = [await _level(job, contender, sample) for sample in samples]
            if values:
                levels[name] = sum(values) / len(values)
    return levels


async def _level(job: Job, contender: Contender, sample: Sample) -> float:
    seed = derive("level", sample.id)
    players: list[Player] = []
    for seat, who in enumerate(job.task.lineup(sample)):
        sitting = contender if who == "model" else job.opponent
        assert sitting is not None
        assert sitting.factory is not None
        players.append(sitting.factory(Seat(job.task, sample, seat, seed)))
    outcome = await job.task.rollout(sample, players, Streams(seed))
    return job.reward.score(sample, outcome).value


def parse_failures(ledger: dict[str, int]) -> int:
    """How many records of a ledger ended in a fault of the model."""
    return sum(count for name, count in ledger.items() if name != OK)


def metric_rows(summary: dict[str, Json], most: int = 40) -> Sequence[dict[str, Json]]:
    """The metrics of a summary, the overall ones first, at most ``most``."""
    rows: Iterable[dict[str, Json]] = summary["metrics"]
    return sorted(rows, key=lambda row: row["group"] != "")[:most]
