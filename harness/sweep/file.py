"""The file of a sweep: what is trained, what is varied, how it is tested and where it runs.

    baseline = "grpo"
    seeds = [0, 1, 2]

    [train]                      # settings that all cells share, as in a recipe
    recipe = "../tiny-grpo-cpu.toml"
    model = "FOLDER"

    [method.grpo-probe]          # settings of all cells with this method
    probe.coef = 0.1

    [[condition]]                # what is compared: settings over the shared ones
    name = "grpo"

    [grid]                       # and / or every combination of lists
    learning_rate = [1e-6, 1e-5]

Cells are conditions x grid x seeds. All of it is checked against the registry before any runs.
"""  # fmt: skip

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Final

from ..registry import Registry, convert, nearest
from ..training.recipe import divide, flat, read_config, read_toml, sort_out
from ..types import HarnessError, Json
from .cells import Cell, Test, slug

TOP: Final = (
    "name", "baseline", "seeds", "checkpoint", "prune", "train", "method", "condition", "grid",
    "test", "schedule", "slurm", "statistics",
)  # fmt: skip
SCHEDULE: Final[dict[str, Json]] = {
    "slots": 1, "gpus": 0, "retries": 1, "hours": 0.0, "launcher": "local", "ray": [],
    "command": [],
}  # fmt: skip
STATISTICS: Final[dict[str, Json]] = {"test": "welch", "trend": ""}
ARGUMENTS: Final[dict[str, type | tuple[type, ...]]] = {
    "split": str, "limit": int, "seeds": list, "repeats": int, "n": int, "reward": str,
    "opponent": str, "system": str, "fewshot": int, "temperature": (int, float),
    "top_p": (int, float), "top_k": int, "max_tokens": int, "concurrency": int,
}  # fmt: skip
"""What ``[test]`` may hold of `harness run`, besides tasks and options."""
LAUNCHERS: Final = ("local", "slurm")
TESTS: Final = ("welch", "paired")
CHECKPOINTS: Final = ("best", "last")


