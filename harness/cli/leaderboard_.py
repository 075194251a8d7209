"""``harness leaderboard``: runs as one table."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ..types import HarnessError
from .options import json_option, pairs, registry_option


@click.command("leaderboard")
@click.argument("runs", nargs=-1, required=True)
@click.option(
    "--columns",
    default="overall",
    show_default=True,
    metavar="A[,B]",
    help="TASK:METRIC[GROUP] with * and ?, TITLE=TASK:METRIC, or a preset: overall, groups, all, "
    "gamesolve, gamesolve-ood, tom, gtbench, textarena.",
)
@click.option("--baseline", default="", metavar="LABEL", help="Add the difference to this row.")
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="LABEL=PATTERN",
    help="Runs whose folder or model fits make one row (training seeds). Repeatable.",
)
@click.option("--id", "inside", multiple=True, metavar="TASK", help="Show as in-distribution.")
@click.option("--ood", multiple=True, metavar="TASK", help="Show as out of distribution.")
@click.option("--external", multiple=True, metavar="TASK", help="Show as external.")
@click.option(
    "--training", multiple=True, metavar="LABEL=DIR", help="Where a row's training.json lies."
)
@click.option("--exact", is_flag=True, help="Bootstrap-t intervals (slow for large cells).")
@click.option("--observer", "observers", multiple=True, help="A plugin that adds columns.")
@click.option(
    "--format",
    "form",
    default="terminal",
    show_default=True,
    type=click.Choice(["terminal", "md", "html", "csv", "json", "latex"]),
)
@click.option("--out", type=click.Path(path_type=Path), help="A file instead of the terminal.")
@click.option("--plots", type=click.Path(path_type=Path), help="A folder for plots (PNG, SVG).")
@registry_option
@json_option
def command(**given: Any) -> int:
    """Compare all runs in the folders or URLs RUNS: labels by figures.

    Cells are marked where evaluation items occur in the training data (†), records are missing (‡)
    or data, prompt, template, decoding or reward differ (§); only equal protocols are ranked.
    Exit code 1 when a run is incomplete, or a folder among others cannot be read.
    """
    from ..board.arenas import EXTERNAL, ID, OOD, split_columns
    from ..board.formats import WIDTH, render, terminal
    from ..leaderboard import Options, make_board

    domains = {
        pattern: domain
        for option, domain in (("inside", ID), ("ood", OOD), ("external", EXTERNAL))
        for pattern in given[option]
    }
    columns = tuple(split_columns(given["columns"]))
    if not columns:
        raise HarnessError("--columns names nothing")
    options = Options(
        columns=columns,
        labels=tuple(_label(text) for text in given["labels"]),
        baseline=given["baseline"],
        domains=domains,
        training={k: str(v) for k, v in pairs(given["training"], "--training").items()},
        exact=given["exact"],
    )
    extra = _extra_columns(given["observers"], given["runs"], given["registry_file"])
    board = make_board(given["runs"], options, extra)
    form = "json" if given["as_json"] else given["form"]
    narrow = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
    if form == "terminal" and given["out"] is None and narrow < WIDTH:
        write(terminal(board, narrow) + "\n", None)
    else:
        write(render(board, form), given["out"])
    if given["plots"] is not None:
        from dataclasses import replace

        from ..report.plots import draw

        full = make_board(given["runs"], replace(options, columns=("groups",), baseline=""))
        for path in draw(board, full, given["plots"]):
            click.echo(f"wrote {path}", err=True)
    return int(bool(board.problems) or any(cell.missing for cell in board.cells.values()))


def _label(text: str) -> tuple[str, str]:
    label, equals, pattern = text.partition("=")
    if not (label.strip() and equals and pattern.strip()):
        raise HarnessError(f"--label {text}: write LABEL=PATTERN")
    return label.strip(), pattern.strip()


def write(text: str, out: Path | None) -> None:
    """To a file, or to standard output."""
    if out is None:
        click.echo(text, nl=False)
        return
    from ..store import write_atomically

    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, text.encode())
    click.echo(f"wrote {out}", err=True)


def _extra_columns(names: Sequence[str], runs: Sequence[str], file: Path | None) -> dict[str, str]:
    """What the hook ``leaderboard_columns`` of the named observers adds."""
    if not names:
        return {}
    from ..board.places import find_runs
    from ..observers import Observers
    from ..registry import Registry

    tasks = tuple(sorted({run.spec["task"]["name"] for run in find_runs(runs, [])}))
    columns: dict[str, str] = {}
    for manager in Observers.load(Registry.load(file), names).managers.values():
        for found in manager.hook.leaderboard_columns(tasks=tasks):
            columns |= found
    return columns
