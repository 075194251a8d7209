"""Adapters (LoRA) of a model that verl trains: switched off, and added into the weights.

    with adapters_off(model): ...            # the model that training started from
    for name, weight in merged(model, device, torch.bfloat16): ...

Touched without a public door: peft's flag ``_disable_adapters``, pinned in
``tests/plugins/trainers``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from harness.training.checkpoints import adapted


@contextmanager
def adapters_off(model: torch.nn.Module) -> Iterator[None]:
    """Within it, the model computes as if it had no adapters.

    peft's own way also freezes the adapters for the time being. FSDP decides by the first forward
    pass which of its gathered parameters get gradients, so a pass without adapters that comes first
    would leave them without for good.
    """
    from peft.tuners.tuners_utils import BaseTunerLayer

    layers = [m for m in model.modules() if isinstance(m, BaseTunerLayer)]
    if not layers:
        raise ValueError("the model has no adapters to switch off")
    for layer in layers:
        layer._disable_adapters = True
    try:
        yield
    finally:
        for layer in layers:
            layer._disable_adapters = False


def merged(model: Any, device: Any, dtype: torch.dtype) -> Iterator[tuple[str, torch.Tensor]]:
    """All weights under the base's names, W + (alpha / r) B A where a layer has an adapter, one at
    a time: neither the model is touched, nor are its weights ever there twice."""
    config = model.peft_config["default"]
    meta = {"r": config.r, "lora_alpha": config.lora_alpha}

    def whole(weight: torch.Tensor) -> torch.Tensor:
        there = weight.detach().to(device, non_blocking=True)
        return there.full_tensor() if isinstance(there, DTensor) else there

    for name, weight in adapted(model.state_dict(), meta, whole):
        # A copy in any case: what was sent must not change with the next step.
        yield name, weight.to(dtype, copy=True)
