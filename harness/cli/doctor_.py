"""``harness doctor``: what this machine can run, and what to install for the rest."""

from __future__ import annotations

import importlib.util
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from ..types import HarnessError
from .options import json_option, registry_option


class Finding(NamedTuple):
    """One row: what was looked at, whether it is in order, what to do or what was found."""

    subject: str
    ok: bool
    advice: str


@click.command("doctor")
@click.option("--games", is_flag=True, help="Classify all games of the game libraries (minutes).")
@registry_option
@json_option
def command(games: bool, registry_file: Path | None, as_json: bool) -> int:
    """Check Python, packages, disk, cache, registry and plugins. Exit code 1 on a finding.

    With --games: every environment that the installed game libraries register is made and played
    in a process of its own, and the table says which run and why the others do not.
    """
    if games:
        return _games(registry_file, as_json)
    rows = list(_findings(registry_file))
    if as_json:
        import json

        print(json.dumps([row._asdict() for row in rows], indent=2))
    else:
        width = max(len(row.subject) for row in rows)
        for row in rows:
            print(f"{'ok  ' if row.ok else 'FAIL'}  {row.subject:{width}}  {row.advice}")
        bad = sum(not row.ok for row in rows)
        print(f"{bad} findings" if bad else "all in order")
    return int(any(not row.ok for row in rows))


def _findings(registry_file: Path | None) -> Iterator[Finding]:
    version = platform.python_version_tuple()
    fresh = (int(version[0]), int(version[1])) >= (3, 11)
    yield Finding("Python", fresh, platform.python_version() + ("" if fresh else ": 3.11 or later"))
    yield from _packages()
    yield from _places()
    yield from _plugins(registry_file)


def _games(registry_file: Path | None, as_json: bool) -> int:
    import sys

    def show(done: int, total: int) -> None:
        if done % 25 == 0 or done == total:
            print(f"{done} of {total} environments", file=sys.stderr, flush=True)

    rows = [row for classify in _classifiers(registry_file) for row in classify(progress=show)]
    if as_json:
        import json

        print(json.dumps(rows, indent=2))
    else:
        _print_games(rows)
    return 0


def _classifiers(registry_file: Path | None) -> Iterator[Callable[..., list[dict[str, Any]]]]:
    """The function ``doctor_games`` of each task plugin that has one, its rows as dicts."""
    import sys

    from ..registry import Registry, load_module

    seen = set()
    for (kind, name), entry in Registry.load(registry_file).entries.items():
        if kind != "task" or entry.module in seen:
            continue
        seen.add(entry.module)
        try:
            module = load_module(entry)
        except HarnessError as error:
            print(f"task {name} is left out: {error}", file=sys.stderr)
            continue
        if hasattr(module, "doctor_games"):
            classify = module.doctor_games
            yield lambda progress, f=classify: [row._asdict() for row in f(progress=progress)]


def _print_games(rows: Sequence[Mapping[str, Any]]) -> None:
    """One line an environment, whole however narrow the terminal is; then counts by class, all ids
    and those that are not another one in another wrapping."""
    head = ("environment", "class", "players", "CPU s", "adapter", "to know")
    lines = [
        (
            row["name"],
            row["cls"],
            str(row["players"] or "-"),
            f"{row['seconds']:.1f}",
            "yes" if row["adapter"] else "-",
            "; ".join(filter(None, (row["wrong"] and f"wrong: {row['wrong']}", row["reason"]))),
        )
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)][:-1]
    for line in (head, *lines):
        cells = [f"{cell:{width}}" for cell, width in zip(line, widths, strict=False)]
        print("  ".join([*cells, line[-1]]).rstrip())
    base = [row for row in rows if not row["variant_of"]]
    print()
    for title, part in (("all ids", rows), ("without other wrappings", base)):
        counts: dict[str, int] = {}
        for row in part:
            counts[row["cls"]] = counts.get(row["cls"], 0) + 1
        told = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
        print(f"{title}: {len(part)}: {told}")
    print(f"{sum(row['seconds'] for row in rows):.0f} CPU seconds")


def _packages() -> Iterator[Finding]:
    from importlib.metadata import PackageNotFoundError, version

    for name, needed in (
        ("strategic-harness", True),
        ("torch", True),
        ("transformers", True),
        ("pyarrow", True),
        ("pandas", False),
        ("vllm", False),
    ):
        try:
            yield Finding(name, True, version(name))
        except PackageNotFoundError:
            missing = (
                "missing: pip install strategic-harness" if needed else "not installed (optional)"
            )
            yield Finding(name, not needed, missing)
    spec = importlib.util.find_spec("harness_plugins")
    yield Finding("built-in plugins", spec is not None, "importable" if spec else "reinstall")


def _places() -> Iterator[Finding]:
    from ..paths import cache_dir

    try:
        folder = cache_dir()
        free = shutil.disk_usage(folder).free / 2**30
        yield Finding("cache", free > 2, f"{folder}, {free:.0f} GiB free")
    except OSError as error:
        yield Finding("cache", False, f"{error}; set HARNESS_CACHE to a folder you can write")
    yield Finding("GPU", True, _gpu())


def _gpu() -> str:
    import subprocess

    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        found = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return "none: models run on the CPU"
    return "; ".join(found.stdout.split("\n")).strip("; ")


def _plugins(registry_file: Path | None) -> Iterator[Finding]:
    from ..registry import Registry, load_module

    registry = Registry.load(registry_file)
    for problem in registry.problems:
        yield Finding("registry", False, problem)
    for entry in registry.entries.values():
        subject = f"{entry.kind} {entry.name}"
        try:
            module = load_module(entry)
        except HarnessError as error:
            yield Finding(subject, bool(entry.extra), str(error))
            continue
        yield Finding(subject, True, entry.module)
        for row in getattr(module, "doctor", tuple)():
            yield Finding(*row)
