"""An observer that adds a section to reports."""

from __future__ import annotations

from harness import hookimpl


@hookimpl
def report_section(run):
    return f"## Of {run.path.name}\n\n<b>{len(list(run.records()))} records</b>"
