"""Tables on stdout, through rich; model output in them is always escaped."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..api import Run
from ..summary import metric_rows

SHOWN: Final = 24
"""Figures of a run that its table shows."""


def print_json(value: Any) -> None:
    """JSON on stdout, indented."""
    import orjson

    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A plain table; the first column is left-aligned, the others right-aligned."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(title), title_justify="left", box=box.SIMPLE_HEAD)
    for place, column in enumerate(columns):
        table.add_column(escape(column), justify="left" if place == 0 else "right")
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    width = None if sys.stdout.isatty() else 100
    Console(file=sys.stdout, width=width).print(table)


def print_run(run: Run) -> None:
    """The figures, the ledger and the levels of one run."""
    summary = run.metrics
    against = f" against {summary['opponent']}" if summary["opponent"] else ""
    title = (
        f"{summary['task']} / {summary['model']}{against}: {summary['records']} of "
        f"{summary['expected']} records, split {summary['split']}, reward {summary['reward']}"
    )
    rows = [_metric_row(row) for row in metric_rows(dict(summary), SHOWN)]
    print_table(title, ("metric", "value", "95 % interval", "n", "clusters"), rows)
    if len(summary["metrics"]) > SHOWN:
        print(f"... and {len(summary['metrics']) - SHOWN} more figures in metrics.json")
    for line in _closing_lines(summary):
        print(line)
    print(f"run folder: {run.path}")
    if not summary["complete"]:
        missing = summary["expected"] - summary["records"]
        print(f"incomplete: {missing} records are missing; the same command tries them again")


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
