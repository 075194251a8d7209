"""The journal of a run: append-only lines, in the order in which records finish.

A line is one finished record with its times and attempts, or one fault that was given up on. A
record counts only once its line is on disk (group commit: many lines, one fsync). A line torn by a
crash is cut off when the journal is opened again, so nothing finished is lost or doubled.

    with Journal(folder / "journal.jsonl") as journal:
        journal.append(record, started, seconds, attempts=1)
        journal.commit()
"""

from __future__ import annotations

import os
import threading
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson

from .types import CLASSES, HarnessError, Message, Move, Outcome, Record, Reply, Score

MISSING: Final = -1
MOST: Final = 2**26
"""Records of a run: a larger index is damage, and would take all memory."""


class Journal:
    """Reads what is there, then appends. Memory: 8 bytes a record."""

    def __init__(self, path: Path, write: bool = True) -> None:
        self.path = path
        self.offsets = array("q")
        self.finished = 0
        self.faults = 0
        self._waiting: list[tuple[int, bytes]] = []
        self._size = 0
        self._writing = threading.Lock()
        flags = os.O_RDWR | os.O_CREAT if write else os.O_RDONLY
        try:
            self._file = os.open(path, flags, 0o644)
            self._scan(write)
        except OSError as error:
            raise HarnessError(f"{path}: cannot be opened: {error.strerror}") from None

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def has(self, index: int) -> bool:
        """Whether the record of this index is on disk."""
        return index < len(self.offsets) and self.offsets[index] != MISSING

    def append(self, record: Record, started: float, seconds: float, attempts: int) -> None:
        """Queue a finished record; it is on disk after the next commit."""
        head = b'{"i":%d,"t":%.3f,"s":%.6f,"a":%d,"r":' % (record.index, started, seconds, attempts)
        self._waiting.append((record.index, head + orjson.dumps(record) + b"}\n"))

    def append_fault(self, index: int, started: float, cls: str, error: str, attempts: int) -> None:
        """Queue a fault of engine or provider that was given up on; a resumed run tries again."""
        row = {
            "i": index,
            "t": round(started, 3),
            "a": attempts,
            "f": {"class": cls, "error": error},
        }
        self._waiting.append((MISSING, orjson.dumps(row) + b"\n"))

    @property
    def waiting(self) -> int:
        """Lines that are queued and not yet on disk."""
        return len(self._waiting)

    def take(self) -> list[tuple[int, bytes]]:
        """The queued lines, for `write`. Call it in the thread that appends."""
        batch, self._waiting = self._waiting, []
        return batch

    def commit(self) -> list[int]:
        """Write all queued lines and wait for the disk. Returns the indices that now count."""
        return self.write(self.take())

    def write(self, batch: list[tuple[int, bytes]]) -> list[int]:
        """Write lines and wait for the disk; may run in another thread than the one that appends.

        Returns the indices that now count. Raises HarnessError when the disk is full; the journal
        is then cut back to its last whole line.
        """
        if not batch:
            return []
        with self._writing:
            return self._write(batch)

    def _write(self, batch: list[tuple[int, bytes]]) -> list[int]:
        data = b"".join(line for _, line in batch)
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(self._file, data[written:], self._size + written)
            os.fsync(self._file)
        except OSError as error:
            self._cut_back()
            raise HarnessError(
                f"{self.path}: cannot be written: {error.strerror}; all {self.finished} finished "
                "records before this are safe: make room and give the same command again"
            ) from None
        done = []
        for index, line in batch:
            if index == MISSING:
                self.faults += 1
            elif not self.has(index):
                self._place(index, self._size)
                done.append(index)
            self._size += len(line)
        return done

    def records(self) -> Iterator[Record]:
        """All finished records in order of their index, read from disk one by one."""
        for row in self.rows():
            try:
                record = record_from_json(row["r"])
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                raise self._damaged(row, f"{type(error).__name__} {error}") from None
            if fault := _fault(record):
                raise self._damaged(row, fault)
            yield record

    def _damaged(self, row: dict[str, Any], reason: str) -> HarnessError:
        return HarnessError(f"{self.path}: record {row['i']} is damaged ({reason}); copy it again")

    def rows(self) -> Iterator[dict[str, Any]]:
        """The journal's own lines of finished records (with times and attempts), in index order."""
        with open(self.path, "rb") as file:
            for offset in self.offsets:
                if offset != MISSING:
                    file.seek(offset)
                    yield orjson.loads(file.readline())

    def close(self) -> None:
        """Commit what is queued and close the file."""
        if self._file >= 0:
            try:
                self.commit()
            finally:
                os.close(self._file)
                self._file = -1

    def _scan(self, write: bool) -> None:
        with open(self.path, "rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    row = orjson.loads(line) if line.endswith(b"\n") else None
                except orjson.JSONDecodeError:
                    row = None
                if row is None:
                    if file.read(1):
                        raise HarnessError(f"{self.path} line {number}: not a journal line")
                    break
                if not isinstance(row, dict) or not _places(row.get("i")):
                    raise HarnessError(f"{self.path} line {number}: not a journal line")
                if "r" not in row:
                    self.faults += 1
                elif not self.has(row["i"]):
                    self._place(row["i"], self._size)
                self._size += len(line)
        if write:
            self._cut_back()

    def _place(self, index: int, offset: int) -> None:
        missing = index + 1 - len(self.offsets)
        if missing > 0:
            self.offsets.extend([MISSING] * missing)
        self.offsets[index] = offset
        self.finished += 1

    def _cut_back(self) -> None:
        os.ftruncate(self._file, self._size)


def record_from_json(row: dict[str, Any]) -> Record:
    """A record from the JSON that the journal holds."""
    outcome, score = row["outcome"], row["score"]
    moves = tuple(_move(m) for m in outcome["moves"])
    return Record(
        row["index"],
        row["task"],
        row["sample"],
        row["split"],
        row["seed"],
        row["repeat"],
        row["group"],
        row["cluster"],
        row["canonical"],
        Outcome(moves, outcome["cls"], tuple(outcome["returns"]), outcome["data"]),
        Score(score["value"], score["parts"], score["raw"], tuple(score["per_seat"])),
    )


def _places(index: Any) -> bool:
    """Whether this can be a record's place."""
    return type(index) is int and 0 <= index < MOST


def _fault(record: Record) -> str:
    """What is wrong with a record's values ("": nothing). Cheap: every run reads all records."""
    for name in ("task", "sample", "split", "group", "cluster", "canonical"):
        if type(getattr(record, name)) is not str:
            return f"{name} is no text"
    score, outcome = record.score, record.outcome
    if type(score.value) not in (float, int) or not 0 <= score.value <= 1:
        return "its value is no number from 0 to 1"
    if outcome.cls not in CLASSES:
        return "its class is unknown"
    if type(record.seed) is not int or type(record.repeat) is not int:
        return "its seed is no whole number"
    if type(outcome.data) is not dict or type(score.parts) is not dict:
        return "its data is no object"
    for move in outcome.moves:
        reply = move.reply
        if type(reply.text) is not str or type(move.seat) is not int or move.cls not in CLASSES:
            return "a reply is no text"
        if type(reply.prompt_tokens) is not int or type(reply.completion_tokens) is not int:
            return "a count of tokens is no whole number"
    return ""


def _move(row: dict[str, Any]) -> Move:
    reply = reply_from_json(row["reply"])
    messages = tuple(Message(m["role"], m["content"]) for m in row["messages"])
    return Move(
        row["seat"], reply, row["parsed"], row["cls"], messages, row["number"], row["attempt"]
    )


def reply_from_json(said: dict[str, Any]) -> Reply:
    """A reply from the JSON that the journal holds."""
    return Reply(
        said["text"],
        said["finish_reason"],
        said["prompt_tokens"],
        said["completion_tokens"],
        said["reasoning"],
        None if said["prompt_ids"] is None else tuple(said["prompt_ids"]),
        None if said["ids"] is None else tuple(said["ids"]),
        None if said["logprobs"] is None else tuple(said["logprobs"]),
        tuple(map(reply_from_json, said.get("drafts", ()))),
    )
