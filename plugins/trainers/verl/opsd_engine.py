"""verl's engine for self-distillation: a second pass without adapters after the teacher's prompt.

A row of a batch holds, besides the student's prompt and reply, the teacher's prompt
(``teacher_prompts``). The teacher is the same model with its adapters off; it reads its own prompt
and the same reply, without a gradient and without a token of its own. The loss is the divergence of
the student from it (`divergence`), averaged over all tokens of the replies.

Registered under a model type of its own; it trains adapters only, since the frozen weights below
them are the teacher.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.utils.device import get_device_id, get_device_name
from verl.utils.metric import AggregationType, Metric
from verl.workers.engine import EngineRegistry

from .adapters import adapters_off
from .alignment import COLUMN, FIGURE, counted, joined, reply_places
from .divergence import forward_kl
from .engines import BlockEngine, CPUEngine

MODEL_TYPE: Final = "harness_opsd"


class DistilEngine(BlockEngine):
    """The language-model engine whose loss is the divergence from the teacher."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.model_config.model_type = "language_model"  # verl knows what to build by it
        if self.use_ulysses_sp:
            raise ValueError("self-distillation cannot share a sequence between GPUs (ulysses)")
        if not self._is_lora:
            raise ValueError("self-distillation needs adapters: lora.rank must be at least 1")

    def forward_step(
        self, micro_batch: TensorDict, loss_function: Any, forward_only: bool
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        """Loss and figures of a micro-batch."""
        temperature = float(tu.get_non_tensor_data(micro_batch, "kl_temperature", 0.0))
        if COLUMN not in micro_batch.keys() or not temperature:  # noqa: SIM118  (no mapping)
            found: tuple[torch.Tensor, dict[str, Any]] = super().forward_step(
                micro_batch, loss_function, forward_only
            )
            return found
        micro_batch = micro_batch.to(get_device_id())
        with self._precision():
            others, teacher = self._teacher(micro_batch)
            places, student = self._logits(micro_batch, micro_batch["prompts"])
        labels = micro_batch["responses"].values()
        figures = forward_kl(student, teacher, places, others, labels, temperature)
        mask = micro_batch["response_mask"].values().to(figures.kl.dtype)
        share = mask * (micro_batch["dp_size"] / micro_batch["batch_num_tokens"])
        if forward_only:
            kept = torch.nested.nested_tensor_from_jagged(
                figures.kl, micro_batch["responses"].offsets()
            )
            return figures.kl.sum(), {"model_output": {FIGURE: kept}, "loss": 0.0, "metrics": {}}
        clip = float(tu.get_non_tensor_data(micro_batch, "kl_clip", 0.0))
        loss = ((figures.kl.clamp(max=clip) if clip else figures.kl) * share).sum()
        told = {
            FIGURE: figures.kl,
            "entropy": figures.entropy,
            "teacher_entropy": figures.teacher_entropy,
        }
        if clip:
            told["kl_clipped"] = (figures.kl > clip).to(figures.kl.dtype)
        if micro_batch["temperature"] == temperature:
            said = micro_batch["rollout_log_probs"].values()
            told["rollout_gap"] = (figures.logprob - said).abs()
        metrics = {
            name: Metric(AggregationType.SUM, (value.detach() * share).sum())
            for name, value in told.items()
        }
        return loss, {"model_output": {}, "loss": loss.detach().item(), "metrics": metrics}

    @torch.no_grad()
    def _teacher(self, micro_batch: TensorDict) -> tuple[torch.Tensor, torch.Tensor]:
        """The rows of the replies, and the teacher's logits."""
        batch = micro_batch.clone(recurse=False)
        prompts = batch[COLUMN]
        batch["input_ids"] = joined(prompts, batch["responses"])
        batch["position_ids"] = counted(batch["input_ids"])
        trained = self.module.training
        self.module.eval()
        try:
            with adapters_off(self.module):
                return self._logits(batch, prompts)
        finally:
            self.module.train(trained)

    def _logits(
        self, batch: TensorDict, prompts: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The rows of the replies, (tokens,), and logits, (rows, vocabulary): those of the prompts
        are not computed."""
        packed = bool(tu.get_non_tensor_data(batch, "use_remove_padding", True))
        lengths = prompts.offsets().diff().tolist(), batch["responses"].offsets().diff().tolist()
        places = reply_places(*lengths, packed=packed)
        inputs, _ = self.prepare_model_inputs(micro_batch=batch)
        device = inputs["input_ids"].device
        output = self.module(**inputs, use_cache=False, logits_to_keep=places.keep.to(device))
        return places.rows.to(device), output.logits.flatten(0, 1)

    def _precision(self) -> AbstractContextManager[Any]:
        if self._autocast_dtype == torch.float32:
            return nullcontext()
        return torch.autocast(device_type=get_device_name(), dtype=self._autocast_dtype)


class CPUDistilEngine(DistilEngine, CPUEngine):
    """The same on a processor."""


_register = EngineRegistry.register
_register(model_type=MODEL_TYPE, backend=["fsdp2"], device="cpu")(CPUDistilEngine)
_register(model_type=MODEL_TYPE, backend=["fsdp2"], device="cuda")(DistilEngine)
