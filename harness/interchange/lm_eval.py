"""A run as lm-eval's results: ``results_TIME.json`` and ``samples_TASK_TIME.jsonl``, as its
``--output_path`` with ``--log_samples`` leaves them.

    write_results(run, stage, Path("out"))

Figures stand under ``metric,filter``: the filter is ``none`` for figures over all records and the
group's name for those of a group. The standard error of the score is lm-eval's own formula, the
sample deviation over the root of n, which knows nothing of clusters; our intervals are kept under
``harness``.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from ..board.places import StoredRun
from ..store import write_atomically
from ..types import HarnessError, Json, Record
from .stored import answer, records, reward_name, target

if TYPE_CHECKING:
    from ..viewer.stage import Stage


def write_results(run: StoredRun, stage: Stage, folder: Path) -> Path:
    """Write both files below ``folder``, in a folder named after the model; returns the results'.

    Raises HarnessError where they cannot be written.
    """
    task = str(run.spec["task"]["name"])
    time = _time(run)
    place = folder / _sanitised(_model(run))
    name = time.isoformat(timespec="microseconds").replace(":", "-")
    samples = place / f"samples_{task}_{name}.jsonl"
    try:
        place.mkdir(parents=True, exist_ok=True)
        values, hashes = _write_samples(run, stage, samples)
    except OSError as error:
        raise HarnessError(f"{place}: cannot be written: {error.strerror}") from None
    found = _results(run, task, values)
    found["task_hashes"] = {task: _digest("".join(hashes))}
    found["date"] = time.timestamp()
    path = place / f"results_{name}.json"
    write_atomically(path, orjson.dumps(found, option=orjson.OPT_INDENT_2) + b"\n")
    return path


def _model(run: StoredRun) -> str:
    return str(run.manifest.get("model_name") or run.spec["model"])


def _time(run: StoredRun) -> datetime:
    text = str(run.manifest.get("created") or "1970-01-01T00:00:00Z")
    return datetime.fromisoformat(text.replace("Z", "+00:00")).replace(tzinfo=None)


def _sanitised(name: str) -> str:
    """A model's name as lm-eval names folders.

    >>> _sanitised("Qwen/Qwen2.5-3B@5")
    'Qwen__Qwen2.5-3B@5'
    """
    return re.sub(r"[\"<>:/|\\?*\[\]]+", "__", name)


def _write_samples(run: StoredRun, stage: Stage, path: Path) -> tuple[list[float], list[str]]:
    """One line a record; returns the scores and the hashes that the task's hash is made of."""
    values, hashes = [], []
    part = path.with_name(path.name + ".part")
    with open(part, "wb") as file:
        for _, record in records(run):
            row = _sample(run, record, target(stage, run, record))
            file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
            values.append(record.score.value)
            hashes.append(row["doc_hash"] + row["prompt_hash"] + row["target_hash"])
    part.replace(path)
    return values, hashes


def _sample(run: StoredRun, record: Record, right: str) -> dict[str, Json]:
    doc = {name: getattr(record, name) for name in ("sample", "group", "cluster", "canonical")}
    doc |= {name: getattr(record, name) for name in ("split", "seed", "repeat")}
    doc["class"] = record.outcome.cls
    decoding = run.spec["decoding"]
    asked = [
        orjson.dumps([{"role": m.role, "content": m.content} for m in move.messages]).decode()
        for move in record.outcome.moves
    ]
    said = [move.reply.text for move in record.outcome.moves]
    read = [answer(record)] if record.outcome.moves else []
    return {
        "doc_id": record.index,
        "doc": doc,
        "target": right,
        "arguments": {
            f"gen_args_{i}": {"arg_0": text, "arg_1": decoding} for i, text in enumerate(asked)
        },
        "resps": [[text] for text in said],
        "filtered_resps": read,
        "filter": "none",
        "metrics": ["score", *record.score.parts],
        "doc_hash": _digest(orjson.dumps(doc, option=orjson.OPT_SORT_KEYS).decode()),
        "prompt_hash": _digest("".join(asked)),
        "target_hash": _digest(right),
        "score": record.score.value,
        **record.score.parts,
    }


def _results(run: StoredRun, task: str, values: list[float]) -> dict[str, Json]:
    spec, manifest = run.spec, run.manifest
    metrics: Mapping[str, Any] = run.metrics or {}
    figures = {
        f"{row['name']},{row['group'] or 'none'}": row["value"]
        for row in metrics["metrics"]
        if row["value"] is not None
    }
    figures |= {"score,none": metrics["score"]["value"], "score_stderr,none": _stderr(values)}
    names = sorted({row["name"] for row in metrics["metrics"]} | {"score"})
    decoding = spec["decoding"]
    return {
        "results": {task: {"name": task, "alias": task, "sample_len": len(values), **figures}},
        "group_subtasks": {task: []},
        "configs": {
            task: {
                "task": task,
                "test_split": spec["split"],
                "output_type": "generate_until",
                "num_fewshot": spec["fewshot"],
                "repeats": run.tries,
                "generation_kwargs": decoding,
                "metadata": {"version": str(spec["task"]["version"]), **spec["task"]["options"]},
            }
        },
        "versions": {task: str(spec["task"]["version"])},
        "n-shot": {task: spec["fewshot"]},
        "higher_is_better": {task: {name: name in ("score", "parsed") or None for name in names}},
        "n-samples": {task: {"original": metrics["expected"], "effective": len(values)}},
        "config": {
            "model": str(manifest.get("model", {}).get("backend", "harness")),
            "model_args": f"pretrained={_model(run)}",
            "limit": manifest.get("limit"),
            "gen_kwargs": decoding,
            "random_seed": spec["seeds"][0],
        },
        "git_hash": str((manifest.get("environment") or {}).get("git", "")),
        "model_source": "harness",
        "model_name": _model(run),
        "model_name_sanitized": _sanitised(_model(run)),
        "system_instruction": spec["system"],
        "fewshot_as_multiturn": None,
        "harness": {
            "hash": manifest["hash"],
            "reward": reward_name(run),
            "complete": metrics["complete"],
            "ledger": metrics["ledger"]["records"],
            "metrics": metrics["metrics"],
        },
    }


def _stderr(values: list[float]) -> float | str:
    """The sample deviation over the root of n; N/A below two records."""
    count = len(values)
    if count < 2:
        return "N/A"
    mean = math.fsum(values) / count
    return math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (count - 1)) / math.sqrt(count)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
