"""Plots of a leaderboard as PNG and SVG: the same board, the same bytes.

for path in draw(board, full, Path("plots")): print(path)

Intervals of each column, curves over orders and sizes, a heat map of the OOD groups, the pay-off
matrix of tasks with opponents, and the outcome ledger. Needs matplotlib (the extra ``report``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..board.arenas import OOD, Column
from ..board.cells import Cell
from ..types import CLASSES, HarnessError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..leaderboard import Board

COLOURS: Final = ("#3568b8", "#c8743c", "#3f8f63", "#8a5ba6", "#b3372c", "#5d7a8c", "#a08a2e")
LEDGER: Final = dict(
    zip(
        CLASSES,
        (
            "#7fae8b", "#d1795c", "#b3372c", "#d9a441", "#a7adb8", "#8a5ba6", "#5d7a8c", "#44566c",
        ),
        strict=True,
    )
)  # fmt: skip
MOST_ROWS: Final = 40


def draw(board: Board, full: Board, folder: Path) -> list[Path]:
    """Write all plots that the boards have data for.

    :param board: the table as it was asked for.
    :param full: the same runs with the scores of all groups.
    :returns: the files. Raises HarnessError without matplotlib, or for a folder that is none.
    """
    try:
        import matplotlib as mpl
        from cycler import cycler
    except ImportError:
        raise HarnessError("--plots: pip install 'strategic-harness[report]'") from None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HarnessError(f"--plots {folder}: {error.strerror}") from None
    style = {
        "svg.hashsalt": "harness",
        "svg.fonttype": "none",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlelocation": "left",
        "axes.titleweight": "bold",
        "axes.prop_cycle": cycler(color=COLOURS),
    }
    written = []
    with mpl.rc_context(style):
        taken: dict[str, int] = {}
        for wanted, figure in _figures(board, full):
            number = taken[wanted] = taken.get(wanted, 0) + 1
            name = wanted if number == 1 else f"{wanted}-{number}"
            for kind in ("png", "svg"):
                path = folder / f"{name}.{kind}"
                extra = {"Date": None} if kind == "svg" else {"Software": None}
                figure.savefig(path, dpi=150, metadata=extra, bbox_inches="tight")
                written.append(path)
    return written


def _figures(board: Board, full: Board) -> Iterator[tuple[str, Figure]]:
    for column in board.columns:
        if (found := intervals(board, column)) is not None:
            yield f"intervals-{_slug(column.key)}", found
    for task in sorted(full.arenas):
        for name, place in (("order", order_of), ("size", size_of)):
            if (found := curves(full, task, name, place)) is not None:
                yield f"{name}-{_slug(task)}", found
        if (found := ledger(full, task)) is not None:
            yield f"ledger-{_slug(task)}", found
    if (found := heat_map(full)) is not None:
        yield "ood", found
    for task in sorted({arena.task for arena in full.arenas.values()}):
        if (found := payoffs(full, task)) is not None:
            yield f"payoffs-{_slug(task)}", found


def intervals(board: Board, column: Column) -> Figure | None:
    """Each row's figure with its interval, floor and ceiling as lines."""
    found = [(row, cell) for row in board.rows if (cell := board.cells.get((row, column.key)))]
    rows = [(row, cell) for row, cell in found if cell.value is not None][:MOST_ROWS]
    if not rows:
        return None
    figure, axes = _new(6.4, 0.9 + 0.3 * len(rows))
    for y, (_, cell) in enumerate(rows):
        colour = COLOURS[0] if cell.rankable else COLOURS[5]
        if cell.low is not None and cell.high is not None:
            axes.plot([cell.low, cell.high], [y, y], color=colour, lw=3, alpha=0.45)
        axes.plot([cell.value], [y], "o", color=colour, ms=5, mfc=colour if cell.rankable else "w")
    for level in dict(rows[0][1].levels).values():
        axes.axvline(level, color="#a7adb8", lw=1, ls=":")
    axes.set_yticks(range(len(rows)), [f"{_short(row)} {cell.marks}" for row, cell in rows])
    axes.invert_yaxis()
    axes.set_title(f"{column.title} ({column.key})" if column.title else column.key)
    axes.set_xlabel("mean with 95 % interval; dotted: reference players")
    return figure


def order_of(group: str) -> float | None:
    """The order (or depth) that a group's name says.

    >>> order_of("order-2"), order_of("3"), order_of("nash")
    (2.0, 3.0, None)
    """
    found = re.fullmatch(r"(?:(?:order|depth|level)[-_ ]?)?(\d+)", group)
    return float(found[1]) if found else None


def size_of(group: str) -> float | None:
    """The number of cells of a size ``3x4``, a little more for more rows (to keep 2x3, 3x2 apart).

    >>> size_of("2x2"), size_of("5x3") > size_of("3x5"), size_of("pure")
    (4.002, True, None)
    """
    found = re.fullmatch(r"(\d+)x(\d+)", group)
    return int(found[1]) * int(found[2]) + int(found[1]) / 1000 if found else None


