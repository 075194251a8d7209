"""The data set of accepted replies: deduplicated, capped, balanced, with its manifest.

    report = build([Path("samples/...")], Path("data/rft"), registry, Choice(cap=2, balance=True))

A row is the task's own prompt (optionally under other task options than at sampling), one accepted
reply, and where it comes from. Replies are copied from the run's journal and nothing else is ever
written into them: no target, no truth.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from .. import __version__
from ..registry import Registry
from ..store import RunFolder, write_atomically
from ..task import Task
from ..training.data import refuse_leaks
from ..types import HarnessError, Json, Message, Sample
from .pilot import rank
from .score import ACCEPTANCE, Candidate, read_candidates

DEDUPE: Final = ("text", "answer", "none")
ROWS: Final = "train.jsonl"
TABLE: Final = "train.parquet"
MANIFEST: Final = "manifest.json"


@dataclass(frozen=True, slots=True)
class Choice:
    """What of the accepted replies is kept. ``cap``: replies of a prompt at most, shortest first
    (0: all); ``dedupe``: replies of a prompt that count as one (same text up to case and spaces,
    or the same answer); ``pairs``: complete clusters only; ``balance``: as many rows of each group;
    ``least`` and ``most`` rows in all (0: no bound)."""

    cap: int = 0
    dedupe: str = "text"
    pairs: bool = False
    balance: bool = False
    least: int = 0
    most: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.dedupe not in DEDUPE:
            raise HarnessError(f"--dedupe {self.dedupe}: choose from {', '.join(DEDUPE)}")
        for name in ("cap", "least", "most"):
            if getattr(self, name) < 0:
                raise HarnessError(f"--{name} {getattr(self, name)}: cannot be negative")


@dataclass(frozen=True, slots=True)
class Source:
    """A candidate with its reply and the sample it answers."""

    candidate: Candidate
    reply: str
    sample: Sample
    run: str
    asked: tuple[Message, ...]


def build(
    runs: Sequence[Path],
    out: Path,
    registry: Registry,
    choice: Choice | None = None,
    options: Mapping[str, Json] | None = None,
) -> dict[str, Json]:
    """Write the data set; returns its manifest. ``options`` override the task's at sampling.

    Raises HarnessError when nothing was accepted, when fewer than ``least`` rows are left, when the
    runs are of different tasks, and when ``out`` holds anything.
    """
    choice = choice or Choice()
    if out.exists() and any(out.iterdir()):
        raise HarnessError(f"{out} is not empty; choose another --out")
    sources, task = _sources(runs, registry, options or {})
    if not sources:
        raise HarnessError(
            f"no candidate of {', '.join(map(str, runs))} was accepted: {_reasons(runs)}; sample "
            "more, from an easier part of the task, or loosen the gates"
        )
    refuse_leaks(task, {s.sample.id: s.sample for s in sources}.values())
    kept = select(sources, choice, _sizes(task) if choice.pairs else {})
    if len(kept) < choice.least:
        raise HarnessError(f"{len(kept)} rows are left, fewer than --min-samples {choice.least}")
    rows = [_row(task, source) for source in kept]
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HarnessError(f"{out}: cannot be written: {error.strerror}") from None
    data = b"".join(orjson.dumps(row, option=orjson.OPT_SORT_KEYS) + b"\n" for row in rows)
    write_atomically(out / ROWS, data)
    _write_table(rows, out / TABLE)
    manifest = {
        "harness": __version__,
        "task": {"name": task.name, "version": task.version, "options": task.options},
        "runs": [
            {"hash": RunFolder.read(r).manifest["hash"], "acceptance": _sha256(r / ACCEPTANCE)}
            for r in runs
        ],
        "choice": asdict(choice),
        "accepted": len(sources),
        "rows": len(rows),
        "prompts": len({row["sample"] for row in rows}),
        "groups": dict(sorted(Counter(row["group"] for row in rows).items())),
        "sha256": {name: _sha256(out / name) for name in (ROWS, TABLE)},
    }
    options_ = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS
    write_atomically(out / MANIFEST, orjson.dumps(manifest, option=options_) + b"\n")
    return manifest


def select(
    sources: Iterable[Source], choice: Choice, sizes: Mapping[str, int] | None = None
) -> list[Source]:
    """The rows that the choice keeps, prompts in the order of the run. ``sizes``: how many prompts
    each cluster has in the split, for ``pairs``."""
    by_prompt: dict[str, list[Source]] = defaultdict(list)
    for source in sources:
        by_prompt[source.sample.id].append(source)
    kept = [s for members in by_prompt.values() for s in _of_prompt(members, choice)]
    if choice.pairs:
        kept = _complete(kept, sizes or {})
    if choice.balance and kept:
        fewest = min(Counter(s.sample.group for s in kept).values())
        groups = {s.sample.group for s in kept}
        chosen = [
            source
            for group in groups
            for source in _most([s for s in kept if s.sample.group == group], fewest, choice)
        ]
        kept = _in_order(kept, chosen)
    if choice.most and len(kept) > choice.most:
        kept = _in_order(kept, _most(kept, choice.most, choice))
    return kept


def _of_prompt(members: list[Source], choice: Choice) -> list[Source]:
    """A prompt's rows: shortest first, one of each kind, up to the cap."""
    ordered = sorted(members, key=lambda s: (s.candidate.tokens, s.candidate.key))
    seen: set[str] = set()
    kept = []
    for source in ordered:
        kind = _kind(source, choice.dedupe)
        if kind not in seen:
            seen.add(kind)
            kept.append(source)
    return kept[: choice.cap or None]


