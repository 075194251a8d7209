"""verl's synchronous trainer with what a job of the harness adds.

* The queue of rollouts is looked at every 20 ms: verl's 2 s would be most of a short step.
* Validation is scored by rules and appended to ``val.jsonl``.
* Figures of the reward come from the rewards themselves: parts, groups without variance, outcomes.
* Each saved step is sealed (`harness.training.checkpoints`), old ones leave.
* A step makes as many updates as its options say, however many turns its games took.
* A step of which too many prompts failed ends the job: training on what is left would hide it.

The trainer's workers are replaced by ones that connect over gloo on a processor, and by ones with
an engine of our own where verl's fused kernel cannot be used (`engines`).
"""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import numpy as np
import ray
import torch
import transfer_queue as tq
from omegaconf import open_dict
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils import tensordict_utils as tu
from verl.utils.metric import reduce_metrics
from verl.utils.py_functional import rename_dict
from verl.utils.tensordict_utils import list_of_dict_to_tensordict
from verl.workers.engine_workers import ActorRolloutRefWorker

from harness.training.checkpoints import keep_last, seal, step_folder
from harness.training.validation import Verdict, append, summary
from harness.types import HarnessError, Score

from .payment import HALTED, JudgeTotals, figures, halted
from .rollouts import group_number, row
from .sessions import Call
from .turns import EPISODES, episodes, prompt_of, shares

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
        self.judge = JudgeTotals()
        (self.out / HALTED).unlink(missing_ok=True)
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
        more: dict[str, list[float]] = {}
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
            for name, values in self.measured(found).items():
                more.setdefault(name, []).extend(values)
            tq.kv_clear(keys=found.keys, partition_id="val")
        means = {name: fmean(values) for name, values in more.items()}
        line = summary(self.global_steps, verdicts) | means
        append(self.out, {**line, **self.observed()})
        return {f"val/{name}": line[name] for name in ("score", "parsed", *means)}

    def measured(self, batch: Any) -> dict[str, list[float]]:
        """Further figures of each validation item, where a method measures any."""
        return {}

    def observed(self) -> dict[str, Any]:
        """Further figures of a validation's line, where a method has any."""
        return {}

    # Batches

    def _balance_batch(
        self, batch: Any, metrics: Any, logging_prefix: str = "global_seqlen",
        keep_minibatch: bool = False,
    ) -> Any:  # fmt: skip
        if reason := halted(self.out):
            raise HarnessError(reason)
        prompts = {prompt_of(key) for key in batch.keys}
        wanted = self.config.data.train_batch_size
        metrics["reward/failed_prompts"] = 1 - len(prompts) / wanted
        if wanted - len(prompts) > FAILED * wanted:
            raise RuntimeError(f"{wanted - len(prompts)} of {wanted} prompts of a step failed")
        known = self.actor_rollout_wg._dispatch_info
        mapping = known.get("actor") or self.actor_rollout_wg._query_dispatch_info("actor")
        multiple = self._get_required_batch_multiple(max(mapping) + 1)
        self._mute(batch)
        batch = self._fill(batch, -len(batch) % multiple)
        return super()._balance_batch(batch, metrics, logging_prefix, keep_minibatch)

    @property
    def _updates(self) -> int:
        """Updates of a step."""
        wanted = self.config.data.train_batch_size
        return int(wanted // self.config.actor_rollout_ref.actor.ppo_mini_batch_size)

    def _get_required_batch_multiple(self, dp_size: int) -> int:
        """Rows of a step are a multiple of this: they are shared by processes, updates, and rows
        that are computed together. verl's is prompts x rollouts of an update, so games of three
        turns would make three updates of a step, the last one of what is left over."""
        actor = self.config.actor_rollout_ref.actor
        together = 1 if actor.use_dynamic_bsz else int(actor.ppo_micro_batch_size_per_gpu)
        return dp_size * self._updates * together

    def _mute(self, batch: Any) -> None:
        """Give rollouts in which the model was never asked (the opponent had won before, or the
        first prompt was too long) a row without a loss: they count in their group's mean."""
        told = zip(batch.keys, batch.tags, strict=True)
        silent = {key: tag["score"] for key, tag in told if not tag["turns"]}
        if silent:
            rows = [self._empty(v, group_number(prompt_of(key))) for key, v in silent.items()]
            fields = list_of_dict_to_tensordict(rows)
            tq.kv_batch_put(keys=list(silent), partition_id=batch.partition_id, fields=fields)

    def _empty(self, value: float, group: int) -> dict[str, torch.Tensor]:
        """A row without a loss."""
        end = int(self.tokenizer.eos_token_id)
        call = Call((end,), (end,), (0.0,), self.global_steps)
        none = torch.zeros(1, dtype=torch.int64)
        plain = {**row(call, value, group, 0), **self.blank()}
        return {**plain, "response_mask": none, "loss_mask": none}

    def _fill(self, batch: Any, count: int) -> Any:
        """Add rows without a loss up to a multiple that the update can divide. verl would add some
        with columns of text among ours of numbers."""
        if not count:
            return batch
        name = f"pad{uuid.uuid4().hex}"
        keys = [f"{name}_{number}_0" for number in range(count)]
        told = {**batch.tags[0], "is_padding": True, "prompt_len": 1, "response_len": 1,
                "seq_len": 2}  # fmt: skip
        tags = [dict(told) for _ in keys]
        fields = list_of_dict_to_tensordict([self._empty(0.0, -1) for _ in keys])
        tq.kv_batch_put(keys=keys, partition_id=batch.partition_id, fields=fields, tags=tags)
        return KVBatchMeta(
            keys=[*batch.keys, *keys],
            tags=[*batch.tags, *tags],
            partition_id=batch.partition_id,
            fields=batch.fields,
            extra_info=batch.extra_info,
        )

    def blank(self) -> dict[str, torch.Tensor]:
        """Further columns of such a row, where a method needs any."""
        return {}

    # Updates

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        batch = super()._compute_advantage(batch, metrics)
        if self.config.actor_rollout_ref.actor.loss_agg_mode == EPISODES:
            parts = shares(batch.keys, [tag["response_len"] for tag in batch.tags])
            where = {"keys": batch.keys, "partition_id": batch.partition_id}
            found = tq.kv_batch_get(**where, select_fields=["advantages"])
            rows = zip(found["advantages"].unbind(), parts, strict=True)
            scaled = [gain * part for gain, part in rows]
            kept = torch.nested.as_nested_tensor(scaled, layout=torch.jagged)
            tq.kv_batch_put(**where, fields=TensorDict({"advantages": kept}, len(scaled)))
        return batch

    def _update_actor(self, batch: Any, metrics: dict[str, Any]) -> Any:
        """Updates of equally many rows; means over sequences are taken over the rollouts."""
        actor, sampling = self.config.actor_rollout_ref.actor, self.config.actor_rollout_ref.rollout
        batch.extra_info.update(
            mini_batch_size=len(batch) // self._updates,
            global_batch_size=int(actor.ppo_mini_batch_size * sampling.n),
            epochs=actor.ppo_epochs,
            seed=actor.data_loader_seed,
            dataloader_kwargs={"shuffle": actor.shuffle},
            temperature=sampling.temperature,
            calculate_entropy=bool(actor.calculate_entropy or actor.entropy_coeff),
            distillation_use_topk=False,
            distillation_only=False,
        )
        found = rename_dict(self.actor_rollout_wg.update_actor(batch)["metrics"], "actor/")
        metrics["perf/mfu/actor"] = found.pop("actor/mfu")
        metrics.update(reduce_metrics(found))
        return batch

    def _compute_metrics(
        self, batch: Any, metrics: dict[str, Any], timing_raw: Any, **named: Any
    ) -> None:
        super()._compute_metrics(batch, metrics, timing_raw, **named)
        told = [p for p in zip(batch.keys, batch.tags, strict=True) if not p[1].get("is_padding")]
        metrics.update(figures(episodes(told)))
        metrics.update(self.judge.step(tag for _, tag in told))
        now = time.perf_counter()
        metrics["timing_s/whole"] = now - self.ended
        self.ended = now

    def _save_checkpoint(self) -> None:
        super()._save_checkpoint()
        seal(step_folder(self.out, self.global_steps))
        keep_last(self.out, int(self.job["options"]["keep"]))
