"""Data sets as files: JSONL, Parquet, stats and manifest, the same bytes each time.

report = build_dataset(task, Path("data/gamesolve"), verify=True)
report.problems   # what an independent solver objects to
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import orjson

from . import __version__
from .progress import track
from .store import write_atomically
from .task import Task
from .types import HarnessError, Sample

SHOWN: Final = 10
"""Problems that the report spells out."""


@dataclass(frozen=True, slots=True)
class Report:
    """What was built, and what is wrong with it."""

    text: str
    problems: tuple[str, ...]


def build_dataset(task: Task, out: Path, verify: bool = False) -> Report:
    """Write all samples of a task into a folder. Raises HarnessError when it cannot be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HarnessError(f"{out}: cannot be written: {error.strerror}") from None
    jsonl, parquet = out / "samples.jsonl", out / "samples.parquet"
    samples = list(track(task.samples("all"), f"{task.name}: samples"))
    lines = (orjson.dumps(asdict(s), option=orjson.OPT_SORT_KEYS) + b"\n" for s in samples)
    write_atomically(jsonl, b"".join(lines))
    _write_parquet(samples, parquet)
    stats = {
        **task.stats(samples),
        "samples": len(samples),
        "splits": dict(sorted(Counter(s.split for s in samples).items())),
        "canonical_across_splits": _shared(samples),
    }
    _write_json(out / "stats.json", stats)
    problems = tuple(_problems(task, samples)) if verify else ()
    manifest = {
        "task": task.name,
        "version": task.version,
        "options": task.options,
        "harness": __version__,
        "verified": verify and not problems,
        "sha256": {f.name: _sha256(f) for f in (jsonl, parquet, out / "stats.json")},
    }
    _write_json(out / "manifest.json", manifest)
    return Report(_text(out, stats, problems, verify), problems)


def _problems(task: Task, samples: list[Sample]) -> Iterator[str]:
    yield from task.verify(samples)
    ids = Counter(s.id for s in samples)
    yield from (f"the id {name!r} occurs {count} times" for name, count in ids.items() if count > 1)
    if shared := _shared(samples):
        yield f"{shared} canonical items occur in more than one split"


def _shared(samples: list[Sample]) -> int:
    """How many canonical items occur in more than one split."""
    splits: dict[str, set[str]] = {}
    for sample in samples:
        splits.setdefault(sample.canonical or sample.id, set()).add(sample.split)
    return sum(len(found) > 1 for found in splits.values())


def _text(out: Path, stats: dict[str, object], problems: tuple[str, ...], verified: bool) -> str:
    lines = [f"{out}: {stats['samples']} samples, splits {stats['splits']}"]
    lines.append(f"canonical items in more than one split: {stats['canonical_across_splits']}")
    lines += [f"problem: {problem}" for problem in problems[:SHOWN]]
    if len(problems) > SHOWN:
        lines.append(f"... and {len(problems) - SHOWN} more")
    if verified:
        lines.append(f"verified: {len(problems)} problems")
    return "\n".join(lines)


def _write_parquet(samples: list[Sample], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = []
    for sample in samples:
        row = asdict(sample)
        for name in ("data", "truth"):
            row[name] = orjson.dumps(row[name], option=orjson.OPT_SORT_KEYS).decode()
        rows.append(row)
    try:
        pq.write_table(pa.Table.from_pylist(rows), path, compression="zstd")
    except OSError as error:
        raise HarnessError(f"{path}: cannot be written: {error}") from None


def _write_json(path: Path, value: object) -> None:
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
    write_atomically(path, orjson.dumps(value, option=options) + b"\n")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
