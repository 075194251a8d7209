"""``training.json``: everything that a trained checkpoint rests on, beside its weights.

Base and its identity, hash and ids of the data, method, resolved options, seeds, versions, steps,
curves, wall time, hardware. The canonical identities and the prompts of all items lie beside it
(``canonical.txt``, ``prompts.jsonl``), from which leaderboards mark cells that were trained on
(`harness.contamination`). It is written before the first step, so that no checkpoint is without.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import orjson

from ..store import write_atomically
from ..types import Json
from .data import Item
from .session import Session, write_json

RECORD: Final = "training.json"
CANONICAL: Final = "canonical.txt"
PROMPTS: Final = "prompts.jsonl"
PACKAGES: Final = (
    "strategic-harness", "torch", "transformers", "verl", "ray", "vllm", "peft", "tensordict",
    "numpy", "pyarrow",
)  # fmt: skip


def begin(
    session: Session, hardware: Mapping[str, Json], more: Mapping[str, Json] | None = None
) -> None:
    """Write the record of a job that starts, or starts again; ``more`` is the method's own."""
    out = session.out
    ids = sorted({i.identity for i in session.items})
    write_atomically(out / CANONICAL, "".join(f"{i}\n" for i in ids).encode())
    write_atomically(out / PROMPTS, b"".join(_prompt(i) for i in session.items))
    old = read(out)
    write_json(
        out / RECORD,
        {
            **session.described(),
            "step": old.get("step", 0),
            "complete": False,
            "data": [
                {
                    "task": session.task.name,
                    "split": "train",
                    "samples": len(session.items),
                    "hash": data_hash(session.items),
                    "canonical_file": CANONICAL,
                    "prompts_file": PROMPTS,
                }
            ],
            "lengths": {name: audit.json() for name, audit in session.audits.items()},
            "parent": _parent(session.base.folder),
            "versions": versions(),
            "hardware": dict(hardware),
            "started": old.get("started", now()),
            "attempts": [*old.get("attempts", []), {"started": now(), **dict(hardware)}],
            "seconds": old.get("seconds", 0.0),
            **(more or {}),
        },
    )


def finish(out: Path, step: int, seconds: float, complete: bool, curves: Mapping[str, Any]) -> None:
    """Add how far it came, the wall time of this attempt, and the last figures of each curve."""
    found = read(out)
    found["attempts"][-1] |= {"ended": now(), "seconds": round(seconds, 1), "step": step}
    found |= {
        "step": step,
        "complete": complete,
        "seconds": round(sum(a.get("seconds", 0.0) for a in found["attempts"]), 1),
        "curves": dict(curves),
    }
    write_json(out / RECORD, found)


def read(out: Path) -> dict[str, Json]:
    """The record in a folder; {} where there is none."""
    try:
        value: dict[str, Json] = json.loads((out / RECORD).read_text())
    except (OSError, ValueError):
        return {}
    return value


def copy_record(job: Path, out: Path, step: int) -> None:
    """The record of a job beside a step that leaves it, with the files that it names."""
    found = read(job)
    if not found:
        return
    write_json(out / RECORD, {**found, "step": step})
    for name in (CANONICAL, PROMPTS):
        shutil.copy(job / name, out / name)


def data_hash(items: Sequence[Item]) -> str:
    """SHA-256 over ids, prompts and targets in order, 32 hexadecimal digits."""
    digest = hashlib.sha256()
    for item in items:
        row = [item.sample.id, [(m.role, m.content) for m in item.messages], item.target]
        digest.update(orjson.dumps(row))
    return digest.hexdigest()[:32]


def versions() -> dict[str, str]:
    """Versions of what took part."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def hardware(gpus: int) -> dict[str, Json]:
    """Machine, cores and GPUs of this attempt."""
    found: dict[str, Json] = {
        "system": platform.system(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "gpus": gpus,
    }
    if gpus:
        import torch

        found["gpu"] = torch.cuda.get_device_name(0)
    return found


def now() -> str:
    """UTC, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _prompt(item: Item) -> bytes:
    rows = [{"role": m.role, "content": m.content} for m in item.messages]
    return orjson.dumps({"id": item.sample.id, "messages": rows}) + b"\n"


def _parent(folder: Path) -> Json:
    """The record of the checkpoint that training started from, its lists of items in place of file
    names, since those lie elsewhere."""
    for place in (folder, folder.parent, folder.parent.parent):
        if not (found := read(place)):
            continue
        for entry in found.get("data", []):
            for key in ("canonical_file", "prompts_file"):
                if key in entry:
                    entry[key] = str((place / entry[key]).absolute())
        kept = ("method", "task", "base", "step", "data", "parent", "reward")
        return {key: found[key] for key in kept if key in found}
    return None
