"""Trainers: they turn a checkpoint and a task into another checkpoint.

class Copying(Trainer):
    name = "copy"

    def train(self, job):
        return Checkpoint(folder=job.out, step=0)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from .types import Json


@dataclass(frozen=True, slots=True)
class TrainJob:
    """What is trained: the task's name, the starting checkpoint, where the result goes."""

    task: str
    model: str
    out: Path
    options: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A Hugging Face folder with its ``training.json``."""

    folder: Path
    step: int


class Trainer:
    """A training method."""

    name: ClassVar[str] = ""

    def __init__(self, options: Mapping[str, Json] | None = None) -> None:
        self.options: dict[str, Json] = dict(options or {})

    def train(self, job: TrainJob) -> Checkpoint:
        """Train to the end, or resume an interrupted job in ``job.out``."""
        raise NotImplementedError(f"{type(self).__name__}.train")
