"""A training job made ready: names resolved, data chosen and measured, a folder to work in.

    session = Session.of(job, method="sft")
    session.items, session.audits
    session.open()           # writes job.json, data and training.json into job.out

The folder of a job, which is also the trained checkpoint's:

    runs/sft/
        config.json, model.safetensors, tokenizer ...   the last step as a Hugging Face folder
        training.json       what it was trained on and how (with canonical.txt and prompts.jsonl)
        job.json            the resolved job; the same job resumes
        data/               training and validation rows
        global_step_200/    a step that can be resumed from and evaluated (DIR@200)
        val.jsonl           validation before the first step, on the way and at the end
        curves.parquet, curves.png
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..plan import Planner, RunSettings
from ..registry import Registry
from ..reward import Reward
from ..store import acquire, spec_hash, write_atomically
from ..task import Task
from ..trainer import STAGES, TrainJob
from ..types import HarnessError, Json
from .base import Base, base_checkpoint, require_template
from .checkpoints import newest
from .data import Item, Selection, file_items, training_items, validation_items
from .export import require_targets
from .lengths import Lengths, overlong
from .tokens import prompt_lengths, reply_lengths

JOB = "job.json"


@dataclass(slots=True)
class Session:
    """One job with everything that it names."""

    job: TrainJob
    method: str
    registry: Registry
    task: Task
    reward: Reward
    base: Base
    tokenizer: Any
    items: list[Item]
    validation: list[Item]
    audits: dict[str, Lengths] = field(default_factory=dict)
    lock: int = -1

    @classmethod
    def of(cls, job: TrainJob, method: str, supervised: bool) -> Session:
        """Resolve a job. Raises HarnessError for anything that cannot work, before work begins."""
        if job.stage not in STAGES:
            raise HarnessError(f"--stage {job.stage}: choose one of {', '.join(STAGES)}")
        registry = Registry.load(job.registry_file)
        task = registry.create("task", job.task, job.task_options)
        reward = make_reward(registry, task, job)
        base = base_checkpoint(registry, job.model)
        tokenizer = base.tokenizer()
        require_template(base, tokenizer)
        option = job.options
        chosen = Selection(
            limit=int(option["data.limit"]),
            order=str(option["data.order"]),
            skills=tuple(option["data.skills"]),
            split=str(option["data.split"]),
            groups=tuple(option["data.groups"]),
        )
        file = str(option.get("data.file", ""))
        items = file_items(task, Path(file)) if file else training_items(task, chosen)
        validation = _validation(task, option)
        session = cls(job, method, registry, task, reward, base, tokenizer, items, validation)
        session._measure(supervised)
        return session

    @property
    def default_reward(self) -> Reward:
        """The task's own reward, whatever the job is paid by: targets and validation."""
        return make_reward(self.registry, self.task, replace(self.job, reward=""))

    @property
    def out(self) -> Path:
        """The job's folder; a rehearsal has one of its own inside."""
        named = self.job.out.absolute()
        return named / self.job.stage if self.job.stage in ("smoke", "pilot") else named

    def _measure(self, supervised: bool) -> None:
        option = self.job.options
        if any(not i.messages for i in self.items):
            if supervised:
                raise HarnessError(f"{self.task.name} has no prompts of its own: SFT cannot use it")
            return
        if supervised:
            require_targets(self.items, self.task)
        prompts, replies = int(option["max_prompt"]), int(option["max_reply"])
        self.audits["prompt"] = prompt_lengths(self.tokenizer, self.items, prompts)
        if supervised:
            self.audits["reply"] = reply_lengths(self.tokenizer, self.items, replies)
        gone = overlong(self.audits, str(option["data.overlong"]))
        self.items = [i for i in self.items if i.sample.id not in gone]
        if not self.items:
            raise HarnessError("data.overlong=filter left no item to train on")
        room = self.base.context()
        if room and prompts + replies > room:
            raise HarnessError(
                f"max_prompt {prompts} and max_reply {replies} exceed the {room} tokens of "
                f"{self.base.label}"
            )
        if not supervised:
            # A validation prompt that cannot fit would fail the job in its middle.
            lengths = prompt_lengths(self.tokenizer, self.validation, prompts)
            overlong({"validation prompt": lengths}, "error")

    # The job as data

    def described(self) -> dict[str, Json]:
        """The resolved job; its hash decides what resumes."""
        job = self.job
        return {
            "method": self.method,
            "stage": job.stage,
            "task": {
                "name": self.task.name,
                "version": self.task.version,
                "options": self.task.options,
                "data": self.task.data_identity(),
            },
            "reward": job.reward or self.task.reward,
            "reward_options": dict(job.reward_options),
            "base": {"name": job.model, "identity": self.base.identity,
                     "folder": str(self.base.folder)},
            "options": dict(job.options),
            "items": len(self.items),
            **self._file(),
        }  # fmt: skip

    def _file(self) -> dict[str, Json]:
        """The hash of the rows that ``data.file`` names."""
        name = str(self.job.options.get("data.file", ""))
        return {"rows": hashlib.sha256(Path(name).read_bytes()).hexdigest()} if name else {}

    def text(self) -> str:
        """What ``--dry-run`` prints."""
        lines = [json.dumps(self.described(), indent=2, default=str)]
        lines += [audit.line() for audit in self.audits.values()]
        lines.append(f"{len(self.items):,} items to train on, {len(self.validation):,} to validate")
        return "\n".join(lines)

    def open(self) -> None:
        """Make the folder, or take it up again.

        Raises HarnessError when another job lies there, or this one and nobody said ``--resume``.
        """
        identity = spec_hash(self._identity())
        file = self.out / JOB
        if file.is_file():
            known = json.loads(file.read_text())
            if known["hash"] != identity:
                raise HarnessError(
                    f"{self.out} holds another job ({self._unlike(known['job'])}); choose another "
                    "--out"
                )
            if not self.job.resume:
                raise HarnessError(
                    f"{self.out} holds this job already, at step {newest(self.out)}: --resume goes "
                    "on with it"
                )
        elif self.job.resume:
            raise HarnessError(f"--resume: {self.out} holds no job")
        elif (self.out / "config.json").is_file():
            raise HarnessError(f"{self.out} is a checkpoint already; choose another --out")
        try:
            self.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HarnessError(f"{self.out}: cannot be written: {error.strerror}") from None
        self.lock = acquire(self.out)
        write_json(file, {"hash": identity, "job": self._plain()})

    def close(self) -> None:
        """Let others work in the folder."""
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1

    def _identity(self) -> dict[str, Json]:
        """What a resumed job must share: not how often it saves, nor where it runs, nor what a
        judge may cost; nor the stage, as data that were built are there to be trained on, and
        rehearsals have folders of their own."""
        found = self._plain()
        del found["stage"]
        found["reward_options"] = json.loads(json.dumps(self.reward.specification(), default=str))
        free = ("save_every", "keep", "gpus", "nodes", "processes")
        found["options"] = {k: v for k, v in found["options"].items() if k not in free}
        found["base"] = {"identity": found["base"]["identity"]}
        return found

    def _unlike(self, job: Mapping[str, Json]) -> str:
        now = self._plain()
        return difference({**job, "stage": now["stage"]}, now)

    def _plain(self) -> dict[str, Json]:
        value: dict[str, Json] = json.loads(json.dumps(self.described(), default=str))
        return value


def make_reward(registry: Registry, task: Task, job: TrainJob) -> Reward:
    """The reward of a job: the one that an evaluation with the same settings would use."""
    settings = RunSettings(
        (job.task,), (job.model,), reward=job.reward, reward_options=job.reward_options
    )
    return Planner(settings, registry).reward(task)


def write_json(path: Path, value: Mapping[str, Json]) -> None:
    """Indented JSON, whole or not at all."""
    write_atomically(path, json.dumps(value, indent=2, default=str).encode() + b"\n")


def _validation(task: Task, option: Mapping[str, Json]) -> list[Item]:
    if int(option["validation.limit"]) < 0 or "validation" not in task.splits:
        return []
    return validation_items(task, int(option["validation.limit"]), tuple(option["data.groups"]))


def difference(old: Mapping[str, Json], new: Mapping[str, Json]) -> str:
    """The first setting in which two jobs differ."""
    for key in new:
        if isinstance(new[key], dict) and isinstance(old.get(key), dict):
            inner = difference(old[key], new[key])
            if inner:
                return f"{key}.{inner}"
        elif old.get(key) != new[key]:
            return f"{key}: {old.get(key)!r}, now {new[key]!r}"
    return ""
