"""A trainer on verl: makes the job ready, runs verl in processes of its own, hands over a folder.

`harness_plugins.trainers.sft` and ``grpo`` say what differs. The processes write checkpoints and
figures into the job's folder as they go; this one watches, tells the observers, and in the end
merges the last step into a Hugging Face folder.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import ClassVar, Final

from harness.observers import Observers
from harness.trainer import Checkpoint, Trainer, TrainJob
from harness.training import checkpoints, curves, record
from harness.training.checkpoints import discard_unfinished, ensure_weights, newest, step_folder
from harness.training.session import Session, write_json
from harness.types import HarnessError, Json

from . import launch, memory, settings
from .display import TrainDisplay
from .payment import kept_judge
from .settings import Place

VERL: Final = "0.9.1"
REHEARSALS: Final = {"smoke": lambda steps: 2, "pilot": lambda steps: max(2, steps // 10)}
EXTRA: Final = "pip install 'strategic-harness[train]'"


class VerlTrainer(Trainer):
    """What SFT and GRPO share."""

    supervised: ClassVar[bool] = False
    config_name: ClassVar[str] = ""

    def overrides(self, session: Session, place: Place, options: Mapping[str, Json]) -> list[str]:
        """verl's configuration for a job."""
        raise NotImplementedError

    def prepare(self, session: Session) -> None:
        """Check what the method needs of a job, and drop items that it cannot use."""

    def write_data(self, session: Session) -> None:
        """The rows that verl reads, in ``data/`` of the job's folder."""
        raise NotImplementedError

    def provenance(self, session: Session) -> dict[str, Json]:
        """What ``training.json`` says beside the job: where the data came from."""
        return {}

    def command(self, place: Place, description: Path) -> list[str]:
        """What starts the processes."""
        raise NotImplementedError

    def train(self, job: TrainJob) -> Checkpoint:
        """Train to the end, or as far as ``job.stage`` says; resumes with ``job.resume``.

        Raises HarnessError for anything that cannot work, and with the cause when verl fails.
        """
        settings.check(job.options)
        require_verl()
        session = Session.of(job, self.name, self.supervised)
        self.prepare(session)
        options = self._staged(session)
        place = place_of(session, options)
        if job.stage == "plan":
            steps = settings.total_steps(options, len(session.items))
            print(f"{session.text()}\n{steps} steps on {_where(place)}")
            if place.gpus or int(options["gpus"]) > 0:
                print(memory.line(session, place, options, self.name))
            return Checkpoint(job.out, 0)
        for audit in session.audits.values():
            _tell(job, audit.line())
        session.open()
        try:
            return self._start(session, place, options)
        finally:
            session.close()

    def _start(self, session: Session, place: Place, options: Mapping[str, Json]) -> Checkpoint:
        """Write the data and the record, and go on as far as the stage says."""
        stage = session.job.stage
        (session.out / "data").mkdir(exist_ok=True)
        self.write_data(session)
        overrides = self.overrides(session, place, options)
        description = self._describe(session, place, options, overrides)
        record.begin(session, record.hardware(place.gpus), self.provenance(session))
        if stage == "build":
            return Checkpoint(session.out, 0)
        if stage == "validate":
            self._compose(overrides)
            return Checkpoint(session.out, 0)
        return self._run(session, place, options, description)

    def _staged(self, session: Session) -> dict[str, Json]:
        """The options of this stage: a rehearsal has fewer steps."""
        options = dict(session.job.options)
        shorten = REHEARSALS.get(session.job.stage)
        if shorten is not None:
            steps = settings.total_steps(options, len(session.items))
            options |= {"steps": shorten(steps), "save_every": 0, "eval_every": 0}
        return options

    def _compose(self, overrides: list[str]) -> None:
        """Let verl read its configuration. Raises HarnessError with what it objects to."""
        from .compose import compose

        try:
            compose(self.config_name, overrides)
        except Exception as error:  # Hydra's errors have no common type
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
            raise HarnessError(f"verl refuses the configuration: {reason}") from None

    def _describe(
        self, session: Session, place: Place, options: Mapping[str, Json], overrides: list[str]
    ) -> Path:
        job = session.job
        path = session.out / "process.json"
        write_json(
            path,
            {
                "out": str(session.out),
                "base": str(session.base.folder),
                "task": job.task,
                "task_options": session.task.options,
                "reward": job.reward,
                "reward_options": kept_judge(job.reward_options, session.out),
                "registry_file": job.registry_file and str(Path(job.registry_file).absolute()),
                "options": dict(options),
                "overrides": overrides,
                "device": place.device,
                "fused": settings.fused(place, options),
                "processes": place.processes,
                "validation": len(session.validation),
            },
        )
        return path

    def _run(
        self, session: Session, place: Place, options: Mapping[str, Json], description: Path
    ) -> Checkpoint:
        out = session.out
        total = settings.total_steps(options, len(session.items))
        os.close(launch.hold(out))
        discard_unfinished(out)
        done = newest(out)
        if done >= total:
            _tell(session.job, f"complete: {out} has all {total} steps")
            return self._finish(session, total, 0.0)
        if done:
            self._check_resumable(step_folder(out, done), place)
            _tell(session.job, f"resuming at step {done} of {total}")
        metrics = curves.next_log(out)
        log = metrics.with_name(metrics.name.replace("metrics", "output").replace("jsonl", "log"))
        display = TrainDisplay(self.name, total, done, session.job.quiet)
        figures = curves.Figures(metrics)
        registry = session.registry
        observers = Observers.load(registry, session.job.observers)

        def watch() -> None:
            for step, row in figures.new():
                display.step(step, row)
                observers.train_step_logged(session.job, step, row)
            display.tick()

        began = time.monotonic()
        try:
            variables = launch.environment(place.gpus, metrics, place.processes)
            launch.run(self.command(place, description), variables, log, watch)
        except BaseException:
            record.finish(out, newest(out), time.monotonic() - began, False, {})
            raise
        finally:
            display.close()
        step = newest(out)
        if step < total:
            raise HarnessError(
                f"verl ended at step {step} of {total}; --resume goes on (see {log})"
            )
        return self._finish(session, step, time.monotonic() - began)

    def _check_resumable(self, folder: Path, place: Place) -> None:
        saved = checkpoints.world_size(folder)
        if saved != place.processes * place.nodes:
            raise HarnessError(
                f"{folder} was saved by {saved} processes and cannot be resumed with "
                f"{place.processes * place.nodes}: set gpus={saved}, or start a new job from it "
                f"with --model {folder.parent}@{folder.name.rpartition('_')[2]}"
            )
        checkpoints.check_seal(folder)

    def _finish(self, session: Session, step: int, seconds: float) -> Checkpoint:
        out = session.out
        checkpoints.copy_checkpoint(ensure_weights(step_folder(out, step)), out)
        record.finish(out, step, seconds, True, curves.write_curves(out))
        return Checkpoint(out, step)


