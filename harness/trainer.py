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
from typing import ClassVar, Final

from .types import Json

STAGES: Final = ("plan", "build", "validate", "smoke", "pilot", "train")
"""How far a job goes: print it; write its data; check it with the library; two steps; a tenth of
the steps; all of them."""


@dataclass(frozen=True, slots=True)
class TrainJob:
    """What is trained: the task's name, the starting checkpoint, where the result goes.

    ``options`` are the trainer's, resolved; ``task_options``, ``reward`` (a name or a weighted sum,
    "" is the task's) and ``reward_options`` as in a run. ``stage`` is one of `STAGES`; ``resume``
    goes on with what lies in ``out``. ``registry_file`` is ``--registry``, which worker processes
    read too; ``observers`` are told of each step.
    """

    task: str
    model: str
    out: Path
    options: Mapping[str, Json] = field(default_factory=dict)
    task_options: Mapping[str, Json] = field(default_factory=dict)
    reward: str = ""
    reward_options: Mapping[str, Json] = field(default_factory=dict)
    stage: str = "train"
    resume: bool = False
    registry_file: Path | None = None
    observers: tuple[str, ...] = ()
    quiet: bool = False


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
