"""GRPO's trainer with a probe loss: its workers, their figures, and the heads on held-out items.

Figures of a step are ``probe/loss`` and, for each concept, ``probe/CONCEPT/loss``, ``accuracy`` and
``majority`` (the share of the most frequent class among the same rows: what saying it always would
get). Each validation line has the same of the validation prompts, under ``probe``.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import ray
import torch
from verl.single_controller.base.decorator import Dispatch, register

from .policy import BlockWorker, CPUWorker, Policy
from .probe_engine import FIGURE, ProbeTraining, held_out, read_rows, told
from .probe_settings import Probe, nested


class HeadsMixin:
    """A worker whose actor has heads."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        worker: Any = self
        self.described = Path(worker.config.probe)
        probe = Probe.read(self.described)
        self.actor_worker_cls = partial(ProbeTraining, probe=probe)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def probe_held_out(self) -> dict[str, float]:
        """The heads on the validation prompts; {} where there are none."""
        worker: Any = self
        rows = read_rows(self.described)
        if not rows:
            return {}
        actor = worker.config.actor
        tokens = int(actor.ppo_max_token_len_per_gpu)
        if not actor.use_dynamic_bsz:
            longest = max(len(row["ids"]) for row in rows)
            tokens = int(actor.ppo_micro_batch_size_per_gpu) * longest
        return held_out(worker.actor, rows, tokens)


class HeadsWorker(HeadsMixin, BlockWorker):
    """On a GPU."""


class HeadsCPUWorker(HeadsMixin, CPUWorker):
    """On a processor."""


class ProbePolicy(Policy):
    """The trainer of one GRPO job with a probe loss."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.probe = Probe.read(Path(config.actor_rollout_ref.probe))
        self.seen: dict[str, float] = {}

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        kind = HeadsCPUWorker if self.job["device"] == "cpu" else HeadsWorker
        for role in list(self.role_worker_mapping):
            self.role_worker_mapping[role] = ray.remote(kind)

    def blank(self) -> dict[str, torch.Tensor]:
        """A row that teaches the heads nothing."""
        return {Probe.COLUMN: torch.full((len(self.probe.classes),), -1)}

    def _validate(self) -> dict[str, float]:
        self.seen = self.actor_rollout_wg.probe_held_out()[0]
        found: dict[str, float] = super()._validate()
        return found | {f"val/{name}": value for name, value in self.seen.items()}

    def observed(self) -> dict[str, Any]:
        return nested(self.seen)

    def _update_actor(self, batch: Any, metrics: dict[str, Any]) -> Any:
        figures: dict[str, Any] = {}
        batch = super()._update_actor(batch, figures)
        prefix = "actor/"
        named = told(figures, self.probe, prefix)
        metrics.update(
            (n.removeprefix(prefix) if n.startswith(prefix + FIGURE) else n, v)
            for n, v in named.items()
        )
        return batch
