"""Checkpoints: what a ``--model`` value names on disk, and the identity of its weights.

    found = locate("runs/sft@200")          # runs/sft/global_step_200, checkpoint-200 or step-200
    found = locate("owner/name@main")       # a hub id, from the offline cache where it is there
    identity(found)                         # 'sft@200-1f0c5b3a9d2e'

Only folders with a ``config.json`` and safetensors are taken: pickled weights are never read. The
hub is asked only for an id that the cache does not hold; ``HF_HOME``, ``HF_HUB_OFFLINE`` and
``HF_ENDPOINT`` mean what they mean to ``huggingface_hub``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness.paths import cache_dir
from harness.progress import track
from harness.training.checkpoints import ensure_weights
from harness.types import HarnessError

STEP_FOLDERS: Final = ("global_step_{}", "checkpoint-{}", "step-{}", "step_{}")
"""How trainers name the folder of a step."""

INNER_FOLDERS: Final = ("", "huggingface", "actor/huggingface")
"""Where inside of a step's folder the checkpoint may lie."""

HUB_ID: Final = re.compile(r"[\w][\w.-]*/[\w][\w.-]*(@[\w./-]+)?")
HUB_FILES: Final = ["*.safetensors", "*.json", "*.model", "*.txt", "*.jinja"]
CHUNK: Final = 1 << 22


class Found(NamedTuple):
    """A checkpoint folder and the short name that tables show."""

    folder: Path
    label: str


def locate(name: str) -> Found:
    """The checkpoint of a folder, ``FOLDER@STEP`` or hub id with an optional ``@revision``.

    Raises HarnessError, in one line, for anything that is none.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return Found(_checked(folder), folder.resolve().name)
    head, at, step = name.rpartition("@")
    if at and (parent := Path(head).expanduser()).is_dir():
        return Found(_step(parent, step), f"{parent.resolve().name}@{step}")
    if folder.exists():
        raise HarnessError(f"{name} is a file; a model is a folder with a config.json")
    if HUB_ID.fullmatch(name) and not name.startswith((".", "/", "~")):
        return _from_hub(name)
    raise HarnessError(f"there is no folder {name}, and it is no hub id (owner/name[@revision])")


def weight_files(folder: Path) -> list[Path]:
    """The safetensors of a checkpoint, by name."""
    return sorted(folder.glob("*.safetensors"))


def identity(found: Found) -> str:
    """The short name with 12 digits of the weights' hash."""
    return f"{found.label}-{weights_hash(found.folder)[:12]}"


def weights_hash(folder: Path) -> str:
    """BLAKE2b over the contents of the weight files, 32 hexadecimal digits.

    Kept in the user's cache under path, size and time of change of each file, so that only the
    first use of a checkpoint reads it all.
    """
    stamps = [
        (str(f.resolve()), f.stat().st_size, f.stat().st_mtime_ns) for f in weight_files(folder)
    ]
    key = hashlib.blake2b(json.dumps(stamps).encode(), digest_size=16).hexdigest()
    known = cache_dir("weights") / f"{key}.json"
    try:
        return str(json.loads(known.read_text())["hash"])
    except (OSError, ValueError, KeyError):
        pass
    digest = hashlib.blake2b(digest_size=16)
    total = sum(size for _, size, _ in stamps) // CHUNK + len(stamps)
    for chunk in track(_chunks(folder), f"hashing the weights of {folder.name}", total):
        digest.update(chunk)
    part = known.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps({"hash": digest.hexdigest(), "files": stamps}))
    part.replace(known)
    return digest.hexdigest()


def _chunks(folder: Path) -> Iterator[bytes]:
    for path in weight_files(folder):
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                yield chunk


def _checked(folder: Path) -> Path:
    if not (folder / "config.json").is_file():
        steps = _steps(folder)
        if (folder / "adapter_config.json").is_file():
            advice = "it is an adapter: give its base, and --model-set lora=FOLDER"
        elif steps:
            advice = f"it has steps: {folder}@{steps[-1]} (of {', '.join(steps)})"
        else:
            advice = "it has no config.json"
        raise HarnessError(f"{folder} is no checkpoint: {advice}")
    if not weight_files(folder):
        raise HarnessError(
            f"{folder} holds no .safetensors weights (pickled .bin weights are not read)"
        )
    return folder


def _step(parent: Path, step: str) -> Path:
    for pattern in STEP_FOLDERS:
        folder = parent / pattern.format(step)
        if not step or not folder.is_dir():
            continue
        if list(folder.glob("**/model_world_size_*.pt")):
            return _checked(ensure_weights(folder))  # a step of training, still in shards
        for inner in INNER_FOLDERS:
            if (folder / inner / "config.json").is_file():
                return _checked(folder / inner)
        return _checked(folder)
    steps = _steps(parent)
    has = f"it has {', '.join(steps)}" if steps else "it has no steps"
    raise HarnessError(f"{parent} has no step {step!r}: {has}")


def _steps(parent: Path) -> list[str]:
    """The steps below a folder, in numerical order."""
    found = set()
    for pattern in STEP_FOLDERS:
        prefix = pattern.format("")
        names = (p.name for p in parent.glob(f"{prefix}*") if p.is_dir())
        found |= {n.removeprefix(prefix) for n in names if n.removeprefix(prefix).isdigit()}
    return sorted(found, key=int)


def _from_hub(name: str) -> Found:
    """A snapshot from the cache, else from the hub."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from httpx import HTTPError
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    repository, _, revision = name.partition("@")
    label = repository.rpartition("/")[2] + (f"@{revision}" if revision else "")
    arguments: dict[str, Any] = {"revision": revision or None, "allow_patterns": HUB_FILES}
    try:
        folder = Path(snapshot_download(repository, local_files_only=True, **arguments))
        if (folder / "config.json").is_file() and _all_shards(folder):
            return Found(_checked(folder), label)
    except LocalEntryNotFoundError:
        pass
    except HFValidationError as error:
        raise HarnessError(f"{name} is no hub id: {error}") from None
    try:
        folder = Path(snapshot_download(repository, **arguments))
    except (OSError, ValueError, HTTPError) as error:  # a failed transfer is an HTTPError
        raise HarnessError(_hub_failure(name, error)) from None
    return Found(_checked(folder), label)


def _all_shards(folder: Path) -> bool:
    """Whether every weight file is there (a download may have been cut off)."""
    try:
        index = json.loads((folder / "model.safetensors.index.json").read_text())
    except FileNotFoundError:
        return bool(weight_files(folder))
    return all((folder / file).is_file() for file in set(index["weight_map"].values()))


def _hub_failure(name: str, error: Exception) -> str:
    from huggingface_hub.errors import (
        GatedRepoError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    if isinstance(error, GatedRepoError):
        reason = "the hub asks for permission: accept its licence there and set HF_TOKEN"
    elif isinstance(error, RepositoryNotFoundError):
        reason = "the hub has no such model (or it is private: set HF_TOKEN)"
    elif isinstance(error, RevisionNotFoundError):
        reason = "the hub has no such revision"
    elif isinstance(error, LocalEntryNotFoundError | OfflineModeIsEnabled):
        reason = "it is neither in the offline cache nor can the hub be reached"
    else:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
    return f"{name}: {reason}"
