"""Observers: plugins that watch runs and training. One that fails is reported once, and skipped.

observers = Observers.load(registry, ["tensorboard"])
observers.run_started(folder)
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING

from .types import Json, Record

if TYPE_CHECKING:
    from .registry import Registry
    from .store import RunFolder
    from .trainer import TrainJob


class Observers:
    """Broadcasts the observing hooks to the loaded observers, each guarded."""

    def __init__(self, modules: Iterable[tuple[str, ModuleType]] = ()) -> None:
        self.managers = {}
        for name, module in modules:
            import pluggy

            from . import hookspecs

            manager = pluggy.PluginManager("harness")
            manager.add_hookspecs(hookspecs)
            manager.register(module)
            self.managers[name] = manager

    @classmethod
    def load(cls, registry: Registry, names: Iterable[str]) -> Observers:
        """The observers of these registered names. Raises HarnessError for unknown ones."""
        from .registry import load_module

        return cls([(name, load_module(registry.entry("observer", name))) for name in names])

    def __bool__(self) -> bool:
        return bool(self.managers)

    def run_started(self, run: RunFolder) -> None:
        """See `harness.hookspecs.run_started`."""
        self._broadcast("run_started", run=run)

    def record_finished(self, run: RunFolder, record: Record) -> None:
        """See `harness.hookspecs.record_finished`."""
        self._broadcast("record_finished", run=run, record=record)

    def run_finished(self, run: RunFolder, summary: Mapping[str, Json]) -> None:
        """See `harness.hookspecs.run_finished`."""
        self._broadcast("run_finished", run=run, summary=summary)

    def train_step_logged(self, job: TrainJob, step: int, figures: Mapping[str, float]) -> None:
        """See `harness.hookspecs.train_step_logged`."""
        self._broadcast("train_step_logged", job=job, step=step, figures=figures)

    def _broadcast(self, hook: str, **arguments: object) -> None:
        for name in list(self.managers):
            try:
                getattr(self.managers[name].hook, hook)(**arguments)
            except Exception as error:  # an observer never fails a run
                del self.managers[name]
                print(
                    f"observer {name!r} failed in {hook} and is switched off: "
                    f"{type(error).__name__}: {error}",
                    file=sys.stderr,
                )
