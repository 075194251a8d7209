"""Rollouts for self-distillation: each carries the teacher's prompt in tokens.

The student is asked as in evaluation; what the teacher knows stands in the teacher's prompt alone.
"""

from __future__ import annotations

from typing import Any

import ray
import torch

from harness.rendering import render
from harness.types import HarnessError, Sample

from .alignment import COLUMN
from .rollouts import Manager as PlainManager
from .rollouts import Worker as PlainWorker
from .rollouts import row
from .sessions import Call, Session


class Worker(PlainWorker):
    """Plays prompts and adds the teacher's."""

    def columns(self, sample: Sample, call: Call) -> dict[str, torch.Tensor]:
        """The teacher's prompt. Raises HarnessError for a turn that is not the task's one."""
        if list(call.prompt) != render(self.tokenizer, self.task.messages(sample)):
            raise HarnessError(
                f"{sample.id}: a teacher's prompt stands for the task's one prompt, and the model "
                "was asked another one"
            )
        told = self.task.privileged(sample)
        if told is None:
            raise HarnessError(f"{sample.id}: the task has no prompt for a teacher")
        return {COLUMN: torch.tensor(render(self.tokenizer, told))}

    def validation_rows(self, sample: Sample, session: Session) -> list[dict[str, torch.Tensor]]:
        """The greedy reply, to measure the divergence on; none where the teacher's prompt is too
        long, since the item is scored all the same."""
        longest = int(self.options["max_teacher_prompt"])
        made = [{**row(c, 0.0, 0, 1), **self.columns(sample, c)} for c in session.calls[-1:]]
        return [each for each in made if len(each[COLUMN]) <= longest]


class Manager(PlainManager):
    """verl's manager with these workers."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.agent_loop_workers_class = ray.remote(Worker)
