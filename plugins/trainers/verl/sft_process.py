"""One process of supervised fine-tuning: verl's SFT trainer with three things of our own.

    torchrun -m harness_plugins.trainers.verl.sft_process JOB_FOLDER/process.json

* the order of the data follows the job's seed and curriculum;
* a checkpoint at the end of an epoch resumes with the next epoch: verl would take up the exhausted
  data loader and lose one;
* validation by greedy replies before the first step, every so many steps, and at the end.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import torch
import verl.trainer.sft_trainer as base
from verl.utils import tensordict_utils as tu
from verl.utils.checkpoint import CheckpointHandler

from harness.plan import RunSettings
from harness.registry import Registry
from harness.training.checkpoints import keep_last, seal, step_folder, with_adapters
from harness.training.checkpoints import write_checkpoint as write
from harness.training.validation import append, validate

from .compose import compose
from .launch import die_with_parent, hold


class Handler(CheckpointHandler):  # type: ignore[misc]  # verl is untyped
    """Seals each step, removes old ones, and starts an epoch afresh where one had ended."""

    steps_per_epoch = 0
    keep = 0

    def _load_dataloader_state(self, checkpoint_path: str) -> None:
        if self.resume_global_step % self.steps_per_epoch:
            super()._load_dataloader_state(checkpoint_path)

    def save_checkpoint(self, step: int) -> None:
        super().save_checkpoint(step)
        if self.rank == 0:
            seal(step_folder(Path(self.default_local_dir), step))
            keep_last(Path(self.default_local_dir), self.keep)
        torch.distributed.barrier()


class Trainer(base.SFTTrainer):  # type: ignore[misc]  # verl is untyped
    """verl's trainer for one job."""

    def __init__(self, config: Any, job: dict[str, Any]) -> None:
        self.job = job
        self.step = 0
        super().__init__(config)

    def _build_dataloader(self) -> None:
        super()._build_dataloader()
        self.train_sampler.shuffle = self.job["options"]["data.order"] == "flat"
        self.train_sampler.seed = int(self.job["options"]["seed"])

    def _build_ckpt_handler(self) -> None:
        super()._build_ckpt_handler()
        self.ckpt_handler.__class__ = Handler
        self.ckpt_handler.steps_per_epoch = self.steps_per_epoch
        self.ckpt_handler.keep = int(self.job["options"]["keep"])

    def fit(self) -> None:
        """Train; each batch is timed, and followed by validation where it is due."""
        self.step = self.resume_global_step
        train_batch = self.training_client.train_batch

        def timed(data: Any) -> Any:
            began = time.perf_counter()
            output = train_batch(data=data)
            if output is not None:
                metrics = tu.get(output, "metrics")
                metrics["timing_s/step"] = time.perf_counter() - began
            self.step += 1
            every = int(self.job["options"]["eval_every"])
            if self.step == self.total_training_steps or (every and self.step % every == 0):
                self._validate()
            return output

        self.training_client.train_batch = timed
        if self.step == 0:
            self._validate()
        super().fit()

    def _validate(self) -> None:
        """Rank 0 writes the weights as they are, and evaluates them as `harness run` would."""
        if not self.job["validation"]:
            return
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        state = get_model_state_dict(self.engine.module, options=options)
        more = self.observed()
        if self.rank == 0:
            self._evaluate(state, more)
        torch.distributed.barrier()

    def observed(self) -> dict[str, Any]:
        """Further figures of a validation's line, where there are any; all ranks ask."""
        return {}

    def _evaluate(self, state: dict[str, Any], more: dict[str, Any]) -> None:
        out = Path(self.job["out"])
        folder = out / "validation" / "checkpoint"
        meta = {
            "r": self.job["options"]["lora.rank"],
            "lora_alpha": self.job["options"]["lora.alpha"],
        }
        if meta["r"]:
            state = with_adapters(state, meta)
        write(state, Path(self.job["base"]), folder)
        try:
            settings = RunSettings(
                (self.job["task"],),
                (f"transformers:{folder}",),
                split="validation",
                limit=self.job["validation"],
                options=self.job["task_options"],
                decoding={"temperature": 0.0, "max_tokens": self.job["options"]["max_reply"]},
                model_options={"device": self.job["device"]},
            )
            registry = Registry.load(self.job["registry_file"] and Path(self.job["registry_file"]))
            line = validate(settings, registry, out / "validation", self.step)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        append(out, {**line, **more})


def main(path: str, trainer: type[Trainer] = Trainer) -> None:
    """Run the process that the environment (``RANK``, ``WORLD_SIZE``) makes of this job."""
    die_with_parent()
    job = json.loads(Path(path).read_text())
    lock = hold(Path(job["out"])) if os.environ["RANK"] == "0" else -1
    torch.manual_seed(int(job["options"]["seed"]))
    config = compose("sft_trainer_engine", job["overrides"])
    if job["device"] == "cpu":
        from . import engines

        engines.join_processes()
    else:
        from verl.utils.distributed import initialize_global_process_group

        if not job["fused"]:
            from . import engines

        initialize_global_process_group()
    trainer(config, job).fit()
    torch.distributed.destroy_process_group()
    if lock >= 0:
        os.close(lock)


if __name__ == "__main__":
    main(sys.argv[1])
