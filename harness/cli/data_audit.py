"""``harness data audit``: what a task's data gives away, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from .options import json_option, pairs, registry_option, set_option

if TYPE_CHECKING:
    from ..audit import Finding

SHOWN: Final = 6
"""Findings of a group that the table shows when none of them failed."""


@click.command("audit")
@click.argument("task")
@set_option
@registry_option
@json_option
def audit(task: str, settings: tuple[str, ...], registry_file: Path | None, as_json: bool) -> int:
    """Measure the shortcuts of TASK's data and check it for errors.

    Shortcuts are measured with 95 % intervals, in each group; the table shows those that exceed
    their bound and the strongest of the others, --json all, with every offender. Exit code 1 when
    one exceeds its bound or a check finds something.
    """
    from .. import audit as auditing
    from ..registry import Registry
    from .tables import print_json

    made = Registry.load(registry_file).create("task", task, pairs(settings))
    findings = auditing.audit(made)
    failed = [f for f in findings if f.failed]
    if as_json:
        print_json([f.json() for f in findings])
    else:
        for row in table(findings):
            click.echo(row)
        click.echo(f"{task}: {len(findings)} findings, {len(failed)} exceed their bound")
    return int(bool(failed))


def table(findings: Sequence[Finding]) -> list[str]:
    """The lines of the table: failures first, then the strongest of each group."""
    chosen = [f for f in findings if f.failed]
    counts: dict[str, int] = {}
    for found in sorted((f for f in findings if not f.failed), key=lambda f: -f.value):
        counts[found.group] = counts.get(found.group, 0) + 1
        if counts[found.group] <= SHOWN:
            chosen.append(found)
    chosen.sort(key=lambda f: (not f.failed, f.group, -f.value))
    head = ("", "group", "finding", "value", "95 %", "bound", "n", "note")
    rows = [head, *map(_row, chosen)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head) - 1)]
    return [
        "  ".join(
            [*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[-1]]
        ).rstrip()
        for row in rows
    ]


def _row(found: Finding) -> tuple[str, ...]:
    interval = "" if found.low is None else f"{found.low:.3f} to {found.high:.3f}"
    whole = found.bound is None or found.bound == int(found.bound)
    counted = whole and found.low is None and found.value == int(found.value)
    value = f"{found.value:.0f}" if counted else f"{found.value:.3f}"
    bound = (
        "" if found.bound is None else (f"{found.bound:.0f}" if counted else f"{found.bound:.3f}")
    )
    verdict = "FAIL" if found.failed else "ok"
    return (verdict, found.group, found.name, value, interval, bound, str(found.n), found.note)
