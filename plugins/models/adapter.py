"""LoRA adapters at run time: read, held against the base that they are to lie on, added to it.

    adapter = read_adapter("runs/opsd-adapter", Found(folder, "base"))
    adapter.add_to(model)                    # W + scale * B A, in place

An adapter fits the base that it was trained on and no other, though any base of the same shape
takes it without complaint. Ours name their base in ``training.json``, and are refused on another;
of others the shapes are compared. Only plain adapters are read: matrices A and B of layers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any, Final

from harness.types import HarnessError, Json

from .checkpoint import Found, weight_files, weights_hash

CONFIG: Final = "adapter_config.json"
WEIGHTS: Final = "adapter_model.safetensors"
PREFIX: Final = "base_model.model."
OTHER_KINDS: Final = ("use_dora", "rank_pattern", "alpha_pattern", "modules_to_save",
                      "fan_in_fan_out", "target_parameters")  # fmt: skip
"""Settings of adapters that are more than a product of two matrices beside each layer."""

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter's folder, its rank, and what its product is multiplied with."""

    folder: Path
    rank: int
    scale: float

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.resolve().name

    @property
    def identity(self) -> str:
        """The name with 12 digits of the weights' hash."""
        return f"{self.name}-{weights_hash(self.folder)[:12]}"

    def add_to(self, model: Any) -> None:
        """Add it to the weights of a model (W, outputs x inputs), each sum rounded once."""
        import torch
        from safetensors.torch import load_file

        state = load_file(self.folder / WEIGHTS)
        weights = dict(model.named_parameters(remove_duplicate=False))
        with torch.no_grad():
            for layer in layers(state):
                weight = weights[f"{layer}.weight"]
                a, b = (state[f"{PREFIX}{layer}.lora_{x}.weight"].float() for x in "AB")
                change = (self.scale * (b @ a)).to(weight.device)
                weight.copy_((weight.float() + change).to(weight.dtype))


def read_adapter(name: str, base: Found) -> Adapter:
    """The adapter in a folder, for this base.

    Raises HarnessError, in one line, for a folder that is none, an adapter of another kind, and one
    of another base.
    """
    folder = Path(name).expanduser()
    config = _config(folder)
    if str(config.get("peft_type", "LORA")).upper() != "LORA":
        raise HarnessError(f"lora: {folder} is an adapter of the kind {config['peft_type']}")
    rank = config.get("r")
    if not isinstance(rank, int) or isinstance(rank, bool) or rank < 1:
        raise HarnessError(f"lora: {folder} has the rank {rank!r}; it must be a positive number")
    if more := [key for key in OTHER_KINDS if config.get(key)]:
        raise HarnessError(f"lora: {folder} uses {', '.join(more)}, which is not supported")
    if str(config.get("bias", "none")) != "none":
        raise HarnessError(f"lora: {folder} also holds biases, which is not supported")
    _same_base(folder, base)
    _fits(folder, base)
    alpha = float(config.get("lora_alpha") or rank)
    return Adapter(folder, rank, alpha / (sqrt(rank) if config.get("use_rslora") else rank))


def layers(names: Any) -> list[str]:
    """The layers that an adapter's tensors belong to.

    >>> layers(["base_model.model.model.layers.0.mlp.up_proj.lora_A.weight"])
    ['model.layers.0.mlp.up_proj']
    """
    end = ".lora_A.weight"
    return [n.removeprefix(PREFIX).removesuffix(end) for n in names if n.endswith(end)]


def shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor in a folder's safetensors, from their headers.

    Raises HarnessError for a file that is none.
    """
    from safetensors import SafetensorError, safe_open

    found: dict[str, tuple[int, ...]] = {}
    for path in weight_files(folder):
        try:
            with safe_open(path, framework="np") as file:
                found |= {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError) as error:
            raise HarnessError(f"{path} cannot be read: {error}") from None
    return found


def _config(folder: Path) -> Mapping[str, Json]:
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        config = None
    if not isinstance(config, dict) or not (folder / WEIGHTS).is_file():
        raise HarnessError(f"lora: {folder} is no adapter ({CONFIG} and {WEIGHTS})")
    return config


def _same_base(folder: Path, base: Found) -> None:
    """What our own record says."""
    try:
        record = json.loads((folder / "training.json").read_text(encoding="utf-8"))
        trained_on = str(record["base"]["identity"])
    except (OSError, ValueError, KeyError, TypeError):
        return
    there = weights_hash(base.folder)[:12]
    if trained_on.rpartition("-")[2] != there:
        raise HarnessError(
            f"lora: {folder} was trained on {trained_on}, not on {base.label}-{there}; give that "
            "base with --model"
        )


def _fits(folder: Path, base: Found) -> None:
    """Whether each pair of matrices belongs to a layer of the base."""
    own, theirs = shapes(folder), shapes(base.folder)
    found = layers(own)
    strange = [name for name in own if ".lora_A." not in name and ".lora_B." not in name]
    if not found or strange:
        raise HarnessError(
            f"lora: {folder} holds {strange[0] if strange else 'no layer'}, which no plain adapter "
            "does"
        )
    if any(name.endswith(".qweight") for name in theirs):
        return  # quantised weights have shapes of their own
    for layer in found:
        a, b = (own.get(f"{PREFIX}{layer}.lora_{x}.weight", ()) for x in "AB")
        wanted, there = (*b[:1], *a[1:]), theirs.get(f"{layer}.weight")
        if wanted != there:
            has = "no such layer" if there is None else f"{' x '.join(map(str, there))} there"
            raise HarnessError(
                f"lora: {folder} is an adapter of another base than {base.label}: {layer} is "
                f"{' x '.join(map(str, wanted))} for it, and {has}"
            )
