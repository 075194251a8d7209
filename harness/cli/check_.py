"""``harness check``: does a plugin keep the rules that the core relies on?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .options import json_option, names, pairs, quiet_option, registry_option

if TYPE_CHECKING:
    from ..conformance.run import Report


@click.command("check")
@click.argument("name")
@click.option("--kind", default="", help="task, model, reward or trainer (default: all of NAME).")
@click.option("--task", default="", help="The task that a reward or trainer is tried on.")
@click.option("--model", default="", help="Counts a task's tokens; what a trainer starts from.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="An option of NAME.")
@click.option("--limit", type=int, default=60, show_default=True, help="Samples to look at.")
@click.option("--only", default="", metavar="A[,B]", help="These checks, by name.")
@quiet_option
@registry_option
@json_option
def command(**given: Any) -> int:
    """Check the task, model, reward or trainer NAME.

    Ids, seeds, splits, prompts, oracle, constants, parser, concurrency, records, speed: every
    finding says what to do. Exit code 1 when there is one.
    """
    from ..conformance.run import Asked, check
    from ..progress import track
    from ..registry import Registry

    asked = Asked(
        options=pairs(given["settings"]),
        task=given["task"],
        model=given["model"],
        limit=given["limit"],
        only=names(given["only"]) if given["only"] else (),
        registry_file=given["registry_file"],
    )
    registry = Registry.load(given["registry_file"])
    more = {} if given["quiet"] else {"track": track}
    reports = []
    for report in check(given["name"], registry, asked, given["kind"], **more):
        reports.append(report)
        if not given["as_json"]:
            show(report, given["quiet"])
    found = sum(report.found for report in reports)
    if given["as_json"]:
        from .tables import print_json

        print_json([report.json() for report in reports])
    else:
        print(f"{found} findings" if found else "no findings")
    return int(found > 0)


def show(report: Report, quiet: bool = False) -> None:
    """One line a check; findings with what to do below. ``quiet``: the findings only."""
    from ..terminal import visible

    width = max(len(result.check) for result in report.results)
    print(f"{report.kind} {visible(report.name)}")
    for result in report.results:
        if quiet and not result.findings:
            continue
        told = result.skipped or result.note
        print(f"  {result.status:5}  {result.check:{width}}  {visible(told)}".rstrip())
        for finding in result.findings:
            print(f"         {visible(finding.text)}")
            print(f"         -> {visible(finding.advice)}")
