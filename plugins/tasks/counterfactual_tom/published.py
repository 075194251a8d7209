"""Foreign data: rows of the published compact schema, as samples.

One JSON object a line (``.jsonl`` or ``.jsonl.gz``). A row needs ``story``, ``question`` and
``choices``; what else it has (ids, split, side, gold) is kept where it is there. The truth is the
row's own gold; the audit compares it with the oracle. Without a gold trace the oracle's is taken.

    for sample in read_rows(Path("compact_val.full.jsonl.gz")): ...
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import orjson

from harness.types import HarnessError, Json, Sample

from ..tom.oracle import Beliefs
from ..tom.question import Question, parse, parse_options
from ..tom.world import Event
from .english import read_story

SPLITS: Final = {"train": "train", "val": "validation", "dev": "validation", "test": "test"}
"""Split names of the published files; a test row above order 3 is ``ood`` here."""

LARGEST_TRAINING_ORDER: Final = 3


def identity(path: Path) -> str:
    """SHA-256 of the file's bytes. Raises HarnessError when it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise HarnessError(f"data={path}: {error.strerror}; give a .jsonl or .jsonl.gz") from None


def read_rows(path: Path) -> Iterator[Sample]:
    """The samples of a file in its order. Raises HarnessError with the line of a bad row."""
    identity(path)
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                yield sample_of(orjson.loads(line), number - 1)
            except (orjson.JSONDecodeError, HarnessError, KeyError, TypeError) as error:
                what = f"no {error} field" if isinstance(error, KeyError) else error
                raise HarnessError(f"{path}, line {number}: {what}") from None


def sample_of(row: Mapping[str, Json], ordinal: int) -> Sample:
    """One row as a sample."""
    question = parse(row["question"])
    choices = list(parse_options(row["choices"]))
    moves = read_story(row["story"], question.object)
    pair = str(row.get("pair_id") or row.get("sample_id") or f"row-{ordinal}")
    return Sample(
        id=str(row.get("sample_id") or f"row-{ordinal}"),
        split=_split(row, len(question.chain)),
        data={
            "story": row["story"],
            "question": row["question"],
            "chain": list(question.chain),
            "object": question.object,
            "choices": choices,
            "side": row.get("intervention_type", ""),
            "events": [move.event.json() for move in moves],
        },
        truth=_truth(row, question, [move.event for move in moves]),
        group=f"order-{len(question.chain)}",
        cluster=pair,
        canonical=canonical(row["story"], row["question"]),
        ordinal=ordinal,
    )


def canonical(story: str, question: str) -> str:
    """The identity of a sample: a hash of story and question without layout."""
    text = " ".join(f"{story} {question}".split()).lower()
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _split(row: Mapping[str, Json], order: int) -> str:
    split = SPLITS.get(str(row.get("split", "test")), str(row.get("split", "test")))
    return "ood" if split == "test" and order > LARGEST_TRAINING_ORDER else split


def _truth(row: Mapping[str, Json], question: Question, events: list[Event]) -> dict[str, Json]:
    target = row.get("process_target") or {}
    steps = target.get("belief_trace")
    if steps is None:
        found = Beliefs(events).trace(question.object, question.chain)
        trace = [step.place for step in found]
    else:
        trace = [step["location"] for step in steps]
    return {
        "order": len(question.chain),
        "trace": trace,
        "answer": row.get("answer") or trace[-1],
    }
