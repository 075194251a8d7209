"""Figures of a run: the score by every factor of the design, its parts, and how often it parsed.

What a record's sample is (its kind, size, stratum and so on) is not in the record; it is looked up
in the data by the sample's id, and only these few words are kept, so memory stays small.

>>> facts = Facts.of({"kind": "nash", "row": [[0, 1]], "stratum": "pure", "format": "json"})
>>> facts.size, facts.stratum, facts.category
('1x2', 'pure', '')
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import Final, NamedTuple

from harness.stats import mean_metric
from harness.types import OK, Json, Metric, Record, Sample

SPLIT_PARTS: Final = ("precision", "recall")
"""Parts that are also shown by stratum, a continuum of equilibria among them."""
FINITE: Final = "finite"
"""The group of Nash items without a continuum of equilibria."""


class Facts(NamedTuple):
    """The level of each factor for a sample ("": it has none), in the order of the table."""

    kind: str
    size: str
    stratum: str
    category: str
    difficulty: str
    format: str
    responder: str

    @classmethod
    def of(cls, data: Mapping[str, Json]) -> Facts:
        """The levels of a sample's data."""
        size = f"{len(data['row'])}x{len(data['row'][0])}"
        names = ("stratum", "category", "difficulty", "format", "responder")
        return cls(data["kind"], size, *(intern(data.get(name, "")) for name in names))


@dataclass(slots=True)
class Column:
    """The figures of one metric in one group, with the cluster of each."""

    values: array[float] = field(default_factory=lambda: array("d"))
    clusters: list[str] = field(default_factory=list)


class Columns(dict[tuple[str, str], Column]):
    """Columns by (metric, group)."""

    def add(self, name: str, group: str, value: float, cluster: str) -> None:
        """Note one figure."""
        column = self.setdefault((name, group), Column())
        column.values.append(value)
        column.clusters.append(cluster)


class Lookup:
    """Facts by sample id, read from the data one split at a time, when a record needs it."""

    def __init__(self, samples: Callable[[str], Iterable[Sample]]) -> None:
        self._samples = samples
        self._facts: dict[str, dict[str, Facts]] = {}

    def __call__(self, record: Record) -> Facts | None:
        """The facts of a record's sample; None if the data does not hold it."""
        if record.split not in self._facts:
            self._facts[record.split] = {
                s.id: Facts.of(s.data) for s in self._samples(record.split)
            }
        return self._facts[record.split].get(record.sample)


def metrics(records: Iterable[Record], samples: Callable[[str], Iterable[Sample]]) -> list[Metric]:
    """All figures of a run, the overall score first.

    :param records: in the order of the run; none is kept.
    :param samples: gives the samples of a split.
    """
    columns = Columns()
    lookup = Lookup(samples)
    clusters: dict[str, str] = {}
    places: dict[tuple[str, str], int] = {}
    for record in records:
        cluster = clusters.setdefault(record.cluster, record.cluster)
        for place, name, group, value in _figures(record, lookup(record)):
            places.setdefault((name, group), place)
            columns.add(name, group, value, cluster)
    if not columns:
        return [mean_metric("score", [])]
    return [
        mean_metric(name, list(column.values), column.clusters, group)
        for (name, group), column in sorted(columns.items(), key=lambda c: (places[c[0]], *c[0]))
    ]


def _figures(record: Record, facts: Facts | None) -> Iterator[tuple[int, str, str, float]]:
    """(place in the table, metric, group, value) of everything that a record counts for."""
    parsed = float(record.outcome.cls == OK)
    yield 0, "score", "", record.score.value
    yield 1, "parsed", "", parsed
    if facts is None:
        return
    for place, level in enumerate(facts, 2):
        if level:
            yield place, "score", level, record.score.value
    last = 2 + len(facts)
    yield last, "parsed", facts.kind, parsed
    if facts.stratum and facts.stratum != "continuum":
        yield last + 1, "score", FINITE, record.score.value
    for name, value in record.score.parts.items():
        yield last + 2, name, facts.kind, value
        if facts.stratum and name in SPLIT_PARTS:
            yield last + 3, name, facts.stratum, value
