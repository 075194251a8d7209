"""Plots of probes, as PNG and SVG: the same report, the same bytes.

    draw(report, Path("out"))            # out/plots/{heatmap,curves,poolings,pca,cosines}.{png,svg}
    draw_across(reports, Path("out"))    # out/plots/models.{png,svg}

Needs matplotlib (the extra ``probe``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..types import HarnessError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS: Final = ("#3568b8", "#c8743c", "#3f8f63", "#8a5ba6", "#b3372c", "#5d7a8c")
GREY: Final = "#8b919c"
STYLE: Final = {
    "svg.hashsalt": "harness",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
}

Report = Mapping[str, Any]


def require() -> None:
    """Raise HarnessError where matplotlib is not installed."""
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        raise HarnessError("plots: pip install 'strategic-harness[probe]', or give --no-plots")


def draw(report: Report, folder: Path) -> list[Path]:
    """All plots of one model. Returns the files."""
    figures: dict[str, Callable[[Report], Figure]] = {
        "heatmap": heatmap, "curves": curves, "poolings": poolings,
    }  # fmt: skip
    if "pca" in report:
        figures |= {"pca": pca, "cosines": cosines}
    return list(_written(figures, report, folder))


def draw_across(reports: Mapping[str, Report], folder: Path) -> list[Path]:
    """Curves of several models over relative depth. Returns the files."""
    return list(_written({"models": lambda _: models(reports)}, {}, folder))


def _written(
    figures: Mapping[str, Callable[[Report], Figure]], report: Report, folder: Path
) -> Iterator[Path]:
    import matplotlib as mpl

    place = folder / "plots"
    try:
        place.mkdir(parents=True, exist_ok=True)
        with mpl.rc_context(STYLE):
            for name, make in figures.items():
                figure = make(report)
                for kind in ("png", "svg"):
                    extra = {"Date": None} if kind == "svg" else {"Software": None}
                    path = place / f"{name}.{kind}"
                    figure.savefig(path, dpi=150, metadata=extra, bbox_inches="tight")
                    yield path
    except OSError as error:
        raise HarnessError(f"{place}: cannot be written: {error.strerror}") from None


def heatmap(report: Report) -> Figure:
    """Concept by layer: test accuracy minus the majority share, at each concept's best pooling."""
    names, layers = list(report["concepts"]), report["layers"]
    table = np.array(
        [[p["value"] - e["majority"] for p in _curve(e)] for e in report["concepts"].values()]
    )
    figure, axes = _figure(0.28 * len(layers) + 3, 0.42 * len(names) + 1.3)
    most = max(0.05, float(np.abs(table).max()))
    image = axes.imshow(table, aspect="auto", cmap="RdBu_r", vmin=-most, vmax=most)
    labels = [f"{n} ({report['concepts'][n]['peak']['pooling']})" for n in names]
    axes.set_yticks(range(len(names)), labels)
    every = max(1, len(layers) // 15)
    axes.set_xticks(range(0, len(layers), every), [str(x) for x in layers[::every]])
    for row, name in enumerate(names):
        for layer in report["concepts"][name]["critical_layers"]:
            axes.plot(layers.index(layer), row, ".", color="black", markersize=3)
    axes.set_xlabel("layer (dots: critical layers)")
    axes.set_title(f"{report['label']}: test accuracy above the majority share")
    axes.spines[:].set_visible(False)
    figure.colorbar(image, ax=axes, pad=0.01)
    return figure


def curves(report: Report) -> Figure:
    """A panel a concept: accuracy by layer with its band, best control, majority share."""
    figure, panels = _panels(report["concepts"], "layer")
    for axes, (name, entry) in zip(panels, report["concepts"].items(), strict=True):
        peak = entry["peak"]["pooling"]
        for pooling, other in entry["poolings"].items():
            if pooling != peak:
                _line(axes, other["curve"], GREY, band=False, width=0.6)
        _line(axes, _curve(entry), COLOURS[0])
        _span(axes, entry["critical_layers"], report["layers"])
        _levels(axes, entry)
        axes.set_title(f"{name}: {peak}")
    _caption(
        figure,
        f"{report['label']}: test accuracy by layer, 95 % band at the best pooling (others grey); "
        "shaded: critical layers; dashed: best control; dotted: majority",
    )
    return figure


def poolings(report: Report) -> Figure:
    """A panel a concept: accuracy of the best layer of each pooling, chosen on validation."""
    figure, panels = _panels(report["concepts"], "")
    for axes, (name, entry) in zip(panels, report["concepts"].items(), strict=True):
        for place, (pooling, found) in enumerate(entry["poolings"].items()):
            point = found["curve"][report["layers"].index(found["peak"]["layer"])]
            colour = COLOURS[0] if pooling == entry["peak"]["pooling"] else GREY
            axes.plot(place, point["value"], "o", color=colour, markersize=4)
            if point["low"] is not None:
                axes.plot([place] * 2, [point["low"], point["high"]], color=colour, linewidth=1.2)
        axes.set_xticks(range(len(report["poolings"])), report["poolings"], rotation=45)
        _levels(axes, entry)
        axes.set_title(name)
    _caption(
        figure,
        f"{report['label']}: test accuracy at the layer that validation prefers, 95 % interval; "
        "dashed: best control; dotted: majority",
    )
    return figure


def pca(report: Report) -> Figure:
    """A panel a concept: accuracy on the first principal components at the best place."""
    figure, panels = _panels(report["concepts"], "principal components")
    for axes, (name, entry) in zip(panels, report["concepts"].items(), strict=True):
        points = report["pca"][name]
        counts = [p["components"] for p in points]
        axes.plot(counts, [p["value"] for p in points], "o-", color=COLOURS[0], markersize=3)
        if points[0]["low"] is not None:
            lows, highs = ([p[k] for p in points] for k in ("low", "high"))
            axes.fill_between(counts, lows, highs, color=COLOURS[0], alpha=0.15, linewidth=0)
        axes.set_xscale("log")
        axes.set_xticks(counts, [str(c) for c in counts], fontsize=7)
        axes.minorticks_off()
        _levels(axes, entry)
        axes.set_title(f"{name}: {entry['peak']['pooling']} {entry['peak']['layer']}")
    _caption(figure, f"{report['label']}: test accuracy on principal components of the train rows")
    return figure


def cosines(report: Report) -> Figure:
    """Concept by concept: how near their directions lie, in brackets what random ones give."""
    found = report["cosines"]
    names, table = found["concepts"], np.array(found["cosines"])
    figure, axes = _figure(0.85 * len(names) + 2.2, 0.6 * len(names) + 1.6)
    image = axes.imshow(table, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for i in range(len(names)):
        for j in range(len(names)):
            text = f"{table[i, j]:.2f}" + ("" if i == j else f"\n({found['random'][i][j]:.2f})")
            colour = "white" if table[i, j] > 0.6 else "black"
            axes.text(j, i, text, ha="center", va="center", fontsize=7, color=colour)
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
    axes.set_yticks(range(len(names)), names)
    axes.set_title(
        f"{report['label']}: cosine of directions, {found['pooling']} pooling, layer "
        f"{found['layer']} (random)"
    )
    axes.spines[:].set_visible(False)
    figure.colorbar(image, ax=axes, pad=0.02)
    return figure


def models(reports: Mapping[str, Report]) -> Figure:
    """A panel a concept, a line a model: accuracy over relative depth, layer / (layers - 1)."""
    first = next(iter(reports.values()))
    names = [n for n in first["concepts"] if all(n in r["concepts"] for r in reports.values())]
    figure, panels = _panels(names, "relative depth")
    for axes, name in zip(panels, names, strict=True):
        for place, (label, report) in enumerate(reports.items()):
            entry, most = report["concepts"][name], max(1, max(report["layers"]))
            colour = COLOURS[place % len(COLOURS)]
            _line(axes, _curve(entry), colour, scale=1 / most, label=label)
            best = entry["best_control"]
            if best:
                level = entry["controls"][best]["value"]
                axes.axhline(level, color=colour, linestyle="--", linewidth=0.8)
        axes.set_title(name)
    panels[0].legend(frameon=False, fontsize=7)
    _caption(figure, "test accuracy over relative depth, 95 % bands; dashed: best control")
    return figure


def _curve(entry: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    curve: Sequence[Mapping[str, Any]] = entry["poolings"][entry["peak"]["pooling"]]["curve"]
    return curve


def _line(
    axes: Axes,
    curve: Sequence[Mapping[str, Any]],
    colour: str,
    band: bool = True,
    width: float = 1.5,
    scale: float = 1.0,
    label: str | None = None,
) -> None:
    layers = [p["layer"] * scale for p in curve]
    axes.plot(
        layers, [p["value"] for p in curve], "o-" if len(layers) < 3 else "-", color=colour,
        linewidth=width, label=label,
    )  # fmt: skip
    if band and curve[0]["low"] is not None:
        lows, highs = ([p[k] for p in curve] for k in ("low", "high"))
        axes.fill_between(layers, lows, highs, color=colour, alpha=0.15, linewidth=0)


def _span(axes: Axes, chosen: Sequence[int], layers: Sequence[int]) -> None:
    for layer in chosen:
        place = layers.index(layer)
        left = layers[place - 1] if place else layer
        right = layers[place + 1] if place + 1 < len(layers) else layer
        axes.axvspan(
            (left + layer) / 2, (layer + right) / 2, color="#f1e8cb", zorder=0, linewidth=0
        )


def _levels(axes: Axes, entry: Mapping[str, Any]) -> None:
    axes.axhline(entry["majority"], color=GREY, linestyle=":", linewidth=1)
    if best := entry["best_control"]:
        level = entry["controls"][best]["value"]
        axes.axhline(level, color=COLOURS[1], linestyle="--", linewidth=1)
        axes.annotate(
            best, (1, level), xycoords=("axes fraction", "data"), fontsize=7, color=COLOURS[1],
            ha="right", va="bottom",
        )  # fmt: skip


def _panels(names: Any, xlabel: str) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    count = len(names)
    columns = min(3, count)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(3.3 * columns, 2.5 * rows + 0.5), layout="constrained")
    panels = [figure.add_subplot(rows, columns, place + 1) for place in range(count)]
    for place, axes in enumerate(panels):
        if place % columns == 0:
            axes.set_ylabel("accuracy")
        if place + columns >= count:
            axes.set_xlabel(xlabel)
    return figure, panels


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def _caption(figure: Figure, text: str) -> None:
    figure.suptitle(text, x=0.01, ha="left", fontsize=8, color="#444444")
