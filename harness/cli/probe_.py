"""``harness probe``: where a model's hidden states hold a task's concepts, with controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..types import HarnessError
from .options import json_option, names, pairs, registry_option, set_option

if TYPE_CHECKING:
    from ..probing.probe import ProbeSettings


@click.command("probe")
@click.option("--task", required=True, help="A task with concepts, by name.")
@click.option(
    "--model", required=True, metavar="X[,Y]", help="As in `harness run`; several: a comma list."
)
@click.option("--out", type=click.Path(path_type=Path), default=Path("probes"), show_default=True)
@click.option(
    "--split", default="all", show_default=True, help="Which samples; folds are made anew."
)
@click.option("--limit", type=int, help="The first N samples of a fixed, stratified order.")
@click.option(
    "--template",
    type=click.Choice(["chat", "plain", "both"]),
    default="chat",
    show_default=True,
    help="Prompts with the chat template, without, or both.",
)
@click.option(
    "--poolings", default="", help="Of last, first, mean, sum, max, weighted (default: all)."
)
@click.option("--layers", default="", help="Decoder blocks from 0, such as 4,8,12 (default: all).")
@click.option(
    "--random-layers",
    default="",
    help="Those of the control with random weights (default: the same).",
)
@click.option(
    "--controls",
    default="",
    help="Of majority, size, numbers, words, shuffled, random (default: all).",
)
@click.option("--seeds", default="0", show_default=True, help="Seeds of the folds, a comma list.")
@click.option(
    "--solver",
    type=click.Choice(["torch", "sklearn"]),
    default="torch",
    show_default=True,
    help="The batched solver, or scikit-learn's as the reference.",
)
@click.option(
    "--devices", default="", help="One process each for the states, such as cuda:0,cuda:1."
)
@click.option(
    "--batch-tokens",
    type=int,
    default=8192,
    show_default=True,
    help="Tokens in a batch, with padding.",
)
@click.option(
    "--back-end", default="transformers", show_default=True, help="For folders and hub ids."
)
@click.option(
    "--steer",
    multiple=True,
    metavar="CONCEPT:CLASS",
    help="Also steer along this direction. Repeatable.",
)
@click.option(
    "--steer-items",
    type=int,
    default=20,
    show_default=True,
    help="Samples that are answered again.",
)
@click.option(
    "--steer-strength",
    type=float,
    default=1.0,
    show_default=True,
    help="1 is the distance of the class means.",
)
@click.option("--steer-tokens", type=int, help="New tokens at most (default: the task's).")
@click.option("--no-plots", is_flag=True, help="Write no pictures.")
@set_option
@click.option("--model-set", multiple=True, metavar="KEY=VALUE", help="A back end's option.")
@registry_option
@json_option
def command(**given: Any) -> int:
    """Probe hidden states for the concepts of a task.

    Writes probes.json, pooling_comparison.json and plots; the same command again goes on where it
    was. Each concept's accuracy is tested on held-out groups and stands beside its best control;
    critical layers are those within one standard error of the best on validation.
    """
    from itertools import islice

    from ..probing.extract import Source, items_of
    from ..probing.study import study
    from ..registry import Registry
    from .tables import print_json

    if given["limit"] is not None and given["limit"] < 1:
        raise HarnessError("--limit must be at least 1")
    settings = _settings(given)
    registry = Registry.load(given["registry_file"])
    task = registry.create("task", given["task"], pairs(given["settings"]))
    samples = list(islice(task.samples(given["split"]), given["limit"]))
    items = items_of(task, samples)
    templates = {"chat": (True,), "plain": (False,), "both": (True, False)}[given["template"]]
    options = pairs(given["model_set"], "--model-set")
    sources = [
        Source(model, options, template, None, given["back_end"], given["registry_file"])
        for model in names(given["model"])
        for template in templates
    ]
    steers = [_steer(text) for text in given["steer"]]
    reports = study(items, sources, given["out"], settings, task.name, not given["no_plots"])
    steered: dict[str, list[dict[str, Any]]] = {}
    if steers:
        from ..probing.steering import steer_all

        steered = steer_all(
            task, registry, samples, items, reports, sources, given["out"], steers,
            given["steer_items"], given["steer_strength"], given["steer_tokens"],
        )  # fmt: skip
    if given["as_json"]:
        print_json({"reports": reports, "steering": steered})
        return 0
    for label, report in reports.items():
        print_report(label, report)
        if label in steered:
            print_steering(label, steered[label])
    click.echo(f"written: {given['out']}")
    return 0


def _settings(given: Mapping[str, Any]) -> ProbeSettings:
    from ..probing.extract import POOLINGS
    from ..probing.probe import CONTROLS, ProbeSettings

    def chosen(option: str, known: Sequence[str]) -> tuple[str, ...]:
        found = names(given[option]) if given[option] else tuple(known)
        if unknown := [name for name in found if name not in known]:
            raise HarnessError(f"--{option} {unknown[0]}: choose of {', '.join(known)}")
        return found

    seeds = _numbers("--seeds", given["seeds"])
    if given["batch_tokens"] < 1:
        raise HarnessError("--batch-tokens must be at least 1")
    return ProbeSettings(
        poolings=chosen("poolings", POOLINGS),
        layers=_numbers("--layers", given["layers"]) or None,
        random_layers=_numbers("--random-layers", given["random_layers"]) or None,
        seeds=seeds,
        controls=chosen("controls", CONTROLS),
        solver=given["solver"],
        devices=tuple(d.strip() for d in given["devices"].split(",") if d.strip()),
        batch_tokens=given["batch_tokens"],
    )


def _numbers(option: str, text: str) -> tuple[int, ...]:
    try:
        found = tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise HarnessError(f"{option} {text}: a comma list of whole numbers") from None
    if len(set(found)) < len(found) or min(found, default=0) < 0:
        raise HarnessError(f"{option} {text}: each number once, from 0")
    return found


def _steer(text: str) -> tuple[str, int]:
    concept, colon, kind = text.rpartition(":")
    if not colon or not kind.isdigit():
        raise HarnessError(f"--steer {text}: write CONCEPT:CLASS, the class as its number from 0")
    return concept, int(kind)


def print_report(label: str, report: Mapping[str, Any]) -> None:
    """A line a concept: accuracy, its best control, the gain, and where it is read best."""
    from .tables import print_table

    columns = (
        "concept", "n", "majority", "accuracy", "best control", "gain", "95 % interval", "read at",
        "critical layers",
    )  # fmt: skip
    rows = []
    for name, entry in report["concepts"].items():
        gain, peak = entry["gain"] or {}, entry["peak"]
        best = entry["best_control"]
        control = f"{best} {entry['controls'][best]['value']:.3f}" if best else "-"
        rows.append((
            name,
            str(entry["n"]),
            f"{entry['majority']:.3f}",
            f"{entry['accuracy']['value']:.3f}",
            control,
            f"{gain['value']:+.3f}" if gain else "-",
            _interval(gain),
            f"{peak['pooling']} {peak['layer']}",
            _ranges(entry["critical_layers"]),
        ))  # fmt: skip
    title = f"{label} on {report['task']}: {report['items']} items, {report['groups']} groups"
    print_table(title, columns, rows, wide=True)
    for name, reason in report["skipped"].items():
        click.echo(f"not probed: {name}: {reason}")
    spent = ", ".join(f"{name} {s[0]:.1f} s ({s[1]:.1f})" for name, s in report["seconds"].items())
    click.echo(f"wall seconds (CPU): {spent}; peak memory {report['peak_memory_mb']:,} MB")


def print_steering(label: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """A line a change: how many answers moved, and by how much the score."""
    from .tables import print_table

    columns = ("direction", "change", "n", "replies", "answers", "score", "95 % interval")
    print_table(
        f"{label}, steered: shares of replies and answers that change, and the change of the score",
        columns,
        [
            (
                f"{r['concept']}:{r['class']} at {r['layer']}", r["change"], str(r["n"]),
                f"{r['replies_changed']:.2f}", f"{r['answers_changed']:.2f}",
                f"{r['score']['value']:+.3f}", _interval(r["score"]),
            )
            for r in rows
        ],
        wide=True,
    )  # fmt: skip


def _interval(found: Mapping[str, Any]) -> str:
    if not found or found["low"] is None:
        return "too few"
    return f"{found['low']:+.3f} to {found['high']:+.3f}"


def _ranges(layers: Sequence[int]) -> str:
    """Consecutive numbers as ranges.

    >>> _ranges([3, 4, 5, 9])
    '3-5, 9'
    """
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][1] + 1:
            runs[-1][1] = layer
        else:
            runs.append([layer, layer])
    return ", ".join(f"{a}-{b}" if a != b else str(a) for a, b in runs)
