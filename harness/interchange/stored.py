"""A finished run as exports read it: records one by one, targets from the task where it is there.

for number, record in numbered(run): print(number.epoch, target(run, record))
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import orjson

from ..board.places import StoredRun, find_runs
from ..progress import track
from ..tables import record_from_row, text_columns
from ..types import HarnessError, Record

if TYPE_CHECKING:
    from ..viewer.stage import Stage


def finished_run(path: str) -> StoredRun:
    """The run at a place. Raises HarnessError for none, several, or one that has not ended."""
    runs = find_runs([path])
    if len(runs) > 1:
        names = ", ".join(run.name for run in runs[:4])
        raise HarnessError(f"{path} holds {len(runs)} runs ({names}, ...): name one of them")
    if runs[0].metrics is None:
        raise HarnessError(f"{path}: the run has not ended yet; harness run --resume {path}")
    return runs[0]


def records(run: StoredRun) -> Iterator[tuple[int, Record]]:
    """The records in order, each with its number among those of its sample, from 1."""

    def all_of_them() -> Iterator[Record]:
        for batch in run.batches(text_columns(), 200):
            yield from map(record_from_row, batch.to_pylist())

    last, epoch = "", 0
    for record in track(all_of_them(), f"exporting {run.name}", run.finished):
        epoch = epoch + 1 if record.sample == last else 1
        last = record.sample
        yield epoch, record


def target(stage: Stage, run: StoredRun, record: Record) -> str:
    """What would have been right: the task's own answer, else the truth as JSON, else "" (the
    task is not installed here)."""
    sample, worked = stage.sample(run, record)
    if worked:
        return worked
    return orjson.dumps(sample.truth).decode() if sample is not None and sample.truth else ""


def answer(record: Record) -> str:
    """The last parsed answer, as text; "" for none."""
    parsed = record.outcome.moves[-1].parsed if record.outcome.moves else None
    if parsed is None:
        return ""
    return parsed if isinstance(parsed, str) else orjson.dumps(parsed).decode()


def reward_name(run: StoredRun) -> str:
    """The reward that scored the run; parts of a sum are joined by +."""
    reward = run.spec["reward"]
    parts = reward if isinstance(reward, list) else [reward]
    return "+".join(str(part["name"]) for part in parts)
