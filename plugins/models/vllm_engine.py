"""Starting vLLM: its arguments, what they need of the machine, and the engine.

    start = Start.of(found, options, context=8192)
    engine = start_engine(start)                    # inside of a running event loop

Usage reports are off, no code of a checkpoint is run, and a checkpoint's generation settings are
not applied (``generation_config=vllm``).
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from harness.types import HarnessError, Json

from . import vllm_device
from .vllm_checkpoint import Checkpoint
from .vllm_words import Words

RANKS: Final = (8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks of adapters that vLLM makes room for."""

HEADING: Final = re.compile(r"validation errors? for \w+$|^\w+$")
"""Lines above the one that says what is wrong: of Pydantic, whose next line names the field."""

WORKING: Final = 6 * 2**30
"""Bytes beside weights and cache, for an engine that shares its GPU: activations, graphs."""

MEASURED: Final = "memory profiling"
"""In vLLM's words where the memory of a GPU changed under it while it measured what it needs."""

CPU_CACHE: Final = "2"
"""GiB of keys and values for vLLM's CPU build, unless the user says otherwise."""

QUIET: Final = {
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DO_NOT_TRACK": "1",
    "DO_NOT_TRACK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Environment variables that are set unless the user has set them."""


@dataclass(frozen=True, slots=True)
class Start:
    """What the engine is started with. ``fit``: the context may be made smaller to fit the memory
    (nobody asked for it by number). ``shared``: other engines start on the same GPUs."""

    found: Checkpoint
    arguments: Mapping[str, Json]
    environment: Mapping[str, str]
    gpus: int
    fit: bool
    shared: bool = False

    @classmethod
    def of(cls, found: Checkpoint, options: Mapping[str, Json], context: int | None) -> Start:
        """From the options of the back end. ``context`` None lets vLLM read it from the checkpoint.

        Raises HarnessError for values that make no sense.
        """
        o = options
        for name in ("tensor_parallel", "pipeline_parallel"):
            if int(o[name]) < 1:
                raise HarnessError(f"{name} must be at least 1")
        if not 0 < float(o["gpu_memory"]) <= 1:
            raise HarnessError("gpu_memory is a share of a GPU's memory, in (0, 1]")
        arguments: dict[str, Json] = {
            "model": str(found.folder),
            "dtype": o["dtype"],
            "tensor_parallel_size": int(o["tensor_parallel"]),
            "pipeline_parallel_size": int(o["pipeline_parallel"]),
            "gpu_memory_utilization": float(o["gpu_memory"]),
            "enable_prefix_caching": bool(o["prefix_caching"]),
            "enforce_eager": bool(o["enforce_eager"]),
            "kv_cache_dtype": o["kv_cache_dtype"],
            "load_format": "safetensors" if o["load_format"] == "auto" else o["load_format"],
            "generation_config": "vllm",
            "trust_remote_code": False,
            "seed": 0,
        }
        given = {
            "max_model_len": context,
            "max_num_seqs": int(o["max_num_seqs"]),
            "max_num_batched_tokens": int(o["max_batched_tokens"]),
            "quantization": o["quantization"],
        }
        arguments |= {name: value for name, value in given.items() if value}
        if found.adapter is not None:
            room = next((rank for rank in RANKS if rank >= found.rank), RANKS[-1])
            arguments |= {"enable_lora": True, "max_lora_rank": room}
        arguments |= _further(o["engine_args"])
        environment = {"VLLM_USE_FLASHINFER_SAMPLER": str(int(bool(o["flashinfer_sampler"])))}
        fit = not int(o["max_model_len"])
        return cls(found, arguments, environment, _size(arguments), fit)

    @property
    def lora(self) -> Any:
        """The adapter as requests name it (None without one)."""
        if self.found.adapter is None:
            return None
        from vllm.lora.request import LoRARequest

        return LoRARequest(self.found.adapter.resolve().name, 1, str(self.found.adapter))

    def shown(self) -> dict[str, Json]:
        """The arguments for a manifest."""
        return {name: value for name, value in self.arguments.items() if name != "model"}


def set_environment(start: Start) -> None:
    """Set vLLM's variables; it reads those of its log when any part of it is imported first."""
    for name, value in {**QUIET, **start.environment}.items():
        os.environ.setdefault(name, value)


def prepare(start: Start, needed: int = 0) -> Mapping[str, Json]:
    """Set the environment, look at the GPUs, and give the arguments with the share of memory that
    is free and a context that fits it.

    ``needed`` are the tokens of the longest prompt with its reply. Raises HarnessError, in one
    line, for what is missing.
    """
    set_environment(start)
    from vllm.platforms import current_platform

    if current_platform.is_cpu():
        # There the share is one of the machine's memory, and it must be free at the start.
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", CPU_CACHE)
        share = min(float(start.arguments["gpu_memory_utilization"]), vllm_device.free_memory())
        return {**start.arguments, "gpu_memory_utilization": round(share, 3)}
    import torch

    found = vllm_device.gpus()
    # Ray may bring GPUs of other machines; without it all must be here.
    several = start.arguments.get("distributed_executor_backend") == "ray"
    trouble = vllm_device.what_is_missing(found, 1 if several else start.gpus, torch.version.cuda)
    share = float(start.arguments["gpu_memory_utilization"])
    changed: dict[str, Json] = {}
    if not trouble:
        used, each = found[: start.gpus], start.found.weight_bytes // start.gpus
        share, trouble = vllm_device.memory_share(used, share, each)
        changed["gpu_memory_utilization"] = round(share, 4)
        if start.shared and "kv_cache_memory_bytes" not in start.arguments:
            # vLLM would take what another engine allocates meanwhile for its own.
            room = int(share * min(gpu.total for gpu in used) - 1.1 * each) - WORKING
            if room > 0:
                changed["kv_cache_memory_bytes"] = room
    if not trouble and start.fit:
        cache = start.found.cache_bytes / start.gpus
        fits = vllm_device.context_that_fits(used, share, each, cache)
        if 0 < fits < needed:
            trouble = (
                f"the longest prompt takes {needed:,} tokens with its reply, and {fits:,} fit into "
                "the memory beside the weights; use more GPUs (tensor_parallel), kv_cache_dtype=fp8"
                " or a smaller --max-tokens"
            )
        if 0 < fits < int(start.arguments.get("max_model_len", 0)):
            changed["max_model_len"] = fits
    if trouble:
        raise HarnessError(f"vLLM cannot start: {trouble}")
    return {**start.arguments, **changed}


def start_engine(start: Start, needed: int = 0) -> Any:
    """vLLM's AsyncLLM. Blocks for as long as loading takes; to be called in a running loop.

    Raises HarnessError with the reason when it does not start.
    """
    try:
        return _start(start, prepare(start, needed))
    except HarnessError as error:
        if MEASURED not in str(error) or start.shared:
            raise
        # Another process took or freed memory meanwhile: once more, without measuring.
        again = replace(start, shared=True)
        return _start(again, prepare(again, needed))


def _start(start: Start, arguments: Mapping[str, Json]) -> Any:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.engine.async_llm import AsyncLLM

    print(f"starting vLLM for {start.found.name}", file=sys.stderr, flush=True)
    words = Words()
    try:
        with words:
            # The limits of batches that vLLM sets for offline use, not for a server.
            return AsyncLLM.from_engine_args(
                AsyncEngineArgs(**arguments, disable_log_stats=True),
                usage_context=UsageContext.LLM_CLASS,
            )
    except (ValueError, TypeError, RuntimeError, OSError, ImportError) as error:
        reason = words.reason() or _reason(error)
        raise HarnessError(f"vLLM cannot start: {reason[:400]}") from error


def _further(value: Json) -> dict[str, Json]:
    """``engine_args``: a JSON object, or its text."""
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else {}
        except ValueError as error:
            raise HarnessError(f"engine_args is not valid JSON: {error}") from None
    if not isinstance(value, Mapping):
        raise HarnessError('engine_args is a JSON object, such as {"max_num_seqs": 64}')
    if value.get("trust_remote_code"):
        raise HarnessError("engine_args: trust_remote_code stays off")
    return dict(value)


def _size(arguments: Mapping[str, Json]) -> int:
    """GPUs of one replica."""
    return int(arguments["tensor_parallel_size"]) * int(arguments["pipeline_parallel_size"])


def _reason(error: Exception) -> str:
    """The first line that says something, down the chain of causes."""
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(cause)
    lines = [line.strip() for each in causes for line in str(each).splitlines() if line.strip()]
    telling = [line for line in lines if not HEADING.search(line)]
    said = (telling or lines or [type(error).__name__])[0]
    return said.partition(" [type=")[0].removeprefix("Value error, ")
