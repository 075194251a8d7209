"""``harness tournament``: rate a pool of models by a round robin."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .options import json_option, names, pairs, registry_option, set_option

if TYPE_CHECKING:
    from ..tournament import Standings

ELO = 400 / math.log(10)
"""Elo points a logit."""


@click.command("tournament")
@click.option("--models", required=True, metavar="A,B,C", help="The pool: what --model takes.")
@click.option("--task", required=True, help="A task for two seats: gtbench, textarena.")
@set_option
@click.option("--model-set", multiple=True, metavar="KEY=VALUE", help="A back end's option.")
@click.option("--limit", type=int, default=40, show_default=True, help="Samples of each pairing.")
@click.option(
    "--target-ci",
    "target",
    type=float,
    default=0.0,
    help="Play on until every model's mean score is known to this half-width.",
)
@click.option(
    "--most", type=int, default=20_000, show_default=True, help="Samples a pairing at most."
)
@click.option("--split", default="test", show_default=True, help="A split of the task.")
@click.option("--temperature", type=float, help="0 is greedy (default: the task's).")
@click.option("--max-tokens", type=int, help="New tokens at most (default: the task's).")
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs"), show_default=True)
@click.option("--concurrency", type=int, help="Rollouts in flight (default 128).")
@click.option("--quiet", is_flag=True, help="No progress and no estimate.")
@registry_option
@json_option
def command(**given: Any) -> int:
    """Play every model against every other one and rate them.

    Bradley-Terry with ties and a seat term, Nash averaging and alpha-rank, with a warning where the
    pay-offs are cyclic. The pairings are run folders: the same command goes on where it stopped.
    """
    from ..registry import Registry
    from ..tournament import Tournament, play

    keys = ("temperature", "max_tokens")
    asked = Tournament(
        models=names(given["models"]),
        task=given["task"],
        options=pairs(given["settings"]),
        limit=given["limit"],
        target=given["target"],
        most=given["most"],
        more={
            "split": given["split"],
            "out": given["out"],
            "concurrency": given["concurrency"],
            "model_options": pairs(given["model_set"], "--model-set"),
            "decoding": {k: given[k] for k in keys if given[k] is not None},
        },
    )
    found = play(asked, Registry.load(given["registry_file"]), given["quiet"])
    if given["as_json"]:
        from .tables import print_json

        print_json(as_json(found))
    else:
        show(found)
    return 0 if found.reached is not False else 1


def show(found: Standings) -> None:
    """The standings, the pay-off matrix, and what a reader must know."""
    from .tables import print_table

    rows = []
    for place, k in enumerate(found.order, 1):
        low, high = (ELO * float(v) for v in found.intervals[k])
        rows.append(
            (
                f"{place}. {found.models[k]}",
                f"{ELO * float(found.fit.strength[k]):.0f}",
                f"{low:.0f} to {high:.0f}",
                f"{found.scores[k]:.3f}",
                f"+-{found.half_widths[k]:.3f}",
                f"{found.nash[k]:.2f}",
                f"{found.nash_scores[k]:+.3f}",
                f"{found.alpha[k]:.2f}",
            )
        )
    columns = ("", "Elo", "95 %", "score", "any time", "Nash", "against it", "alpha")
    title = f"{found.games:,} games, {found.samples:,} a pairing"
    print_table(title, columns, rows, wide=True)
    matrix = [
        (
            found.models[i],
            *("-" if i == j else f"{found.found.mean[i, j]:+.3f}" for j in found.order),
        )
        for i in found.order
    ]
    heads = ("pay-off of the row", *(found.models[k] for k in found.order))
    print_table("Mean pay-off of the row minus that of the column", heads, matrix, wide=True)
    print(f"first seat: {ELO * found.fit.seat:+.0f} Elo")
    if not found.circles.broken:
        print(f"transitive as far as can be seen ({found.circles.cyclic:.0%} cyclic)")
    for line in found.warnings():
        print(f"warning: {line}")


def as_json(found: Standings) -> dict[str, Any]:
    """Everything, for ``--json``."""
    return {
        "models": list(found.models),
        "order": [found.models[k] for k in found.order],
        "rating": found.fit.strength.tolist(),
        "rating_interval": found.intervals.tolist(),
        "above": found.above.tolist(),
        "seat": found.fit.seat,
        "ties": found.fit.ties,
        "score": list(found.scores),
        "score_half_width": list(found.half_widths),
        "payoff": found.found.mean.tolist(),
        "payoff_error": found.found.error.tolist(),
        "nash": found.nash.tolist(),
        "nash_score": found.nash_scores.tolist(),
        "alpha_rank": found.alpha.tolist(),
        "cyclic": found.circles.cyclic,
        "cyclic_p": found.circles.p,
        "cycle": [found.models[k] for k in found.circles.cycle],
        "warnings": found.warnings(),
        "games": found.games,
        "samples": found.samples,
        "reached": found.reached,
        "folders": list(found.folders),
    }