def require_verl() -> None:
    """Raise HarnessError when verl is missing, of another version, or lacks what it imports."""
    try:
        found = version("verl")
    except PackageNotFoundError:
        raise HarnessError(f"training needs verl, which is not installed; {EXTRA}") from None
    if found != VERL:
        raise HarnessError(f"training needs verl {VERL}, not {found}; {EXTRA}")
    from importlib.util import find_spec

    for module in ("ray", "tensordict", "transfer_queue", "uvicorn", "cachetools", "peft"):
        if find_spec(module) is None:
            raise HarnessError(f"verl needs the module {module!r}, which is not installed; {EXTRA}")


def require_entry_point() -> None:
    """Raise HarnessError when verl's processes would not find the platform of this package."""
    from importlib.metadata import entry_points

    if not any("harness_plugins" in p.value for p in entry_points(group="verl.plugins")):
        raise HarnessError(
            "verl does not know this package (entry point verl.plugins); "
            "reinstall strategic-harness"
        )


def place_of(session: Session, options: Mapping[str, Json]) -> Place:
    """Where the job runs: ``gpus`` of this node (-1: all there are), else processes on the CPU."""
    import torch

    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    asked = int(options["gpus"])
    if asked > there and asked > 0 and there:
        raise HarnessError(f"gpus {asked}: this machine has {there}")
    gpus = there if asked < 0 else min(asked, there)
    processes = gpus or max(1, int(options["processes"]))
    batch = int(options["batch_size"])
    mini = mini_prompts(options) * int(options.get("rollouts", 1))
    if batch % mini_prompts(options) or mini % (processes * int(options["nodes"])):
        raise HarnessError(
            f"batch_size {batch} (mini_batch {mini_prompts(options)}) cannot be shared by "
            f"{processes * int(options['nodes'])} processes evenly"
        )
    if not gpus:
        require_entry_point()
    nodes = int(options["nodes"])
    return Place(session.out, session.base.folder, gpus, processes, nodes, session.base.tied())


def mini_prompts(options: Mapping[str, Json]) -> int:
    """Items or prompts of one update."""
    return int(options.get("mini_batch", 0) or options["batch_size"])


def _where(place: Place) -> str:
    kind = "GPU" if place.gpus else "CPU process"
    return f"{place.processes} {kind}{'s' if place.processes > 1 else ''}"


def _tell(job: TrainJob, text: str) -> None:
    if not job.quiet:
        print(text, file=sys.stderr, flush=True)
