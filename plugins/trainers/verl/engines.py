"""verl's FSDP2 engine with log-probabilities in blocks, on GPUs and on a processor.

Where neither flash-attn nor verl's fused kernel can be used, verl computes the log-probability of
one token at a time in Python, which is most of a step. Here it is done for blocks of tokens, each
computed again in the backward pass instead of being kept.

On a processor, where verl registers no engine, forward-only models are not offloaded: there is
nowhere to, and pinned memory needs an accelerator.
"""

from __future__ import annotations

from typing import Any, Final

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from verl.utils import tensordict_utils as tu
from verl.workers.engine import EngineRegistry, FSDPEngineWithLMHead

BLOCK: Final = 2048
"""Tokens whose log-probabilities are computed at a time."""

ELSEWHERE: Final = ("use_fused_kernels", "use_remove_padding", "distillation_use_topk",
                    "distillation_only", "calculate_sum_pi_squared")  # fmt: skip
"""Settings of a batch with which verl's own way is taken."""


class BlockEngine(FSDPEngineWithLMHead):  # type: ignore[misc]  # verl is untyped
    """The language-model engine with log-probabilities in blocks."""

    def prepare_model_outputs(
        self, output: Any, output_args: Any, micro_batch: Any, logits_processor_func: Any
    ) -> dict[str, Any]:
        """Log-probabilities (and entropies where asked) of each row's tokens, as jagged tensors."""
        if any(tu.get_non_tensor_data(micro_batch, name, False) for name in ELSEWHERE):
            return dict(
                super().prepare_model_outputs(
                    output, output_args, micro_batch, logits_processor_func
                )
            )
        asked = bool(tu.get_non_tensor_data(micro_batch, "calculate_entropy", False))
        offsets = micro_batch["input_ids"].offsets()
        lengths = offsets.diff()
        width = output.logits.shape[1]
        there = torch.arange(width, device=lengths.device) < lengths.unsqueeze(1)
        heat = output_args["temperature"].unsqueeze(1).expand(-1, width)[there]
        labels = output_args["input_ids_rmpad_rolled"]
        logprobs, entropy = in_blocks(output.logits[there], labels, heat, asked)
        jagged = torch.nested.nested_tensor_from_jagged
        found = {"log_probs": jagged(logprobs, offsets)}
        return {**found, "entropy": jagged(entropy, offsets)} if asked else found

    def get_per_tensor_param(self, *arguments: Any, **named: Any) -> Any:
        """The weights that rollouts are made with: adapters are added into their layers, so that
        every rollout engine takes them, and replies are those of the exported checkpoint."""
        if not self._is_lora:
            return super().get_per_tensor_param(*arguments, **named)
        from verl.utils.device import get_device_id

        from .adapters import merged

        return merged(self.module, get_device_id(), self._autocast_dtype), None


class CPUEngine(BlockEngine):
    """The same without offloading."""

    def _build_fsdp_module(self, module: Any) -> Any:
        config = self.engine_config
        asked = config.forward_only, config.offload_policy
        # The configuration is frozen, and there is no public way to say "no offloading".
        object.__setattr__(config, "forward_only", False)
        object.__setattr__(config, "offload_policy", False)
        try:
            return super()._build_fsdp_module(module)
        finally:
            object.__setattr__(config, "forward_only", asked[0])
            object.__setattr__(config, "offload_policy", asked[1])


def in_blocks(
    logits: torch.Tensor, labels: torch.Tensor, heat: torch.Tensor, entropy: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities of ``labels`` under logits / heat, float32, and the entropies (empty where
    not asked for).

    :param logits: (tokens, vocabulary); :param labels: (tokens,); :param heat: (tokens,).
    """
    pieces = [
        checkpoint(_block, *parts, entropy, use_reentrant=False)
        for parts in zip(logits.split(BLOCK), labels.split(BLOCK), heat.split(BLOCK), strict=True)
    ]
    return torch.cat([p[0] for p in pieces]), torch.cat([p[1] for p in pieces])


def _block(
    logits: torch.Tensor, labels: torch.Tensor, heat: torch.Tensor, entropy: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    logprobs = F.log_softmax(logits.float() / heat.unsqueeze(-1), dim=-1)
    chosen = logprobs.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    spread = -(logprobs.exp() * logprobs).sum(-1) if entropy else chosen.new_empty(0)
    return chosen, spread


def join_processes() -> None:
    """Connect the processes over gloo, before verl would ask for a device's own backend beside it
    (torch refuses the same device twice)."""
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo")


_register = EngineRegistry.register
_register(model_type="language_model", backend=["fsdp2"], device="cpu")(CPUEngine)
_register(model_type="language_model", backend=["fsdp2"], device="cuda", vendor="nvidia")(
    BlockEngine
)
