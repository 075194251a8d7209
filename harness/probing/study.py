"""A whole study: several models, with and without chat template, written to one folder.

    reports = study(items, sources, Path("out"), ProbeSettings())

One model writes ``probes.json`` and ``pooling_comparison.json`` into the folder; several write them
into a folder of their own each, beside the plots that compare them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..types import HarnessError
from .extract import Item, Source
from .probe import Probe, ProbeSettings
from .results import write


def study(
    items: Sequence[Item],
    sources: Sequence[Source],
    out: Path,
    settings: ProbeSettings,
    task: str = "",
    plots: bool = True,
) -> dict[str, dict[str, Any]]:
    """Probe every source; returns what stands in each probes.json, by label.

    :param plots: draw them too. Raises HarnessError without matplotlib, before any work.
    """
    if plots:
        from .plots import require

        require()
    if settings.solver == "sklearn":
        settings.fitting(0.0)
        require_sklearn()
    probe = Probe(settings, items, out)
    _ = probe.plan, probe.problems
    reports: dict[str, dict[str, Any]] = {}
    for label, source in labelled(sources).items():
        report = probe.run(source)
        report["task"] = task
        report["label"] = label
        own = out if len(sources) == 1 else out / label
        write(own / "pooling_comparison.json", report.pop("pooling_comparison"))
        write(own / "probes.json", report)
        reports[label] = report
        if plots:
            from .plots import draw

            draw(report, own)
    if plots and len(reports) > 1:
        from .plots import draw_across

        draw_across(reports, out)
    return reports


def labelled(sources: Sequence[Source]) -> dict[str, Source]:
    """A name for each source, fit for a folder. Raises HarnessError where two are the same.

    >>> list(labelled([Source("runs/sft@100"), Source("runs/sft@100", template=False)]))
    ['sft@100', 'sft@100-plain']
    """
    found: dict[str, Source] = {}
    for source in sources:
        name = source.model.rstrip("/").rpartition("/")[2].replace(":", "-")
        if not source.template:
            name += "-plain"
        if name in found:
            raise HarnessError(f"two models are called {name}; probe them into two folders")
        found[name] = source
    return found


def require_sklearn() -> None:
    """Raise HarnessError where scikit-learn is not installed."""
    from importlib.util import find_spec

    if find_spec("sklearn") is None:
        raise HarnessError("--solver sklearn: pip install 'strategic-harness[probe]'")
