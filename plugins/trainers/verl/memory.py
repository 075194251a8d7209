"""The memory that a job takes on each GPU, on paper (`harness.sizing`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from harness.sizing import Device, Shape, TrainingPlan, device, training
from harness.training.session import Session
from harness.types import HarnessError, Json

from .settings import Place, micro_batch

ASSUMED: Final = 80e9
"""Bytes of a GPU where none is here to be asked."""


def plan_of(place: Place, options: Mapping[str, Json], method: str, room: float) -> TrainingPlan:
    """What of a job decides its memory; ``room``: bytes of a GPU."""
    packed = int(options.get("pack_tokens", 0))
    place = replace(place, gpus=width(place, options), processes=width(place, options), nodes=1)
    longest = int(options["max_prompt"]) + int(options["max_reply"])
    rolls_out = "rollouts" in options
    return TrainingPlan(
        method,
        width(place, options),
        micro_tokens=packed or micro_batch(place, options) * longest,
        lora=int(options["lora.rank"]),
        offload=bool(options["offload"]),
        checkpointing=bool(options["gradient_checkpointing"]),
        reference=bool(options.get("kl", "")),
        rollout_memory=float(options["rollout.memory"]) if rolls_out else 0.0,
        sleep=bool(options.get("rollout.sleep", True)),
        device_bytes=room,
    )


def width(place: Place, options: Mapping[str, Json]) -> int:
    """GPUs of a job: those that it would run on, here or where there are as many as it asks for."""
    return place.nodes * max(1, place.gpus, int(options["gpus"]))


def line(session: Session, place: Place, options: Mapping[str, Json], method: str) -> str:
    """One line for ``--dry-run``."""
    try:
        shape = Shape.of(session.base.config())
    except HarnessError as error:
        return f"memory of each GPU: unknown ({error})"
    here = _here()
    room = here.memory if here is not None else ASSUMED
    needed = training(shape, plan_of(place, options, method, room))
    verdict = "fits" if needed.total < room else "does not fit"
    gpu = f"{room / 2**30:.0f} GiB" + ("" if here is not None else " (no GPU is here: 80 GB)")
    line = (
        f"{shape.parameters / 1e9:.2f}B parameters; each of {width(place, options)} GPUs "
        f"needs about {needed.text()}, which {verdict} {gpu}"
    )
    if needed.total < room:
        return line
    return f"{line}; take more gpus, offload=true, lora.rank=16 or a smaller micro_batch"


def _here() -> Device | None:
    import torch

    if not torch.cuda.is_available():
        return None
    known = device(torch.cuda.get_device_name())
    memory = float(torch.cuda.get_device_properties(0).total_memory)
    return known._replace(memory=memory) if known else Device(memory, 0.0, 0.0)
