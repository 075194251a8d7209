"""verl's synchronous trainer with what a job of the harness adds.

* The queue of rollouts is looked at every 20 ms: verl's 2 s would be most of a short step.
* Validation is scored by rules and appended to ``val.jsonl``.
* Figures of the reward come from the rewards themselves: parts, groups without variance, outcomes.
* Each saved step is sealed (`harness.training.checkpoints`), old ones leave.
* A step of which too many prompts failed ends the job: training on what is left would hide it.

The trainer's workers are replaced by ones that connect over gloo on a processor, and by ones with
an engine of our own where verl's fused kernel cannot be used (`engines`).
"""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path
from typing import Any, Final

import numpy as np
import ray
import torch
import transfer_queue as tq
from omegaconf import open_dict
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils import tensordict_utils as tu
from verl.utils.tensordict_utils import list_of_dict_to_tensordict
from verl.workers.engine_workers import ActorRolloutRefWorker

from harness.training.checkpoints import keep_last, seal, step_folder
from harness.training.validation import Verdict, append, summary
from harness.types import Score

from .payment import figures
from .rollouts import row
from .sessions import Call

POLL: Final = 0.02
FAILED: Final = 0.1
"""Share of a step's prompts that may fail."""


class BlockWorker(ActorRolloutRefWorker):  # type: ignore[misc]  # verl is untyped
    """A worker whose engine computes log-probabilities in blocks."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        from . import engines  # noqa: F401  (they register themselves)

        super().__init__(*arguments, **named)


class CPUWorker(ActorRolloutRefWorker):  # type: ignore[misc]  # verl is untyped
    """A worker without an accelerator."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        from . import engines, transformers_rollout  # noqa: F401  (they register themselves)

        super().__init__(*arguments, **named)
        engines.join_processes()
        torch.set_num_threads(1)


class Policy(PPOTrainerSync):  # type: ignore[misc]  # verl is untyped
    """The trainer of one GRPO job."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.job = json.loads(Path(config.harness.job).read_text())
        self.out = Path(self.job["out"])
        self.replay_buffer.poll_interval = POLL
        self.ended = time.perf_counter()

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        kind = CPUWorker if self.job["device"] == "cpu" else BlockWorker
        if kind is BlockWorker and self.job["fused"]:
            return
        for role in list(self.role_worker_mapping):
            self.role_worker_mapping[role] = ray.remote(kind)

    def fit(self, agent_loop_manager: Any) -> None:
        """Train; a resumed job was validated before its first step already."""
        with open_dict(self.config):
            first = self.global_steps == 0 and self.job["validation"] > 0
            self.config.trainer.val_before_train = first
            if not self.job["validation"]:
                self.config.trainer.test_freq = -1
        self.ended = time.perf_counter()
        super().fit(agent_loop_manager)

    # Validation

    def _validate(self) -> dict[str, float]:
        verdicts: list[Verdict] = []
        for rows in self.val_dataloader:
            count = len(rows["raw_prompt"])
            rows["uid"] = np.array([str(uuid.uuid4()) for _ in range(count)], dtype=object)
            batch = tu.get_tensordict(rows)
            tu.assign_non_tensor_data(batch, "global_steps", self.global_steps)
            tu.assign_non_tensor_data(batch, "validate", True)
            pending = {"is_prompt": True, "status": "pending", "global_steps": self.global_steps}
            tq.kv_batch_put(
                keys=list(batch["uid"]), partition_id="val", tags=[dict(pending)] * count
            )
            self.agent_loop_manager.generate_sequences(batch)
            found, _ = self.replay_buffer.sample(
                global_steps=self.global_steps, partition_id="val", batch_size=count
            )
            if len(found.keys) != count:
                raise RuntimeError(f"{count - len(found.keys)} of {count} validation items failed")
            verdicts += [
                Verdict(t["group"], Score(t["score"], t["parts"]), t["cls"]) for t in found.tags
            ]
            tq.kv_clear(keys=found.keys, partition_id="val")
        line = summary(self.global_steps, verdicts)
        append(self.out, line)
        return {"val/score": line["score"], "val/parsed": line["parsed"]}

    # Batches

    def _balance_batch(
        self, batch: Any, metrics: Any, logging_prefix: str = "global_seqlen",
        keep_minibatch: bool = False,
    ) -> Any:  # fmt: skip
        prompts = {key.rsplit("_", 2)[0] for key in batch.keys}
        wanted = self.config.data.train_batch_size
        metrics["reward/failed_prompts"] = 1 - len(prompts) / wanted
        if wanted - len(prompts) > FAILED * wanted:
            raise RuntimeError(f"{wanted - len(prompts)} of {wanted} prompts of a step failed")
        known = self.actor_rollout_wg._dispatch_info
        mapping = known.get("actor") or self.actor_rollout_wg._query_dispatch_info("actor")
        multiple = self._get_required_batch_multiple(max(mapping) + 1)
        self._fill(batch, -len(batch) % multiple)
        return super()._balance_batch(batch, metrics, logging_prefix, keep_minibatch)

    def _fill(self, batch: Any, count: int) -> None:
        """Add rows without a loss up to a multiple that the update can divide. verl would add some
        with columns of text among ours of numbers."""
        if not count:
            return
        end = int(self.tokenizer.eos_token_id)
        call = Call((end,), (end,), (0.0,), self.global_steps)
        name = f"pad{uuid.uuid4().hex}"
        empty = row(call, 0.0, -1, 0)
        empty["response_mask"] = empty["loss_mask"] = torch.zeros(1, dtype=torch.int64)
        keys = [f"{name}_{number}_0" for number in range(count)]
        told = {**batch.tags[0], "is_padding": True, "prompt_len": 1, "response_len": 1,
                "seq_len": 2}  # fmt: skip
        tags = [dict(told) for _ in keys]
        fields = list_of_dict_to_tensordict([dict(empty) for _ in keys])
        tq.kv_batch_put(keys=keys, partition_id=batch.partition_id, fields=fields, tags=tags)
        batch.keys.extend(keys)
        batch.tags.extend(tags)

    def _compute_metrics(
        self, batch: Any, metrics: dict[str, Any], timing_raw: Any, **named: Any
    ) -> None:
        super()._compute_metrics(batch, metrics, timing_raw, **named)
        told = zip(batch.keys, batch.tags, strict=True)
        metrics.update(
            figures((k.rsplit("_", 2)[0], t) for k, t in told if not t.get("is_padding"))
        )
        now = time.perf_counter()
        metrics["timing_s/whole"] = now - self.ended
        self.ended = now

    def _save_checkpoint(self) -> None:
        super()._save_checkpoint()
        seal(step_folder(self.out, self.global_steps))
        keep_last(self.out, int(self.job["options"]["keep"]))
