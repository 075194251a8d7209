"""The contract between the core and plugins.

A plugin is a module with functions marked ``@hookimpl``. It enters through a ``registry.toml`` (the
project's own, a user's ``./registry.toml`` or ``--registry FILE``) or through the entry-point group
``harness.plugins``; the built-in plugins enter by the same door. The module is imported when its
name is first used.

    from harness import hookimpl
    from harness.task import Task

    class Echo(Task): ...

    @hookimpl
    def create_task(name, options):
        return Echo(options)

Hooks come in two kinds:

* *Creating hooks* (`create_task`, `create_model`, `create_reward`, `create_trainer`) are called on
  the one plugin that the registry names for (kind, name). They return the object and raise
  `HarnessError` for options that cannot work; anything else they raise is reported with the
  plugin's name.
* *Observing hooks* are broadcast to all loaded observers. Their return value is ignored where not
  stated otherwise; an observer that raises is reported once and never fails a run.

Besides hooks a plugin module may define two plain functions: ``fetch(name, progress)``, which
downloads what the plugin needs (`harness fetch NAME`), and ``doctor()``, which yields
``(subject, ok, advice)`` rows for `harness doctor`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pluggy

from .types import Json, Record

if TYPE_CHECKING:
    from .model import Model
    from .reward import Reward
    from .store import RunFolder
    from .task import Task
    from .trainer import Trainer, TrainJob

hookspec = pluggy.HookspecMarker("harness")
hookimpl = pluggy.HookimplMarker("harness")


# Creating hooks


@hookspec(firstresult=True)
def create_task(name: str, options: Mapping[str, Json]) -> Task:
    """Make the task that the registry lists as ``name``.

    :param name: the registered name; one module may serve several names.
    :param options: the registry's defaults overlaid with ``--set key=value``; only declared keys,
        converted to the type of the default.
    :returns: the task, ready to yield samples. Making it must be cheap (no data read yet).
    :raises HarnessError: for option values that make no sense.

    Example: ``return GameSolve(name, options)``.
    """


@hookspec(firstresult=True)
def create_model(name: str, options: Mapping[str, Json]) -> Model:
    """Make a model back end and load its weights.

    :param name: what follows the back end's name in ``--model backend:name``; a folder or hub id
        when the plugin was chosen by what it ``handles``; the registered name otherwise.
    :param options: the registry's defaults overlaid with ``--model-set key=value``.
    :returns: the model with ``identity`` set. Called in the main thread, before the event loop.
    :raises HarnessError: when the checkpoint does not exist or cannot be loaded.

    Example: ``return TransformersModel(name, options)``.
    """


@hookspec(firstresult=True)
def create_reward(name: str, options: Mapping[str, Json]) -> Reward:
    """Make the reward that the registry lists as ``name``.

    :param name: the registered name.
    :param options: the registry's defaults, overlaid with ``--reward-set key=value``.
    :returns: the reward; it may import its task's truth, parser and solver.
    :raises HarnessError: for option values that make no sense.

    Example: ``return GameSolveReward(options)``.
    """


@hookspec(firstresult=True)
def create_trainer(name: str, options: Mapping[str, Json]) -> Trainer:
    """Make the trainer that the registry lists as ``name``.

    :param name: the method's name, as in ``harness train --method name``.
    :param options: the registry's defaults overlaid with ``--set key=value``.
    :returns: the trainer; heavy libraries are imported in ``Trainer.train`` at the earliest.
    :raises HarnessError: for option values that make no sense.

    Example: ``return SFT(options)``.
    """


# Observing hooks


@hookspec
def run_started(run: RunFolder) -> None:
    """A run begins or goes on. Called once for each pair of task and model, after the manifest is
    written and before the first request.

    :param run: the run's folder; ``run.manifest`` holds the whole specification.

    Example: open a TensorBoard writer for ``run.path``.
    """


@hookspec
def record_finished(run: RunFolder, record: Record) -> None:
    """A record is on disk. Called in the order in which records finish, not of samples.

    :param run: the run's folder.
    :param record: the record; do not keep it, a run may have millions.

    Example: log ``record.score.value``.
    """


@hookspec
def run_finished(run: RunFolder, summary: Mapping[str, Json]) -> None:
    """A run has ended, complete or not.

    :param run: the run's folder.
    :param summary: what ``metrics.json`` holds; ``summary["complete"]`` says whether all records
        are there.

    Example: log every metric under ``task/metric``.
    """


@hookspec
def train_step_logged(job: TrainJob, step: int, figures: Mapping[str, float]) -> None:
    """A training step was logged.

    :param job: the training job.
    :param step: the step's number, from 1.
    :param figures: metric name -> value.

    Example: ``writer.add_scalar(name, value, step)`` for each figure.
    """


@hookspec
def leaderboard_columns(tasks: tuple[str, ...]) -> Mapping[str, str]:
    """Add columns to leaderboards.

    :param tasks: the tasks on the table.
    :returns: column title -> ``task:metric[group]``. All plugins' columns are joined.

    Example: ``return {"Nash": "gamesolve:score[nash]"}``.
    """


@hookspec
def report_section(run: RunFolder) -> str:
    """Add a section to a run's report.

    :param run: a finished run.
    :returns: Markdown; model output in it must be escaped by the plugin.

    Example: the ten most common parse failures.
    """
