"""verl's trainer for self-distillation: rollouts, and one update towards the teacher.

Nothing is paid for: no old log-probabilities, no advantages. The reward of the rollouts is counted
for information only.
"""

from __future__ import annotations

import time
from statistics import fmean
from typing import Any, Final

import ray
import torch
import transfer_queue as tq
from transfer_queue import KVBatchMeta
from verl.workers.engine_workers import ActorRolloutRefWorker

from .alignment import COLUMN, FIGURE
from .payment import figures
from .policy import CPUWorker, Policy

NO_GROUPS: Final = "reward/zero_variance_groups"
"""A figure of groups, which rollouts one by one do not make."""


class DistilWorker(ActorRolloutRefWorker):  # type: ignore[misc]  # verl is untyped
    """A worker that knows the engine of self-distillation."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        from . import opsd_engine  # noqa: F401  (it registers itself)

        super().__init__(*arguments, **named)


class CPUDistilWorker(CPUWorker):
    """The same without an accelerator."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        from . import opsd_engine  # noqa: F401  (it registers itself)

        super().__init__(*arguments, **named)


class Distil(Policy):
    """The trainer of one job of self-distillation."""

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        kind = CPUDistilWorker if self.job["device"] == "cpu" else DistilWorker
        for role in list(self.role_worker_mapping):
            self.role_worker_mapping[role] = ray.remote(kind)

    def blank(self) -> dict[str, Any]:
        """The teacher's prompt of a row without a loss."""
        return {COLUMN: torch.tensor([int(self.tokenizer.eos_token_id)])}

    def measured(self, batch: Any) -> dict[str, list[float]]:
        """The mean divergence of each greedy reply (of as many as all processes can share)."""
        rows = [k for k, t in zip(batch.keys, batch.tags, strict=True) if t.get("rows")]
        options = self.job["options"]
        processes = int(self.job["processes"]) * int(options["nodes"])
        each = len(rows) // processes
        if not each:
            return {}
        rows = rows[: each * processes]
        most = min(each, int(options["micro_batch"]))
        together = max(n for n in range(1, most + 1) if each % n == 0)
        asked = KVBatchMeta(
            partition_id=batch.partition_id, keys=rows, tags=[{"is_padding": False} for _ in rows]
        )
        asked.extra_info = {
            **self._settings(), "temperature": self.config.actor_rollout_ref.rollout.temperature,
            "use_dynamic_bsz": False, "micro_batch_size_per_gpu": together,
        }  # fmt: skip
        self.actor_rollout_wg.compute_log_prob(asked)
        found = tq.kv_batch_get(keys=rows, partition_id=batch.partition_id, select_fields=[FIGURE])
        return {FIGURE: [float(reply.mean()) for reply in found[FIGURE].unbind()]}

    def _compute_old_log_prob(self, batch: Any, metrics: dict[str, Any]) -> Any:
        return batch

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        return batch

    def _update_actor(self, batch: Any, metrics: dict[str, Any]) -> Any:
        batch.extra_info.update(self._settings())
        return super()._update_actor(batch, metrics)

    def _settings(self) -> dict[str, float]:
        """What the engine must know of the loss."""
        return {name: float(self.job["options"][name]) for name in ("kl_temperature", "kl_clip")}

    def _compute_metrics(
        self, batch: Any, metrics: dict[str, Any], timing_raw: Any, **named: Any
    ) -> None:
        """verl's own figures are of advantages; these come from the rows' tags."""
        told = [(k.rsplit("_", 2)[0], t) for k, t in zip(batch.keys, batch.tags, strict=True)]
        told = [(prompt, tag) for prompt, tag in told if not tag.get("is_padding")]
        longest = self.config.data.max_response_length
        replies = [tag["response_len"] for _, tag in told]
        tokens = sum(tag["seq_len"] for _, tag in told)
        now = time.perf_counter()
        metrics.update(
            {
                "training/global_step": named["global_steps"],
                "training/epoch": named["epoch"],
                "response_length/mean": fmean(replies),
                "response_length/min": min(replies),
                "response_length/max": max(replies),
                "response_length/clip_ratio": fmean(float(n >= longest) for n in replies),
                "prompt_length/mean": fmean(tag["prompt_len"] for _, tag in told),
                "perf/total_num_tokens": tokens,
                "perf/throughput": tokens / timing_raw["step"] / self._get_n_gpus_for_throughput(),
                **{f"timing_s/{name}": seconds for name, seconds in timing_raw.items()},
                "timing_s/whole": now - self.ended,
                **figures(told),
                **self.judge.step(tag for _, tag in told),
            }
        )
        metrics.pop(NO_GROUPS, None)
        self.ended = now
