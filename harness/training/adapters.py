"""The adapters of a training step as a folder of their own, in peft's form.

    export_adapter(Path("runs/opsd/global_step_100"), "Qwen/Qwen2.5-3B-Instruct", Path("adapter"))

A few megabytes where the merged model has gigabytes; any back end that takes LoRA reads it, beside
the base that it was trained on (``--model BASE --model-set lora=FOLDER``).
"""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import Final

from ..types import HarnessError
from .checkpoints import adapter_meta, sealed_shards, whole_state
from .session import write_json

MATRIX: Final = re.compile(r"(.*)\.lora_([AB])\.default\.weight")


def export_adapter(step: Path, base: str, out: Path) -> None:
    """Write ``adapter_model.safetensors`` and ``adapter_config.json``, whole or not at all.

    Raises HarnessError for a step that was not trained with adapters, and for a folder that cannot
    be written.
    """
    from safetensors.torch import save_file

    shards = sealed_shards(step)
    meta = adapter_meta(shards)
    if not meta:
        raise HarnessError(
            f"{step} was trained in all its weights and has no adapter; leave --format out"
        )
    state = {
        f"{found[1]}.lora_{found[2]}.weight": weight.detach().contiguous()
        for name, weight in whole_state(shards).items()
        if (found := MATRIX.fullmatch(name))
    }
    targets = {name.rsplit(".", 3)[1] for name in state}
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=".part-", dir=out.parent))
        try:
            save_file(state, part / "adapter_model.safetensors", metadata={"format": "pt"})
            write_json(
                part / "adapter_config.json",
                {
                    "peft_type": "LORA",
                    "task_type": "CAUSAL_LM",
                    "base_model_name_or_path": base,
                    "r": meta["r"],
                    "lora_alpha": meta["lora_alpha"],
                    "lora_dropout": 0.0,
                    "target_modules": sorted(targets),
                    "bias": "none",
                    "fan_in_fan_out": False,
                    "inference_mode": True,
                },
            )
            part.chmod(0o755)
            if out.is_dir():
                out.rmdir()
            part.replace(out)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    except OSError as error:
        raise HarnessError(f"{out}: cannot be written: {error.strerror or error}") from None
