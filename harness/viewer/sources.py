"""Where a run's records are read from: ``records.parquet`` of a run that has ended.

A source knows the figures of all records as arrays (21 bytes a record, read once when something is
sorted or filtered) and reads rows, records and texts from disk a few row groups at a time, so a
million records take some tens of megabytes. `journal` has the same for a run that goes on.

    source = ParquetSource(run)
    source.total, source.rows([0, 1]), source.records([0])[0].outcome.moves
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np
import orjson

from ..board.places import StoredRun
from ..store import RECORDS
from ..tables import record_from_row, text_columns
from ..types import HarnessError, Json, Record

if TYPE_CHECKING:
    import pyarrow as pa

Array = np.ndarray[Any, Any]

SAMPLE, REPLIES, PROMPTS = "sample", "replies", "prompts"
WHERE: Final = (SAMPLE, REPLIES, PROMPTS)
"""What a text is looked for in."""

SHORT: Final = 160
"""Characters of an answer in a list of records."""

_SUMMARY: Final = (
    "index", "sample", "group", "class", "value", "seed", "repeat", "moves.list.element.parsed",
    "moves.list.element.completion_tokens",
)  # fmt: skip
_FIGURES: Final = ("value", "class", "group", "moves.list.element.completion_tokens")
_TEXTS: Final = {
    SAMPLE: ("sample",),
    REPLIES: ("moves.list.element.text", "moves.list.element.reasoning"),
    PROMPTS: ("moves.list.element.messages.list.element.content",),
}
_GROUPS_AT_ONCE: Final = 16


class Figures(NamedTuple):
    """One entry a record, by place: score, code of the class and of the group (places in
    ``classes`` and ``groups``), reply tokens, moves."""

    value: Array
    cls: Array
    group: Array
    tokens: Array
    moves: Array
    classes: tuple[str, ...]
    groups: tuple[str, ...]


class Source(Protocol):
    """Records by place: their number in the order in which they are stored."""

    lock: threading.RLock

    @property
    def total(self) -> int:
        """How many records there are now."""

    @property
    def expected(self) -> int:
        """Records that are known to be there; more than ``total`` while a journal is being read."""

    def advance(self, seconds: float) -> None:
        """Read on what has been added, for so long at most."""

    def order(self) -> Array:
        """The places in the order of the samples."""

    def figures(self) -> Figures:
        """The figures of all records."""

    def rows(self, places: Sequence[int]) -> list[dict[str, Json]]:
        """What a list shows of these records."""

    def records(self, places: Sequence[int]) -> list[Record]:
        """These records, whole but for token ids."""

    def place(self, index: int) -> int | None:
        """The place of the record with this index."""

    def find(self, sample: str) -> list[int]:
        """The places of a sample's records."""

    def hits(self, needle: str, where: str, start: int) -> Iterator[Array]:
        """From a place on, block by block: which records hold a text (in small letters)."""


