"""``harness score``: score a stored run again, without a model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .options import json_option, pairs, registry_option

SHOWN = 200
"""Verdicts that the table lists."""

if TYPE_CHECKING:
    from ..rescore import Change


@click.command("score")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--reward", default="", help="Another reward than the run's (or a=0.8,b=0.2).")
@click.option("--reward-set", multiple=True, metavar="KEY=VALUE", help="A reward's option.")
@click.option("--diff", is_flag=True, help="List the records whose verdict moved.")
@registry_option
@json_option
def command(
    run: Path,
    reward: str,
    reward_set: tuple[str, ...],
    diff: bool,
    registry_file: Path | None,
    as_json: bool,
) -> int:
    """Score the stored replies of RUN with the present parser and reward; games are replayed.

    The figures are printed; with another --reward also saved as metrics-REWARD.json in RUN.
    """
    from dataclasses import asdict

    from ..api import Run
    from ..registry import Registry
    from ..rescore import rescore
    from ..store import read_manifest, write_atomically
    from .tables import print_json, print_run

    given = pairs(reward_set, "--reward-set")
    report = asyncio.run(rescore(run, Registry.load(registry_file), reward, given))
    if reward:
        import orjson

        name = (
            "metrics-" + "".join(c if c.isalnum() or c in "-_" else "_" for c in reward) + ".json"
        )
        options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS
        write_atomically(run / name, orjson.dumps(report.summary, option=options) + b"\n")
    if as_json:
        print_json({**report.summary, "moved": [asdict(change) for change in report.moved]})
        return 0
    print_run(Run(run, read_manifest(run), report.summary))
    print(f"verdicts that moved: {len(report.moved)} of {report.summary['records']}")
    if diff:
        _print_moved(report.moved)
    return 0


def _print_moved(moved: Sequence[Change]) -> None:
    from ..terminal import visible
    from .tables import print_table

    if not moved:
        return
    rows = [
        (
            f"{visible(change.sample)} (seed {change.seed}, repeat {change.repeat})",
            f"{change.before:.3f} {change.class_before}",
            f"{change.after:.3f} {change.class_after}",
        )
        for change in moved[:SHOWN]
    ]
    recovered = sum(change.after > change.before for change in moved)
    print_table("moved verdicts", ("record", "stored", "now"), rows)
    if len(moved) > SHOWN:
        print(f"... and {len(moved) - SHOWN} more; --json lists all")
    print(f"recovered {recovered}, lost {sum(c.after < c.before for c in moved)}")
