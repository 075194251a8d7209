"""The audit of runs: contamination, parse failures, ambiguous replies, truncation, reward hacks.

    for report in audit_runs(["runs"], Limits(), registry):
        for finding in report.findings: print(finding.check, finding.text)

A finding is something to look at before the figures are believed. Notes are facts without alarm.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .board.places import StoredRun, find_runs
from .comparisons import paired
from .contamination import check, load_training
from .parsing import visible
from .player import FixedPlayer, PlayerFactory
from .progress import track
from .types import EMPTY, TRUNCATED, UNPARSED, HarnessError

if TYPE_CHECKING:
    from .plan import Job
    from .registry import Registry
    from .types import Sample

BLIND: Final = {"empty": 0.02, "echo": 0.02, "constant": 0.05}
"""Players that do not look at the question, and what each may earn over chance."""

_COMMIT: Final = re.compile(
    r"(?:final\s+)?answer(?:\s+is)?\s*[:=]\s*([^\n]+)|\\boxed\{([^{}]*)\}", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Limits:
    """From where on a share is a finding; ``samples`` of the reward check (0: none)."""

    failures: float = 0.1
    truncated: float = 0.05
    ambiguous: float = 0.02
    samples: int = 100


class Finding(NamedTuple):
    """What was found by which check."""

    check: str
    text: str


@dataclass(frozen=True, slots=True)
class RunReport:
    """The audit of one run."""

    run: str
    findings: tuple[Finding, ...]
    notes: tuple[Finding, ...]
    examples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    players: Mapping[str, float] = field(default_factory=dict)


Played = dict[str, tuple[dict[str, list[float]], list[str]]]
"""Scores of the players by task, and what is wrong with the reward."""


class Replies(NamedTuple):
    """What one pass over the replies of a run counts; ``examples`` are samples by check."""

    records: Counter[str]
    moves: int
    cut_off: int
    ambiguous: int
    tokens: int
    examples: dict[str, list[str]]


def audit_runs(
    paths: Iterable[str],
    limits: Limits,
    registry: Registry | None = None,
    training: str | None = None,
) -> Iterator[RunReport]:
    """Audit every run at these places; a broken folder among others is a finding.

    :param registry: makes the task and the reward for the reward check; None: no such check.
    :param training: a folder with the training.json of the checkpoints.
    """
    played: Played = {}
    unreadable: list[str] = []
    for run in track(find_runs(paths, unreadable), "audit"):
        yield audit_run(run, limits, registry, training, played)
    for problem in unreadable:
        yield RunReport(problem.partition(": ")[0], (Finding("folder", problem),), ())


def audit_run(
    run: StoredRun,
    limits: Limits,
    registry: Registry | None = None,
    training: str | None = None,
    played: Played | None = None,
) -> RunReport:
    """Audit one run; a check that cannot be made is a note, never silence.

    :param played: what the players earned in the tasks of other runs, to be used and added to.
    """
    if not run.finished:
        note = Finding("records", "the run has not ended: nothing to audit")
        return RunReport(run.name, (), (note,))
    findings: list[Finding] = []
    notes: list[Finding] = []
    examples: dict[str, tuple[str, ...]] = {}
    _contamination(run, training, findings, notes, examples)
    replies = _read(run)
    _shares(replies, limits, findings, notes)
    examples |= {name: tuple(found) for name, found in replies.examples.items() if found}
    if not run.complete and run.metrics:
        text = f"{run.metrics['records']} of {run.metrics['expected']} records are there"
        findings.append(Finding("complete", text))
    players: dict[str, float] = {}
    if registry is not None and limits.samples:
        played = {} if played is None else played
        players = _reward(run, registry, limits.samples, findings, notes, played)
    return RunReport(run.name, tuple(findings), tuple(notes), examples, players)


def _contamination(
    run: StoredRun,
    folder: str | None,
    findings: list[Finding],
    notes: list[Finding],
    examples: dict[str, tuple[str, ...]],
) -> None:
    training = load_training(run, folder)
    if training is None:
        notes.append(Finding("contamination", "no training.json: not a checkpoint of ours"))
        return
    findings += [Finding("contamination", problem) for problem in training.problems]
    found = check(run, training)
    for how, samples in (
        ("canonical", found.canonical),
        ("exact prompt", found.exact),
        ("n-grams", found.ngrams),
    ):
        if samples:
            text = f"{len(samples)} of {found.samples} items are in the training data ({how})"
            findings.append(Finding("contamination", text))
            examples[how] = samples[:5]
    if not found.all:
        sources = ", ".join(training.sources) or "none"
        notes.append(
            Finding("contamination", f"none of {found.samples} items (trained: {sources})")
        )


def _read(run: StoredRun) -> Replies:
    """Count classes of records, and cut-off and ambiguous replies of all seats."""
    records: Counter[str] = Counter()
    moves = cut_off = ambiguous = tokens = 0
    examples: dict[str, list[str]] = {UNPARSED: [], TRUNCATED: [], EMPTY: [], "ambiguous": []}
    columns = ["sample", "class"] + [
        f"moves.list.element.{name}" for name in ("text", "finish_reason", "completion_tokens")
    ]
    for batch in run.batches(columns):
        rows: Any = zip(*(batch.column(i).to_pylist() for i in range(3)), strict=True)
        for sample, cls, said in rows:
            records[cls] += 1
            if cls in examples and len(examples[cls]) < 5:
                examples[cls].append(sample)
            for move in said or ():
                moves += 1
                cut_off += move["finish_reason"] == "length"
                tokens = max(tokens, move["completion_tokens"] or 0)
                if is_ambiguous(move["text"] or ""):
                    ambiguous += 1
                    if len(examples["ambiguous"]) < 5:
                        examples["ambiguous"].append(sample)
    return Replies(records, moves, cut_off, ambiguous, tokens, examples)


def is_ambiguous(text: str) -> bool:
    """Whether a reply commits to several different answers.

    >>> is_ambiguous("ANSWER: 3"), is_ambiguous("Answer: 3. So\\nFinal answer: 4")
    (False, True)
    """
    said = (a or b for a, b in _COMMIT.findall(visible(text)))
    return len({re.sub(r"\W+", "", answer.lower()) for answer in said} - {""}) > 1


def _shares(
    replies: Replies, limits: Limits, findings: list[Finding], notes: list[Finding]
) -> None:
    total = sum(replies.records.values())
    moves = max(1, replies.moves)
    failed = sum(replies.records[c] for c in (UNPARSED, EMPTY))
    rows = (
        ("parse failures", failed, total, limits.failures, "records unparsed or empty"),
        ("truncation", replies.records[TRUNCATED], total, limits.truncated, "records truncated"),
        ("cut off", replies.cut_off, moves, limits.truncated, "replies hit the token limit"),
        ("ambiguous", replies.ambiguous, moves, limits.ambiguous, "replies give several answers"),
    )
    for name, count, of, limit, what in rows:
        text = f"{count} of {of} {what} ({100 * count / of:.1f} %)"
        (findings if count > limit * of else notes).append(Finding(name, text))


# Reward hacks: what do players earn that do not look at the question?


def _reward(
    run: StoredRun,
    registry: Registry,
    most: int,
    findings: list[Finding],
    notes: list[Finding],
    played: Played,
) -> dict[str, float]:
    from .rescore import stored_job
    from .store import RunFolder, spec_hash

    parts = ("task", "split", "opponent", "reward")
    same = f"{spec_hash({name: run.spec[name] for name in parts})} {run.manifest.get('limit')}"

    path = Path(run.place.path)
    if not path.is_dir():
        notes.append(Finding("reward", "not checked: the run is not on this machine"))
        return {}
    try:
        folder = RunFolder.read(path)
        try:
            job = stored_job(folder, registry)
        finally:
            folder.close()
        if same not in played:
            played[same] = asyncio.run(_play_all(job, most))
        scores, problems = played[same]
    except HarnessError as error:
        notes.append(Finding("reward", f"not checked: {error}"))
        return {}
    findings += [Finding("reward", problem) for problem in problems]
    findings += [Finding("reward", text) for text in _hacks(scores)]
    means = {name: sum(v) / len(v) for name, v in scores.items()}
    listed = ", ".join(f"{name} {mean:.3f}" for name, mean in means.items())
    notes.append(Finding("reward", f"reference players on {_count(scores)} samples: {listed}"))
    return means


def _count(scores: Mapping[str, list[float]]) -> int:
    return len(next(iter(scores.values()), []))


def _hacks(scores: Mapping[str, list[float]]) -> Iterator[str]:
    """Blind players that beat chance, and an oracle that does not."""
    chance = scores.get("random")
    if not chance or len(chance) < 2:
        return
    for name, margin in BLIND.items():
        if name in scores:
            found = paired(scores[name], chance)
            if found.difference > margin and found.p < 0.01:
                yield (
                    f"the player {name!r} does not look at the question and earns "
                    f"{found.difference:+.3f} over chance (p = {found.p:.2g})"
                )
    if "oracle" in scores:
        found = paired(scores["oracle"], chance)
        if found.difference <= 0:
            yield f"the oracle earns no more than chance ({found.difference:+.3f})"


async def _play_all(job: Job, most: int) -> tuple[dict[str, list[float]], list[str]]:
    """The score of each player on the first samples, and what is wrong with the reward itself."""
    if job.opponent is not None and job.opponent.factory is None:
        raise HarnessError("the opponent is a model")
    factories: dict[str, PlayerFactory] = {
        "empty": lambda seat: FixedPlayer(lambda turn: ""),
        "echo": lambda seat: FixedPlayer(lambda turn: turn.messages[-1].content),
        **{n: f for n, f in job.task.players().items() if n in (*BLIND, "random", "oracle")},
    }
    samples = list(islice(job.samples(), most))
    scores: dict[str, list[float]] = {}
    problems: set[str] = set()
    for name, factory in factories.items():
        values = []
        for sample in samples:
            value, again = await _play(job, factory, sample)
            values.append(value)
            if not 0.0 <= value <= 1.0:
                problems.add(f"pays {value} to {name!r} on {sample.id}: outside of [0, 1]")
            if job.reward.deterministic and value != again:
                problems.add(f"pays {name!r} on {sample.id} {value} and then {again}")
        scores[name] = values
    return scores, sorted(problems)[:5]


async def _play(job: Job, factory: PlayerFactory, sample: Sample) -> tuple[float, float]:
    from .player import Seat
    from .seeds import Streams, derive

    seed = derive("audit", sample.id)
    players = []
    for seat, who in enumerate(job.task.lineup(sample)):
        other = None if job.opponent is None else job.opponent.factory
        sitting = factory if who == "model" or other is None else other
        players.append(sitting(Seat(job.task, sample, seat, seed)))
    outcome = await job.task.rollout(sample, players, Streams(seed))
    return job.reward.score(sample, outcome).value, job.reward.score(sample, outcome).value
