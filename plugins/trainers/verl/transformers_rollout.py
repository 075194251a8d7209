"""A rollout engine over transformers for verl, for machines without a GPU.

verl knows vLLM, SGLang and TensorRT-LLM, which all need one. This engine is a Ray actor with a copy
of the model; requests that wait are answered as one batch, each row with a generator of its own, so
a reply depends on its prompt and seed only up to the rounding of batched arithmetic.

Touched without a public door: verl's table of rollout adapters (``_ROLLOUT_REGISTRY``).
"""

from __future__ import annotations

import asyncio
import os
from typing import Any, Final, NamedTuple

import ray
import torch
from verl.workers.rollout.base import _ROLLOUT_REGISTRY, BaseRollout
from verl.workers.rollout.replica import (
    RolloutMode,
    RolloutReplica,
    RolloutReplicaRegistry,
    TokenOutput,
)

NAME: Final = "harness_transformers"
ROWS: Final = 64
"""Rows of a batch, at most."""


class Asked(NamedTuple):
    """A request that waits."""

    prompt: list[int]
    sampling: dict[str, Any]
    answer: asyncio.Future[tuple[list[int], list[float]]]


class Server:
    """The actor that holds the model."""

    def __init__(self, config: Any, model_config: Any, replica: int) -> None:
        from transformers import AutoModelForCausalLM
        from verl.utils.config import omega_conf_to_dataclass

        self.config = omega_conf_to_dataclass(config)
        described = omega_conf_to_dataclass(model_config)
        self.pad = described.tokenizer.pad_token_id or 0
        self.model = AutoModelForCausalLM.from_pretrained(
            described.local_path, dtype=torch.float32, use_safetensors=True, local_files_only=True
        ).eval()
        torch.set_num_threads(1)
        from .rollouts import end_tokens

        self.ends = end_tokens(described.tokenizer, described)
        self.version = 0
        self.waiting: list[Asked] = []
        self.running: asyncio.Task[None] | None = None
        self.lock = asyncio.Lock()

    async def ready(self) -> bool:
        """Whether the model is loaded."""
        return True

    async def load_weights(self, named: list[tuple[str, torch.Tensor]], step: int | None) -> None:
        """Take over the trainer's weights."""
        async with self.lock:
            own = self.model.state_dict()
            with torch.no_grad():
                for name, weight in named:
                    own[name].copy_(weight)
            self.version = int(step or 0)

    async def generate(
        self, prompt_ids: Any, sampling_params: Any, request_id: str, **_: Any
    ) -> TokenOutput:
        """One reply."""
        loop = asyncio.get_running_loop()
        asked = Asked(list(prompt_ids), dict(sampling_params), loop.create_future())
        self.waiting.append(asked)
        if self.running is None or self.running.done():
            self.running = asyncio.create_task(self._serve())
        ids, logprobs = await asked.answer
        return TokenOutput(
            token_ids=ids,
            log_probs=logprobs,
            stop_reason="completed",
            num_preempted=0,
            extra_fields={"global_steps": self.version},
        )

    async def _serve(self) -> None:
        await asyncio.sleep(0.02)  # let the requests of a step gather
        while self.waiting:
            batch, self.waiting = self.waiting[:ROWS], self.waiting[ROWS:]
            async with self.lock:
                try:
                    replies = await asyncio.to_thread(self._answer, batch)
                except Exception as error:  # the requests must not wait for ever
                    for asked in batch:
                        asked.answer.set_exception(error)
                    continue
            for asked, reply in zip(batch, replies, strict=True):
                asked.answer.set_result(reply)

    @torch.inference_mode()
    def _answer(self, batch: list[Asked]) -> list[tuple[list[int], list[float]]]:
        width = max(len(a.prompt) for a in batch)
        ids = torch.full((len(batch), width), self.pad)
        mask = torch.zeros_like(ids)
        for place, asked in enumerate(batch):
            ids[place, width - len(asked.prompt) :] = torch.tensor(asked.prompt)
            mask[place, width - len(asked.prompt) :] = 1
        streams = [torch.Generator().manual_seed(_seed(a, self.version)) for a in batch]
        limits = [int(a.sampling.get("max_tokens") or self.config.response_length) for a in batch]
        made: list[tuple[list[int], list[float]]] = [([], []) for _ in batch]
        done = [False] * len(batch)
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        cache, feed = None, ids
        while not all(done):
            out = self.model(input_ids=feed, attention_mask=mask, position_ids=positions,
                             past_key_values=cache, use_cache=True, logits_to_keep=1)  # fmt: skip
            cache = out.past_key_values
            logits = out.logits[:, -1].float()
            feed = torch.full((len(batch), 1), self.pad)
            for place, asked in enumerate(batch):
                if done[place]:
                    continue
                token, logprob = choose(logits[place], asked.sampling, streams[place])
                made[place][0].append(token)
                made[place][1].append(logprob)
                feed[place, 0] = token
                done[place] = token in self.ends or len(made[place][0]) >= limits[place]
            mask = torch.cat([mask, mask.new_ones(len(batch), 1)], dim=-1)
            positions = positions[:, -1:] + 1
        return made

    async def wake_up(self, tags: Any = None) -> None:
        """Nothing sleeps."""

    async def sleep(self) -> None:
        """Nothing to free."""

    async def clear_kv_cache(self) -> None:
        """No cache outlives a batch."""

    async def release_kv_cache(self) -> None:
        """No cache outlives a batch."""

    async def resume_kv_cache(self) -> None:
        """No cache outlives a batch."""

    async def abort_all_requests(self, reject_request: bool = False) -> None:
        """Batches are short: they end by themselves."""

    async def resume_generation(self) -> None:
        """Nothing was stopped."""

    async def start_profile(self, **_: Any) -> None:
        """No profiler."""

    async def stop_profile(self) -> None:
        """No profiler."""


