"""The records of a run that goes on, or was stopped: its journal, followed as it grows.

Each call of `JournalSource.advance` reads what has been added, for a bounded time; figures are
kept, texts stay on disk. A line that is still being written is left for the next time.
"""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson

from ..journal import record_from_json
from ..types import Json, Record
from .sources import PROMPTS, SAMPLE, Array, Figures, short

_BLOCK: Final = 500
MOST_FAULTS: Final = 20


class JournalSource:
    """See `sources.Source`. ``faults`` are the last ones that were given up on; ``problem`` says
    why the rest cannot be read, where that is so."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = threading.RLock()
        self._reset()

    def _reset(self) -> None:
        self._read_to = 0
        self._offsets, self._index = array("q"), array("q")
        self._value, self._cls = array("d"), array("B")
        self._group, self._tokens, self._moves = array("i"), array("i"), array("i")
        self._classes: dict[str, int] = {}
        self._groups: dict[str, int] = {}
        self._places: dict[int, int] = {}
        self._behind = False
        self.problem = ""
        self.faults: list[dict[str, Json]] = []

    @property
    def total(self) -> int:
        return len(self._offsets)

    @property
    def expected(self) -> int:
        """What is read, and an estimate of the rest while reading takes longer than it may."""
        left = max(0, self._size() - self._read_to)
        if not self._behind or not left:
            return self.total
        return self.total + max(1, round(left * self.total / max(1, self._read_to)))

    def advance(self, seconds: float) -> None:
        with self.lock:
            if self._size() < self._read_to:
                self._reset()  # another journal lies there now
            self._behind = False
            if self.problem:
                return
            try:
                with open(self.path, "rb") as file:
                    file.seek(self._read_to)
                    self._read(file, time.monotonic() + seconds)
            except OSError:
                return  # nothing has been written yet

    def _read(self, lines: Iterable[bytes], until: float) -> None:
        for line in lines:
            if not line.endswith(b"\n"):
                return  # still being written, or torn by a crash
            if not self._take(line):
                self.problem = f"{self.path.name}: no journal line at byte {self._read_to}"
                return
            self._read_to += len(line)
            if time.monotonic() > until:
                self._behind = True
                return

    def order(self) -> Array:
        found: Array = np.argsort(np.array(self._index, np.int64), kind="stable")
        return found

    def figures(self) -> Figures:
        with self.lock:
            return Figures(
                np.array(self._value),
                np.array(self._cls, np.uint8),
                np.array(self._group, np.int32),
                np.array(self._tokens, np.int32),
                np.array(self._moves, np.int32),
                tuple(self._classes),
                tuple(self._groups),
            )

    def rows(self, places: Sequence[int]) -> list[dict[str, Json]]:
        return [_summary(self._line(place)) for place in places]

    def records(self, places: Sequence[int]) -> list[Record]:
        return [record_from_json(self._line(place)) for place in places]

    def place(self, index: int) -> int | None:
        return self._places.get(index)

    def find(self, sample: str) -> list[int]:
        return [p for p in range(self.total) if self._line(p)["sample"] == sample]

    def hits(self, needle: str, where: str, start: int) -> Iterator[Array]:
        for begin in range(start, self.total, _BLOCK):
            places = range(begin, min(begin + _BLOCK, self.total))
            yield np.array([_holds(self._line(p), needle, where) for p in places], bool)

    def _size(self) -> int:
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def _take(self, line: bytes) -> bool:
        """Keep the figures of a line; False for one that is no journal line."""
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            return False
        if "r" not in row:
            self.faults = [*self.faults, {"index": row["i"], **row["f"]}][-MOST_FAULTS:]
            return True
        if row["i"] in self._places:
            return True
        self._places[row["i"]] = self.total
        record = row["r"]
        moves = record["outcome"]["moves"]
        self._offsets.append(self._read_to)
        self._index.append(row["i"])
        self._value.append(record["score"]["value"])
        self._cls.append(self._classes.setdefault(record["outcome"]["cls"], len(self._classes)))
        self._group.append(self._groups.setdefault(record["group"], len(self._groups)))
        self._tokens.append(sum(move["reply"]["completion_tokens"] for move in moves))
        self._moves.append(len(moves))
        return True

    def _line(self, place: int) -> dict[str, Any]:
        with open(self.path, "rb") as file:
            file.seek(self._offsets[place])
            row: dict[str, Any] = orjson.loads(file.readline())["r"]
        return row


def _summary(record: dict[str, Any]) -> dict[str, Json]:
    moves = record["outcome"]["moves"]
    return {
        **{name: record[name] for name in ("index", "sample", "group", "seed", "repeat")},
        "class": record["outcome"]["cls"],
        "value": record["score"]["value"],
        "moves": len(moves),
        "tokens": sum(move["reply"]["completion_tokens"] for move in moves),
        "answer": short(moves[-1]["parsed"]) if moves else "",
    }


def _holds(record: dict[str, Any], needle: str, where: str) -> bool:
    if where == SAMPLE:
        return needle in record["sample"].lower()
    for move in record["outcome"]["moves"]:
        if where == PROMPTS:
            texts = [message["content"] for message in move["messages"]]
        else:
            texts = [move["reply"]["text"], move["reply"]["reasoning"]]
        if any(needle in text.lower() for text in texts):
            return True
    return False