class ParquetSource:
    """The records of a run that has ended. Raises HarnessError for a file that cannot be read."""

    def __init__(self, run: StoredRun) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.name = f"{run.name}/{RECORDS}"
        self.lock = threading.RLock()
        try:
            handle = run.place.open(RECORDS)
            self._file = pq.ParquetFile(handle, read_dictionary=["class", "group"])
        except (OSError, pa.ArrowException) as error:
            raise HarnessError(f"{self.name}: cannot be read: {error}") from None
        about = self._file.metadata
        sizes = [about.row_group(i).num_rows for i in range(about.num_row_groups)]
        self._starts = np.concatenate([[0], np.cumsum(np.array(sizes, np.int64))])
        self._figures: Figures | None = None
        self._index: Array | None = None

    @property
    def total(self) -> int:
        return int(self._starts[-1])

    @property
    def expected(self) -> int:
        return self.total

    def advance(self, seconds: float) -> None:
        """Nothing is added to a finished file."""

    def order(self) -> Array:
        return np.arange(self.total)

    def figures(self) -> Figures:
        with self.lock:
            if self._figures is None:
                self._figures = self._read_figures()
            return self._figures

    def rows(self, places: Sequence[int]) -> list[dict[str, Json]]:
        return [summary(row) for row in self._fetch(places, _SUMMARY)]

    def records(self, places: Sequence[int]) -> list[Record]:
        return [record_from_row(row) for row in self._fetch(places, text_columns())]

    def place(self, index: int) -> int | None:
        with self.lock:
            if self._index is None:
                last = self._fetch([self.total - 1], ("index",))[0]["index"] if self.total else -1
                # As many records as indices: each lies at its own.
                whole = last == self.total - 1
                self._index = np.zeros(0, np.int64) if whole else self._numbers("index")
        if not len(self._index):
            return index if 0 <= index < self.total else None
        found = int(np.searchsorted(self._index, index))
        return found if found < self.total and self._index[found] == index else None

    def find(self, sample: str) -> list[int]:
        import pyarrow.compute as pc

        found: list[int] = []
        for start, table in self._blocks(("sample",), 0):
            hits = pc.indices_nonzero(pc.equal(table.column("sample"), sample))
            found += (start + np.asarray(hits)).tolist()
        return found

    def hits(self, needle: str, where: str, start: int) -> Iterator[Array]:
        for begin, table in self._blocks(_TEXTS[where], start):
            mask = np.zeros(table.num_rows, bool)
            place = 0
            for batch in table.to_batches():
                for column in batch.columns:
                    mask[place + _containing(column, needle)] = True
                place += batch.num_rows
            yield mask[max(0, start - begin) :]

    def _read(self, groups: Sequence[int], columns: Sequence[str]) -> pa.Table:
        import pyarrow as pa

        try:
            with self.lock:
                return self._file.read_row_groups(
                    list(groups), columns=list(columns), use_threads=False
                )
        except (OSError, pa.ArrowException) as error:
            raise HarnessError(f"{self.name}: cannot be read: {error}") from None

    def _blocks(self, columns: Sequence[str], start: int) -> Iterator[tuple[int, pa.Table]]:
        """Tables of some row groups each, with the place of the first row, from a place on."""
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        count = len(self._starts) - 1
        for group in range(first, count, _GROUPS_AT_ONCE):
            chosen = range(group, min(group + _GROUPS_AT_ONCE, count))
            yield int(self._starts[group]), self._read(chosen, columns)

    def _fetch(self, places: Sequence[int], columns: Sequence[str]) -> list[dict[str, Any]]:
        """Rows at these places, in their order."""
        found: dict[int, dict[str, Any]] = {}
        by_group: dict[int, list[int]] = {}
        for place in places:
            group = int(np.searchsorted(self._starts, place, side="right")) - 1
            by_group.setdefault(group, []).append(place)
        for group, own in by_group.items():
            local = [place - int(self._starts[group]) for place in own]
            rows = self._read([group], columns).take(local).to_pylist()
            found |= zip(own, rows, strict=True)
        return [found[place] for place in places]

    def _numbers(self, column: str) -> Array:
        blocks = [t.column(column).to_numpy() for _, t in self._blocks((column,), 0)]
        found: Array = np.concatenate(blocks)
        return found

    def _read_figures(self) -> Figures:
        value: Array = np.zeros(self.total)
        cls: Array = np.zeros(self.total, np.uint8)
        group, tokens, moves = _zeros(self.total), _zeros(self.total), _zeros(self.total)
        classes: dict[str, int] = {}
        groups: dict[str, int] = {}
        place = 0
        for _, table in self._blocks(_FIGURES, 0):
            for batch in table.to_batches():
                to = slice(place, place + batch.num_rows)
                value[to] = batch.column("value").to_numpy(zero_copy_only=False)
                cls[to] = _codes(batch.column("class"), classes)
                group[to] = _codes(batch.column("group"), groups)
                tokens[to], moves[to] = _sums(batch.column("moves"))
                place += batch.num_rows
        return Figures(value, cls, group, tokens, moves, tuple(classes), tuple(groups))


def summary(row: dict[str, Any]) -> dict[str, Json]:
    """What a list shows of a record, from the columns of `_SUMMARY`."""
    moves = row["moves"]
    answer = orjson.loads(moves[-1]["parsed"]) if moves else None
    return {
        **{name: row[name] for name in ("index", "sample", "group", "class", "value")},
        "seed": row["seed"],
        "repeat": row["repeat"],
        "moves": len(moves),
        "tokens": sum(move["completion_tokens"] for move in moves),
        "answer": short(answer),
    }


def short(answer: Json) -> str:
    """A parsed answer on one short line; "" for none.

    >>> short({"pure": [[0, 1]], "mixed": []})
    'pure [[0,1]]'
    """
    if answer is None:
        return ""
    parts = [f"{k} {_flat(v)}" for k, v in answer.items() if v] if isinstance(answer, dict) else []
    text = " ".join(("; ".join(parts) or _flat(answer)).split())
    return text if len(text) <= SHORT else text[: SHORT - 1] + "…"


def _flat(value: Json) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _codes(column: Any, known: dict[str, int]) -> Array:
    """The codes of a dictionary column in a dictionary of ours, which grows."""
    mapped = [known.setdefault(name, len(known)) for name in column.dictionary.to_pylist()]
    places = column.indices.to_numpy(zero_copy_only=False)
    found: Array = np.array(mapped or [0])[places]
    return found


def _zeros(count: int) -> Array:
    return np.zeros(count, np.int32)


def _sums(column: Any) -> tuple[Array, Array]:
    """For each list of moves: the sum of its tokens, and its length."""
    offsets = column.offsets.to_numpy()
    tokens = column.values.field(0).to_numpy(zero_copy_only=False)
    running = np.concatenate([[0], np.cumsum(tokens, dtype=np.int64)])
    return running[offsets[1:]] - running[offsets[:-1]], np.diff(offsets)


def _containing(column: Any, needle: str) -> Array:
    """The rows of a column (texts, or lists of them at any depth) that hold a text somewhere."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_list(column.type):
        inner = _containing(column.flatten(), needle)
        found: Array = np.unique(np.asarray(pc.list_parent_indices(column))[inner])
    elif pa.types.is_struct(column.type):
        parts = [_containing(part, needle) for part in column.flatten()]
        found = np.unique(np.concatenate(parts))
    else:
        hits = pc.match_substring(column, needle, ignore_case=True)
        found = np.asarray(pc.indices_nonzero(hits)).astype(np.int64)
    return found
