"""The transformers back end: any causal checkpoint of Hugging Face's format, on CPU or GPU.

    model = TransformersModel(locate("runs/sft@200"), {"dtype": "float32"})
    reply, = model.generate_batch([Request((Message("user", "2 + 2?"),), Decoding(), seed=1)])

The core sorts requests by length and hands over batches bounded by rows and tokens; prompts become
tokens in `harness.rendering`, replies are made by `generation.Generator`. Weights are read from
safetensors only, and no code of a checkpoint is run.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import torch

from harness import hookimpl
from harness.model import Estimate, Model
from harness.rendering import format_name, render, stop_texts, template_hash, template_options
from harness.types import Decoding, HarnessError, Json, Message, Reply, Request

from .adapter import read_adapter
from .attention import use_grouped_attention
from .checkpoint import Found, identity, locate, weights_hash
from .generation import Generator, Row, check_model

DTYPES: Final = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
CPU_BATCH: Final = (32, 32_768)
"""Rows and tokens of a batch on a CPU: more rows than this add no speed there."""

GPU_ROWS: Final = 256
REMEMBERED: Final = 4096
"""Rendered prompts that are kept between counting and generating."""


class TransformersModel(Model):
    """A causal language model in this process."""

    def __init__(
        self, found: Found, options: Mapping[str, Json], name_of_weights: str | None = None
    ) -> None:
        self.found = found
        self.name = found.label
        self.options = {**DEFAULTS, **options}
        self.template = template_options(self.options["chat_template_kwargs"])
        lora = str(self.options["lora"])
        self.adapter = read_adapter(lora, found) if lora else None
        self.model, self.tokenizer = load(found, self.options)
        self.identity = name_of_weights or identity(found)
        if self.adapter is not None:
            self.adapter.add_to(self.model)
            self.name = f"{self.name}+{self.adapter.name}"
            self.identity = f"{self.identity}+{self.adapter.identity}"
        self.generator = Generator(self.model, self.tokenizer, bool(self.options["logprobs"]))
        self.stops = stop_texts(self.tokenizer)
        text = self.model.config.get_text_config()
        self.context_length = getattr(text, "max_position_embeddings", None)
        self.batch_limit, self.batch_tokens = self._bounds()
        self._render = lru_cache(REMEMBERED)(self._render_now)

    # Replies

    @property
    def produced(self) -> int:  # type: ignore[override]  # the core only reads it
        """Tokens generated so far."""
        return self.generator.produced if self.generator is not None else 0

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Tokens of the rendered prompt."""
        return len(self._render(tuple(messages)))

    def generate_batch(self, requests: Sequence[Request]) -> list[Reply]:
        """Answer a batch. Raises HarnessError for a prompt that cannot fit with its reply."""
        rows = [self._row(request) for request in requests]
        self.generator.run(rows)
        return [
            Reply(
                text=row.text,
                finish_reason=row.finish,
                prompt_tokens=len(row.prompt),
                completion_tokens=len(row.ids),
                prompt_ids=tuple(row.prompt),
                ids=tuple(row.ids),
                logprobs=tuple(row.logprobs) if self.options["logprobs"] else None,
            )
            for row in rows
        ]

    def _row(self, request: Request) -> Row:
        prompt = self._render(request.messages)
        room, reply = self.context_length, request.decoding.max_tokens
        if room is not None and len(prompt) + reply > room:
            raise HarnessError(
                f"a prompt of {len(prompt)} tokens with a reply of up to {reply} does not fit the "
                f"{room} tokens of {self.name}; lower --max-tokens"
            )
        stops = tuple(dict.fromkeys((*request.decoding.stop, *self.stops)))
        return Row(prompt, request.decoding, request.seed, stops)

    def _render_now(self, messages: tuple[Message, ...]) -> tuple[int, ...]:
        return tuple(render(self.tokenizer, messages, self.template))

    # Hidden states

    def hidden_states(
        self,
        prompt_ids: Sequence[Sequence[int]],
        spans: Sequence[tuple[int, int]],
        layers: Sequence[int],
        pooling: str | Sequence[str],
    ) -> Any:
        """Pooled outputs of decoder blocks (see `hidden`), float32 (prompts, layers, width), or
        (prompts, poolings, layers, width) where several poolings are named."""
        from .hidden import pooled_states

        bound = min(self.batch_tokens, CPU_BATCH[1])
        return pooled_states(self.model, prompt_ids, spans, layers, pooling, bound)

    @property
    def depth(self) -> int:  # type: ignore[override]  # the core only reads it
        """Decoder blocks."""
        return int(self.model.config.get_text_config().num_hidden_layers)

    def random_weights(self, seed: int) -> None:
        """Start the architecture afresh: a control that has learnt nothing."""
        from .hidden import random_weights

        random_weights(self.model, seed)
        self.identity = f"{self.identity}-random-{seed}"

    def steered(
        self, layer: int, direction: Any, strength: float, ablate: bool = False
    ) -> AbstractContextManager[None]:
        """Within it, a direction is added to, or removed from, the output of a block."""
        from .hidden import steered

        return steered(self.model, layer, direction, strength, ablate)

    # What it is and what it takes

    def describe(self) -> dict[str, Json]:
        """Everything about the checkpoint and how it is run that a reader may ask for."""
        import transformers

        quantised = getattr(self.model.config, "quantization_config", None)
        return {
            "backend": "transformers",
            "folder": str(self.found.folder),
            "adapter": str(self.adapter.folder) if self.adapter else "",
            "architecture": type(self.model).__name__,
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "quantisation": None if quantised is None else str(quantised),
            "device": _device_name(self.model.device),
            "attention": self.model.config._attn_implementation,
            "context_length": self.context_length,
            "format": format_name(self.tokenizer),
            "template_hash": template_hash(self.tokenizer),
            "template_kwargs": self.template,
            "end_tokens": sorted(self.generator.ends),
            "batch_limit": self.batch_limit,
            "batch_tokens": self.batch_tokens,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }

    def estimate(self, prompts: int, prompt_tokens: float, reply_tokens: float) -> Estimate:
        """From a short warm-up: one small prefill, a few steps of a batch of the usual size."""
        each = max(1.0, prompt_tokens + reply_tokens)
        rows = max(1, min(self.batch_limit, prompts, int(self.batch_tokens / each)))
        read, step = self._pace(rows)
        batches = prompts / rows
        seconds = prompts * prompt_tokens * read + batches * reply_tokens * step
        weights = sum(p.numel() * p.element_size() for p in self.model.parameters())
        return Estimate(seconds, int(weights + rows * each * self._cache_bytes()))

    def _pace(self, rows: int) -> tuple[float, float]:
        """Measured seconds to read one prompt token, and for one step of so many rows."""
        self._seconds(2, 32, 1)  # the first calls of a process set up kernels
        start = self._seconds(2, 64, 1)
        short, long = self._seconds(rows, 4, 1), self._seconds(rows, 4, 5)
        return start / 128, max(0.0, long - short) / 4

    def _seconds(self, rows: int, prompt: int, steps: int) -> float:
        vocabulary = self.model.config.get_text_config().vocab_size
        # Prompts differ, or equal ones would be read once.
        batch = [
            Row([(7 + 31 * row + place) % vocabulary for place in range(prompt)],
                Decoding(max_tokens=steps), seed=0)
            for row in range(rows)
        ]  # fmt: skip
        began = time.perf_counter()
        self.generator.run(batch, ignore_end=True)
        return time.perf_counter() - began

    def _cache_bytes(self) -> int:
        """Bytes of keys and values for one token."""
        config = self.model.config.get_text_config()
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        width = getattr(config, "head_dim", None) or (
            config.hidden_size // config.num_attention_heads
        )
        return int(2 * config.num_hidden_layers * heads * width * self.model.dtype.itemsize)

    def _bounds(self) -> tuple[int, int]:
        rows, tokens = CPU_BATCH
        if self.model.device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(self.model.device)
            rows, tokens = GPU_ROWS, max(4096, int(0.6 * free / self._cache_bytes()))
        return int(self.options["batch_limit"]) or rows, int(self.options["batch_tokens"]) or tokens

    def close(self) -> None:
        """Release the weights; a second time there is nothing to release."""
        if self.model is None:
            return
        on_gpu = self.model.device.type == "cuda"
        self.model = self.generator = None  # type: ignore[assignment]  # nothing may use it now
        if on_gpu:
            torch.cuda.empty_cache()