def _kind(source: Source, dedupe: str) -> str:
    if dedupe == "none":
        return source.candidate.key
    if dedupe == "answer":
        return orjson.dumps(source.candidate.parsed, option=orjson.OPT_SORT_KEYS).decode()
    return " ".join(source.reply.casefold().split())


def _sizes(task: Task) -> Mapping[str, int]:
    return Counter(s.cluster or s.id for s in task.samples("train"))


def _complete(kept: list[Source], sizes: Mapping[str, int]) -> list[Source]:
    found: dict[str, set[str]] = defaultdict(set)
    for source in kept:
        found[source.sample.cluster or source.sample.id].add(source.sample.id)
    whole = {c for c, names in found.items() if len(names) == sizes[c]}
    return [s for s in kept if (s.sample.cluster or s.sample.id) in whole]


def _most(kept: list[Source], most: int, choice: Choice) -> list[Source]:
    """At most so many rows, by rank; with pairs whole clusters while they fit."""
    if not choice.pairs:
        return sorted(kept, key=lambda s: rank(choice.seed, s.candidate.key))[:most]
    clusters: dict[str, list[Source]] = defaultdict(list)
    for source in kept:
        clusters[source.sample.cluster or source.sample.id].append(source)
    chosen: list[Source] = []
    for cluster in sorted(clusters, key=lambda c: rank(choice.seed, c)):
        if len(chosen) + len(clusters[cluster]) <= most:
            chosen += clusters[cluster]
    return chosen


def _in_order(all_of: list[Source], chosen: list[Source]) -> list[Source]:
    wanted = {s.candidate.key for s in chosen}
    return [s for s in all_of if s.candidate.key in wanted]


def _sources(
    runs: Sequence[Path], registry: Registry, options: Mapping[str, Json]
) -> tuple[list[Source], Task]:
    sources: list[Source] = []
    task: Task | None = None
    for run in runs:
        folder = RunFolder.read(run)
        try:
            spec = folder.manifest["spec"]["task"]
            if task is not None and task.name != spec["name"]:
                raise HarnessError(f"{run} is of {spec['name']}, the others of {task.name}")
            task = registry.create("task", spec["name"], {**spec["options"], **options})
            sources += _accepted(folder, task)
        finally:
            folder.close()
    if task is None:
        raise HarnessError("give at least one run folder")
    return sources, task


def _accepted(folder: RunFolder, task: Task) -> list[Source]:
    wanted = {c.index: c for c in read_candidates(folder.path) if c.accepted}
    if not wanted:
        return []
    names = {c.sample for c in wanted.values()}
    samples = {s.id: s for s in task.samples("train") if s.id in names}
    if missing := names - set(samples):
        raise HarnessError(
            f"{folder.path}: under these options {task.name} has no sample {min(missing)!r}; only "
            "options that change the wording can differ from sampling"
        )
    found = []
    for record in folder.records():
        if record.index in wanted:
            move = record.outcome.moves[-1]
            found.append(
                Source(
                    wanted[record.index],
                    move.reply.text.rstrip(),
                    samples[record.sample],
                    folder.manifest["hash"],
                    move.messages,
                )
            )
    return found


def _row(task: Task, source: Source) -> dict[str, Any]:
    asked = task.messages(source.sample)
    sample = source.sample
    return {
        "messages": [
            *({"role": m.role, "content": m.content} for m in asked),
            {"role": "assistant", "content": source.reply},
        ],
        "sample": sample.id,
        "canonical": sample.canonical or sample.id,
        "group": sample.group,
        "cluster": sample.cluster or sample.id,
        "candidate": source.candidate.key,
        "run": source.run,
        "reward": source.candidate.reward,
        "tokens": source.candidate.tokens,
        "prompt_sha256": _hash(asked),
        "source_prompt_sha256": _hash(source.asked),
        "reply_sha256": hashlib.sha256(source.reply.encode()).hexdigest(),
    }


def _hash(messages: Iterable[Message]) -> str:
    text = orjson.dumps([[m.role, m.content] for m in messages])
    return hashlib.sha256(text).hexdigest()


def _reasons(runs: Sequence[Path]) -> str:
    counts = Counter(c.verdict for run in runs for c in read_candidates(run))
    return (
        ", ".join(f"{name} {count:,}" for name, count in counts.most_common(4)) or "no candidates"
    )


def _write_table(rows: list[dict[str, Any]], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        pq.write_table(pa.Table.from_pylist(rows), path, compression="zstd")
    except OSError as error:
        raise HarnessError(f"{path}: cannot be written: {error}") from None


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
