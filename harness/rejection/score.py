"""Scoring of candidates: each through the reward and the gates, a prompt's candidates as a group.

    report = await score_candidates(Path("samples/..."), registry, gates_of, reward="tom-process")

Writes ``candidates.jsonl`` (a line a candidate: its place in the run, reward, parts, the gate it
failed) and ``acceptance.json`` into the run folder. Nothing is asked of the model again.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from math import fsum
from pathlib import Path
from statistics import pstdev
from typing import Any, Final

import orjson

from .. import __version__
from ..progress import track
from ..registry import Registry
from ..rescore import by_sample, replay, stored_job
from ..reward import Reward
from ..store import RECORDS, RunFolder, write_atomically
from ..types import HarnessError, Json, Outcome, Record, Sample, Score
from .gates import ACCEPTED, Gates

CANDIDATES: Final = "candidates.jsonl"
ACCEPTANCE: Final = "acceptance.json"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One scored candidate. ``index`` is its record's place in the run; ``key`` names it wherever
    it goes; ``parsed`` is the answer that was read; ``stratum`` the finest part of the data that
    acceptance is counted by (`Task.stratum`)."""

    key: str
    index: int
    sample: str
    canonical: str
    group: str
    cluster: str
    repeat: int
    tokens: int
    reward: float
    parts: Mapping[str, float]
    parsed: Json
    verdict: str
    stratum: str = ""

    @property
    def accepted(self) -> bool:
        """Whether it passed every gate."""
        return self.verdict == ACCEPTED


async def score_candidates(
    path: Path,
    registry: Registry,
    gates_of: Callable[[Reward], Gates],
    reward: str = "",
    reward_options: Mapping[str, Json] | None = None,
) -> dict[str, Json]:
    """Score all candidates of a run. Returns what ``acceptance.json`` holds.

    Raises HarnessError for a run of another split than ``train``, one that is not complete, or one
    of a game (its replies are no answers to one prompt).
    """
    folder = RunFolder.read(path)
    try:
        _check(folder)
        job = stored_job(folder, registry, reward, reward_options)
        if job.task.seats > 1:
            raise HarnessError(
                f"{path}: {job.task.name} is a game; its replies answer no one prompt"
            )
        gates = gates_of(job.reward)
        candidates: list[Candidate] = []
        total = folder.manifest["expected"] // job.rollouts
        try:
            for sample, group in track(by_sample(job, folder), "candidates", total):
                records = list(group)
                outcomes = [await replay(job, sample, record) for record in records]
                scores = await job.reward.score_group(sample, outcomes)
                for record, outcome, score in zip(records, outcomes, scores, strict=True):
                    made = _candidate(sample, record, outcome, score, gates)
                    candidates.append(replace(made, stratum=job.task.stratum(sample)))
            judged = job.reward.judge_figures()
        finally:
            job.reward.close()
        report = {
            "harness": __version__,
            "run": folder.manifest["hash"],
            "records_sha256": hashlib.sha256((path / RECORDS).read_bytes()).hexdigest(),
            "reward": {"name": job.reward.name, "options": job.reward.options},
            "gates": asdict(gates),
            **acceptance(candidates),
            **({"judge": judged} if judged else {}),
        }
    finally:
        folder.close()
    lines = (orjson.dumps(asdict(c), option=orjson.OPT_SORT_KEYS) + b"\n" for c in candidates)
    write_atomically(path / CANDIDATES, b"".join(lines))
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS
    write_atomically(path / ACCEPTANCE, orjson.dumps(report, option=options) + b"\n")
    return report


def read_candidates(path: Path) -> list[Candidate]:
    """The scored candidates of a run. Raises HarnessError before `score_candidates`."""
    try:
        lines = (path / CANDIDATES).read_bytes().splitlines()
    except FileNotFoundError:
        raise HarnessError(
            f"{path}: not scored yet; give `harness rft score {path}` first"
        ) from None
    return [Candidate(**orjson.loads(line)) for line in lines]


def acceptance(candidates: list[Candidate]) -> dict[str, Json]:
    """Counts by gate, overall, by group and by stratum (order and side); how many prompts and
    clusters are covered; the spread of rewards within a prompt's group (population standard
    deviation); the mean of each part of the score."""
    groups: dict[str, list[Candidate]] = defaultdict(list)
    strata: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        groups[candidate.group].append(candidate)
        strata[candidate.stratum or candidate.group].append(candidate)
    return {
        **_counts(candidates),
        "groups": {name: _counts(members) for name, members in sorted(groups.items())},
        "strata": {name: _counts(members) for name, members in sorted(strata.items())},
    }


def _counts(candidates: list[Candidate]) -> dict[str, Any]:
    by_prompt: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        by_prompt[candidate.sample].append(candidate)
    clusters: dict[str, list[bool]] = defaultdict(list)
    for members in by_prompt.values():
        clusters[members[0].cluster].append(any(c.accepted for c in members))
    spreads = [pstdev([c.reward for c in members]) for members in by_prompt.values()]
    accepted = sum(c.accepted for c in candidates)
    reasons = Counter(c.verdict for c in candidates)
    parts: dict[str, list[float]] = defaultdict(list)
    for candidate in candidates:
        for name, value in candidate.parts.items():
            parts[name].append(value)
    return {
        "candidates": len(candidates),
        "accepted": accepted,
        "acceptance_rate": accepted / len(candidates) if candidates else 0.0,
        "verdicts": dict(sorted(reasons.items())),
        "prompts": len(by_prompt),
        "prompts_with_accepted": sum(
            any(c.accepted for c in members) for members in by_prompt.values()
        ),
        "clusters": len(clusters),
        "clusters_complete": sum(all(found) for found in clusters.values()),
        "parts": {name: fsum(values) / len(values) for name, values in sorted(parts.items())},
        "reward_mean": fsum(c.reward for c in candidates) / max(1, len(candidates)),
        "group_reward_std_mean": fsum(spreads) / max(1, len(spreads)),
        "zero_variance_groups": sum(spread == 0.0 for spread in spreads),
        "all_zero_groups": sum(
            all(c.reward == 0.0 for c in members) for members in by_prompt.values()
        ),
    }


def _candidate(
    sample: Sample, record: Record, outcome: Outcome, score: Score, gates: Gates
) -> Candidate:
    move = outcome.moves[-1]
    return Candidate(
        key=f"{record.sample}#s{record.seed}r{record.repeat}",
        index=record.index,
        sample=record.sample,
        canonical=sample.canonical or sample.id,
        group=sample.group,
        cluster=sample.cluster or sample.id,
        repeat=record.repeat,
        tokens=move.reply.completion_tokens,
        reward=score.value,
        parts=dict(score.parts),
        parsed=move.parsed,
        verdict=gates.verdict(outcome, score),
    )


def _check(folder: RunFolder) -> None:
    split = folder.manifest["spec"]["split"]
    if split != "train":
        raise HarnessError(
            f"{folder.path}: candidates of the split {split!r} cannot be training data; sample "
            "from 'train'"
        )
    if folder.manifest["spec"]["fewshot"] or folder.manifest["spec"]["system"] is not None:
        print_note(folder.path)
    metrics = folder.metrics()
    if metrics is None or not metrics["complete"]:
        raise HarnessError(
            f"{folder.path}: not complete; `harness sample --resume {folder.path}` goes on with it"
        )


def print_note(path: Path) -> None:
    """Say that the prompts of the run are not the task's alone."""
    import sys

    print(
        f"{path}: sampled with worked examples or another system message; `rft build` trains on "
        "the task's own prompt",
        file=sys.stderr,
    )
