"""``harness rft``: rejection sampling: score candidates, build a data set of accepted ones."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ..types import Json
from .options import json_option, names, pairs, registry_option, set_option

RUN = click.Path(path_type=Path)


@click.group("rft")
def command() -> None:
    """Rejection sampling: what `harness sample` made becomes training data."""


@command.command("score")
@click.argument("run", type=RUN)
@click.option("--reward", default="", help="Another reward than the run's (or a=0.8,b=0.2).")
@click.option("--reward-set", multiple=True, metavar="KEY=VALUE", help="A reward's option.")
@click.option("--gates", metavar="A[,B]", help="Parts that must be 1 (default: the reward's own).")
@click.option("--min-reward", type=float, help="Default: 0 with gates, 1 without.")
@click.option("--min-step", type=float, help="The least grade that a judge gave to any step.")
@click.option("--unfinished", is_flag=True, help="Take replies that hit the token limit too.")
@registry_option
@json_option
def score(
    run: Path,
    reward: str,
    reward_set: tuple[str, ...],
    gates: str | None,
    min_reward: float | None,
    min_step: float | None,
    unfinished: bool,
    registry_file: Path | None,
    as_json: bool,
) -> int:
    """Pass the candidates of RUN through reward and gates.

    Each prompt's candidates are scored as one group, so that a judge sees them in one request.
    Writes candidates.jsonl and acceptance.json into RUN. Exit code 1 when nothing was accepted.
    """
    from ..registry import Registry
    from ..rejection.gates import Gates
    from ..rejection.score import score_candidates
    from .tables import print_json

    parts = None if gates is None else names(gates) if gates else ()
    report = asyncio.run(
        score_candidates(
            run,
            Registry.load(registry_file),
            lambda made: Gates.of(made, parts, min_reward, min_step, not unfinished),
            reward,
            pairs(reward_set, "--reward-set"),
        )
    )
    if as_json:
        print_json(report)
    else:
        _print_acceptance(run, report)
    return int(report["accepted"] == 0)


@command.command("build")
@click.argument("runs", type=RUN, nargs=-1, required=True)
@click.option("--out", type=RUN, required=True, help="A new folder.")
@click.option("--cap", type=int, default=0, show_default=True, help="Replies a prompt (0: all).")
@click.option(
    "--dedupe",
    default="text",
    show_default=True,
    help="Replies that count as one: text, answer, none.",
)
@click.option("--pairs", "complete", is_flag=True, help="Only clusters whose every prompt has one.")
@click.option("--balance", is_flag=True, help="As many rows of each group.")
@click.option("--min-samples", type=int, default=0, show_default=True, help="Fewer is an error.")
@click.option("--max-samples", type=int, default=0, show_default=True, help="At most (0: all).")
@click.option("--seed", type=int, default=0, show_default=True, help="Which ones, above that.")
@set_option
@registry_option
@json_option
def build(
    runs: tuple[Path, ...],
    out: Path,
    cap: int,
    dedupe: str,
    complete: bool,
    balance: bool,
    min_samples: int,
    max_samples: int,
    seed: int,
    settings: tuple[str, ...],
    registry_file: Path | None,
    as_json: bool,
) -> int:
    """Write the accepted replies of RUNS as a data set for SFT.

    --set changes the wording of the prompts that are trained on (such as style=compact). Writes
    train.jsonl, train.parquet and manifest.json; the rows hold replies that the model gave, and
    nothing of the truth.
    """
    from ..registry import Registry
    from ..rejection.build import Choice, build
    from .tables import print_json

    choice = Choice(cap, dedupe, complete, balance, min_samples, max_samples, seed)
    manifest = build(runs, out, Registry.load(registry_file), choice, pairs(settings))
    if as_json:
        print_json(manifest)
        return 0
    groups = ", ".join(f"{name} {count}" for name, count in manifest["groups"].items())
    print(
        f"{out}: {manifest['rows']} rows of {manifest['accepted']} accepted replies, "
        f"{manifest['prompts']} prompts ({groups})"
    )
    return 0


def _print_acceptance(run: Path, report: Mapping[str, Json]) -> None:
    from .tables import print_table

    rows = [_row("all", report)]
    strata = report["strata"]
    for name, counts in report["groups"].items():
        rows.append(_row(name, counts))
        within = {s: c for s, c in strata.items() if s.startswith(f"{name}/")}
        rows += [_row(f"  {s.removeprefix(name)}", c) for s, c in within.items()]
    head = ("group", "candidates", "accepted", "rate", "prompts", "clusters", "all zero")
    print_table(f"acceptance of {run}", head, rows)
    print("verdicts: " + ", ".join(f"{k} {v:,}" for k, v in report["verdicts"].items()))
    if "judge" in report:
        figures = report["judge"]
        print(
            f"judge: {figures['requests']:.0f} requests, {figures['cache_hits']:.0f} from the "
            f"cache, {figures['retries']:.0f} asked again, {figures['repaired']:.0f} rows repaired"
        )


def _row(name: str, counts: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        name,
        f"{counts['candidates']:,}",
        f"{counts['accepted']:,}",
        f"{counts['acceptance_rate']:.3f}",
        f"{counts['prompts_with_accepted']} of {counts['prompts']}",
        f"{counts['clusters_complete']} of {counts['clusters']}",
        f"{counts['all_zero_groups']}",
    )
