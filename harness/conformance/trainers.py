"""Checks of a trainer: it refuses what cannot work and leaves a checkpoint that is whole."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from ..trainer import Checkpoint, Trainer, TrainJob
from ..types import HarnessError
from .common import own_options
from .kit import Finding, Kit, Skip, Steps


def named_alike(kit: Kit) -> Steps:
    """The trainer answers to its method's name and has its options."""
    trainer: Trainer = kit.made()
    if trainer.name != kit.entry.name:
        yield Finding(
            f"the trainer calls itself {trainer.name!r}, the registry {kit.entry.name!r}",
            "make them equal: checkpoints name the method that made them",
        )
    if (fault := own_options(kit)) is not None:
        yield fault
    if type(trainer).train is Trainer.train:
        yield Finding("train() is missing", "define train(self, job) -> Checkpoint")
    yield f"{len(trainer.options)} options"


def refusals(kit: Kit) -> Steps:
    """A job that cannot work is one clear line, and writes nothing."""
    trainer: Trainer = kit.made()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out")
        for what, task, model in (
            ("a task", "no-such-task", "./no-such-checkpoint"),
            ("a model", _any_task(kit), "./no-such-checkpoint"),
        ):
            job = TrainJob(
                task, model, out, options=trainer.options, quiet=True,
                registry_file=kit.registry_file,
            )  # fmt: skip
            try:
                trainer.train(job)
            except HarnessError:
                pass
            except Exception as error:
                yield Finding(
                    f"{what} that does not exist raises {type(error).__name__}",
                    "resolve the job with harness.training.session.Session.of, which says it",
                )
            else:
                yield Finding(f"{what} that does not exist is not noticed", "raise HarnessError")
            if out.exists() and any(out.iterdir()):
                yield Finding("a refused job leaves files behind", "check before Session.open()")
    yield "a task and a model that do not exist"


def _any_task(kit: Kit) -> str:
    """A task that can be named in a job."""
    return kit.task or kit.registry.names("task")[-1]


def two_steps(kit: Kit) -> Steps:
    """The stage smoke makes two steps and leaves a checkpoint with its record."""
    if not kit.task or not kit.model:
        raise Skip("give --task T and --model M to make two steps")
    trainer: Trainer = kit.made()
    with tempfile.TemporaryDirectory() as folder:
        job = TrainJob(
            kit.task, kit.model, Path(folder, "out"), options=trainer.options, stage="smoke",
            quiet=True, registry_file=kit.registry_file,
        )  # fmt: skip
        made = trainer.train(job)
        if not isinstance(made, Checkpoint):
            yield Finding("train() returns no Checkpoint", "return Checkpoint(folder, step)")
            return
        for name in ("config.json", "training.json", "tokenizer.json"):
            if not (made.folder / name).is_file():
                yield Finding(
                    f"the checkpoint has no {name}",
                    "save model and tokenizer; harness.training.record writes training.json",
                )
        if not list(made.folder.glob("*.safetensors")):
            yield Finding("the checkpoint has no safetensors", "model.save_pretrained(folder)")
        try:
            record = json.loads((made.folder / "training.json").read_text())
        except (OSError, ValueError):
            record = {}
        if record and not record.get("complete"):
            yield Finding("training.json says that it is not complete", "call record.finish")
        yield f"step {made.step}"
