"""Filtering, sorting and searching records: from a query to the places of a page.

    browser = Browser(source)
    browser.select(Query.of({"class": "unparsed", "sort": "tokens", "down": "1"}))

Figures are compared as arrays. A text is searched block by block for a bounded time; a selection
says how far the search has come, and the same query goes on from there.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

import numpy as np

from ..types import HarnessError, Json
from .sources import REPLIES, WHERE, Array, Figures, Source

SORTS: Final = ("index", "value", "tokens", "moves", "class", "group")
PATIENCE: Final = 0.4
"""Seconds that one call searches before it says how far it is."""
_KEPT: Final = 8

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Query:
    """What to show: records whose ``where`` holds a text, of a class, in a group (whole, or a part
    of a path a/b/c), with a score from ``low`` to ``high``; sorted, or turned round."""

    text: str = ""
    where: str = REPLIES
    cls: str = ""
    group: str = ""
    low: float = -math.inf
    high: float = math.inf
    sort: str = "index"
    down: bool = False

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Query:
        """From the fields of an address. Raises HarnessError for values that make no sense."""
        where, sort = given.get("in") or REPLIES, given.get("sort") or "index"
        if where not in WHERE:
            raise HarnessError(f"in={where}: choose {', '.join(WHERE)}")
        if sort not in SORTS:
            raise HarnessError(f"sort={sort}: choose {', '.join(SORTS)}")
        low, high = (_number(given, name) for name in ("low", "high"))
        return cls(
            given.get("q", "").strip().lower(),
            where,
            given.get("class", ""),
            given.get("group", ""),
            -math.inf if low is None else low,
            math.inf if high is None else high,
            sort,
            given.get("down", "") == "1",
        )

    @property
    def plain(self) -> bool:
        """Whether it asks for all records in their own order."""
        return self == Query(where=self.where)


def whole(given: Mapping[str, str], name: str, default: int, most: int) -> int:
    """A whole number from 0 to ``most`` in an address. Raises HarnessError for anything else."""
    text = given.get(name) or str(default)
    found = number(text)
    if found is None or found > most:
        raise HarnessError(f"{name}={text[:40]}: give a whole number up to {most}")
    return found


def number(text: str) -> int | None:
    """A whole number of at most 18 digits; None for anything else.

    >>> number("12"), number("-1"), number("²")
    (12, None, None)
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def _number(given: Mapping[str, str], name: str) -> float | None:
    text = given.get(name, "")
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise HarnessError(f"{name}={text}: not a number")
    return value


class Selection(NamedTuple):
    """The places that fit, in order, of ``scanned`` records that were looked at."""

    places: Array
    scanned: int


