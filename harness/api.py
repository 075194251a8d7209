"""The Python API: run an evaluation, load a run, look at its records.

    import harness
    run = harness.run(task="gamesolve", model="smollm2", limit=20)
    run.metrics["score"]["value"]
    run.to_pandas()[["sample", "value", "class"]]

``run`` takes what `harness run` takes (see `harness.plan.RunSettings`); several tasks or models
give a list of runs.
"""

from __future__ import annotations

import asyncio
import math
import platform
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .display import Display
from .engine import Engine
from .model import Model
from .observers import Observers
from .plan import Job, Planner, RunSettings
from .registry import Registry
from .store import METRICS, RunFolder, read_records
from .summary import summarise
from .task import Task
from .types import HarnessError, Json, Record, Sample

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

CONCURRENCY: Final = 128
"""Rollouts in flight, unless the user says otherwise."""

CHUNK: Final = 256
"""Prompts that are counted at a time."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run on disk."""

    path: Path
    manifest: Mapping[str, Json]
    metrics: Mapping[str, Json]

    @property
    def complete(self) -> bool:
        """Whether every record is there."""
        return bool(self.metrics.get("complete"))

    def records(self) -> Iterator[Record]:
        """The records in order."""
        return read_records(self.path)

    def to_arrow(self) -> pa.Table:
        """The records as an Arrow table (columns of `harness.tables.schema`)."""
        import pyarrow as pa

        from .tables import batches, schema

        return pa.Table.from_batches(list(batches(self.records())), schema=schema())

    def to_pandas(self) -> pd.DataFrame:
        """The records as a pandas data frame (needs pandas)."""
        return self.to_arrow().to_pandas()


@dataclass(frozen=True, slots=True)
class Plan:
    """What a job will take, before it starts."""

    job: Job
    samples: int
    rollouts: int
    prompt_tokens: float | None
    seconds: float | None
    memory: int | None
    turns: float = 1.0
    """Turns of the model in a rollout, on average."""
    devices: str = ""

    def text(self) -> str:
        """One line for the user."""
        asked = self.rollouts * self.turns
        parts = [f"{self.samples:,} samples", f"{self.rollouts:,} rollouts"]
        if self.turns != 1.0:
            parts.append(f"about {asked:,.0f} turns")
        if self.prompt_tokens is not None:
            reply = self.job.decoding.max_tokens
            parts.append(f"about {self.prompt_tokens * asked:,.0f} prompt tokens")
            parts.append(f"at most {reply * asked:,.0f} reply tokens")
        if self.seconds is not None:
            parts.append(f"at most about {_duration(self.seconds)}")
        if self.memory is not None:
            on = f" on {self.devices}" if self.devices else ""
            parts.append(f"about {self.memory / 2**30:.1f} GiB{on}")
        return f"{self.job.label}: {', '.join(parts)}"


def run(
    task: str | tuple[str, ...] | list[str],
    model: str | tuple[str, ...] | list[str],
    registry: Registry | None = None,
    **settings: Any,
) -> Run | list[Run]:
    """Evaluate; returns the run, or one run a pair where there are several tasks or models.

    Raises HarnessError for bad input, and for the first pair that failed after the others ended.
    """
    tasks = (task,) if isinstance(task, str) else tuple(task)
    models = (model,) if isinstance(model, str) else tuple(model)
    runs: list[Run] = []
    failures: list[HarnessError] = []
    for _, result in evaluate(RunSettings(tasks, models, **settings), registry, quiet=True):
        if isinstance(result, HarnessError):
            failures.append(result)
        else:
            runs.append(result)
    if failures:
        raise failures[0]
    return runs[0] if isinstance(task, str) and isinstance(model, str) else runs


def load(path: str | Path) -> Run:
    """A run folder. Raises HarnessError where there is none."""
    folder = RunFolder.read(Path(path))
    try:
        return Run(folder.path, folder.manifest, folder.metrics() or {})
    finally:
        folder.close()


