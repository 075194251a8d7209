"""``harness data export``: the train split of a task as a file for training."""

from __future__ import annotations

from pathlib import Path

import click

from ..types import HarnessError
from .options import names, pairs, registry_option, set_option


@click.command("export")
@click.argument("task")
@click.option("--format", "form", required=True, metavar="verl|sft|jsonl", help="See below.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The file to write.")
@click.option("--split", default="train", show_default=True, help="Only train is for training.")
@click.option("--limit", type=int, default=0, help="The first N of the stratified order (0: all).")
@click.option(
    "--order",
    default="flat",
    show_default=True,
    help="flat, skill-first, size-first or interleaved.",
)
@click.option("--skills", default="", metavar="A[,B]", help="The order of skills.")
@click.option("--model", default="", help="A checkpoint whose tokenizer counts the lengths.")
@click.option("--max-prompt", type=int, default=0, help="Tokens of a prompt at most (0: no limit).")
@click.option("--max-reply", type=int, default=0, help="Tokens of a target at most (0: no limit).")
@click.option("--overlong", default="error", show_default=True, help="error or filter.")
@set_option
@registry_option
def export(
    task: str, form: str, out: Path, split: str, limit: int, order: str, skills: str, model: str,
    max_prompt: int, max_reply: int, overlong: str, settings: tuple[str, ...],
    registry_file: Path | None,
) -> int:  # fmt: skip
    """Write TASK's train split for training elsewhere.

    Formats: verl (Parquet of prompts and truths for RL), sft (Parquet of chats that end in the
    worked answer), jsonl (samples, messages, targets). Items that occur in another split by their
    canonical identity are refused. With --model the token lengths are audited.
    """
    from ..registry import Registry
    from ..training.data import Selection, training_items
    from ..training.export import write_items
    from ..training.lengths import overlong as too_long

    registry = Registry.load(registry_file)
    made = registry.create("task", task, pairs(settings))
    chosen = Selection(split, limit, order, names(skills) if skills else ())
    items = training_items(made, chosen)
    if model:
        from ..training.base import base_checkpoint
        from ..training.tokens import prompt_lengths, reply_lengths

        tokenizer = base_checkpoint(registry, model).tokenizer()
        audits = {"prompt": prompt_lengths(tokenizer, items, max_prompt)}
        if any(i.target is not None for i in items):
            audits["reply"] = reply_lengths(tokenizer, items, max_reply)
        for audit in audits.values():
            click.echo(audit.line())
        gone = too_long(audits, overlong)
        items = [i for i in items if i.sample.id not in gone]
    elif max_prompt or max_reply:
        raise HarnessError("--max-prompt and --max-reply count tokens: give --model too")
    digest = write_items(items, made, form, out)
    click.echo(f"{out}: {len(items):,} items of {task} ({form}), sha256 {digest[:16]}")
    return 0
