"""Records as Arrow tables: ``records.parquet`` and what pandas users load.

Columns are flat where that helps a query (key, group, class, value); what a task or a reward is
free to shape (parts, parsed answers, data) is JSON text; the moves are a list of structs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from .journal import reply_from_json
from .types import HarnessError, Message, Move, Outcome, Record, Reply, Score

if TYPE_CHECKING:
    import pyarrow as pa

    from .journal import Journal

ROW_GROUP: Final = 1_000
"""Records in a row group: bounds the memory of writing."""


def schema() -> pa.Schema:
    """The columns of ``records.parquet``."""
    import pyarrow as pa

    message = pa.struct([("role", pa.string()), ("content", pa.string())])
    move = pa.struct(
        [
            ("seat", pa.int32()),
            ("number", pa.int32()),
            ("attempt", pa.int32()),
            ("class", pa.string()),
            ("parsed", pa.string()),
            ("text", pa.string()),
            ("reasoning", pa.string()),
            ("finish_reason", pa.string()),
            ("prompt_tokens", pa.int32()),
            ("completion_tokens", pa.int32()),
            ("prompt_ids", pa.list_(pa.int32())),
            ("ids", pa.list_(pa.int32())),
            ("logprobs", pa.list_(pa.float64())),
            ("drafts", pa.string()),
            ("messages", pa.list_(message)),
        ]
    )
    return pa.schema(
        [
            ("index", pa.int64()),
            ("task", pa.string()),
            ("sample", pa.string()),
            ("split", pa.string()),
            ("seed", pa.int64()),
            ("repeat", pa.int32()),
            ("group", pa.string()),
            ("cluster", pa.string()),
            ("canonical", pa.string()),
            ("class", pa.string()),
            ("value", pa.float64()),
            ("parts", pa.string()),
            ("raw", pa.string()),
            ("per_seat", pa.list_(pa.float64())),
            ("returns", pa.list_(pa.float64())),
            ("data", pa.string()),
            ("moves", pa.list_(move)),
        ]
    )


def write_parquet(journal: Journal, path: Path) -> None:
    """Write the journal's records in order; atomically, and in bounded memory."""
    import pyarrow.parquet as pq

    part = path.with_name(path.name + ".part")
    try:
        with pq.ParquetWriter(part, schema(), compression="zstd") as writer:
            for batch in batches(journal.records()):
                writer.write_batch(batch)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def batches(records: Iterable[Record]) -> Iterator[pa.RecordBatch]:
    """The records as Arrow record batches of `ROW_GROUP` rows."""
    import pyarrow as pa

    columns = schema()
    rows = iter(records)
    while group := list(islice(rows, ROW_GROUP)):
        yield pa.RecordBatch.from_pylist([_row(r) for r in group], schema=columns)


def _row(record: Record) -> dict[str, Any]:
    outcome, score = record.outcome, record.score
    return {
        "index": record.index,
        "task": record.task,
        "sample": record.sample,
        "split": record.split,
        "seed": record.seed,
        "repeat": record.repeat,
        "group": record.group,
        "cluster": record.cluster,
        "canonical": record.canonical,
        "class": outcome.cls,
        "value": score.value,
        "parts": _json(score.parts),
        "raw": _json(score.raw),
        "per_seat": score.per_seat,
        "returns": outcome.returns,
        "data": _json(outcome.data),
        "moves": [_move(move) for move in outcome.moves],
    }


def _move(move: Move) -> dict[str, Any]:
    reply = move.reply
    return {
        "seat": move.seat,
        "number": move.number,
        "attempt": move.attempt,
        "class": move.cls,
        "parsed": _json(move.parsed),
        "text": reply.text,
        "reasoning": reply.reasoning,
        "finish_reason": reply.finish_reason,
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "prompt_ids": reply.prompt_ids,
        "ids": reply.ids,
        "logprobs": reply.logprobs,
        "drafts": _json(reply.drafts) if reply.drafts else None,
        "messages": [{"role": m.role, "content": m.content} for m in move.messages],
    }


def text_columns() -> list[str]:
    """The leaves of `schema`, without the token ids and their probabilities."""
    import pyarrow as pa

    def leaves(field: pa.Field, path: str) -> Iterator[str]:
        kind = field.type.value_type if pa.types.is_list(field.type) else field.type
        if not pa.types.is_struct(kind):
            yield path
            return
        for inner in kind:
            if inner.name not in ("prompt_ids", "ids", "logprobs"):
                yield from leaves(inner, f"{path}.list.element.{inner.name}")

    return [leaf for field in schema() for leaf in leaves(field, field.name)]


def record_from_row(row: dict[str, Any]) -> Record:
    """The record of a row, as `_row` writes it. Columns of token ids may be absent."""
    moves = tuple(_move_from_row(move) for move in row["moves"])
    data, parts, raw = (orjson.loads(row[name]) for name in ("data", "parts", "raw"))
    outcome = Outcome(moves, row["class"], tuple(row["returns"]), data)
    score = Score(row["value"], parts, raw, tuple(row["per_seat"]))
    names = ("index", "task", "sample", "split", "seed", "repeat", "group", "cluster", "canonical")
    return Record(**{name: row[name] for name in names}, outcome=outcome, score=score)


def _move_from_row(row: dict[str, Any]) -> Move:
    ids, own, logprobs = (row.get(name) for name in ("prompt_ids", "ids", "logprobs"))
    reply = Reply(
        row["text"],
        row["finish_reason"],
        row["prompt_tokens"],
        row["completion_tokens"],
        row["reasoning"],
        None if ids is None else tuple(ids),
        None if own is None else tuple(own),
        None if logprobs is None else tuple(logprobs),
        tuple(map(reply_from_json, orjson.loads(row.get("drafts") or "[]"))),
    )
    messages = tuple(Message(m["role"], m["content"]) for m in row["messages"])
    parsed = orjson.loads(row["parsed"])
    return Move(row["seat"], reply, parsed, row["class"], messages, row["number"], row["attempt"])


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def main(folder: str) -> None:
    """Write the records of one run folder; ``python -m harness.tables FOLDER``."""
    from .journal import Journal
    from .store import JOURNAL, RECORDS

    sys.modules.setdefault("numpy", None)  # type: ignore[arg-type]  # Arrow does without: 25 MB less
    path = Path(folder)
    try:
        write_parquet(Journal(path / JOURNAL, write=False), path / RECORDS)
    except (OSError, HarnessError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1])
