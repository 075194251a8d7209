"""Rollouts for a probe loss: each row carries the labels of its sample's concepts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ray
import torch

from harness.types import Sample

from .probe_settings import Probe
from .rollouts import Manager as PlainManager
from .rollouts import Worker as PlainWorker
from .sessions import Call


class Worker(PlainWorker):
    """Plays prompts and adds the labels."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.probe = Probe.read(Path(self.config.actor_rollout_ref.probe))

    def columns(self, sample: Sample, call: Call) -> dict[str, torch.Tensor]:
        """The classes, -1 where a concept does not apply."""
        return {self.probe.COLUMN: torch.tensor(self.probe.labels(self.task, sample))}


class Manager(PlainManager):
    """verl's manager with these workers."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.agent_loop_workers_class = ray.remote(Worker)
