"""Cells: one row in one column, with everything that a reader must know about the figure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ..comparisons import unpaired
from ..stats import LEVEL, t_quantile
from ..types import MODEL_FAULTS, Json
from .arenas import Column
from .places import StoredRun

CONTAMINATED: Final = "†"
INCOMPLETE: Final = "‡"
DIFFERENT: Final = "§"
BOUND: Final = "◊"
FEW: Final = "few"


class Difference(NamedTuple):
    """The difference to the baseline: paired sample by sample where that is possible."""

    value: float
    low: float | None
    high: float | None
    p: float | None
    how: str


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure and its standing.

    ``runs`` counts the runs behind it and ``sd`` their spread (or that of the seeds of one run);
    ``contaminated`` counts evaluation items that the checkpoint was trained on (None: training
    data unknown or none) and ``clean`` is the score without them; ``missing`` counts records;
    ``differs`` names the parts of the protocol that are not the column's; ``bound`` marks a choice
    among replies that saw the truth. ``tokens`` are prompt and reply tokens of a record, all drafts
    of a test-time method counted (None: no model). ``rank`` and ``letters``
    are of the paired tests; None and "" where the cell is not ranked.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    clusters: int = 0
    note: str = ""
    normalised: float | None = None
    levels: Mapping[str, float] = field(default_factory=dict)
    ledger: Mapping[str, int] = field(default_factory=dict)
    given_valid: float | None = None
    runs: int = 1
    seeds: int = 1
    sd: float | None = None
    missing: int = 0
    contaminated: int | None = None
    clean: float | None = None
    differs: tuple[str, ...] = ()
    bound: bool = False
    tokens: tuple[float, float] | None = None
    rank: int | None = None
    letters: str = ""
    difference: Difference | None = None

    @property
    def marks(self) -> str:
        """The signs that stand behind the figure; the caption explains them."""
        return "".join(
            mark
            for mark, stands in (
                (CONTAMINATED, bool(self.contaminated)),
                (INCOMPLETE, self.missing > 0),
                (DIFFERENT, bool(self.differs)),
                (BOUND, self.bound),
            )
            if stands
        )

    @property
    def faults(self) -> float | None:
        """The share of records that ended in a fault of the model; None where it is not known."""
        total = sum(self.ledger.values())
        if not total:
            return None
        return sum(v for k, v in self.ledger.items() if k in MODEL_FAULTS) / total

    @property
    def rankable(self) -> bool:
        """Whether the cell may be compared with the others of its column."""
        clean = not self.missing and not self.differs and not self.bound
        return self.value is not None and clean


def metric_row(run: StoredRun, column: Column) -> Mapping[str, Json] | None:
    """The row of the summary that a column shows; None where the run has none."""
    if run.metrics is None:
        return None
    rows = run.metrics["metrics"]
    for row in rows:
        if row["name"] == column.metric and row["group"] == column.group:
            return dict(row)
    if column.metric == "score" and not column.group:
        return dict(run.metrics["score"])
    return None


def make_cell(runs: Sequence[StoredRun], column: Column) -> Cell | None:
    """The cell of a row's runs in a column; None where none of them has the metric."""
    missing = sum(_missing(run) for run in runs)
    rows = [(run, row) for run in runs if (row := metric_row(run, column)) is not None]
    figures = [(run, row) for run, row in rows if row["value"] is not None]
    if not rows and not missing:
        return None
    if not figures:
        return Cell(None, missing=missing, note="no figure yet" if missing else "no records")
    whole = not column.group
    ledger = _added([run.metrics["ledger"]["records"] for run, _ in figures if run.metrics])
    base = Cell(
        value=math.fsum(row["value"] for _, row in figures) / len(figures),
        n=sum(row["n"] for _, row in figures),
        clusters=max(row["clusters"] for _, row in figures),
        note=figures[0][1]["note"],
        ledger=ledger if whole else {},
        runs=len(figures),
        seeds=sum(len(run.spec["seeds"]) for run, _ in figures),
        missing=missing,
        bound=any((run.manifest.get("model") or {}).get("sees_truth") for run, _ in figures),
        tokens=_tokens([run for run, _ in figures]) if whole else None,
        **(_standing([run for run, _ in figures]) if whole and column.metric == "score" else {}),
    )
    if len(figures) == 1:
        return _with(base, low=figures[0][1]["low"], high=figures[0][1]["high"])
    return over_runs(base, [row["value"] for _, row in figures])


def _standing(runs: Sequence[StoredRun]) -> dict[str, Json]:
    """Normalised score, floor and ceiling, and the score given a valid answer."""
    summaries = [run.metrics for run in runs if run.metrics]
    normalised = [s["normalised"] for s in summaries]
    valid = [s["policies"]["given_valid"]["value"] for s in summaries]
    return {
        "normalised": None if None in normalised else sum(normalised) / len(normalised),
        "levels": summaries[0]["levels"],
        "given_valid": None if None in valid else sum(valid) / len(valid),
    }


def _tokens(runs: Sequence[StoredRun]) -> tuple[float, float] | None:
    """Prompt and reply tokens of a record."""
    usage = [(run.metrics["usage"], run.metrics["records"]) for run in runs if run.metrics]
    records = sum(n for _, n in usage)
    prompt, reply = (
        sum(found[f"{part}_tokens"] for found, _ in usage) for part in ("prompt", "completion")
    )
    return (prompt / records, reply / records) if records and prompt + reply else None


def over_runs(base: Cell, values: Sequence[float]) -> Cell:
    """Mean, standard deviation and t interval over runs (training or decoding seeds).

    >>> cell = over_runs(Cell(None), [0.728, 0.716, 0.724])
    >>> round(cell.value, 4), round(cell.sd, 4), round(cell.low, 3), round(cell.high, 3)
    (0.7227, 0.0061, 0.707, 0.738)
    """
    mean = math.fsum(values) / len(values)
    sd = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))
    half = t_quantile(0.5 + LEVEL / 2, len(values) - 1) * sd / math.sqrt(len(values))
    low, high = mean - half, mean + half
    if min(values) >= 0.0 and max(values) <= 1.0:
        low, high = max(0.0, low), min(1.0, high)
    note = f"t interval over {len(values)} runs"
    return _with(base, value=mean, sd=sd, low=low, high=high, note=note)


def gap(inside: Cell | None, outside: Cell | None) -> Cell | None:
    """ID minus OOD; the samples are different ones, so the interval is MOVER's."""
    if inside is None or outside is None or inside.value is None or outside.value is None:
        return None
    interval = unpaired(
        (inside.value, inside.low, inside.high), (outside.value, outside.low, outside.high)
    )
    return Cell(
        inside.value - outside.value,
        interval.low,
        interval.high,
        n=inside.n + outside.n,
        clusters=min(inside.clusters, outside.clusters),
        note="ID minus OOD, independent samples",
        missing=inside.missing + outside.missing,
        differs=tuple(dict.fromkeys((*inside.differs, *outside.differs))),
        contaminated=(inside.contaminated or 0) + (outside.contaminated or 0) or None,
    )


def _missing(run: StoredRun) -> int:
    if run.metrics is None:
        return max(1, int(run.manifest.get("expected") or 1))
    return int(run.metrics["expected"]) - int(run.metrics["records"])


def _added(ledgers: Sequence[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for ledger in ledgers:
        for name, count in ledger.items():
            total[name] = total.get(name, 0) + count
    return {name: count for name, count in total.items() if count}


def _with(cell: Cell, **changes: Json) -> Cell:
    from dataclasses import replace

    return replace(cell, **changes)