def evaluate(
    settings: RunSettings,
    registry: Registry | None = None,
    quiet: bool = False,
    dry_run: bool = False,
) -> Iterator[tuple[str, Run | HarnessError]]:
    """Run all pairs, model by model. Yields (label, run or what went wrong); one pair that fails
    does not stop the rest. A dry run ends after the estimate."""
    registry = registry or Registry.load()
    planner = Planner(settings, registry)
    planner.check()
    observers = Observers.load(registry, settings.observers)
    with asyncio.Runner() as runner:
        try:
            for place, model in enumerate(settings.models, 1):
                for task in settings.tasks:
                    label = f"{task} x {model}"
                    try:
                        job = planner.job(task, model)
                        result = _evaluate(runner, job, observers, quiet, dry_run)
                    except HarnessError as error:
                        yield label, error
                        continue
                    if result is not None:
                        yield label, result
                if model != settings.opponent:
                    planner.release(model, settings.models[place:])
        finally:
            planner.close()


def evaluate_job(
    runner: asyncio.Runner, job: Job, observers: Observers, quiet: bool = False
) -> Run:
    """Run one job, or go on with it; the models stay loaded."""
    run = _evaluate(runner, job, observers, quiet, False)
    assert run is not None
    return run


def _evaluate(
    runner: asyncio.Runner, job: Job, observers: Observers, quiet: bool, dry_run: bool
) -> Run | None:
    settings = job.settings
    plan = make_plan(job)
    if dry_run:
        print(estimated(plan).text(), file=sys.stderr, flush=True)
        return None
    folder = RunFolder.open(settings.out, job.spec, job.label, _details(job), settings.resume)
    try:
        if folder.manifest.get("expected", 0) > plan.rollouts:
            # A run never shrinks: its figures would rest on whichever records came first.
            job = replace(job, settings=replace(settings, limit=folder.manifest["limit"]))
            plan = make_plan(job)
        return _run_in(runner, job, plan, folder, observers, quiet)
    finally:
        folder.close()


def _run_in(
    runner: asyncio.Runner,
    job: Job,
    plan: Plan,
    folder: RunFolder,
    observers: Observers,
    quiet: bool,
) -> Run:
    old = folder.metrics()
    known = folder.journal.finished
    if old and old["complete"] and old["expected"] == plan.rollouts == known:
        if not quiet:
            print(f"complete: {folder.path} has all {known} records", file=sys.stderr)
            if _changed_since(job.task, folder):
                told = "changed after that; raise its version to run it again"
                print(f"note: the code of {job.task.name} {told}", file=sys.stderr)
        return Run(folder.path, folder.manifest, old)
    if not quiet:
        print(estimated(plan, plan.rollouts - known).text(), file=sys.stderr, flush=True)
        if known:
            print(f"resuming: {known} of {plan.rollouts} records are there", file=sys.stderr)
    folder.update_manifest(limit=job.settings.limit, expected=plan.rollouts)
    observers.run_started(folder)
    display = Display(job.label, job.contender.queue, quiet)
    engine: Engine | None = None
    try:

        async def roll_out() -> dict[str, Json]:
            nonlocal engine
            engine = Engine(
                job,
                folder,
                plan.rollouts,
                min(_concurrency(job), max(1, plan.rollouts)),
                observers,
                display.tick,
            )
            await engine.run()
            return await summarise(job, folder.records, plan.rollouts)

        summary = runner.run(roll_out())
    finally:
        display.close(engine.progress if engine is not None else None)
    folder.finish(summary)
    observers.run_finished(folder, summary)
    return Run(folder.path, folder.manifest, summary)


def _changed_since(task: Task, folder: RunFolder) -> bool:
    """Whether the module of a task was written after a run's figures: whoever writes a plugin gets
    old figures for new rules otherwise, and takes them for new ones."""
    module = sys.modules.get(type(task).__module__)
    try:
        changed = Path(str(getattr(module, "__file__", None))).stat().st_mtime
        return changed > (folder.path / METRICS).stat().st_mtime
    except OSError:
        return False


def _concurrency(job: Job) -> int:
    """Rollouts in flight: the user's number, else what the model or the harness takes."""
    model = job.contender.model
    return job.settings.concurrency or (model.concurrency if model else 0) or CONCURRENCY


