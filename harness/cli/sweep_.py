"""``harness sweep``: many trainings and their tests from one file."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..types import Json
from .options import json_option, pairs, registry_option

TEST_NAMES = {"welch": "Welch's test", "paired": "paired t test"}

if TYPE_CHECKING:
    from ..sweep.file import Sweep
    from ..sweep.run import Outcome


@click.command("sweep")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), help="A folder (default: runs/sweeps/NAME)."
)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of all trainings."
)
@click.option("--launcher", help="local or slurm (default: the file's).")
@click.option("--slots", type=int, help="Cells at a time (default: the file's).")
@click.option("--retries", type=int, help="Tries of a cell after the first (default: the file's).")
@click.option("--dry-run", is_flag=True, help="Print cells, slots and settings, and stop.")
@click.option("--summary", "only_summary", is_flag=True, help="Show what is done; run nothing.")
@click.option("--cancel", is_flag=True, help="Cancel the Slurm jobs of this sweep.")
@click.option("--quiet", is_flag=True, help="No progress.")
@registry_option
@json_option
def command(**given: Any) -> int:
    """Train and test every cell of a sweep: conditions x grid x seeds.

    Each cell is a training, the checkpoint that validation chooses, and its test. Cells run in
    slots; one that fails is tried again and never stops the others. The same file again goes on
    with what is left. Ends in a table of the conditions against the baseline. Exit code 0: all
    cells are done; 1: some are not; 2: bad input.
    """
    from ..registry import Registry
    from ..sweep.file import read_sweep

    registry = Registry.load(given["registry_file"])
    schedule = {name: given[name] for name in ("launcher", "slots", "retries")}
    sweep = read_sweep(given["file"], registry, pairs(given["settings"]), **schedule)
    root = given["out"] or Path("runs") / "sweeps" / sweep.name
    if given["dry_run"]:
        return _dry_run(sweep, root, given["as_json"])
    from ..sweep.run import cancel_jobs, run_sweep, write_outputs

    if given["cancel"]:
        jobs = cancel_jobs(sweep, root)
        click.echo(f"{len(jobs)} jobs cancelled; the same file without --cancel goes on")
        return 0
    if given["only_summary"]:
        outcome = write_outputs(sweep, root)
    else:
        outcome = run_sweep(sweep, root, given["registry_file"], given["quiet"])
    return _report(sweep, outcome, given["as_json"])


# What would run


def _dry_run(sweep: Sweep, root: Path, as_json: bool) -> int:
    from ..sweep.cells import Places

    done = {c.name: bool(Places(root.absolute(), c.name).result(c)) for c in sweep.cells}
    left = sum(not d for d in done.values())
    rounds = -(-left // sweep.schedule.slots)
    if as_json:
        from .tables import print_json

        cells = [{**c.described(), "done": done[c.name]} for c in sweep.cells]
        plan = sweep.schedule
        print_json({"name": sweep.name, "out": str(root), "baseline": sweep.baseline,
                    "slots": plan.slots, "gpus": plan.gpus, "launcher": plan.launcher,
                    "rounds": rounds, "cells": cells})  # fmt: skip
        return 0
    from .tables import print_table

    shared, partly, varied = _split([c.train for c in sweep.cells])
    heads = ("cell", *varied, "steps", "state")
    rows = [
        (
            c.name,
            *(_shown(c.train.get(key)) for key in varied),
            _steps(c.train),
            "done" if done[c.name] else "to do",
        )
        for c in sweep.cells
    ]
    print_table(f"{sweep.name}: {len(sweep.cells)} cells", heads, rows, wide=True)
    print("all cells: " + ", ".join(f"{k}={_shown(v)}" for k, v in shared.items()))
    if partly:
        print("some cells: " + ", ".join(f"{k}={_shown(v)}" for k, v in partly.items()))
    for line in _plan_lines(sweep, root, left, rounds):
        print(line)
    return 0


def _split(
    trains: Sequence[Mapping[str, Json]],
) -> tuple[dict[str, Json], dict[str, Json], list[str]]:
    """Settings that all cells share, those that are alike wherever they are set, and the names of
    those that differ."""
    shared: dict[str, Json] = {}
    partly: dict[str, Json] = {}
    varied: list[str] = []
    for name in dict.fromkeys(key for train in trains for key in train):
        values = [train[name] for train in trains if name in train]
        if any(value != values[0] for value in values):
            varied.append(name)
        else:
            (shared if len(values) == len(trains) else partly)[name] = values[0]
    return shared, partly, varied


def _plan_lines(sweep: Sweep, root: Path, left: int, rounds: int) -> list[str]:
    plan = sweep.schedule
    gpus = f"of {plan.gpus} GPU{'s' if plan.gpus > 1 else ''}" if plan.gpus else "without GPU"
    tests = dict.fromkeys(
        f"{t.task} ({t.arguments.get('split', 'test')}"
        + (f", {t.arguments['limit']} samples)" if "limit" in t.arguments else ")")
        for c in sweep.cells
        for t in c.tests
    )
    chosen = "that validates best" if sweep.cells[0].checkpoint == "best" else "at the end"
    steps = [int(c.train.get("steps") or 0) for c in sweep.cells]
    lines = [
        f"{left} cells to do on {plan.slots} slots {gpus} ({plan.launcher}): {rounds} rounds, "
        f"each cell tried {1 + plan.retries} times at most",
        f"tested: the checkpoint {chosen}, on {', '.join(tests)}",
        f"compared with {sweep.baseline}: {TEST_NAMES[sweep.test]} over seeds, Holm"
        + (f"; trend over {sweep.trend}" if sweep.trend else ""),
        f"folder: {root}",
    ]
    if all(steps):
        lines.insert(1, f"{sum(steps):,} training steps in all{_rollouts(sweep)}")
    if (seconds := _seconds(sweep, root)) is not None:
        lines.insert(
            1, f"about {max(1, round(rounds * seconds / 60))} min, by the cells done so far"
        )
    return lines


def _rollouts(sweep: Sweep) -> str:
    counts = [
        int(c.train.get("steps") or 0) * int(c.train["batch_size"]) * int(c.train["rollouts"])
        for c in sweep.cells
        if {"batch_size", "rollouts"} <= set(c.train)
    ]
    return f", {sum(counts):,} rollouts" if len(counts) == len(sweep.cells) else ""


def _seconds(sweep: Sweep, root: Path) -> float | None:
    """The mean time of the cells that are done; None before the first."""
    from ..sweep.cells import Places

    found = [Places(root.absolute(), c.name).result(c).get("seconds") for c in sweep.cells]
    known = [float(s) for s in found if s]
    return sum(known) / len(known) if known else None


def _steps(train: Mapping[str, Json]) -> str:
    if train.get("steps"):
        return str(train["steps"])
    return f"{train['epochs']} epochs" if train.get("epochs") else "by default"


def _shown(value: Json) -> str:
    if value is None:
        return "-"
    return "+".join(map(str, value)) if isinstance(value, list) else str(value)


# What came out


def _report(sweep: Sweep, outcome: Outcome, as_json: bool) -> int:
    if as_json:
        from .tables import print_json

        print_json(outcome.summary)
    else:
        for measure in outcome.summary["measures"]:
            _print_measure(sweep, measure)
        for path in outcome.files:
            print(path)
    states = Counter(c["status"] for c in outcome.summary["cells"])
    for name, reason in outcome.failed.items():
        print(f"harness: {name}: {reason}", file=sys.stderr)
    if outcome.complete:
        return 0
    rest = ", ".join(f"{count} {state}" for state, count in states.items() if state != "done")
    stop = "stopped; " if outcome.stopped else ""
    print(
        f"{stop}{outcome.summary['done']} of {outcome.summary['expected']} cells done ({rest}); "
        "the same command goes on",
        file=sys.stderr,
    )
    return 1


def _print_measure(sweep: Sweep, measure: Mapping[str, Json]) -> None:
    from ..board.formats import figure, interval
    from .tables import print_table

    rows = []
    for name, row in measure["conditions"].items():
        seeds = " ".join(f"{v:.3f}" for v in row["seeds"].values())
        base = name == sweep.baseline
        span = "-" if "low" not in row else interval(row["low"], row["high"], True)
        rows.append(
            (
                f"{name} (baseline)" if base else name,
                seeds or "-",
                figure(row["mean"]),
                "-" if row["sd"] is None else f"{row['sd']:.4f}",
                figure(row.get("difference"), True),
                span,
                *(_p(row.get(key)) for key in ("p", "p_holm")),
                *(_size(row.get(key)) for key in ("d", "g")),
            )
        )
    where = f", {measure['panel']}" if measure["panel"] else ""
    heads = ("condition", "seeds", "mean", "sd", "difference", "95 % interval", "p", "p (Holm)",
             "d", "g")  # fmt: skip
    print_table(f"{measure['measure']}{where} ({TEST_NAMES[sweep.test]})", heads, rows, wide=True)
    if (trend := measure["trend"]) is not None:
        print(
            f"trend over {sweep.trend}: Spearman {trend['rho']:+.2f} over {trend['n']} cells, "
            f"p = {_p(trend['p'])} (permutation {_p(trend['permutation'])})"
        )


def _p(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if value >= 0.001 else "<.001"


def _size(value: float | None) -> str:
    return "-" if value is None else f"{value:+.2f}"
