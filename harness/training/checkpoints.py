"""Checkpoints of a training job: shards become a Hugging Face folder when a step is first used.

    runs/sft/global_step_200/   shards of verl (one file a rank), optimiser, data loader
    ensure_weights(Path("runs/sft/global_step_200"))    # -> .../huggingface with model.safetensors
    newest(Path("runs/sft"))                            # the last step that was saved whole

Shards are pickled tensors. They are read from a job's own folder only, with torch's restricted
unpickler, and after a check against the hashes that were written when they were saved.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ..types import HarnessError, Json

STEP: Final = "global_step_"
HASHES: Final = "hashes.json"
SHARDING: Final = {
    "torch.distributed.tensor": ("DTensor",),
    "torch.distributed.tensor._dtensor_spec": ("DTensorSpec", "TensorMeta", "ShardOrderEntry"),
    "torch.distributed.tensor.placement_types": ("Shard", "Replicate", "Partial"),
    "torch.distributed.device_mesh": ("DeviceMesh",),
    "torch.distributed._mesh_layout": ("_MeshLayout", "_FlatLayout"),
}
INNER: Final = ("", "actor")
"""Where in a step's folder the shards lie: SFT, and RL."""


def step_folder(job: Path, step: int) -> Path:
    """The folder of a step."""
    return job / f"{STEP}{step}"


def saved_steps(job: Path) -> list[int]:
    """The steps that were saved whole (their hashes are written last), in order."""
    found = (p.parent for p in job.glob(f"{STEP}*/{HASHES}"))
    return sorted(int(p.name.removeprefix(STEP)) for p in found)


def newest(job: Path) -> int:
    """The last step that was saved whole; 0 where there is none."""
    return max(saved_steps(job), default=0)


def resolve_step(job: Path, name: str) -> int:
    """The step that ``200``, ``latest`` or ``best`` (by validation) names.

    Raises HarnessError when it was not saved.
    """
    there = saved_steps(job)
    shown = ", ".join(map(str, there)) or "none"
    if name == "latest" and there:
        return there[-1]
    if name == "best":
        from .curves import validations

        rows = [r for r in validations(job) if r["step"] in there]
        if rows:
            return int(max(rows, key=lambda r: (r["score"], -r["step"]))["step"])
        raise HarnessError(f"{job}: no saved step was validated (saved: {shown})")
    if name.isdigit() and int(name) in there:
        return int(name)
    raise HarnessError(f"{job} has no step {name!r}; saved are {shown}")


def discard_unfinished(job: Path) -> None:
    """Remove steps that a crash left half written, and point verl at the newest whole one."""
    whole = set(saved_steps(job))
    for folder in job.glob(f"{STEP}*"):
        if folder.is_dir() and int(folder.name.removeprefix(STEP)) not in whole:
            shutil.rmtree(folder, ignore_errors=True)
    tracker = job / "latest_checkpointed_iteration.txt"
    if whole:
        tracker.write_text(str(max(whole)))
    else:
        tracker.unlink(missing_ok=True)


def keep_last(job: Path, count: int) -> None:
    """Remove all but the last ``count`` steps (0: keep all)."""
    for step in saved_steps(job)[: -count or None] if count else ():
        shutil.rmtree(step_folder(job, step), ignore_errors=True)


def seal(folder: Path) -> None:
    """Write the hashes of a step's files: from here on the step counts as saved."""
    files = sorted(p for p in folder.rglob("*.pt"))
    hashes = {str(p.relative_to(folder)): file_hash(p) for p in files}
    part = folder / f"{HASHES}.part"
    part.write_text(json.dumps(hashes, indent=1) + "\n")
    part.replace(folder / HASHES)


def check_seal(folder: Path) -> None:
    """Raise HarnessError when a file of the step is not what was saved."""
    try:
        hashes = json.loads((folder / HASHES).read_text())
    except (OSError, ValueError):
        raise HarnessError(f"{folder} was not saved whole; resume from another step") from None
    for name, wanted in hashes.items():
        path = folder / name
        if not path.is_file() or file_hash(path) != wanted:
            raise HarnessError(f"{path} is not the file that was saved; it is not loaded")


