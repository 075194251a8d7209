"""The runs that a viewer shows, kept up to date while it is open.

    catalogue = Catalogue(["runs"])
    for entry in catalogue.entries():
        print(entry.key, entry.state, entry.browser.source.total)

A run that has ended is read from its table; one that goes on, was stopped, or was extended since
it last ended, from its journal.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from ..board.places import Place, StoredRun, find_runs
from ..board.rows import model_label
from ..store import JOURNAL, METRICS
from ..types import HarnessError, Json
from .journal import JournalSource
from .queries import Browser
from .sources import ParquetSource, Source

PAUSE: Final = 3.0
"""Seconds between two looks at the folders."""

COMPLETE, INCOMPLETE, RUNNING, STOPPED = "complete", "incomplete", "running", "stopped"


@dataclass
class Entry:
    """A run under the key that addresses name it by.

    ``state``: ``complete``, ``incomplete`` (ended, with records missing), ``running``, or
    ``stopped`` (has not ended and nobody is at work on it).
    """

    key: str
    run: StoredRun
    journal: Path | None = field(default=None)

    @cached_property
    def browser(self) -> Browser:
        """Its records. Raises HarnessError where they cannot be read."""
        source: Source
        if self.journal is not None:
            source = JournalSource(self.journal)
        elif self.run.metrics is None:
            raise HarnessError(
                f"{self.run.name}: has not ended yet; its journal can be read on its own machine"
            )
        else:
            source = ParquetSource(self.run)
        return Browser(source)

    @property
    def state(self) -> str:
        if self.journal is None:
            return COMPLETE if self.run.complete else INCOMPLETE
        return RUNNING if _at_work(Path(self.run.place.path)) else STOPPED

    @property
    def expected(self) -> int:
        """Records that the run will have."""
        asked = self.run.manifest.get("expected")
        if isinstance(asked, int):
            return asked
        return int(self.run.metrics["expected"]) if self.run.metrics else 0

    def about(self) -> dict[str, Json]:
        """The run's line in a list."""
        run, metrics = self.run, self.run.metrics
        live = self.journal is not None
        source = self.browser.source if live else None
        if source is not None:
            source.advance(PAUSE / 20)
        return {
            "key": self.key,
            "name": run.name,
            "task": run.spec["task"]["name"],
            "model": model_label(run),
            "split": run.spec["split"],
            "opponent": str(run.spec["opponent"] or "").removeprefix("player:"),
            "created": run.manifest.get("created", ""),
            "state": self.state,
            "records": run.finished if source is None else source.total,
            "expected": self.expected,
            "score": None if live or metrics is None else metrics["score"],
            "mean": _mean(source) if source is not None else None,
            "ledger": None if live or metrics is None else metrics["ledger"]["records"],
            "normalised": None if live or metrics is None else metrics["normalised"],
        }


class Catalogue:
    """All runs at some places (folders or URLs); ``problems`` names what could not be read.

    Raises HarnessError where there is no run at all.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths = tuple(paths)
        self.problems: list[str] = []
        self._lock = threading.Lock()
        self._entries: dict[str, Entry] = {}
        self._looked = 0.0
        self._look()

    def entries(self) -> list[Entry]:
        """The runs by name, as they are now."""
        with self._lock:
            if time.monotonic() - self._looked > PAUSE:
                try:
                    self._look()
                except HarnessError as error:  # all were moved away: what was read stays
                    self.problems = [str(error)]
                self._looked = time.monotonic()
            return list(self._entries.values())

    def entry(self, key: str) -> Entry:
        """The run of a key. Raises LookupError where there is none."""
        self.entries()
        return self._entries[key]

    def _look(self) -> None:
        problems: list[str] = []
        runs = find_runs(self.paths, problems)
        found: dict[str, Entry] = {}
        for run in runs:
            key = run.name if run.name not in found else f"{run.name}~{run.manifest['hash'][:6]}"
            found[key] = self._entry(key, run)
        self._entries, self.problems = found, problems
        self._looked = time.monotonic()

    def _entry(self, key: str, run: StoredRun) -> Entry:
        """The entry as it was, where nothing has changed: it holds what was read."""
        journal = Path(run.place.path) / JOURNAL if _goes_on(run) else None
        old = self._entries.get(key)
        if old is not None and old.journal == journal and old.run.place.path == run.place.path:
            if journal is not None:
                old.run = run
                return old
            if (old.run.manifest, old.run.metrics) == (run.manifest, run.metrics):
                return old
        return Entry(key, run, journal)


def _goes_on(run: StoredRun) -> bool:
    """Whether the journal holds more than the table, as far as can be told."""
    if type(run.place) is not Place or not run.place.has(JOURNAL):
        return False
    if (
        run.metrics is None
        or run.manifest.get("expected", run.metrics["expected"]) != (run.metrics["expected"])
    ):
        return True
    if run.complete:
        return False
    folder = Path(run.place.path)
    try:
        return (folder / JOURNAL).stat().st_mtime > (folder / METRICS).stat().st_mtime
    except OSError:
        return False


def _at_work(folder: Path) -> bool:
    """Whether the process that locked a run folder last still lives."""
    try:
        os.kill(int((folder / "lock").read_text()), 0)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True


def _mean(source: Source) -> float | None:
    values = source.figures().value
    return float(values.mean()) if len(values) else None
