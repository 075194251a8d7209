"""``harness compare``: two runs sample by sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .options import json_option

if TYPE_CHECKING:
    from ..compare import Comparison


@click.command("compare")
@click.argument("a")
@click.argument("b")
@click.option("--metric", default="score", show_default=True, help="score, parsed, or a part.")
@click.option("--flips", default=20, show_default=True, help="Samples that differ, at most.")
@click.option("--replies", is_flag=True, help="Show the replies to these samples.")
@json_option
def command(a: str, b: str, metric: str, flips: int, replies: bool, as_json: bool) -> int:
    """Compare the runs A and B (folders or URLs) on their common samples.

    Shows the paired difference A - B with its 95 % interval, permutation p, McNemar's test for
    yes/no scores, each group, the samples that differ, and how many samples would separate the
    two.
    """
    from ..compare import compare, one_run

    result = compare(one_run(a), one_run(b), metric, flips, replies)
    if as_json:
        from dataclasses import asdict

        from ..board.formats import plain
        from .tables import print_json

        print_json(plain(asdict(result)))
    else:
        _print(result)
    return 0


def _print(result: Comparison) -> None:
    from ..board.formats import figure, interval
    from ..terminal import visible

    overall = result.overall
    print(visible(f"{result.task}, {result.metric}: {result.first} - {result.second}"))
    print(
        f"{overall.n} common samples in {overall.clusters} clusters; only in the first "
        f"{result.only_first}, only in the second {result.only_second}"
    )
    for warning in result.warnings:
        print(visible(f"warning: {warning}"))
    print(
        f"{figure(result.first_mean)} against {figure(result.second_mean)}: difference "
        f"{figure(overall.difference, True)}, 95 % interval "
        f"{interval(overall.low, overall.high, True)}"
    )
    print(_tests(result))
    print(_power(result))
    if result.groups:
        _print_groups(result)
    _print_flips(result)


def _tests(result: Comparison) -> str:
    texts = [f"paired t over clusters p = {result.overall.p:.3g}"]
    if result.permutation is not None:
        texts.append(f"permutation p = {result.permutation:.3g}")
    if (found := result.verdicts) is not None:
        texts.append(
            f"McNemar {found.only_first} to {found.only_second}: exact p = {found.exact:.3g}, "
            f"mid p = {found.mid:.3g}"
        )
    return "; ".join(texts)


def _power(result: Comparison) -> str:
    if result.samples_needed is None:
        return "no number of samples separates the two by this difference"
    return (
        f"samples to separate the two if this is the difference (80 % power, 5 %): "
        f"{result.samples_needed:,}"
    )


def _print_groups(result: Comparison) -> None:
    from ..board.formats import figure, interval
    from ..terminal import visible
    from .tables import print_table

    rows = [
        (
            visible(group.name),
            str(group.result.n),
            figure(group.first),
            figure(group.second),
            figure(group.result.difference, True),
            interval(group.result.low, group.result.high, True),
            f"{group.p:.3g}",
        )
        for group in result.groups
    ]
    heads = ("group", "n", "first", "second", "difference", "95 % interval", "p (Holm)")
    print_table("by group", heads, rows)


def _indented(reply: str) -> str:
    """A reply under its heading, line by line, without control characters."""
    from ..terminal import visible

    return "\n        ".join(visible(line) for line in reply.splitlines()) or "(nothing)"


def _print_flips(result: Comparison) -> None:
    from ..terminal import visible
    from .tables import print_table

    print(f"samples that differ: first better {result.better}, second better {result.worse}")
    if not result.flips:
        return
    rows = [
        (visible(f.sample), visible(f.group), f"{f.first:.3f}", f"{f.second:.3f}")
        for f in result.flips
    ]
    print_table("largest changes", ("sample", "group", "first", "second"), rows)
    for flip in result.flips:
        if flip.first_reply or flip.second_reply:
            print(f"--- {visible(flip.sample)}")
            print(f"first:  {_indented(flip.first_reply)}")
            print(f"second: {_indented(flip.second_reply)}")
