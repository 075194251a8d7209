"""Which checks there are for each kind, and running them on what a name stands for.

for report in check("rps-memory", Registry.load()):
    print(report.kind, report.found)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..registry import Entry, Registry, nearest
from ..types import HarnessError, Json
from . import common, fuzz, models, play, rewards, stored, tasks, trainers
from .kit import SAMPLES, Check, Kit, Result, run_check

CHECKS: Final[Mapping[str, Mapping[str, Check]]] = {
    "task": {
        "registered": common.registered,
        "imports": common.imports,
        "names": tasks.names,
        "ids": tasks.ids,
        "data": tasks.data,
        "splits": tasks.splits,
        "seeds": tasks.seeds,
        "lineup": tasks.lineup,
        "prompts": play.prompts,
        "oracle": play.oracle,
        "constants": play.constants,
        "faults": play.faults,
        "targets": play.targets,
        "players": play.players,
        "parser": fuzz.parser,
        "concurrency": play.concurrency,
        "records": stored.records,
        "metrics": stored.metrics,
        "speed": stored.speed,
    },
    "reward": {
        "registered": common.registered,
        "imports": common.imports,
        "names": rewards.named_alike,
        "bounded": rewards.bounded,
        "repeatable": rewards.repeatable,
        "worth": rewards.worth,
        "speed": rewards.speed,
    },
    "model": {
        "registered": common.registered,
        "imports": common.imports,
        "identity": models.identity,
        "players": models.players,
        "replies": models.replies,
        "stops": models.stops,
        "repeatable": models.repeatable,
        "budget": models.budget,
        "closing": models.closing,
    },
    "trainer": {
        "registered": common.registered,
        "imports": common.imports,
        "names": trainers.named_alike,
        "refusals": trainers.refusals,
        "two steps": trainers.two_steps,
    },
}
"""Kind -> name -> check, in the order in which they run."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be checked, and with what: see the options of `harness check`."""

    options: Mapping[str, Json] | None = None
    task: str = ""
    model: str = ""
    limit: int = SAMPLES
    only: tuple[str, ...] = ()
    registry_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The results for one plugin."""

    kind: str
    name: str
    results: tuple[Result, ...]

    @property
    def found(self) -> int:
        """How many findings there are."""
        return sum(len(result.findings) for result in self.results)

    def json(self) -> dict[str, Json]:
        """For ``--json``."""
        rows = [result.json() for result in self.results]
        return {"kind": self.kind, "name": self.name, "findings": self.found, "checks": rows}


def entries_of(registry: Registry, name: str, kind: str = "") -> list[tuple[Entry, str]]:
    """What a name stands for, each with what follows ``backend:``.

    Raises HarnessError for a name that nothing has.
    """
    if kind and kind not in CHECKS:
        raise HarnessError(f"--kind {kind}: choose one of {', '.join(CHECKS)}")
    kinds = (kind,) if kind else tuple(CHECKS)
    found = [(registry.entries[k, name], "") for k in kinds if (k, name) in registry.entries]
    if found:
        return found
    if "model" in kinds and any(sign in name for sign in ":/."):
        return [registry.for_model(name)]
    for each in kinds:
        if (each, name) in registry.left_out:
            registry.entry(each, name)  # says what leaves it out
    known = sorted({n for k, n in registry.entries if k in kinds})
    what = kind or "task, model, reward or trainer"
    raise HarnessError(
        f"there is no {what} {name!r}{nearest(name, known)}; `harness list` shows all"
    )


def kit_of(registry: Registry, entry: Entry, argument: str, asked: Asked) -> Kit:
    """The kit of one plugin; options are checked, and a reward gets a task to be tried on."""
    options = dict(asked.options or {})
    registry.options(entry, options)
    task = asked.task
    if entry.kind == "reward" and not task:
        task = rewards.find_task(registry, entry.name)
    if task:
        registry.entry("task", task)
    if asked.model:
        registry.for_model(asked.model)
    return Kit(
        registry, entry, options, asked.limit, task, asked.model, argument, asked.registry_file
    )


def check(
    name: str,
    registry: Registry,
    asked: Asked | None = None,
    kind: str = "",
    track: Callable[[Iterable[str], str], Iterable[str]] = lambda names, _: names,
) -> Iterator[Report]:
    """Check everything that a name stands for. ``track`` shows progress over the checks' names.

    Raises HarnessError for names and options that do not exist.
    """
    asked = asked or Asked()
    if asked.limit < 1:
        raise HarnessError(f"--limit {asked.limit}: must be at least 1")
    kits = [kit_of(registry, e, a, asked) for e, a in entries_of(registry, name, kind)]
    for kit in kits:
        checks = CHECKS[kit.entry.kind]
        chosen = [c for c in checks if not asked.only or c in asked.only]
        for word in asked.only:
            if not any(word in CHECKS[k.entry.kind] for k in kits):
                raise HarnessError(f"--only {word}: no such check{nearest(word, checks)}")
        results = tuple(
            run_check(each, checks[each], kit)
            for each in track(chosen, f"checking {kit.entry.kind} {name}")
        )
        yield Report(kit.entry.kind, name, results)
