"""Steps as verl leaves them on disk, made without verl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tiny_models import tiny_checkpoint, tiny_llama

from harness.training import checkpoints


def save_step(job: Path, step: int, seed: int = 0, state: Any = None, inner: str = "") -> Any:
    """A step of one rank, without the pieces that resuming needs; returns its model."""
    folder = checkpoints.step_folder(job, step)
    shards = folder / inner if inner else folder
    shards.mkdir(parents=True)
    model = tiny_llama(seed)
    torch.save(state or model.state_dict(), shards / "model_world_size_1_rank_0.pt")
    tiny_checkpoint(shards / "huggingface", seed)
    (shards / "huggingface" / "model.safetensors").unlink()
    checkpoints.seal(folder)
    return model
