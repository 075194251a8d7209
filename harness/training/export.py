"""Training data as files: verl's Parquet, SFT's Parquet, or JSON lines.

    write_items(items, task, "verl", Path("train.parquet"))

A row of each, for one item of GameSolve:

* ``verl``: ``data_source`` (the task), ``prompt`` (chat messages), ``ability``, ``reward_model``
  (``style`` rule, ``ground_truth`` the truth as JSON), ``extra_info`` (``index``, ``id``,
  ``split``, ``group``, ``cluster``, ``canonical``, ``concept_labels`` with -1 = not applicable),
  ``sample`` (the whole sample as JSON, from which a reward plugin is paid);
* ``sft``: ``messages`` with the worked answer as the last one, and the same ``extra_info``;
* ``jsonl``: sample, messages and target as one JSON object.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import orjson

from ..store import write_atomically
from ..task import Task
from ..types import HarnessError, Json, Sample
from .data import Item

FORMATS: Final = ("verl", "sft", "jsonl")
SORTED: Final = orjson.OPT_SORT_KEYS


def write_items(items: Sequence[Item], task: Task, form: str, path: Path) -> str:
    """Write the items in one of the formats; returns the file's SHA-256.

    Raises HarnessError for an unknown format, for items that lack what the format needs, and for a
    file that cannot be written.
    """
    if form not in FORMATS:
        raise HarnessError(f"--format {form}: choose one of {', '.join(FORMATS)}")
    if form != "jsonl" and any(not i.messages for i in items):
        raise HarnessError(f"{task.name} has no prompts to export: its first turn needs a game")
    if form == "sft":
        require_targets(items, task)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if form == "jsonl":
            lines = (orjson.dumps(_whole(i), option=SORTED) + b"\n" for i in items)
            write_atomically(path, b"".join(lines))
        else:
            rows = verl_rows(items, task) if form == "verl" else sft_rows(items, task)
            _write_parquet(rows, path)
    except OSError as error:
        raise HarnessError(f"{path}: cannot be written: {error.strerror or error}") from None
    return hashlib.sha256(path.read_bytes()).hexdigest()


def verl_rows(items: Sequence[Item], task: Task) -> list[dict[str, Json]]:
    """Rows of verl's RL data sets."""
    return [
        {
            "data_source": task.name,
            "prompt": [asdict(m) for m in item.messages],
            "ability": task.name,
            "reward_model": {"style": "rule", "ground_truth": _text(item.sample.truth)},
            "extra_info": info,
            "sample": _text(asdict(item.sample)),
        }
        for item, info in zip(items, _infos(items, task), strict=True)
    ]


def sft_rows(items: Sequence[Item], task: Task) -> list[dict[str, Json]]:
    """Rows of chat data sets whose last message is the worked answer."""
    return [
        {
            "messages": [
                *(asdict(m) for m in item.messages),
                {"role": "assistant", "content": item.target},
            ],
            "extra_info": info,
        }
        for item, info in zip(items, _infos(items, task), strict=True)
    ]


def require_targets(items: Iterable[Item], task: Task) -> None:
    """Raise HarnessError where an item has no worked answer."""
    for item in items:
        if item.target is None:
            raise HarnessError(
                f"{task.name} has no worked answer for {item.sample.id}; SFT needs one for each "
                "item (GRPO does not)"
            )


def sample_of(text: str) -> Sample:
    """The sample that a row's ``sample`` column holds."""
    return Sample(**orjson.loads(text))


def _infos(items: Sequence[Item], task: Task) -> list[dict[str, Json]]:
    labels = [task.concepts(i.sample) for i in items]
    concepts = list(dict.fromkeys(name for found in labels for name in found))
    return [
        _info(index, item.sample, {name: found.get(name, -1) for name in concepts})
        for index, (item, found) in enumerate(zip(items, labels, strict=True))
    ]


def _info(index: int, sample: Sample, concepts: Mapping[str, int]) -> dict[str, Json]:
    info: dict[str, Json] = {
        "index": index,
        "id": sample.id,
        "split": sample.split,
        "group": sample.group,
        "cluster": sample.cluster or sample.id,
        "canonical": sample.canonical or sample.id,
    }
    # Parquet has no empty struct: a task without concepts has no column of them.
    return {**info, "concept_labels": dict(concepts)} if concepts else info


def _whole(item: Item) -> dict[str, Json]:
    return {
        **asdict(item.sample),
        "messages": [asdict(m) for m in item.messages],
        "target": item.target,
    }


def _text(value: Any) -> str:
    return orjson.dumps(value, option=SORTED).decode()


def _write_parquet(rows: list[dict[str, Json]], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    part = path.with_suffix(".part")
    pq.write_table(pa.Table.from_pylist(rows), part, compression="zstd")
    part.replace(path)
