"""A run as a log of Inspect (``.eval``, version 2 of the format): for `inspect view` and
`inspect_ai.log.read_eval_log`.

    write_log(run, stage, Path("run.eval"))

The file is a zip archive: a header with task, model, configuration and figures, a file a sample,
and their summaries. Each record is a sample under its own id; several records of a sample are its
epochs. The score is called by the reward's name and keeps parts, class and raw figures in its
metadata; figures of groups carry the group.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from ..board.places import StoredRun
from ..types import HarnessError, Json, Message, Move, Record
from ..viewer.transcript import CLASSES, reasoning_of
from .stored import answer, records, reward_name, target

if TYPE_CHECKING:
    from ..viewer.stage import Stage

VERSION: Final = 2
"""Of Inspect's log format."""
EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""Every member's time: the same run gives the same bytes."""


def write_log(run: StoredRun, stage: Stage, path: Path) -> int:
    """Write the log; returns how many samples it holds. Raises HarnessError."""
    part = path.with_name(path.name + ".part")
    score = reward_name(run)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            summaries = _write_samples(archive, run, stage, score)
            ids = list(dict.fromkeys(summary["id"] for summary in summaries))
            head = {"version": VERSION, "eval": _spec(run, score, ids), "plan": _PLAN}
            _put(archive, "_journal/start.json", head)
            _put(archive, "summaries.json", summaries)
            _put(archive, "header.json", _header(run, head, score, len(summaries)))
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise HarnessError(f"{path}: cannot be written: {error.strerror}") from None
    return len(summaries)


def _put(archive: zipfile.ZipFile, name: str, value: Json) -> None:
    member = zipfile.ZipInfo(name, EPOCH)
    member.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(member, orjson.dumps(value))


def _write_samples(
    archive: zipfile.ZipFile, run: StoredRun, stage: Stage, score: str
) -> list[Json]:
    summaries = []
    for epoch, record in records(run):
        found = _sample(run, stage, record, epoch, score)
        _put(archive, f"samples/{record.sample}_epoch_{epoch}.json", found)
        kept = ("id", "epoch", "input", "target", "scores", "metadata")
        summaries.append(
            {**{name: found[name] for name in kept}, "completed": True, "metadata": {}}
        )
        summaries[-1]["message_count"] = len(found["messages"])
    return summaries


def _sample(
    run: StoredRun, stage: Stage, record: Record, epoch: int, score: str
) -> dict[str, Json]:
    model = str(run.manifest.get("model_name") or run.spec["model"])
    messages, last = _conversation(record, model)
    first = next((move.messages for move in record.outcome.moves if move.messages), ())
    usage = _usage(record)
    scored = {
        "value": record.score.value,
        "answer": answer(record) or None,
        "explanation": f"{record.outcome.cls}: {CLASSES.get(record.outcome.cls, '')}",
        "metadata": {
            "class": record.outcome.cls,
            "parts": dict(record.score.parts),
            "raw": dict(record.score.raw),
            "per_seat": list(record.score.per_seat),
        },
    }
    return {
        "id": record.sample,
        "epoch": epoch,
        "input": [_message(message) for message in first],
        "target": target(stage, run, record),
        "messages": messages,
        "output": _output(model, last, record.outcome.moves, usage),
        "scores": {score: scored},
        "metadata": {
            **{name: getattr(record, name) for name in ("group", "cluster", "canonical", "split")},
            **{name: getattr(record, name) for name in ("index", "seed", "repeat")},
            "returns": list(record.outcome.returns),
            "data": dict(record.outcome.data),
        },
        "model_usage": {model: usage},
    }


def _conversation(record: Record, model: str) -> tuple[list[Json], Json]:
    """All that was said, in order, prompts without what a seat had been told before; and the last
    reply."""
    found: list[Json] = []
    told: dict[int, tuple[Message, ...]] = {}
    last: Json = None
    for move in record.outcome.moves:
        before = told.get(move.seat, ())
        kept = 0
        while kept < min(len(before), len(move.messages)) and before[kept] == move.messages[kept]:
            kept += 1
        found += [_message(message) for message in move.messages[kept:]]
        told[move.seat] = move.messages
        last = _reply(move, model if move.messages else f"seat {move.seat}")
        found.append(last)
    return found, last


def _message(message: Message) -> Json:
    return {"role": message.role, "content": message.content}


