"""``harness train``: turn a checkpoint into a trained one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..training.recipe import divide, read_config
from ..types import HarnessError
from .options import names, pairs, registry_option


@click.command("train")
@click.option("--method", default="", metavar="NAME", help="sft, rft, grpo, or any trainer.")
@click.option("--task", default="", help="What to train on: the train split of this task.")
@click.option("--model", default="", help="The base: a folder, FOLDER@STEP, name or hub id.")
@click.option("--out", type=click.Path(path_type=Path), help="The folder of the job.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="A TOML file.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="An option of the trainer, task.KEY=VALUE of the task, reward.KEY=VALUE of the reward.",
)
@click.option("--reward", default="", help="What pays: a reward, or a sum a=0.8,b=0.2.")
@click.option(
    "--stage", default="train", show_default=True, help="build, validate, smoke, pilot or train."
)
@click.option("--dry-run", is_flag=True, help="Print the resolved job and the lengths, and stop.")
@click.option("--resume", is_flag=True, help="Go on with the job that lies in --out.")
@click.option("--log", "observers", default="", metavar="A[,B]", help="Observers, by name.")
@click.option("--quiet", is_flag=True, help="No progress.")
@registry_option
def command(**given: Any) -> int:
    """Train a checkpoint on a task's train split.

    The result in --out is a Hugging Face folder with training.json; each saved step is a checkpoint
    too (--model OUT@STEP). Stages: build writes the data, validate lets the library read its
    configuration, smoke makes two steps, pilot a tenth of them, train all. Exit code 0: trained; 2:
    bad input, or training failed.
    """  # fmt: skip
    from ..registry import Registry
    from ..trainer import TrainJob

    registry = Registry.load(given["registry_file"])
    top, settings = read_config(given["config_file"])
    settings |= pairs(given["settings"])
    top |= {name: given[name] for name in ("method", "task", "model", "reward") if given[name]}
    if given["out"] is not None:
        top["out"] = str(given["out"])
    needed = ("method", "task", "model") if given["dry_run"] else ("method", "task", "model", "out")
    for name in needed:
        if not top.get(name):
            raise HarnessError(f"--{name} is missing")
    method = str(top["method"])
    options, task_options, reward_options = divide(registry, method, str(top["task"]), settings)
    trainer = registry.create("trainer", method, options)
    observers = given["observers"] or top.get("log", "")
    job = TrainJob(
        task=str(top["task"]),
        model=str(top["model"]),
        out=Path(str(top.get("out") or method)),
        options=trainer.options,
        task_options=task_options,
        reward=str(top.get("reward", "")),
        reward_options=reward_options,
        stage="plan" if given["dry_run"] else given["stage"],
        resume=given["resume"],
        registry_file=given["registry_file"],
        observers=names(observers) if observers else (),
        quiet=given["quiet"],
    )
    made = trainer.train(job)
    if made.step:
        click.echo(f"{made.folder}: step {made.step}")
    return 0
