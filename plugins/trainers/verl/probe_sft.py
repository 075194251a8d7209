"""One process of supervised fine-tuning with a probe loss.

torchrun -m harness_plugins.trainers.verl.probe_sft JOB_FOLDER/process.json
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

from verl.utils import tensordict_utils as tu
from verl.workers.config import TrainingWorkerConfig
from verl.workers.utils.losses import sft_loss

from .probe_engine import ProbeTraining, held_out, read_rows, told
from .probe_settings import Probe, description, nested
from .sft_process import Trainer, main


class NamedTraining(ProbeTraining):
    """Tells figures under the names of the concepts."""

    def train_batch(self, data: Any) -> Any:
        output = super().train_batch(data)
        if output is not None:
            metrics = tu.get(output, "metrics")
            figures = told(metrics, self.engine.probe)
            metrics.clear()
            metrics.update(figures)
        return output


class ProbeTrainer(Trainer):
    """verl's SFT trainer with heads beside the model."""

    def _build_engine(self) -> None:
        self.loss_fn = partial(sft_loss, config=None)
        config = TrainingWorkerConfig(
            model_config=self.model_config,
            engine_config=self.engine_config,
            optimizer_config=self.optimizer_config,
            checkpoint_config=self.checkpoint_config,
            profiler_config=self.profiler_config,
        )
        probe = Probe.read(description(Path(self.job["out"])))
        self.training_client = NamedTraining(config, probe)
        self.training_client.set_loss_fn(loss_fn=self.loss_fn)
        self.engine = self.training_client.engine

    def observed(self) -> dict[str, Any]:
        rows = read_rows(description(Path(self.job["out"])))
        option = self.job["options"]
        tokens = max(int(option["pack_tokens"]),
                     int(option["micro_batch"]) * int(option["max_prompt"]))  # fmt: skip
        return nested(held_out(self.training_client, rows, tokens)) if rows else {}


if __name__ == "__main__":
    main(sys.argv[1], ProbeTrainer)