def _reply(move: Move, model: str) -> Json:
    thought, shown = reasoning_of(move.reply)
    content: Json = shown
    if thought:
        content = [{"type": "reasoning", "reasoning": thought}, {"type": "text", "text": shown}]
    about = {name: getattr(move, name) for name in ("seat", "number", "attempt", "parsed")}
    return {
        "role": "assistant",
        "content": content,
        "source": "generate",
        "model": model,
        "metadata": {**about, "class": move.cls},
    }


def _output(model: str, last: Json, moves: tuple[Move, ...], usage: Mapping[str, int]) -> Json:
    if last is None:
        return {"model": model, "choices": []}
    cut = moves[-1].reply.finish_reason == "length"
    choice = {"message": last, "stop_reason": "max_tokens" if cut else "stop"}
    return {"model": model, "choices": [choice], "usage": usage}


def _usage(record: Record) -> dict[str, int]:
    replies = [move.reply for move in record.outcome.moves]
    asked = sum(reply.prompt_tokens for reply in replies)
    said = sum(reply.completion_tokens for reply in replies)
    return {"input_tokens": asked, "output_tokens": said, "total_tokens": asked + said}


# The header


def _spec(run: StoredRun, score: str, ids: list[str]) -> Json:
    spec, manifest = run.spec, run.manifest
    decoding = spec["decoding"]
    environment = manifest.get("environment") or {}
    return {
        "run_id": manifest["hash"],
        "eval_id": manifest["hash"],
        "task_id": manifest["hash"],
        "created": _time(manifest),
        "task": spec["task"]["name"],
        "task_version": str(spec["task"]["version"]),
        "task_args": spec["task"]["options"],
        "dataset": {
            "name": f"{spec['task']['name']}/{spec['split']}",
            "samples": len(ids),
            "sample_ids": ids,
        },
        "model": str(manifest.get("model_name") or spec["model"]),
        "model_generate_config": {
            "temperature": decoding.get("temperature"),
            "top_p": decoding.get("top_p"),
            "top_k": decoding.get("top_k") or None,
            "max_tokens": decoding.get("max_tokens"),
            "stop_seqs": decoding.get("stop") or None,
        },
        "config": {"limit": manifest.get("limit"), "epochs": run.tries},
        "packages": environment.get("packages", {}),
        "metadata": {"specification": spec, "harness_hash": manifest["hash"]},
        "scorers": [{"name": score}],
    }


_PLAN: Final = {"name": "plan", "steps": [{"solver": "harness", "params": {}}]}


def _time(manifest: Mapping[str, Any]) -> str:
    return str(manifest.get("created") or "1970-01-01T00:00:00Z").replace("Z", "+00:00")


def _header(run: StoredRun, head: Mapping[str, Json], score: str, samples: int) -> Json:
    metrics = run.metrics or {}
    missing = metrics["expected"] - metrics["records"]
    ended: dict[str, Json] = {"status": "success"}
    if missing:
        said = f"{missing} of {metrics['expected']} records are missing"
        fault = {"message": said, "traceback": "", "traceback_ansi": ""}
        ended = {"status": "error", "error": fault}
    usage = metrics.get("usage") or {}
    asked, said_tokens = usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)
    total = {
        "input_tokens": asked,
        "output_tokens": said_tokens,
        "total_tokens": asked + said_tokens,
    }
    results = {
        "total_samples": metrics["expected"],
        "completed_samples": samples,
        "scores": [
            {
                "name": score,
                "scorer": score,
                "scored_samples": samples,
                "unscored_samples": 0,
                "metrics": _figures(metrics),
            }
        ],
    }
    stats = {
        "started_at": _time(run.manifest),
        "model_usage": {str(run.manifest.get("model_name") or run.spec["model"]): total},
    }
    return {**head, **ended, "results": results, "stats": stats}


def _figures(metrics: Mapping[str, Any]) -> Json:
    """The score as ``mean`` with its bounds, then every figure by its name and group."""
    score = metrics["score"]
    found: dict[str, Json] = {}
    for name, key in (("mean", "value"), ("low", "low"), ("high", "high")):
        if score[key] is not None:
            found[name] = {"name": name, "value": score[key]}
    for row in metrics["metrics"]:
        if row["value"] is None:
            continue
        name = f"{row['name']}[{row['group']}]" if row["group"] else row["name"]
        about = {key: row[key] for key in ("low", "high", "n", "clusters", "note")}
        found[name] = {
            "name": row["name"],
            "group": row["group"] or None,
            "value": row["value"],
            "metadata": about,
        }
    return found