def curves(
    board: Board, task: str, name: str, place: Callable[[str], float | None]
) -> Figure | None:
    """Score over the groups that ``place`` orders, a line for each row."""
    own = [c for c in board.columns if c.task == task and c.metric == "score"]
    placed = sorted((p, c) for c in own if (p := place(c.group)) is not None)
    if len(placed) < 2:
        return None
    figure, axes = _new(6.4, 3.8)
    for row in board.rows[: len(COLOURS) * 2]:
        points = [
            (i, cell)
            for i, (_, column) in enumerate(placed)
            if (cell := board.cells.get((row, column.key))) and cell.value is not None
        ]
        if points:
            _curve(axes, points, row)
    axes.set_xticks(range(len(placed)), [column.group for _, column in placed])
    axes.set_title(f"{task}: score by {name}")
    axes.set_ylabel("score")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _curve(axes: Any, points: Sequence[tuple[int, Cell]], row: str) -> None:
    (line,) = axes.plot([x for x, _ in points], [c.value for _, c in points], "o-", ms=4)
    line.set_label(_short(row))
    shown = [(x, c.low, c.high) for x, c in points if c.low is not None]
    if len(shown) > 1:
        x, low, high = zip(*shown, strict=True)
        axes.fill_between(x, low, high, color=line.get_color(), alpha=0.12, lw=0)


def heat_map(board: Board) -> Figure | None:
    """Rows by the groups of the OOD arenas."""
    columns = [
        c for c in board.columns if board.arenas[c.task].domain == OOD and c.metric == "score"
    ]
    columns = [c for c in columns if c.group] or columns
    rows = [r for r in board.rows if any((r, c.key) in board.cells for c in columns)][:MOST_ROWS]
    if not rows or not columns:
        return None
    values = [[_value(board, row, c.key) for c in columns] for row in rows]
    labels = [c.group or c.task for c in columns]
    return _matrix(values, rows, labels, "OOD: score by category")


def payoffs(board: Board, task: str) -> Figure | None:
    """Rows by opponents: the mean score of the row's player."""
    arenas = {a.name: a.opponent for a in board.arenas.values() if a.task == task and a.opponent}
    if not arenas:
        return None
    columns = [
        c for c in board.columns if c.task in arenas and (c.metric, c.group) == ("score", "")
    ]
    rows = [r for r in board.rows if any((r, c.key) in board.cells for c in columns)][:MOST_ROWS]
    values = [[_value(board, row, c.key) for c in columns] for row in rows]
    labels = [arenas[c.task] for c in columns]
    return _matrix(values, rows, labels, f"{task}: pay-off of the row against the column")


def ledger(board: Board, task: str) -> Figure | None:
    """Shares of the outcome classes of each row."""
    key = Column("", task, "score", "").key
    rows = [
        (row, cell)
        for row in board.rows
        if (cell := board.cells.get((row, key))) is not None and cell.ledger
    ][:MOST_ROWS]
    if not rows:
        return None
    figure, axes = _new(6.4, 1.2 + 0.3 * len(rows))
    left = [0.0] * len(rows)
    for name in CLASSES:
        shares = [c.ledger.get(name, 0) / sum(c.ledger.values()) for _, c in rows]
        if any(shares):
            axes.barh(range(len(rows)), shares, left=left, color=LEDGER[name], label=name)
        left = [a + b for a, b in zip(left, shares, strict=True)]
    axes.set_yticks(range(len(rows)), [_short(row) for row, _ in rows])
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_title(f"{task}: outcome ledger")
    axes.set_xlabel("share of records")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _matrix(
    values: Sequence[Sequence[float]], rows: Sequence[str], columns: Sequence[str], title: str
) -> Figure:
    import numpy as np

    figure, axes = _new(1.8 + 0.75 * len(columns), 1.4 + 0.32 * len(rows))
    grid = np.array(values, float)
    axes.imshow(np.ma.masked_invalid(grid), cmap="RdYlBu", vmin=0, vmax=1, aspect="auto")
    for (y, x), value in np.ndenumerate(grid):
        text = "-" if np.isnan(value) else f"{value:.2f}"
        dark = not np.isnan(value) and (value < 0.15 or value > 0.85)
        axes.text(x, y, text, ha="center", va="center", color="w" if dark else "#1c2330")
    axes.set_xticks(range(len(columns)), columns, rotation=35, ha="right")
    axes.set_yticks(range(len(rows)), [_short(row) for row in rows])
    axes.set_title(title)
    axes.spines[:].set_visible(False)
    return figure


def _new(width: float, height: float) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(min(width, 16), min(height, 14)))
    return figure, figure.add_subplot()


def _value(board: Board, row: str, key: str) -> float:
    cell = board.cells.get((row, key))
    return float("nan") if cell is None or cell.value is None else cell.value


def _short(text: str) -> str:
    """At most 40 characters; a dollar sign would start mathematics."""
    text = text if len(text) <= 40 else text[:37] + "..."
    return text.replace("$", r"\$")


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-")
