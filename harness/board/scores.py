"""Scores sample by sample, of many runs of one arena, side by side: what paired figures rest on.

    items = Items()
    a, b = items.add(run_a), items.add(run_b)         # arrays over items.samples, NaN: not there
    paired_from_sums(*items.sums(a - b))

Only the columns that are needed are read, and the samples' names are kept once, so a million
records take some tens of megabytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson

from ..types import OK
from .places import StoredRun

if TYPE_CHECKING:
    import pyarrow as pa

Array = np.ndarray[Any, Any]

SCORE: Final = "score"
PARSED: Final = "parsed"


class Items:
    """The samples of an arena, with cluster and group, and figures of runs on them."""

    def __init__(self) -> None:
        self.clusters: Array = np.zeros(0, np.int64)
        self.groups: list[str] = []
        self.group_of: Array = np.zeros(0, np.int64)
        self._samples: pa.Array | None = None
        self._cluster_places: dict[str, int] = {}
        self._group_places: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.clusters)

    @property
    def samples(self) -> list[str]:
        """The samples' ids."""
        return [] if self._samples is None else list(self._samples.to_pylist())

    def names(self, places: Array) -> list[str]:
        """The ids of the samples at these places."""
        import pyarrow as pa

        return [] if self._samples is None else self._samples.take(pa.array(places)).to_pylist()

    def add(self, run: StoredRun, metric: str = SCORE) -> Array:
        """The mean of a metric for each sample of the run, NaN for samples that it lacks.

        ``metric`` is ``score``, ``parsed`` or a part of the score. Later runs may add samples;
        arrays are then shorter than ``len(self)``: see `stack`.
        """
        table = run.table(["sample", "cluster", "group", *_columns(metric)])
        values = _values(table, metric)
        places = self._places(table)
        if places is None:
            return values
        keep = ~np.isnan(values)
        counts = np.bincount(places[keep], minlength=len(self))
        sums = np.bincount(places[keep], weights=values[keep], minlength=len(self))
        with np.errstate(invalid="ignore"):
            means: Array = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
        return means

    def stack(self, arrays: Sequence[Array]) -> Array:
        """The arrays as rows of one matrix over all samples."""
        matrix = np.full((len(arrays), len(self)), np.nan)
        for row, array in zip(matrix, arrays, strict=True):
            row[: len(array)] = array
        return matrix

    def inside(self, group: str) -> Array:
        """Which samples belong to a group ("": all), whole or as a part of a path a/b/c."""
        if not group:
            return np.ones(len(self), bool)
        hits = [g == group or group in g.split("/") for g in self.groups]
        return np.array(hits, bool)[self.group_of] if hits else np.zeros(len(self), bool)

    def sums(self, differences: Array, chosen: Array | None = None) -> tuple[Array, Array]:
        """Sums of differences and sizes of the clusters, of the chosen samples without NaN."""
        keep = ~np.isnan(differences) if chosen is None else chosen & ~np.isnan(differences)
        _, index = np.unique(self.clusters[keep], return_inverse=True)
        return np.bincount(index, weights=differences[keep]), np.bincount(index).astype(float)

    def _places(self, table: pa.Table) -> Array | None:
        """The place of each row's sample; None when rows and samples agree one to one."""
        import pyarrow.compute as pc

        names = table.column("sample").combine_chunks()
        if self._samples is not None and names.equals(self._samples):
            return None
        others = names
        if self._samples is not None:
            others = names.filter(pc.invert(pc.is_in(names, self._samples)))
        fresh = pc.unique(others)
        if len(fresh) == len(names):
            self._extend(table, fresh, None)
        elif len(fresh):
            first = pc.index_in(fresh, names).to_numpy(zero_copy_only=False)
            self._extend(table, fresh, first)
        if len(fresh) == len(names) == len(self):
            return None
        places: Array = pc.index_in(names, self._samples).to_numpy(zero_copy_only=False)
        return places

    def _extend(self, table: pa.Table, fresh: Any, rows: Array | None) -> None:
        """Add samples with clusters and groups from these rows of the table (None: from all)."""
        import pyarrow as pa
        import pyarrow.compute as pc

        def coded(name: str, places: dict[str, int]) -> Array:
            # Coded by Arrow: a list of a million texts would take far more than their names.
            column = table.column(name).combine_chunks()
            coding = pc.dictionary_encode(column if rows is None else column.take(pa.array(rows)))
            names = coding.dictionary.to_pylist()
            known = np.array([places.setdefault(t, len(places)) for t in names], np.int64)
            found: Array = known[coding.indices.to_numpy(zero_copy_only=False)]
            return found

        clusters = coded("cluster", self._cluster_places)
        groups = coded("group", self._group_places)
        self.clusters = np.concatenate([self.clusters, clusters])
        self.group_of = np.concatenate([self.group_of, groups])
        self.groups = list(self._group_places)
        old = [self._samples] if self._samples is not None else []
        self._samples = pa.concat_arrays([*old, fresh])


def _columns(metric: str) -> tuple[str, ...]:
    return {SCORE: ("value",), PARSED: ("class",)}.get(metric, ("parts",))


def _values(table: pa.Table, metric: str) -> Array:
    """The metric of each row, NaN where a row has no such part."""
    values: Array
    if metric == SCORE:
        values = np.asarray(table.column("value").to_numpy(), float)
    elif metric == PARSED:
        values = np.array([c == OK for c in table.column("class").to_pylist()], float)
    else:
        parts = (orjson.loads(text) for text in table.column("parts").to_pylist())
        values = np.array([float(p.get(metric, np.nan)) for p in parts])
    return values


def mean_without(run: StoredRun, samples: Sequence[str]) -> float | None:
    """The mean score of all other samples; None where there is none."""
    table = run.table(["sample", "value"])
    left_out = set(samples)
    rows = zip(table.column("sample").to_pylist(), table.column("value").to_pylist(), strict=True)
    values = [value for sample, value in rows if sample not in left_out]
    return math.fsum(values) / len(values) if values else None


def spread_over_seeds(run: StoredRun) -> float | None:
    """The standard deviation of the mean score over the seeds of a run; None for one seed."""
    table = run.table(["seed", "value"])
    seeds, index = np.unique(table.column("seed").to_numpy(), return_inverse=True)
    if len(seeds) < 2:
        return None
    sums = np.bincount(index, weights=table.column("value").to_numpy())
    return float(np.std(sums / np.bincount(index), ddof=1))
