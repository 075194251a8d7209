"""GRPO with a probe loss: linear heads read the task's concepts from prompt positions.

    harness probe --task gamesolve --model runs/sft --out probes
    harness train --method grpo-probe --task gamesolve --model runs/sft --out runs/probe \\
        --set probe.layers=critical:probes/probes.json

Everything is as in `grpo`; the loss of an update is the policy's + ``probe.coef`` x the weighted
mean of the heads' cross entropies. The gradient of that reaches the blocks up to the probed layer.
The heads are saved beside the model, never in it. SFT takes the same options.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from harness import hookimpl
from harness.trainer import Checkpoint
from harness.training.checkpoints import step_folder
from harness.types import Json

from .grpo import GRPO
from .verl.probe_settings import Probe, description, export
from .verl.settings import Place

if TYPE_CHECKING:
    from harness.training.session import Session


class GRPOProbe(GRPO):
    """GRPO whose workers have heads."""

    name = "grpo-probe"

    def prepare(self, session: Session) -> None:
        super().prepare(session)
        self.probe = Probe.of(session)

    def overrides(self, session: Session, place: Place, options: Mapping[str, Json]) -> list[str]:
        module = "harness_plugins.trainers.verl.probe_rollouts"
        return [
            *super().overrides(session, place, {**options, "verl": []}),
            f"+actor_rollout_ref.probe={description(session.out)}",
            f"++actor_rollout_ref.rollout.agent.agent_loop_manager_class={module}.Manager",
            *map(str, options["verl"]),
        ]

    def command(self, place: Place, description: Path) -> list[str]:
        module = "harness_plugins.trainers.verl.probe_process"
        return [sys.executable, "-m", module, str(description)]

    def write_data(self, session: Session) -> None:
        super().write_data(session)
        self.probe.write(session)

    def _finish(self, session: Session, step: int, seconds: float) -> Checkpoint:
        made = super()._finish(session, step, seconds)
        export(step_folder(session.out, step), session.out)
        return made


@hookimpl
def create_trainer(name: str, options: Mapping[str, Json]) -> GRPOProbe:
    """Make the trainer."""
    return GRPOProbe(options)
