"""``harness doctor``: what this machine can run, and what to install for the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from ..types import HarnessError
from .options import json_option, registry_option


@click.command("doctor")
@click.option("--games", is_flag=True, help="Classify all games of the game libraries (minutes).")
@registry_option
@json_option
def command(games: bool, registry_file: Path | None, as_json: bool) -> int:
    """Check what this machine has, and say what to install or change.

    Versions, optional parts, driver and GPU, memory, disk, cache, registry, each plugin, and
    whether the built-in ones are ours. Exit code 1 on a finding.

    With --games: every environment that the installed game libraries register is made and played
    in a process of its own, and the table says which run and why the others do not.
    """
    if games:
        return _games(registry_file, as_json)
    from ..machine import PACKAGE, findings, missing_extras
    from ..progress import track
    from ..terminal import visible

    rows = list(track(findings(registry_file), "looking"))
    if as_json:
        import json

        print(json.dumps([row._asdict() for row in rows], indent=2))
    else:
        width = max(len(row.subject) for row in rows)
        for row in rows:
            print(f"{'ok  ' if row.ok else 'FAIL'}  {row.subject:{width}}  {visible(row.advice)}")
        lacking = [extra for extra, missing in missing_extras().items() if missing]
        if lacking:
            print(f"all optional parts: pip install '{PACKAGE}[{','.join(lacking)}]'")
        bad = sum(not row.ok for row in rows)
        print(f"{bad} findings" if bad else "all in order")
    return int(any(not row.ok for row in rows))


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
