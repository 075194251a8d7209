"""What loggers plot while a run goes on: running mean score and share of faults.

pace = Pace(done=run.journal.finished)
figures = pace.add(record)      # every 50th record, else None
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from harness.types import MODEL_FAULTS, Json, Record

EVERY: Final = 50
"""Records between two points of a curve."""


class Pace:
    """Counts the records of a run; a resumed run counts on from what was there."""

    def __init__(self, done: int = 0) -> None:
        self.step = done
        self._seen = 0
        self._score = 0.0
        self._faults = 0

    def add(self, record: Record) -> dict[str, float] | None:
        """Note a record; the figures so far when it is time for a point."""
        self.step += 1
        self._seen += 1
        self._score += record.score.value
        self._faults += record.outcome.cls in MODEL_FAULTS
        if self.step % EVERY:
            return None
        return {"score": self._score / self._seen, "faults": self._faults / self._seen}


def summary_figures(summary: Mapping[str, Json]) -> Iterator[tuple[str, float]]:
    """Every figure of a summary as (task/metric[group], value), with its interval and the ledger.

    >>> list(summary_figures({"task": "tom", "metrics": [], "ledger": {"records": {"ok": 3}}}))
    [('tom/ledger/ok', 3.0)]
    """
    task = summary["task"]
    for row in summary["metrics"]:
        name = f"{task}/{row['name']}" + (f"[{row['group']}]" if row["group"] else "")
        for part, suffix in (("value", ""), ("low", " low"), ("high", " high")):
            if row[part] is not None:
                yield name + suffix, float(row[part])
    if summary.get("normalised") is not None:
        yield f"{task}/normalised", float(summary["normalised"])
    for cls, count in summary["ledger"]["records"].items():
        yield f"{task}/ledger/{cls}", float(count)