def choose(
    logits: torch.Tensor, sampling: dict[str, Any], stream: torch.Generator
) -> tuple[int, float]:
    """A token and its log-probability at the sampling temperature, before top-k and top-p: that is
    what the trainer computes for the same token. Greedy at temperature 0."""
    temperature = float(sampling.get("temperature", 1.0))
    logprobs = torch.log_softmax(logits / (temperature or 1.0), -1)
    if not temperature:
        token = int(logits.argmax())
        return token, float(logprobs[token])
    kept = logprobs.clone()
    top_k, top_p = int(sampling.get("top_k", -1)), float(sampling.get("top_p", 1.0))
    if 0 < top_k < len(kept):
        kept[kept < kept.topk(top_k).values[-1]] = -torch.inf
    if top_p < 1:
        order = kept.argsort(descending=True, stable=True)
        before = kept[order].softmax(-1).cumsum(-1) - kept[order].softmax(-1)
        kept[order[before >= top_p]] = -torch.inf
    token = int(torch.multinomial(kept.softmax(-1), 1, generator=stream))
    return token, float(logprobs[token])


class Replica(RolloutReplica):  # type: ignore[misc]  # verl is untyped
    """Starts the actor beside a trainer process."""

    async def init_colocated(self, resource_pool: Any) -> None:
        """For models that only score or teach."""
        self.rollout_mode, self.resource_pool = RolloutMode.COLOCATED, resource_pool
        await self.launch_servers()

    async def launch_servers(self) -> None:
        """One actor a replica."""
        name = server_name(self.replica_rank)
        if self.is_reward_model or self.is_teacher_model:
            name += f"_{'reward' if self.is_reward_model else 'teacher'}{self.name_suffix}"
        actor = ray.remote(Server).options(name=name, num_cpus=0, max_concurrency=256)
        server = actor.remote(self.config, self.model_config, self.replica_rank)
        await server.ready.remote()
        self.servers = [server]
        self._server_handle, self._server_address = server, f"actor://{name}"


class Adapter(BaseRollout):  # type: ignore[misc]  # verl is untyped
    """Lives in the trainer's process and sends its weights to the actor."""

    def __init__(
        self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1
    ) -> None:
        super().__init__(config, model_config, device_mesh)
        self.replica_rank = int(os.environ["RANK"]) if replica_rank == -1 else replica_rank

    async def resume(self, tags: Any) -> None:
        """Nothing was freed."""

    async def release(self) -> None:
        """Nothing to free."""

    async def update_weights(
        self, weights: Any, wire_format: str = "named_tensors", global_steps: int | None = None,
        **_: Any,
    ) -> None:  # fmt: skip
        """Send all weights, as float32 copies."""
        if wire_format != "named_tensors":
            raise NotImplementedError(f"weights in the form {wire_format!r}")
        named = [(n, w.detach().to("cpu", torch.float32).clone()) for n, w in weights]
        server = ray.get_actor(server_name(self.replica_rank))
        await server.load_weights.remote(named, global_steps)


def server_name(replica: int) -> str:
    """The actor's name in Ray."""
    return f"{NAME}_{replica}"


def _seed(asked: Asked, version: int) -> int:
    seed = asked.sampling.get("seed")
    if seed is None:  # unseeded requests still differ from prompt to prompt and step to step
        from harness.seeds import derive

        seed = derive(version, *asked.prompt, id(asked))
    return int(seed) % (1 << 63)


_ROLLOUT_REGISTRY[(NAME, "async")] = f"{__name__}.Adapter"
RolloutReplicaRegistry.register(NAME, lambda: Replica)
