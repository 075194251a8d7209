"""``harness audit``: what to know before the figures of runs are believed."""

from __future__ import annotations

from pathlib import Path

import click

from .options import json_option, registry_option


@click.command("audit")
@click.argument("runs", nargs=-1, required=True)
@click.option("--training", metavar="DIR", help="Where the checkpoints' training.json lies.")
@click.option("--failures", default=0.1, show_default=True, help="Share of parse failures.")
@click.option("--truncated", default=0.05, show_default=True, help="Share of cut-off replies.")
@click.option("--ambiguous", default=0.02, show_default=True, help="Share of ambiguous replies.")
@click.option("--samples", default=100, show_default=True, help="For the reward check; 0: none.")
@registry_option
@json_option
def command(
    runs: tuple[str, ...],
    training: str | None,
    failures: float,
    truncated: float,
    ambiguous: float,
    samples: int,
    registry_file: Path | None,
    as_json: bool,
) -> int:
    """Audit the runs in the folders or URLs RUNS.

    Contamination by the checkpoint's training data (canonical items, exact prompts, word
    sequences), parse failures, ambiguous and truncated replies, and what players earn that do not
    look at the question. Exit code 1 when there is a finding.
    """
    from ..findings import Limits, audit_runs
    from ..registry import Registry

    limits = Limits(failures, truncated, ambiguous, samples)
    registry = Registry.load(registry_file) if samples else None
    reports = []
    for report in audit_runs(runs, limits, registry, training):
        reports.append(report)
        if not as_json:
            _print(report)
    count = sum(len(report.findings) for report in reports)
    if as_json:
        from dataclasses import asdict

        from ..board.formats import plain
        from .tables import print_json

        print_json(plain([asdict(report) for report in reports]))
    else:
        print(f"{count} findings in {len(reports)} runs")
    return int(count > 0)


def _print(report: object) -> None:
    from ..findings import RunReport
    from ..terminal import visible

    assert isinstance(report, RunReport)
    print(visible(report.run))
    for sign, rows in (("FOUND", report.findings), ("ok", report.notes)):
        for row in rows:
            print(f"  {sign:5}  {row.check:14}  {visible(row.text)}")
    for name, samples in report.examples.items():
        if samples:
            print(f"         {name}, for example: {visible(', '.join(samples))}")