@dataclass(frozen=True, slots=True)
class Schedule:
    """Where cells run: so many at a time, GPUs of each, tries after the first, hours of a cell at
    most (0: no limit), Ray clusters that are there already (one a slot), the command that stands
    for ``harness``."""

    slots: int
    gpus: int
    retries: int
    hours: float
    launcher: str
    ray: tuple[str, ...]
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep, resolved: cells in the order in which they start."""

    name: str
    baseline: str
    cells: tuple[Cell, ...]
    schedule: Schedule
    slurm: Mapping[str, Json]
    test: str
    trend: str
    prune: bool

    @property
    def conditions(self) -> tuple[str, ...]:
        """Their names, in the order of the file."""
        return tuple(dict.fromkeys(c.condition for c in self.cells))

    @property
    def panels(self) -> tuple[str, ...]:
        """The parts that are compared within themselves."""
        return tuple(dict.fromkeys(c.panel for c in self.cells))


def read_sweep(
    path: Path, registry: Registry, given: Mapping[str, Json] | None = None, **schedule: Json
) -> Sweep:
    """Read and expand a file.

    :param given: settings over those of ``[train]`` (``--set``).
    :param schedule: settings over those of ``[schedule]``; None leaves the file's.
    :raises HarnessError: for anything that cannot work, with the place in the file.
    """
    document = read_toml(path)
    known(document, TOP, str(path))
    for table in ("train", "method", "grid", "test", "schedule", "slurm", "statistics"):
        if not isinstance(document.get(table, {}), dict):
            raise HarnessError(f"{path}: {table} must be a table: write [{table}]")
    statistics = _typed(document.get("statistics", {}), STATISTICS, f"{path}: [statistics]")
    _choose(statistics["test"], TESTS, f"{path}: [statistics] test")
    checkpoint = document.get("checkpoint", "best")
    _choose(checkpoint, CHECKPOINTS, f"{path}: checkpoint")
    plan = _schedule(document, schedule, path)
    cells = _cells(document, path, registry, dict(given or {}), plan, str(checkpoint))
    if (trend := str(statistics["trend"])) and not any(trend in c.train for c in cells):
        raise HarnessError(f"{path}: [statistics] trend: no condition sets {trend!r}")
    cells = [_placed(c, trend) for c in cells]
    baseline = _baseline(document, cells, path)
    return Sweep(
        slug(str(document.get("name") or path.stem)),
        baseline,
        tuple(cells),
        plan,
        document.get("slurm", {}),
        str(statistics["test"]),
        trend,
        bool(document.get("prune", False)),
    )


def known(table: Mapping[str, Json], names: Iterable[str], where: str) -> None:
    """Raise HarnessError for a key that nobody reads."""
    names = list(names)
    for key in table:
        if key not in names:
            raise HarnessError(f"{where}: unknown key {key!r}{nearest(key, names)}")


def _typed(table: Mapping[str, Json], defaults: Mapping[str, Json], where: str) -> dict[str, Json]:
    known(table, defaults, where)
    given = {k: convert(v, defaults[k], f"{where} {k}") for k, v in table.items()}
    return {**defaults, **given}


def _choose(value: Json, names: Sequence[str], what: str) -> None:
    if value not in names:
        raise HarnessError(f"{what}: {value!r} is none of {', '.join(names)}")


def _schedule(document: Mapping[str, Json], given: Mapping[str, Json], path: Path) -> Schedule:
    asked = {k: v for k, v in given.items() if v is not None}
    found = _typed({**document.get("schedule", {}), **asked}, SCHEDULE, f"{path}: [schedule]")
    _choose(found["launcher"], LAUNCHERS, f"{path}: [schedule] launcher")
    for name, low in (("slots", 1), ("gpus", 0), ("retries", 0), ("hours", 0)):
        if found[name] < low:
            raise HarnessError(f"{path}: [schedule] {name} {found[name]}: must be at least {low}")
    if found["ray"] and len(found["ray"]) != found["slots"]:
        raise HarnessError(
            f"{path}: [schedule] ray names {len(found['ray'])} clusters for {found['slots']} "
            "slots: give one for each, since two trainings in one cluster get in each other's way"
        )
    lists = {name: tuple(map(str, found[name])) for name in ("ray", "command")}
    return Schedule(**{**found, **lists})


def _cells(
    document: Mapping[str, Json],
    path: Path,
    registry: Registry,
    given: dict[str, Json],
    schedule: Schedule,
    checkpoint: str,
) -> list[Cell]:
    shared = _shared(document.get("train", {}), path)
    methods = _methods(document.get("method", {}), registry, path)
    seeds = document.get("seeds", [0])
    if not isinstance(seeds, list) or not seeds or len(set(map(str, seeds))) < len(seeds):
        raise HarnessError(f"{path}: seeds: give a list of different whole numbers")
    if not all(type(seed) is int for seed in seeds):
        raise HarnessError(f"{path}: seeds {seeds}: give whole numbers")
    found: list[Cell] = []
    for condition, panel, own in _variations(document, path):
        for key in given:
            if key in own or key == "seed":
                raise HarnessError(f"--set {key}: the sweep varies it; change {path}")
        for seed in seeds:
            name = slug("--".join(filter(None, (condition, panel, f"seed{seed}"))))
            where = f"{path}: cell {name}"
            method = str({**shared, **given, **own}.get("method", ""))
            train = {**shared, **methods.get(method, {}), **given, **own, "seed": seed}
            train = _checked(train, registry, schedule, checkpoint, where)
            tests = _tests(document.get("test", {}), train, registry, f"{path}: [test]")
            found.append(Cell(name, condition, panel, seed, None, train, tests, checkpoint))
    names = [c.name for c in found]
    if twice := sorted({n for n in names if names.count(n) > 1}):
        raise HarnessError(f"{path}: two cells are named {twice[0]}; rename a condition")
    return found


def _shared(table: Mapping[str, Json], path: Path) -> dict[str, Json]:
    """``[train]`` over the recipe that it names."""
    own = {k: v for k, v in table.items() if k != "recipe"}
    settings: dict[str, Json] = {}
    if recipe := table.get("recipe"):
        top, options = read_config(path.parent / str(recipe))
        # Where and under which seed a recipe trains is the sweep's own business.
        settings |= {k: v for k, v in (top | options).items() if k not in ("gpus", "seed")}
    settings |= _settings(own)
    for key in ("out", "log"):
        settings.pop(key, None)
    if "seed" in own:
        raise HarnessError(f"{path}: [train] seed: write seeds = [...] at the top")
    return settings


def _methods(
    table: Mapping[str, Json], registry: Registry, path: Path
) -> dict[str, dict[str, Json]]:
    """Settings by method."""
    found = {}
    for name, own in table.items():
        try:
            registry.entry("trainer", name)
        except HarnessError as error:
            raise HarnessError(f"{path}: [method.{name}]: {error}") from None
        if not isinstance(own, dict) or "seed" in own:
            raise HarnessError(f"{path}: [method.{name}]: give settings of training, and no seed")
        found[name] = _settings(own)
    return found


def _settings(table: Mapping[str, Json]) -> dict[str, Json]:
    top, options = sort_out(table)
    return top | options


def _variations(document: Mapping[str, Json], path: Path) -> list[tuple[str, str, dict[str, Json]]]:
    """(condition, panel, settings) of each: the listed conditions at each point of the grid, or the
    points of the grid where none is listed."""
    listed = document.get("condition", [])
    if not isinstance(listed, list) or not all(isinstance(row, dict) for row in listed):
        raise HarnessError(f"{path}: write each condition as [[condition]]")
    axes = _settings(document.get("grid", {}))
    for key, values in axes.items():
        if not isinstance(values, list) or not values:
            raise HarnessError(f"{path}: [grid] {key}: give a list of values")
        if key == "seed":
            raise HarnessError(f"{path}: [grid] seed: write seeds = [...] at the top")
    points = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    rows: list[tuple[str, dict[str, Json]]] = []
    for row in listed:
        if not isinstance(row.get("name"), str) or not row["name"].strip():
            raise HarnessError(f"{path}: a [[condition]] has no name")
        own = _settings({k: v for k, v in row.items() if k != "name"})
        for key in own:
            if key in axes or key == "seed":
                raise HarnessError(
                    f"{path}: condition {row['name']}: {key} is varied by the whole sweep"
                )
        rows.append((row["name"].strip(), own))
    if not rows:
        return [(point_name(p) or "all", "", p) for p in points]
    return [(name, point_name(p), {**own, **p}) for p in points for name, own in rows]


def point_name(point: Mapping[str, Json]) -> str:
    """A point of a grid in words; names such as a method's stand for themselves.

    >>> point_name({"method": "grpo", "probe.coef": 0.1})
    'grpo, coef=0.1'
    """
    words = []
    for key, value in point.items():
        plain = key in ("method", "task", "model")
        shown = "+".join(map(str, value)) if isinstance(value, list) else str(value)
        words.append(shown if plain else f"{key.rpartition('.')[2]}={shown}")
    return ", ".join(words)


def _checked(
    train: dict[str, Json], registry: Registry, schedule: Schedule, checkpoint: str, where: str
) -> dict[str, Json]:
    """The settings with the slot's GPUs. Raises HarnessError for what no trainer takes."""
    for name in ("method", "task", "model"):
        if not isinstance(train.get(name), str) or not train[name]:
            raise HarnessError(f"{where}: {name} is missing (in [train] or --set {name}=...)")
    settings = {k: v for k, v in train.items() if k not in ("method", "task", "model", "reward")}
    try:
        options, _, _ = divide(registry, train["method"], train["task"], settings)
        entry = registry.entry("trainer", train["method"])
        values = registry.options(entry, options)
    except HarnessError as error:
        raise HarnessError(f"{where}: {error}") from None
    if checkpoint == "best" and int(values.get("validation.limit", 0)) < 0:
        raise HarnessError(
            f"{where}: validation.limit=-1 leaves nothing to choose a checkpoint by; let it "
            'validate, or write checkpoint = "last"'
        )
    if "gpus" in entry.options:
        if options.get("gpus", schedule.gpus) not in (-1, schedule.gpus):
            raise HarnessError(
                f"{where}: gpus is {options['gpus']}, but a slot has {schedule.gpus}: leave it out "
                "of the settings of training"
            )
        train = {**train, "gpus": schedule.gpus}
    for key, value in train.items():
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            raise HarnessError(f"{where}: {key} = {value}: give a finite number")
    return train


