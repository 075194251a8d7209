"""``harness sample``: many completions of each train prompt, as a run that resumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..types import HarnessError
from .options import json_option, names, pairs, registry_option, replicas_option, set_option


@click.command("sample")
@click.option("--task", required=True, help="A task, by name.")
@click.option("--model", required=True, metavar="X", help="As in `harness run`.")
@click.option("--n", type=int, default=16, show_default=True, help="Completions of each prompt.")
@click.option("--split", default="train", show_default=True, help="Only train can be trained on.")
@click.option("--limit", type=int, help="The first N prompts of a fixed, stratified order.")
@click.option(
    "--pilot", type=int, default=0, help="So many whole clusters (pairs) of each group instead."
)
@click.option("--groups", default="", metavar="A[,B]", help="Only groups that begin so.")
@click.option("--temperature", type=float, default=0.8, show_default=True)
@click.option("--top-p", type=float, default=0.95, show_default=True)
@click.option("--top-k", type=int, default=0, show_default=True, help="0 is off.")
@click.option("--max-tokens", type=int, help="New tokens at most (default: the task's).")
@click.option("--seeds", default="0", show_default=True, help="Seeds of decoding.")
@set_option
@click.option("--model-set", multiple=True, metavar="KEY=VALUE", help="A back end's option.")
@click.option("--reward", default="", help="Shown while sampling (default: the task's).")
@click.option("--system", help="A system message instead of the task's.")
@click.option("--fewshot", type=int, default=0, help="Worked examples, from the train split.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("samples"), show_default=True)
@click.option("--resume", type=click.Path(path_type=Path), metavar="RUN", help="This run folder.")
@click.option("--concurrency", type=int, help="Completions in flight (default 128).")
@replicas_option
@click.option("--dry-run", is_flag=True, help="Print the estimate and stop.")
@click.option("--quiet", is_flag=True, help="No progress and no estimate.")
@registry_option
@json_option
def command(**given: Any) -> int:
    """Sample candidates for rejection sampling.

    The result is a run folder: replies, token ids where the back end knows them, finish reasons,
    and a first score. The same command again resumes it. `harness rft score` comes next.
    """
    from ..api import evaluate
    from ..plan import RunSettings
    from ..registry import Registry
    from .run_ import report, seeds_of

    if given["limit"] is not None and given["pilot"]:
        raise HarnessError("--limit and --pilot: give one of the two")
    decoding = {key: given[key] for key in ("temperature", "top_p", "top_k")}
    if given["max_tokens"] is not None:
        decoding["max_tokens"] = given["max_tokens"]
    settings = RunSettings(
        tasks=(given["task"],),
        models=(given["model"],),
        split=given["split"],
        limit=given["limit"],
        groups=names(given["groups"]) if given["groups"] else (),
        pilot=given["pilot"],
        seeds=seeds_of(given["seeds"]),
        n=given["n"],
        options=pairs(given["settings"]),
        model_options=pairs(given["model_set"], "--model-set"),
        reward=given["reward"],
        system=given["system"],
        fewshot=given["fewshot"],
        decoding=decoding,
        out=given["out"],
        resume=given["resume"],
        concurrency=given["concurrency"],
        replicas=given["replicas"],
    )
    registry = Registry.load(given["registry_file"])
    results = evaluate(settings, registry, given["quiet"], given["dry_run"])
    return report(results, given["as_json"])
