"""What checks are made of: a check looks at a plugin and yields findings and remarks.

    def has_summary(kit: Kit) -> Steps:
        if not kit.entry.summary:
            yield Finding("no summary", "write one in registry.toml")
        yield "one line"

A check that raises is a finding too, with the place in the plugin's code.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from ..registry import Entry, Registry, load_module
from ..types import HarnessError, Json

SAMPLES = 60
"""Samples that are looked at, unless the user says otherwise."""


class Finding(NamedTuple):
    """Something that is wrong, and what to do about it."""

    text: str
    advice: str


class Skip(Exception):
    """A check that has nothing to look at here; the message says why."""


Steps = Iterator["Finding | str"]


@dataclass(slots=True)
class Kit:
    """A plugin under test: its entry, the options it is made with, how many samples to look at.

    ``task`` and ``model`` name what a reward or a trainer is tried on ("" where nothing is named).
    """

    registry: Registry
    entry: Entry
    options: Mapping[str, Json] = field(default_factory=dict)
    limit: int = SAMPLES
    task: str = ""
    model: str = ""
    argument: str = ""
    registry_file: Path | None = None
    memory: dict[str, Any] = field(default_factory=dict)

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """What ``make`` gives, made on first use and kept for the other checks."""
        if name not in self.memory:
            self.memory[name] = make()
        return self.memory[name]

    @property
    def module(self) -> ModuleType:
        """The plugin's module."""
        return load_module(self.entry)

    def made(self) -> Any:
        """The plugin's object, made once. Where that fails, the check that comes first says so, and
        the others have nothing to look at."""
        if "unmade" in self.memory:
            raise Skip("it cannot be made")
        try:
            return self.once("made", self.make)
        except HarnessError:
            self.memory["unmade"] = True
            raise

    def make(self) -> Any:
        """The plugin's object, made anew."""
        entry = self.entry
        return self.registry.create(entry.kind, entry.name, self.options, self.argument)


Check = Callable[[Kit], Steps]


@dataclass(frozen=True, slots=True)
class Result:
    """What one check found. ``skipped`` says why it could not look; ``note`` what it saw."""

    check: str
    findings: tuple[Finding, ...] = ()
    note: str = ""
    skipped: str = ""
    seconds: float = 0.0

    @property
    def status(self) -> str:
        """``FOUND``, ``skip`` or ``ok``."""
        return "FOUND" if self.findings else "skip" if self.skipped else "ok"

    def json(self) -> dict[str, Json]:
        """For ``--json``."""
        return {
            "check": self.check,
            "status": self.status,
            "findings": [finding._asdict() for finding in self.findings],
            "note": self.note,
            "skipped": self.skipped,
            "seconds": round(self.seconds, 3),
        }


def run_check(name: str, check: Check, kit: Kit) -> Result:
    """Run one check; whatever it raises becomes a finding."""
    began = time.perf_counter()
    findings: list[Finding] = []
    notes: list[str] = []
    skipped = ""
    try:
        for step in check(kit):
            if isinstance(step, Finding):
                findings.append(step)
            else:
                notes.append(step)
    except Skip as reason:
        skipped = str(reason)
    except HarnessError as error:
        findings.append(Finding(str(error), "mend what the message names"))
    except Exception as error:  # the plugin under test may raise anything: that is the finding
        text = f"{type(error).__name__}: {first_line(error)} ({place(error, kit.entry)})"
        findings.append(Finding(text, "no plugin may raise here: mend the line that is named"))
    seconds = time.perf_counter() - began
    return Result(name, tuple(findings), "; ".join(notes), skipped, seconds)


def place(error: BaseException, entry: Entry) -> str:
    """File and line where an error was raised, in the plugin's own code where it passed there."""
    frames = traceback.extract_tb(error.__traceback__)
    top = entry.module.partition(".")[0]
    last = next((f for f in reversed(frames) if top in Path(f.filename).parts), None)
    if last is None:
        own = [f for f in frames if "harness/conformance" not in f.filename.replace("\\", "/")]
        last = (own or list(frames))[-1]
    return f"{Path(last.filename).name} line {last.lineno}, in {last.name}"


def first_line(error: BaseException) -> str:
    """The first line of an error's message, at most 300 characters."""
    return (str(error).strip().splitlines() or [""])[0][:300]


def named(items: list[str], most: int = 3) -> str:
    """The first few names, and how many there are beyond them.

    >>> named(["a", "b", "c", "d"], 2)
    'a, b and 2 more'
    """
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + more