def make_plan(job: Job) -> Plan:
    """Count the samples and check that every first prompt fits.

    Raises HarnessError for a prompt that cannot fit the context together with its reply.
    """
    model = job.contender.model
    count = tokens = 0
    turns = 0.0
    groups: set[str] = set()
    counted = model is not None and _countable(job, model)
    for some in _chunks(job.samples()):
        for sample in some:
            count += 1
            turns += job.task.turns(sample)
            if sample.group not in groups:
                groups.add(sample.group)
                job.players(sample, 0)  # a player that cannot play it says so before the run
        if not counted or model is None:
            continue
        prompts = [job.prepare(tuple(job.task.messages(sample))) for sample in some]
        sizes = [size for size in model.count_all(prompts) if size is not None]
        counted = len(sizes) == len(some)
        tokens += sum(sizes)
        room = model.context_length
        for sample, size in zip(some, sizes, strict=False):
            if counted and room is not None and size + job.decoding.max_tokens > room:
                raise HarnessError(
                    f"{job.task.name}: the prompt of {sample.id} has {size} tokens and its reply "
                    f"up to {job.decoding.max_tokens}, but {job.contender.name} takes {room} in "
                    "all; lower --max-tokens or choose a model with a longer context"
                )
    if count == 0:
        raise HarnessError(f"{job.task.name}: the split {job.settings.split!r} has no samples")
    mean = tokens / count if counted else None
    return Plan(job, count, count * job.rollouts, mean, None, None, turns / count)


def _chunks(samples: Iterable[Sample]) -> Iterator[list[Sample]]:
    """The samples, a few at a time: a model may count their tokens side by side."""
    rest = iter(samples)
    while some := list(islice(rest, CHUNK)):
        yield some


def estimated(plan: Plan, left: int | None = None) -> Plan:
    """The plan with what the ``left`` rollouts will take (default: all); may warm the model up."""
    model = plan.job.contender.model
    if model is None or plan.prompt_tokens is None:
        return plan
    asked = math.ceil((plan.rollouts if left is None else left) * plan.turns)
    opponent = plan.job.opponent.model if plan.job.opponent is not None else None
    if opponent is model:
        asked *= 2
    models = [model] if opponent in (None, model) else [model, opponent]
    tokens = plan.prompt_tokens, plan.job.decoding.max_tokens
    costs = [each.estimate(asked, *tokens) for each in models if each is not None]
    seconds = [cost.seconds for cost in costs if cost.seconds is not None]
    memory = [cost.memory for cost in costs if cost.memory is not None]
    devices = " and ".join(sorted({cost.devices for cost in costs if cost and cost.devices}))
    total = sum(seconds) or None, sum(memory) or None
    return replace(plan, seconds=total[0], memory=total[1], devices=devices)


def _duration(seconds: float) -> str:
    """Minutes, or hours where they are many.

    >>> _duration(20), _duration(5400), _duration(9000)
    ('1 min', '90 min', '2.5 h')
    """
    if seconds < 2 * 3600:
        return f"{max(1, round(seconds / 60))} min"
    return f"{seconds / 3600:.1f} h"


def _countable(job: Job, model: Model) -> bool:
    """Whether prompts can be counted: a tokenizer is known, and the first prompt as well."""
    first_prompt = type(job.task).messages is not Task.messages
    return first_prompt and type(model).count_tokens is not Model.count_tokens


def _details(job: Job) -> dict[str, Json]:
    """What the manifest says beyond the specification."""
    from .contamination import trained_on

    model = job.contender.model
    described = dict(model.describe()) if model is not None else {}
    training = trained_on(described.get("adapter")) or trained_on(described.get("folder"))
    return {
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "model_name": job.contender.name,
        "settings": job.settings.stored(),
        "model": described,
        **({} if training is None else {"training": training}),
        "environment": {
            "python": platform.python_version(),
            "system": platform.system(),
            "machine": platform.machine(),
            "packages": _versions(),
            "git": _git_state(),
        },
    }


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in ("strategic-harness", "torch", "transformers", "vllm", "pyarrow"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _git_state() -> str:
    """The checkout's commit, with ``+`` where it has changes; "" outside of one."""
    import subprocess

    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return ""
    try:
        commit = ["git", "-C", str(root), "rev-parse", "--short=12", "HEAD"]
        changes = ["git", "-C", str(root), "status", "--porcelain", "--untracked-files=no"]
        head = subprocess.run(commit, capture_output=True, text=True, timeout=5, check=True)
        dirty = subprocess.run(changes, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return head.stdout.strip() + ("+" if dirty.stdout.strip() else "")
