"""A leaderboard as one HTML file that needs nothing else: sort, filter, intervals, ledger.

Path("board.html").write_text(page(board))

All text from runs (labels, columns, captions) is escaped; the page may load nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from ..board.cells import BOUND, CONTAMINATED, DIFFERENT, INCOMPLETE, Cell
from ..board.formats import figure, interval, ledger_text, row_cells, titles
from ..terminal import visible
from ..types import CLASSES, OK
from .template import PAGE, SCRIPT, STYLE

if TYPE_CHECKING:
    from ..leaderboard import Board


def page(board: Board) -> str:
    """The whole page; the same board gives the same bytes."""
    heads = titles(board)
    domains = list(dict.fromkeys(domain for _, domain in heads if domain))
    options = [("", "all columns"), *((d, f"{d} only") for d in domains)]
    return PAGE.substitute(
        style=STYLE,
        script=SCRIPT,
        lead=_text(
            f"{len(board.rows)} rows, {len(board.columns)} columns. Click a column to sort. The "
            "bar under a figure is its 95 % interval, the line below it the outcome ledger."
        ),
        domains="".join(f'<option value="{_text(v)}">{_text(t)}</option>' for v, t in options),
        heads=_head("model", "") + "".join(_head(*head) for head in heads),
        rows="\n".join(_row(board, row, heads) for row in board.rows),
        notes="\n".join(f"<li>{_text(line)}</li>" for line in board.caption),
    )


def _head(title: str, domain: str) -> str:
    label = f"<small>{_text(domain)}</small>" if domain else ""
    return (
        f'<th scope="col" data-domain="{_text(domain)}"><button>{_text(title)}</button>{label}</th>'
    )


def _row(board: Board, row: str, heads: Sequence[tuple[str, str]]) -> str:
    note = ' <span class="base">baseline</span>' if row == board.baseline else ""
    cells = zip(row_cells(board, row), heads, strict=True)
    texts = [_cell(cell, domain == "gap") for cell, (_, domain) in cells]
    name = _text(row)
    return f'<tr><th scope="row" data-value="{name}">{name}{note}</th>{"".join(texts)}</tr>'


def _cell(cell: Cell | None, is_gap: bool) -> str:
    if cell is None:
        return '<td data-value="">-</td>'
    value = "" if cell.value is None else repr(cell.value)
    parts = [f'<span class="value">{figure(cell.value, is_gap)}</span>{_marks(cell)}{_rank(cell)}']
    if cell.value is not None:
        if not is_gap:
            parts.append(_track(cell))
        parts.append(f'<div class="soft">{interval(cell.low, cell.high, is_gap)}</div>')
        parts.append(f'<div class="soft">{_text(_facts(cell))}</div>')
        parts.append(_ledger(cell))
        parts.append(_delta(cell))
    title = _text(cell.note)
    attributes = f'data-value="{value}" data-marks="{_text(cell.marks)}" title="{title}"'
    return f"<td {attributes}>{''.join(parts)}</td>"


def _marks(cell: Cell) -> str:
    reasons = {
        CONTAMINATED: f"{cell.contaminated} items occur in the training data",
        INCOMPLETE: f"{cell.missing} records are missing",
        DIFFERENT: f"differs in {', '.join(cell.differs)}",
        BOUND: "chosen by the truth: an upper bound",
    }
    return "".join(f'<span class="mark" title="{_text(reasons[m])}">{m}</span>' for m in cell.marks)


def _rank(cell: Cell) -> str:
    if cell.rank is None:
        return ""
    first = " first" if cell.rank == 1 else ""
    tip = f"tie groups {cell.letters}"
    return f'<span class="rank{first}" title="{_text(tip)}">#{cell.rank}</span>'


def _track(cell: Cell) -> str:
    """The interval on the scale from 0 to 1; nothing for figures outside of it."""
    if cell.value is None or not 0 <= cell.value <= 1:
        return ""
    bar = ""
    if cell.low is not None and cell.high is not None:
        low, high = max(0.0, cell.low), min(1.0, cell.high)
        bar = f'<i style="left:{100 * low:.2f}%;width:{100 * (high - low):.2f}%"></i>'
    return f'<div class="track">{bar}<b style="left:{100 * min(cell.value, 0.99):.2f}%"></b></div>'


def _facts(cell: Cell) -> str:
    facts = [f"n {cell.n}"]
    if cell.normalised is not None:
        facts.append(f"norm {cell.normalised:.2f}")
    if cell.sd is not None:
        facts.append(f"sd {cell.sd:.3f} over {cell.runs if cell.runs > 1 else cell.seeds} seeds")
    if cell.tokens is not None:
        facts.append(f"tokens {cell.tokens[0]:,.0f} + {cell.tokens[1]:,.0f}")
    if cell.given_valid is not None and cell.faults:
        facts.append(f"given valid {cell.given_valid:.3f}")
    return ", ".join(facts)


def _ledger(cell: Cell) -> str:
    total = sum(cell.ledger.values())
    if not total:
        return ""
    parts = [
        f'<i class="{kind}" style="width:{100 * count / total:.2f}%"></i>'
        for name in CLASSES
        if (count := cell.ledger.get(name)) and (kind := "ok" if name == OK else "fault")
    ]
    return f'<div class="ledger" title="{_text(ledger_text(cell))}">{"".join(parts)}</div>'


def _delta(cell: Cell) -> str:
    found = cell.difference
    if found is None:
        return ""
    how = "" if found.how == "paired" else f" {found.how}"
    text = f"Δ {figure(found.value, True)} {interval(found.low, found.high, True)}{how}"
    return f'<div class="delta">{_text(text)}</div>'


def _text(text: str) -> str:
    return escape(visible(text))
