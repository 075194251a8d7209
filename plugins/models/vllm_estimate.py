"""What a run takes on vLLM: memory, and time where the GPU is known (`harness.sizing`)."""

from __future__ import annotations

from harness.model import Estimate
from harness.sizing import Shape, device, evaluation, seconds
from harness.types import HarnessError

from . import vllm_device
from .vllm_checkpoint import Checkpoint


def estimate(
    found: Checkpoint, gpus: int, live: int, prompts: int, prompt_tokens: float, reply_tokens: float
) -> Estimate:
    """For ``prompts`` requests, ``live`` at a time, on a replica that is ``gpus`` wide."""
    live = min(prompts, live)
    tokens = live * (prompt_tokens + reply_tokens)
    try:
        shape = Shape.of(found.config)
    except HarnessError:  # another kind of model: what its files and its cache take
        return Estimate(None, int(found.weight_bytes + tokens * found.cache_bytes))
    memory = evaluation(shape, tokens, gpus, found.weight_bytes)
    there = vllm_device.gpus()
    name = there[0].name if there else ""
    on = device(name)
    taken = None
    if on is not None:
        size = prompts, prompt_tokens, reply_tokens, live
        taken = seconds(shape, on, *size, gpus, found.weight_bytes)
    return Estimate(taken, int(memory.total * gpus), f"{gpus} x {name}" if name else "")