def _tests(
    table: Mapping[str, Json], train: Mapping[str, Json], registry: Registry, where: str
) -> tuple[Test, ...]:
    known(table, ("tasks", "set", "model", *ARGUMENTS), where)
    arguments = {k: v for k, v in table.items() if k in ARGUMENTS}
    for key, value in arguments.items():
        if not isinstance(value, ARGUMENTS[key]) or isinstance(value, bool):
            raise HarnessError(f"{where} {key}: {value!r} is of the wrong type")
    tasks = table.get("tasks", [train["task"]])
    texts = isinstance(tasks, list) and all(isinstance(task, str) for task in tasks)
    if not texts or len(set(tasks)) < len(tasks):
        raise HarnessError(f"{where} tasks: give a list of different names")
    for key in ("set", "model"):
        if not isinstance(table.get(key, {}), dict):
            raise HarnessError(f"{where} {key}: must be a table of options")
    given = flat(table.get("set", {}))
    found = []
    for task in tasks:
        own = {
            k.partition(".")[2]: v
            for k, v in train.items()
            if k.startswith("task.") and task == train["task"]
        }
        for key, value in given.items():
            head, dot, rest = key.partition(".")
            if not dot or head not in tasks:
                own[key] = value
            elif head == task:
                own[rest] = value
        try:
            registry.options(registry.entry("task", task), own)
        except HarnessError as error:
            raise HarnessError(f"{where}: {error}") from None
        found.append(Test(str(task), own, flat(table.get("model", {})), arguments))
    return tuple(found)


def _placed(cell: Cell, trend: str) -> Cell:
    return replace(cell, place=_number(cell.train.get(trend))) if trend else cell


def _number(value: Json) -> float | None:
    """A setting as a place on an axis: a number, or a list of one."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    try:
        return None if isinstance(value, bool | list) or value is None else float(value)
    except (ValueError, TypeError, OverflowError):  # text, a date, a number of 400 digits
        return None


def _baseline(document: Mapping[str, Json], cells: Sequence[Cell], path: Path) -> str:
    names = list(dict.fromkeys(c.condition for c in cells))
    baseline = document.get("baseline", names[0] if len(names) == 1 else None)
    if baseline not in names:
        what = "is missing" if baseline is None else f"{baseline!r} is no condition"
        raise HarnessError(f"{path}: baseline {what}; name one of {', '.join(names)}")
    return str(baseline)
