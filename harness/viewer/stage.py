"""What a task adds to a transcript: its exhibits, worked answer and truth of the sample.

    stage = Stage(registry)
    stage.show(run, record)["exhibits"]

The task is made again from the run's specification. A plugin that is missing or fails is said in
``problem``; the transcript itself needs none of this.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Final

import orjson

from ..board.places import StoredRun
from ..exhibits import as_json
from ..registry import Registry
from ..task import Task
from ..types import HarnessError, Json, Record, Sample

MOST_KEPT: Final = 20_000
"""Samples of a split that are kept; those beyond are drawn again when asked for."""


class Stage:
    """The tasks of the runs. One thread at a time: environments of tasks share global state."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._lock = threading.Lock()
        self._tasks: dict[str, _Samples] = {}

    def show(self, run: StoredRun, record: Record) -> dict[str, Json]:
        """What the task shows of a record, as JSON. Never raises."""
        found: dict[str, Json] = {"exhibits": [], "target": None, "truth": None, "problem": ""}
        try:
            with self._lock:
                samples = self._samples(run)
                sample = samples.find(record.sample)
                found["truth"] = dict(sample.truth)
                found["problem"] = samples.warning(run)
                exhibits = samples.task.exhibits(sample, record.outcome)
                found["exhibits"] = [as_json(exhibit) for exhibit in exhibits]
                found["target"] = samples.task.target(sample)
        except HarnessError as error:
            found["problem"] = str(error)
        except Exception as error:  # a plugin's fault must not take the transcript away
            found["problem"] = f"the task failed to show it: {type(error).__name__}: {error}"
        return found

    def sample(self, run: StoredRun, record: Record) -> tuple[Sample | None, str]:
        """The sample of a record and the task's own answer to it; (None, "") where the task cannot
        be had. Never raises."""
        try:
            with self._lock:
                samples = self._samples(run)
                sample = samples.find(record.sample)
                return sample, samples.task.target(sample) or ""
        except Exception:  # an export goes without what a plugin cannot say
            return None, ""

    def _samples(self, run: StoredRun) -> _Samples:
        about = run.spec["task"]
        key = orjson.dumps([about, run.spec["split"]], option=orjson.OPT_SORT_KEYS).decode()
        if key not in self._tasks:
            task = self.registry.create("task", about["name"], about["options"])
            self._tasks[key] = _Samples(task, run.spec["split"])
        return self._tasks[key]


class _Samples:
    """The samples of a split by id, drawn as far as they were asked for."""

    def __init__(self, task: Task, split: str) -> None:
        self.task = task
        self.split = split
        self._known: dict[str, Sample] = {}
        self._rest: Iterator[Sample] = iter(task.samples(split))

    def find(self, name: str) -> Sample:
        """Raises HarnessError for a sample that the task does not have."""
        if name in self._known:
            return self._known[name]
        for _ in range(2):
            for sample in self._rest:
                if len(self._known) < MOST_KEPT:
                    self._known[sample.id] = sample
                if sample.id == name:
                    return sample
            # Samples beyond those that are kept may have been passed: once more from the start.
            self._rest = iter(self.task.samples(self.split))
        raise HarnessError(
            f"the task {self.task.name} no longer has the sample {name!r}; use the version that "
            "made the run"
        )

    def warning(self, run: StoredRun) -> str:
        """Says when the task is another one than the run was made with."""
        made = str(run.spec["task"]["version"])
        if made == self.task.version:
            return ""
        return (
            f"made with version {made} of the task, shown with version {self.task.version}: what "
            "is beside the transcript may differ"
        )