DEFAULTS: Final[Mapping[str, Json]] = {
    "dtype": "auto",
    "device": "auto",
    "attn_implementation": "auto",
    "chat_template_kwargs": {},
    "batch_limit": 0,
    "batch_tokens": 0,
    "lora": "",
    "logprobs": False,
}
"""The options of a registry entry, with their defaults."""


def load(found: Found, options: Mapping[str, Json]) -> tuple[Any, Any]:
    """Model and tokenizer of a checkpoint, on its device.

    Raises HarnessError for options that cannot work and checkpoints that cannot be read.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    device = _device(str(options["device"]))
    dtype = _dtype(str(options["dtype"]), device)
    attention = str(options["attn_implementation"])
    shared = {"local_files_only": True, "trust_remote_code": False}
    if not sys.stderr.isatty():
        logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(found.folder, **shared)
        model = AutoModelForCausalLM.from_pretrained(
            found.folder,
            dtype=dtype,
            use_safetensors=True,
            attn_implementation=None if attention == "auto" else attention,
            **shared,
        )
        model = model.to(device).eval()
    except (OSError, ValueError, ImportError, RuntimeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
        raise HarnessError(f"{found.folder} cannot be loaded: {reason}") from error
    check_model(model)
    if attention == "auto":
        use_grouped_attention(model)
    return model, tokenizer


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.device(name)
    except RuntimeError:
        raise HarnessError(f"device {name!r}: give auto, cpu, cuda or cuda:N") from None


def _dtype(name: str, device: torch.device) -> torch.dtype:
    """The type of the weights. ``auto`` is bfloat16 where the device multiplies it natively (it is
    the faster one there), float32 elsewhere."""
    if name != "auto":
        if name not in DTYPES:
            raise HarnessError(f"dtype {name!r}: give auto, {', '.join(DTYPES)}")
        return DTYPES[name]
    native = torch.cuda.is_bf16_supported() if device.type == "cuda" else _cpu_has_bfloat16()
    return torch.bfloat16 if native else torch.float32


def _cpu_has_bfloat16() -> bool:
    tests = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, test, bool)() for test in tests)


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)


def checkpoint_folder(name: str) -> tuple[Path, str, str]:
    """Where the weights of a name lie, its label, and the hash of the weights: for training."""
    found = locate(name)
    return found.folder, found.label, weights_hash(found.folder)


@hookimpl
def create_model(name: str, options: Mapping[str, Json]) -> TransformersModel:
    """A folder, ``FOLDER@STEP`` or hub id."""
    if name == "transformers":
        raise HarnessError(
            "which checkpoint? --model transformers:FOLDER or transformers:OWNER/NAME[@REVISION]"
        )
    return TransformersModel(locate(name), options)
