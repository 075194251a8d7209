"""``harness export``: a training step as a Hugging Face folder, a run in another tool's format."""

from __future__ import annotations

from pathlib import Path

import click

from ..types import HarnessError
from .options import registry_option


@click.command("export")
@click.argument("source", metavar="DIR@STEP|RUN")
@click.option(
    "--format",
    "form",
    type=click.Choice(["hf", "adapter", "inspect", "lm-eval"]),
    default="hf",
    show_default=True,
    help="hf: of a step; adapter: its LoRA adapter alone; inspect (a file.eval) and lm-eval (a "
    "folder): of a run.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="A new folder (default: inside of the step's); of a run the file or folder to write.",
)
@registry_option
def command(source: str, form: str, out: Path | None, registry_file: Path | None) -> int:
    """Merge the shards of a step of a job into safetensors, adapters added in; or, with --format,
    write a finished run as a log of Inspect or as results of lm-eval.

    DIR@latest is the last step, DIR@best the one with the highest validation score. With --out the
    folder is whole by itself, with training.json and what it names.
    """
    if form not in ("hf", "adapter"):
        return _run(source, form, out, registry_file)
    from ..training.checkpoints import copy_checkpoint, ensure_weights, resolve_step, step_folder
    from ..training.record import copy_record

    folder, at, name = source.rpartition("@")
    if not at or not Path(folder).is_dir():
        raise HarnessError(
            f"{source}: write DIR@STEP, with the folder of a training job (a run: add --format)"
        )
    job = Path(folder)
    number = resolve_step(job, name)
    if form == "adapter":
        return _adapter(job, number, out)
    merged = ensure_weights(step_folder(job, number))
    if out is not None:
        if out.exists() and any(out.iterdir()):
            raise HarnessError(f"{out} is not empty; choose another --out")
        copy_checkpoint(merged, out)
        copy_record(job, out, number)
        merged = out
    click.echo(f"{merged}: step {number}")
    return 0


def _adapter(job: Path, step: int, out: Path | None) -> int:
    """The adapter of a step in a folder of its own, with the record of its base."""
    from ..training.adapters import export_adapter
    from ..training.checkpoints import step_folder
    from ..training.record import copy_record, read

    if out is None:
        raise HarnessError("--format adapter: give it a folder of its own with --out")
    if out.exists() and any(out.iterdir()):
        raise HarnessError(f"{out} is not empty; choose another --out")
    export_adapter(step_folder(job, step), str(read(job).get("base", {}).get("name", "")), out)
    copy_record(job, out, step)
    click.echo(f"{out}: the adapter of step {step}")
    return 0


def _run(source: str, form: str, out: Path | None, registry_file: Path | None) -> int:
    from ..interchange.stored import finished_run
    from ..registry import Registry
    from ..viewer.stage import Stage

    run = finished_run(source)
    stage = Stage(Registry.load(registry_file))
    if form == "inspect":
        from ..interchange.inspect_log import write_log

        path = out if out is not None else Path(f"{run.name}.eval")
        if path.suffix != ".eval":
            raise HarnessError(f"--out {path}: Inspect knows its logs by their ending: write .eval")
        write_log(run, stage, path)
    else:
        from ..interchange.lm_eval import write_results

        path = write_results(run, stage, out if out is not None else Path("lm-eval"))
    click.echo(f"{path}: {run.finished} records of {run.name}")
    return int(not run.complete)
