"""Tables on stdout, through rich; model output in them is always escaped."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..api import Run
from ..summary import metric_rows
from ..terminal import lines, visible

SHOWN: Final = 24
"""Figures of a run that its table shows."""

NARROW: Final = 60
"""Columns of a terminal below which tables become blocks of lines."""


def print_json(value: Any) -> None:
    """JSON on stdout, indented."""
    import orjson

    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n")


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], wide: bool = False
) -> None:
    """A plain table; the first column is left-aligned, the others right-aligned. A ``wide`` one may
    pass 100 characters in a file. Cells are folded, never cut; on a terminal of less than `NARROW`
    columns each row is a block of lines."""
    if sys.stdout.isatty() and shutil.get_terminal_size().columns < NARROW:
        print_blocks(title, columns, rows)
        return
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    def shown(text: str) -> str:
        return str(escape(lines(text)))

    table = Table(title=shown(title), title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column(shown(columns[0]), justify="left", no_wrap=wide, overflow="fold")
    for column in columns[1:]:
        table.add_column(shown(column), justify="right", overflow="fold")
    for row in rows:
        table.add_row(*map(shown, row))
    width = None if sys.stdout.isatty() else 200 if wide else 100
    Console(file=sys.stdout, width=width).print(table)


def print_blocks(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table for narrow terminals: the first cell of each row, and a line for each other one."""
    print(visible(title))
    for row in rows:
        print(f"\n{visible(row[0]) or '-'}")
        for name, cell in zip(columns[1:], row[1:], strict=True):
            print(lines(f"  {name}: {cell}"))
    print()


def print_run(run: Run) -> None:
    """The figures, the ledger and the levels of one run."""
    summary = run.metrics
    against = f" against {summary['opponent']}" if summary["opponent"] else ""
    title = (
        f"{summary['task']} / {summary['model']}{against}: {summary['records']} of "
        f"{summary['expected']} records, split {summary['split']}, reward {summary['reward']}"
    )
    columns = summary.get("columns") or ()
    figures = metric_rows(dict(summary), SHOWN)
    if columns:
        figures = [row for row in figures if not row["group"]]
    rows = [_metric_row(row) for row in figures]
    print_table(title, ("metric", "value", "95 % interval", "n", "clusters"), rows)
    if columns:
        print_groups(summary, columns)
    elif len(summary["metrics"]) > SHOWN:
        print(f"... and {len(summary['metrics']) - SHOWN} more figures in metrics.json")
    for line in _closing_lines(summary):
        print(visible(line))
    print(visible(f"run folder: {run.path}"))
    if not summary["complete"]:
        missing = summary["expected"] - summary["records"]
        print(f"incomplete: {missing} records are missing; the same command tries them again")


def print_groups(summary: Mapping[str, Any], columns: Sequence[str]) -> None:
    """A line a group: the task's columns, the first with its interval, and in brackets behind
    each what random play gets."""
    found = {(row["name"], row["group"]): row for row in summary["metrics"]}
    groups = list(dict.fromkeys(row["group"] for row in summary["metrics"] if row["group"]))

    def cell(name: str, group: str) -> str:
        row, level = found.get((name, group)), found.get((f"random.{name}", group))
        text = "-" if row is None or row["value"] is None else f"{row['value']:.3f}"
        if level is None or level["value"] is None:
            return text
        return f"{text} ({round(level['value'], 2) + 0.0:.2f})"

    rows = []
    for group in groups:
        first = found.get((columns[0], group))
        interval = "-" if first is None else _metric_row(first)[2]
        head, *others = (cell(name, group) for name in columns)
        rows.append((group, head, interval, *others))
    against = f" against {summary['opponent']}" if summary["opponent"] else ""
    levels = any(name.startswith("random.") for name, _ in found)
    title = f"{summary['model']}{against}{'; in brackets: random play' if levels else ''}"
    print_table(title, ("", columns[0], "95 % interval", *columns[1:]), rows, wide=True)
    shown = len(columns) * len(groups) + sum(not row["group"] for row in summary["metrics"])
    print(f"{len(summary['metrics']) - shown} more figures in metrics.json")


def _metric_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    name = f"{row['name']} [{row['group']}]" if row["group"] else row["name"]
    value = "-" if row["value"] is None else f"{row['value']:.3f}"
    interval = "too few" if row["clusters"] < 20 else "-"
    if row["low"] is not None:
        interval = f"{row['low']:.3f} to {row['high']:.3f}"
    return name, value, interval, str(row["n"]), str(row["clusters"])


def _closing_lines(summary: Mapping[str, Any]) -> list[str]:
    ledger = summary["ledger"]
    lines = [
        f"ledger, records: {_counts(ledger['records'])}",
        f"ledger, moves:   {_counts(ledger['moves'])}",
    ]
    fair = summary["policies"]["given_valid"]
    if fair["value"] is not None and fair["n"] < summary["records"]:
        lines.append(f"score given a valid answer: {fair['value']:.3f} (n = {fair['n']})")
    if summary["levels"]:
        levels = ", ".join(f"{name} {value:.3f}" for name, value in summary["levels"].items())
        normalised = summary["normalised"]
        text = "" if normalised is None else f"; normalised score {normalised:.3f}"
        lines.append(f"reference players: {levels}{text}")
    usage = summary["usage"]
    if usage["completion_tokens"]:
        lines.append(
            f"tokens: {usage['prompt_tokens']:,} in prompts, {usage['completion_tokens']:,} in "
            f"replies; {usage['cut_off']} replies cut off at the limit"
        )
    return lines


def _counts(ledger: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in ledger.items() if count) or "none"