class Browser:
    """A source with the searches and orders that were made of it; the last few are kept."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._searches: OrderedDict[tuple[str, str], list[Array]] = OrderedDict()
        self._selections: OrderedDict[tuple[Query, int], Selection] = OrderedDict()

    def page(self, query: Query, offset: int, count: int) -> dict[str, Json]:
        """``count`` rows from an offset on, how many fit, and how far the search is."""
        source = self.source
        source.advance(PATIENCE)
        if query.plain and source.expected == source.total and _in_order(source):
            places = list(range(offset, min(offset + count, source.total)))
            matched = scanned = source.total
        else:
            selection = self.select(query)
            places = selection.places[offset : offset + count].tolist()
            matched, scanned = len(selection.places), selection.scanned
        return {
            "rows": source.rows(places),
            "offset": offset,
            "matched": matched,
            "scanned": scanned,
            "total": source.expected,
        }

    def around(self, query: Query, place: int) -> dict[str, Json]:
        """Where a record stands in a selection, and the indices of its neighbours there."""
        if query.plain and _in_order(self.source):
            at, count = place, self.source.total
            near = [at - 1 if at else None, at + 1 if at + 1 < count else None]
        else:
            places = self.select(query).places
            found = np.flatnonzero(places == place)
            if not len(found):
                return {"position": None, "matched": len(places), "previous": None, "next": None}
            at, count = int(found[0]), len(places)
            near = [
                int(places[at - 1]) if at else None,
                int(places[at + 1]) if at + 1 < count else None,
            ]
        previous, following = (self._index(p) for p in near)
        return {"position": at, "matched": count, "previous": previous, "next": following}

    def _index(self, place: int | None) -> int | None:
        return None if place is None else int(self.source.rows([place])[0]["index"])

    def select(self, query: Query) -> Selection:
        """All places that fit. A text is searched on for `PATIENCE` seconds."""
        source = self.source
        with source.lock:
            mask = self._search(query) if query.text else None
            scanned = source.total if mask is None else len(mask)
            key = (query, scanned)
            if key not in self._selections:
                keep(self._selections, key, Selection(self._chosen(query, mask), scanned))
            return self._selections[key]

    def _chosen(self, query: Query, mask: Array | None) -> Array:
        order = self.source.order()
        figures = self.source.figures()
        fits: Array = np.ones(len(order), bool)
        if mask is not None:
            fits[len(mask) :] = False
            fits[: len(mask)] &= mask
        fits &= _within(figures, query)
        order = order[fits[order]]
        if query.sort == "index":
            found: Array = order[::-1] if query.down else order
        else:
            keys = _keys(figures, query)[order]
            # Ties stay in the order of the samples, either way.
            found = order[np.argsort(-keys if query.down else keys, kind="stable")]
        return found

    def _search(self, query: Query) -> Array:
        blocks = self._searches.get((query.text, query.where))
        if blocks is None:
            blocks = []
        keep(self._searches, (query.text, query.where), blocks)
        done = sum(map(len, blocks))
        until = time.monotonic() + PATIENCE
        if done < self.source.total:
            for block in self.source.hits(query.text, query.where, done):
                blocks.append(block)
                if time.monotonic() > until:
                    break
        found = np.concatenate(blocks) if blocks else np.zeros(0, bool)
        blocks[:] = [found]
        return found


def facets(figures: Figures) -> dict[str, Json]:
    """Records and mean score of each class and group, and of ten bins of the score."""
    return {
        "classes": _counted(figures.cls, figures.value, figures.classes),
        "groups": _counted(figures.group, figures.value, figures.groups),
        "mean": float(figures.value.mean()) if len(figures.value) else None,
        "bins": np.histogram(figures.value, bins=10, range=(0.0, 1.0))[0].tolist(),
    }


def _counted(codes: Array, values: Array, names: tuple[str, ...]) -> list[dict[str, Json]]:
    counts = np.bincount(codes, minlength=len(names))
    sums = np.bincount(codes, weights=values, minlength=len(names))
    rows = [
        {"name": name, "count": int(counts[i]), "mean": float(sums[i] / max(1, counts[i]))}
        for i, name in enumerate(names)
    ]
    return sorted(rows, key=lambda row: str(row["name"]))


def _within(figures: Figures, query: Query) -> Array:
    fits: Array = (figures.value >= query.low) & (figures.value <= query.high)
    if query.cls:
        fits &= _named(figures.cls, figures.classes, lambda name: name == query.cls)
    if query.group:
        fits &= _named(figures.group, figures.groups, lambda name: _inside(name, query.group))
    return fits


def _inside(name: str, group: str) -> bool:
    return name == group or group in name.split("/")


def _named(codes: Array, names: tuple[str, ...], fits: Callable[[str], bool]) -> Array:
    """Which records have a name that fits."""
    found: Array = np.array([fits(name) for name in names] or [False])[codes]
    return found


def _keys(figures: Figures, query: Query) -> Array:
    """What is sorted by, one number a record; names by their alphabetical rank."""
    if query.sort in ("class", "group"):
        by_class = query.sort == "class"
        codes, names = (
            (figures.cls, figures.classes) if by_class else (figures.group, figures.groups)
        )
        ranks: Array = np.argsort(np.argsort(np.array(names)))
        found: Array = ranks[codes]
        return found
    keys: Array = getattr(figures, query.sort)
    return keys


def _in_order(source: Source) -> bool:
    """Whether places are in the order of the samples (a journal's are not)."""
    from .sources import ParquetSource

    return isinstance(source, ParquetSource)


def keep(kept: OrderedDict[K, V], key: K, value: V, most: int = _KEPT) -> None:
    """Remember a value as the latest of a few."""
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)
