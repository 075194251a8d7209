"""``harness data``: build data sets as files, look at samples, export them for training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ..types import HarnessError
from .data_audit import audit
from .data_export import export
from .options import json_option, pairs, registry_option, set_option


@click.group("data")
def command() -> None:
    """Build, show, audit and export data sets."""


@command.command("build")
@click.argument("task")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A folder to write.")
@click.option("--verify", is_flag=True, help="Check the data with an independent solver.")
@set_option
@registry_option
def build(
    task: str, out: Path, verify: bool, settings: tuple[str, ...], registry_file: Path | None
) -> int:
    """Write TASK's samples as JSONL and Parquet, with stats.json and manifest.json.

    Exit code 1 when --verify finds a problem.
    """
    from ..dataset import build_dataset
    from ..registry import Registry

    made = Registry.load(registry_file).create("task", task, pairs(settings))
    report = build_dataset(made, out, verify)
    click.echo(report.text)
    return int(bool(report.problems))


command.add_command(audit)
command.add_command(export)


@command.command("show")
@click.argument("task")
@click.option("--split", default="test", show_default=True)
@click.option("--limit", type=int, default=1, show_default=True, help="How many samples.")
@click.option("--id", "sample_id", help="One sample by its id.")
@set_option
@registry_option
@json_option
def show(
    task: str,
    split: str,
    limit: int,
    sample_id: str | None,
    settings: tuple[str, ...],
    registry_file: Path | None,
    as_json: bool,
) -> int:
    """Show samples of TASK: prompt, truth, target."""
    from itertools import islice

    from ..registry import Registry
    from .tables import print_json

    if limit < 1:
        raise HarnessError(f"--limit {limit}: must be at least 1")
    made = Registry.load(registry_file).create("task", task, pairs(settings))
    samples = made.samples("all" if sample_id else split)
    if sample_id:
        chosen = [s for s in samples if s.id == sample_id]
        if not chosen:
            raise HarnessError(f"{task} has no sample {sample_id!r}")
    else:
        chosen = list(islice(iter(samples), limit))
    rows = [_shown(made, sample) for sample in chosen]
    if as_json:
        print_json(rows)
    else:
        for row in rows:
            _print_sample(row)
    return 0


def _shown(task: Any, sample: Any) -> dict[str, Any]:
    from dataclasses import asdict

    from ..task import Task

    asked = type(task).messages is not Task.messages
    messages = [asdict(m) for m in task.messages(sample)] if asked else []
    return {**asdict(sample), "messages": messages, "target": task.target(sample)}


def _print_sample(row: Mapping[str, Any]) -> None:
    import json

    print(f"=== {row['id']}  (split {row['split']}, group {row['group']})")
    for message in row["messages"]:
        print(f"--- {message['role']}\n{message['content']}")
    print(f"--- truth\n{json.dumps(row['truth'], ensure_ascii=False)}")
    if row["target"] is not None:
        print(f"--- target\n{row['target']}")