def file_hash(path: Path) -> str:
    """BLAKE2b of a file, 32 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def world_size(folder: Path) -> int:
    """How many ranks saved the step (0: no shards)."""
    for inner in INNER:
        names = [p.name for p in (folder / inner).glob("model_world_size_*_rank_*.pt")]
        if names:
            return int(names[0].split("_")[3])
    return 0


def ensure_weights(folder: Path) -> Path:
    """The Hugging Face folder of a step, merged from its shards on first use.

    Raises HarnessError when the step holds no shards or they are damaged.
    """
    out = folder / "huggingface"
    if any(out.glob("*.safetensors")):
        return out
    shards = sealed_shards(folder)
    state = merged_state(shards)
    write_checkpoint(state, shards / "huggingface", out)
    return out


def sealed_shards(folder: Path) -> Path:
    """Where in a step's folder the shards lie, after a check of their hashes.

    Raises HarnessError when there are none, or they are damaged.
    """
    shards = next((folder / i for i in INNER if any((folder / i).glob("model_world*"))), None)
    if shards is None:
        raise HarnessError(f"{folder} holds no weights of a model")
    check_seal(folder)
    return shards


def merged_state(shards: Path) -> dict[str, Any]:
    """All weights from the shards of all ranks, LoRA adapters added into their layers."""
    state, meta = whole_state(shards), adapter_meta(shards)
    return with_adapters(state, meta) if meta else state


def adapter_meta(shards: Path) -> dict[str, Json]:
    """Rank and scale of the adapters that were trained ({} where none were)."""
    path = shards / "lora_train_meta.json"
    found: dict[str, Json] = json.loads(path.read_text()) if path.is_file() else {}
    return found


def whole_state(shards: Path) -> dict[str, Any]:
    """All weights from the shards of all ranks, as they are."""
    import torch
    from torch.distributed.tensor import DTensor

    paths = sorted(shards.glob("model_world_size_*_rank_*.pt"), key=_rank)
    parts = [_load(path) for path in paths]
    state = {}
    for name, first in parts[0].items():
        if not isinstance(first, DTensor):
            state[name] = first
            continue
        placement = first.placements[-1]
        local = [part[name]._local_tensor for part in parts]
        if not placement.is_shard():
            state[name] = local[0]
            continue
        state[name] = torch.cat(local, dim=placement.dim)
    return state


def with_adapters(state: Mapping[str, Any], meta: Mapping[str, Json]) -> dict[str, Any]:
    """All weights under the base model's names, adapters added into their layers."""
    return dict(adapted(state, meta, lambda weight: weight))


def adapted(
    state: Mapping[str, Any], meta: Mapping[str, Json], whole: Callable[[Any], Any]
) -> Iterator[tuple[str, Any]]:
    """W + (alpha / r) B A for each adapted layer (Hu et al. 2021), under the base model's names,
    one weight at a time; ``whole`` makes a full tensor of what the state holds."""
    scale = meta["lora_alpha"] / meta["r"]
    for name, held in state.items():
        if "lora_" in name:
            continue
        weight = whole(held)
        target = name.removeprefix("base_model.model.").replace(".base_layer.", ".")
        if name.endswith(".base_layer.weight"):
            stem = name.removesuffix("base_layer.weight")
            a, b = (whole(state[f"{stem}lora_{x}.default.weight"]) for x in "AB")
            weight = (weight.float() + scale * (b.float() @ a.float())).to(weight.dtype)
        yield target, weight


def write_checkpoint(state: Mapping[str, Any], described: Path, out: Path) -> None:
    """Weights in the base's type, with config, tokenizer and generation config from ``described``.

    Appears whole or not at all. Shared tensors (tied embeddings) are written once.
    """
    import torch
    from safetensors.torch import save_file

    config = json.loads((described / "config.json").read_text())
    dtype = getattr(torch, str(config.get("dtype") or config.get("torch_dtype") or "float32"))
    if config.get("tie_word_embeddings") and "lm_head.weight" in state:
        state = {name: w for name, w in state.items() if name != "lm_head.weight"}
    weights = {n: w.detach().to("cpu", dtype).contiguous() for n, w in state.items()}
    out.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=".part-", dir=out.parent))
    try:
        for file in described.iterdir():
            if file.is_file() and file.suffix != ".safetensors":
                shutil.copy(file, part)
        save_file(weights, part / "model.safetensors", metadata={"format": "pt"})
        if out.is_dir():
            shutil.rmtree(out)
        os.chmod(part, 0o755)
        part.replace(out)
    except OSError as error:
        raise HarnessError(f"{out}: cannot be written: {error.strerror or error}") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def copy_checkpoint(source: Path, out: Path) -> None:
    """The files of a Hugging Face folder, weights as hard links where the file system can."""
    out.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        if not file.is_file():
            continue
        target = out / file.name
        target.unlink(missing_ok=True)
        if file.suffix == ".safetensors":
            try:
                os.link(file, target)
                continue
            except OSError:
                pass
        shutil.copy(file, target)


def _rank(path: Path) -> int:
    return int(path.stem.rpartition("_")[2])


def _load(path: Path) -> Mapping[str, Any]:
    import logging
    import pickle

    import torch
    import torch.distributed.tensor  # its classes may then be unpickled

    # It warns that a mesh without processes cannot communicate; nothing here wants it to.
    logging.getLogger("torch.distributed.device_mesh").setLevel(logging.ERROR)
    try:
        with torch.serialization.safe_globals(_sharding_types()):
            loaded: Mapping[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, ValueError, EOFError, pickle.UnpicklingError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise HarnessError(f"{path}: cannot be read: {reason}") from None
    return loaded


def _sharding_types() -> list[Any]:
    """torch's own descriptions of a sharded tensor, which not every version of torch lets its
    restricted unpickler make; none of them runs code."""
    from importlib import import_module

    found = []
    for place, names in SHARDING.items():
        try:
            module = import_module(place)
        except ImportError:
            continue
        found += [getattr(module, name) for name in names if hasattr(module, name)]
    return found
