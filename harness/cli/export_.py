"""``harness export``: a training step as a Hugging Face folder."""

from __future__ import annotations

from pathlib import Path

import click

from ..types import HarnessError


@click.command("export")
@click.argument("step", metavar="DIR@STEP")
@click.option(
    "--out", type=click.Path(path_type=Path), help="A new folder (default: inside of the step's)."
)
def command(step: str, out: Path | None) -> int:
    """Merge the shards of a step of a job into safetensors, adapters added in.

    DIR@latest is the last step, DIR@best the one with the highest validation score. With --out the
    folder is whole by itself, with training.json and what it names.
    """
    from ..training.checkpoints import copy_checkpoint, ensure_weights, resolve_step, step_folder
    from ..training.record import copy_record

    folder, at, name = step.rpartition("@")
    if not at or not Path(folder).is_dir():
        raise HarnessError(f"{step}: write DIR@STEP, with the folder of a training job")
    job = Path(folder)
    number = resolve_step(job, name)
    merged = ensure_weights(step_folder(job, number))
    if out is not None:
        if out.exists() and any(out.iterdir()):
            raise HarnessError(f"{out} is not empty; choose another --out")
        copy_checkpoint(merged, out)
        copy_record(job, out, number)
        merged = out
    click.echo(f"{merged}: step {number}")
    return 0
