"""What a checkpoint takes, from its ``config.json``: memory, and time on a known GPU.

    shape = Shape.of(json.loads(Path("config.json").read_text()))
    evaluation(shape, live_tokens=1024 * 900).total / 2**30          # GiB of one replica
    training(shape, TrainingPlan("grpo", gpus=8)).total / 2**30      # GiB of each GPU

A model on paper, meant for choosing GPUs before they are rented. Parameters are exact for decoders
of the Llama and Qwen2 kind; memory leaves out what libraries keep for themselves beyond `OVERHEAD`.
Time is the larger of what the memory's bandwidth allows (each step reads all weights and the keys
and values of its rows), what the arithmetic allows (2 operations a parameter and token), and what
an engine spends on each row of a step outside of the GPU (`ROW_SECONDS`, measured).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from .types import HarnessError, Json

OVERHEAD: Final = int(1.5 * 2**30)
"""Bytes of a CUDA context, kernels and graphs in each process."""

ROW_SECONDS: Final = 40e-6
"""Seconds of vLLM's engine for each row of a step (one H200 host, docs/performance.md)."""

EFFICIENCY: Final = 0.5
"""Share of a GPU's bandwidth and arithmetic that is reached."""


class Device(NamedTuple):
    """A GPU by its data sheet: bytes of memory, bytes a second, bfloat16 operations a second."""

    memory: float
    bandwidth: float
    operations: float


DEVICES: Final[Mapping[str, Device]] = {
    "B200": Device(180e9, 8.0e12, 2.25e15),
    "H200": Device(141e9, 4.8e12, 0.989e15),
    "H100": Device(80e9, 3.35e12, 0.989e15),
    "A100": Device(80e9, 2.0e12, 0.312e15),
    "L40S": Device(48e9, 0.864e12, 0.362e15),
    "A10": Device(24e9, 0.6e12, 0.125e15),
    "4090": Device(24e9, 1.008e12, 0.165e15),
}
"""By a part of the name that the driver gives; without sparsity."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A decoder's shape. ``cache_bytes``: keys and values of one token, in 16 bits."""

    parameters: int
    layers: int
    hidden: int
    vocabulary: int
    cache_bytes: int

    @classmethod
    def of(cls, config: Mapping[str, Json]) -> Shape:
        """From a configuration (of a model that also sees, its language part).

        Raises HarnessError where it does not name the sizes.
        """
        c = config.get("text_config") or config
        try:
            hidden, inner = int(c["hidden_size"]), int(c["intermediate_size"])
            layers, vocabulary = int(c["num_hidden_layers"]), int(c["vocab_size"])
            heads = int(c["num_attention_heads"])
            width = int(c.get("head_dim") or hidden // heads)
            groups = int(c.get("num_key_value_heads") or heads)
        except (KeyError, TypeError) as error:
            raise HarnessError(f"config.json: {error} is missing; cannot tell its size") from None
        biased = c.get("attention_bias", c.get("model_type") == "qwen2")
        attention = hidden * width * (2 * heads + 2 * groups)
        biases = width * (heads + 2 * groups) if biased else 0
        block = attention + biases + 3 * hidden * inner + 2 * hidden
        tied = c.get("tie_word_embeddings", config.get("tie_word_embeddings", False))
        embeddings = vocabulary * hidden * (1 if tied else 2)
        return cls(
            layers * block + embeddings + hidden, layers, hidden, vocabulary,
            2 * 2 * layers * groups * width,
        )  # fmt: skip


class Memory(NamedTuple):
    """Bytes on each GPU, by what they hold."""

    weights: float
    optimiser: float
    working: float
    cache: float
    overhead: float

    @property
    def total(self) -> float:
        """All together."""
        return sum(self)

    def text(self) -> str:
        """For a line of a plan."""
        named = [
            f"{name} {part / 2**30:.1f}"
            for name, part in zip(self._fields, self, strict=True)
            if part
        ]
        return f"{self.total / 2**30:.1f} GiB ({', '.join(named)})"


def evaluation(
    shape: Shape, live_tokens: float, gpus: int = 1, weight_bytes: float = 0.0
) -> Memory:
    """Memory of each GPU of a replica that is ``gpus`` wide and holds so many tokens at once.

    ``weight_bytes``: of the files, where they are not 16-bit numbers.
    """
    weights = (weight_bytes or 2 * shape.parameters) / gpus
    working = 16_384 * shape.hidden * 2 * 8 / gpus  # a batch of prompts through one block
    return Memory(weights, 0, working, live_tokens * shape.cache_bytes / gpus, OVERHEAD)


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """How a job is trained: ``sft`` or a method with rollouts, on how many GPUs, with what."""

    method: str
    gpus: int
    micro_tokens: int = 16_384
    lora: int = 0
    offload: bool = False
    checkpointing: bool = True
    reference: bool = False
    rollout_memory: float = 0.0
    sleep: bool = True
    device_bytes: float = 80e9


def training(shape: Shape, plan: TrainingPlan) -> Memory:
    """Memory of each GPU at its fullest: during the update, or during the rollouts.

    Weights and Adam's two moments are 32-bit and sharded (FSDP2), as are the gradients; one block
    at a time is gathered in 16 bits. With LoRA the base is frozen: no gradients, no moments. With
    offloading, weights and moments are in the host's memory during rollouts.
    """
    share = shape.parameters / plan.gpus
    frozen = bool(plan.lora)
    weights = 4 * share + (4 * share if plan.reference and not frozen and not plan.offload else 0)
    optimiser = 0 if frozen else 12 * share  # gradients and two moments
    block = shape.parameters / max(1, shape.layers)
    kept = shape.layers if plan.checkpointing else 16 * shape.layers
    activations = 2 * plan.micro_tokens * shape.hidden * (kept + 16)
    logits = 2 * 2 * plan.micro_tokens * shape.vocabulary
    working = activations + logits + 2 * 2 * block
    engine = plan.rollout_memory * plan.device_bytes
    awake = 0.0 if plan.sleep else engine
    update = Memory(weights, optimiser, working, awake, OVERHEAD)
    if not engine:
        return update
    # Between updates the moments stay where they are, unless they are offloaded.
    resting = (0.0, 0.0) if plan.offload else (weights, 0.0 if frozen else 8 * share)
    rollouts = Memory(*resting, 0.0, engine, OVERHEAD)
    return max(update, rollouts, key=lambda memory: memory.total)


def device(name: str) -> Device | None:
    """What is known about a GPU by the name that its driver gives."""
    return next((found for part, found in DEVICES.items() if part in name), None)


def seconds(
    shape: Shape,
    on: Device,
    prompts: float,
    prompt_tokens: float,
    reply_tokens: float,
    live: float,
    gpus: int = 1,
    weight_bytes: float = 0.0,
) -> float:
    """Seconds of a run whose replies all use their limit, ``live`` of them at a time on a replica
    of ``gpus`` GPUs."""
    live = max(1.0, min(live, prompts))
    steps = prompts / live * reply_tokens
    weights = weight_bytes or 2 * shape.parameters
    cache = live * (prompt_tokens + reply_tokens / 2) * shape.cache_bytes
    reading = (weights + cache) / (on.bandwidth * gpus * EFFICIENCY)
    computing = 2 * shape.parameters * live / (on.operations * gpus * EFFICIENCY)
    step = max(reading, computing, live * ROW_SECONDS)
    prefill = 2 * shape.parameters * prompts * prompt_tokens / (on.operations * gpus * EFFICIENCY)
    return steps * step + prefill
