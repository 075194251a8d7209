"""Leaderboards as text: terminal, Markdown, CSV, JSON, LaTeX. The same board, the same bytes.

print(render(board, "terminal"))
"""

from __future__ import annotations

import csv
import io
import re
import textwrap
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import orjson

from ..terminal import visible
from ..types import CLASSES, HarnessError, Json
from .cells import BOUND, CONTAMINATED, DIFFERENT, INCOMPLETE, Cell

if TYPE_CHECKING:
    from ..leaderboard import Board

WIDTH: Final = 100
LABEL: Final = 20
LEAST: Final = 12
"""Columns of a label on the narrowest terminals."""
CELL: Final = 25
LETTERS: Final = 4
"""More letters than that say little in a cell; they stand in CSV, JSON and HTML."""


def render(board: Board, form: str) -> str:
    """The board in a format of `FORMATS`, ending in a newline. Raises HarnessError for others."""
    if form not in FORMATS:
        raise HarnessError(f"--format {form}: there are {', '.join(FORMATS)}")
    return FORMATS[form](board).rstrip("\n") + "\n"


# What a cell says


def titles(board: Board) -> list[tuple[str, str]]:
    """(title, domain) of all columns, the gaps last."""
    own = [(c.title or c.key, board.arenas[c.task].domain) for c in board.columns]
    return own + [(f"gap {title}", "gap") for title in board.gap_titles]


def row_cells(board: Board, row: str) -> list[Cell | None]:
    """A row's cells in the order of `titles`."""
    own = [board.cells.get((row, column.key)) for column in board.columns]
    return own + [board.gaps.get((row, title)) for title in board.gap_titles]


def figure(value: float | None, signed: bool = False) -> str:
    """Three digits, or a dash.

    >>> figure(0.5), figure(0.25, signed=True), figure(None)
    ('0.500', '+0.250', '-')
    """
    if value is None:
        return "-"
    return f"{value:+.3f}" if signed else f"{value:.3f}"


def interval(low: float | None, high: float | None, signed: bool = False) -> str:
    """``[0.790, 0.853]``, or why there is none."""
    if low is None or high is None:
        return "too few"
    return f"[{figure(low, signed)}, {figure(high, signed)}]"


def standing(cell: Cell) -> str:
    """Rank and letters: ``#1 ab``."""
    if cell.rank is None:
        return ""
    letters = cell.letters if len(cell.letters) <= LETTERS else ""
    return f"#{cell.rank} {letters}".strip()


def ledger_text(cell: Cell) -> str:
    """The ledger in words, in its own order; "" where it is not known."""
    return ", ".join(f"{name} {cell.ledger[name]}" for name in CLASSES if cell.ledger.get(name))


def cell_lines(cell: Cell | None, is_gap: bool = False) -> list[str]:
    """A cell as short lines, each at most `CELL` - 1 wide."""
    if cell is None:
        return ["-"]
    lines = [f"{figure(cell.value, is_gap)}{cell.marks} {standing(cell)}".strip()]
    if cell.value is None:
        return lines
    lines.append(interval(cell.low, cell.high, is_gap))
    if cell.sd is not None:
        lines.append(f"sd {cell.sd:.3f}, {cell.runs if cell.runs > 1 else cell.seeds} seeds")
    facts = [f"n {cell.n}"]
    if cell.normalised is not None:
        facts.append(f"norm {cell.normalised:.2f}")
    lines.append(", ".join(facts))
    if cell.ledger:
        lines += _faults(cell)
    if cell.tokens is not None:
        lines.append(f"tokens {cell.tokens[0]:,.0f} + {cell.tokens[1]:,.0f}")
    if cell.given_valid is not None and cell.faults:
        lines.append(f"given valid {figure(cell.given_valid)}")
    if cell.difference is not None:
        lines += _difference(cell)
    return lines


def _faults(cell: Cell) -> list[str]:
    """The ledger in a narrow column: shares of the faults."""
    total = sum(cell.ledger.values())
    shares = [
        f"{name} {100 * cell.ledger[name] / total:.1f} %"
        for name in CLASSES
        if name != "ok" and cell.ledger.get(name)
    ]
    return shares or ["all ok"]


def _difference(cell: Cell) -> list[str]:
    found = cell.difference
    assert found is not None
    lines = [f"Δ {figure(found.value, True)}" + ("" if found.how == "paired" else f" {found.how}")]
    lines.append(f"  {interval(found.low, found.high, True)}")
    return lines


# Formats


def terminal(board: Board, width: int = WIDTH) -> str:
    """Blocks of columns that fit the width, one below the other."""
    heads = titles(board)
    label = min(LABEL, max(LEAST, width - CELL))
    per_block = max(1, (width - label) // CELL)
    blocks = []
    for start in range(0, max(1, len(heads)), per_block):
        blocks.append(_block(board, heads, start, min(start + per_block, len(heads)), label))
    notes = [line for text in board.caption for line in _wrapped(text, width + 1, "  ")]
    return "\n\n".join([*blocks, "\n".join(notes)])


def _block(
    board: Board, heads: Sequence[tuple[str, str]], start: int, stop: int, width: int
) -> str:
    shown = heads[start:stop]
    names = [_wrapped(_head(title, domain)) for title, domain in shown]
    lines = _rows([[""], *names], width)
    lines.append("-" * (width + CELL * len(shown)))
    for row in board.rows:
        cells = row_cells(board, row)[start:stop]
        texts = [
            cell_lines(cell, domain == "gap")
            for cell, (_, domain) in zip(cells, shown, strict=True)
        ]
        if all(cell is None for cell in cells):
            continue
        lines += [*_rows([_wrapped(row, width), *texts], width), ""]
    return "\n".join(lines).rstrip()


def _head(title: str, domain: str) -> str:
    """A title that may be broken before its group."""
    text = title.replace("[", " [") if len(title) >= CELL else title
    return f"{text} ({domain})" if domain else text


def _wrapped(text: str, width: int = CELL, indent: str = "") -> list[str]:
    """Lines of less than the width, all but the first indented."""
    text = visible(text)
    if _width(text) == len(text):
        hyphens = not indent
        return textwrap.wrap(
            text, width - 1, subsequent_indent=indent, break_on_hyphens=hyphens
        ) or [""]
    lines = [""]
    for character in text:
        if _width(lines[-1] + character) >= width:
            lines.append(indent)
        lines[-1] += character
    return lines


def _width(text: str) -> int:
    """Columns on a terminal: wide characters take two, combining ones none."""
    return sum(
        0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
    )


def _rows(columns: Sequence[Sequence[str]], width: int) -> list[str]:
    """Cells of several lines side by side; labels to the left, figures to the right."""
    height = max(len(lines) for lines in columns)
    made = []
    for i in range(height):
        parts = [lines[i] if i < len(lines) else "" for lines in columns]
        label, rest = parts[0], parts[1:]
        line = label + " " * (width - _width(label))
        line += "".join(" " * (CELL - _width(part)) + part for part in rest)
        made.append(line.rstrip())
    return made


def markdown(board: Board) -> str:
    """A table with one line a cell, and the caption below."""
    heads = [f"{title} ({domain})" if domain else title for title, domain in titles(board)]
    lines = ["| " + " | ".join(["model", *map(_md, heads)]) + " |"]
    lines.append("| --- |" + " --- |" * len(heads))
    for row in board.rows:
        cells = zip(row_cells(board, row), titles(board), strict=True)
        texts = [_md("; ".join(cell_lines(cell, d == "gap"))) for cell, (_, d) in cells]
        lines.append("| " + " | ".join([_md(row), *texts]) + " |")
    return "\n".join([*lines, "", *(f"- {_md(line)}" for line in board.caption)])


def _md(text: str) -> str:
    text = visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|#])", r"\\\1", text)


def latex(board: Board) -> str:
    """A booktabs table: the figure with its interval below it."""
    heads = [f"{title} ({domain})" if domain else title for title, domain in titles(board)]
    lines = [
        "% needs booktabs",
        r"\begin{table}",
        r"\centering\small",
        r"\begin{tabular}{l" + "r" * len(heads) + "}",
        r"\toprule",
        " & ".join(["model", *map(_tex, heads)]) + r" \\",
        r"\midrule",
    ]
    for row in board.rows:
        cells = zip(row_cells(board, row), titles(board), strict=True)
        texts = [_tex_cell(cell, d == "gap") for cell, (_, d) in cells]
        lines.append(" & ".join([_tex(row), *texts]) + r" \\")
    text = " ".join(_tex(line) for line in board.caption)
    lines += [r"\bottomrule", r"\end{tabular}", r"\caption{" + text + "}", r"\end{table}"]
    return "\n".join(lines)


def _tex_cell(cell: Cell | None, is_gap: bool) -> str:
    if cell is None:
        return "--"
    marks = _tex(cell.marks)
    rank = "" if cell.rank is None else f"$^{{{cell.rank}}}$"
    low_high = "" if cell.low is None else _tex(f" {interval(cell.low, cell.high, is_gap)}")
    text = f"{figure(cell.value, is_gap)}{marks}{rank}{{\\scriptsize{low_high}}}"
    if cell.difference is not None:
        found = cell.difference
        change = f"{figure(found.value, True)} {interval(found.low, found.high, True)}"
        text += f" {{\\scriptsize $\\Delta$ {change}}}"
    return text.replace(r"{\scriptsize}", "")


_TEX: Final = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    CONTAMINATED: r"\dag{}",
    INCOMPLETE: r"\ddag{}",
    DIFFERENT: r"\S{}",
    BOUND: r"$\diamond$",
    "Δ": r"$\Delta$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
} | {c: "\\" + c for c in "&%$#_{}"}


def _tex(text: str) -> str:
    return "".join(_TEX.get(c, c) for c in visible(text))


def table(board: Board) -> list[dict[str, Json]]:
    """One flat row for each cell: what CSV holds."""
    rows: list[dict[str, Json]] = []
    for row in board.rows:
        for column in board.columns:
            cell = board.cells.get((row, column.key))
            if cell is None:
                continue
            arena = board.arenas[column.task]
            head = {"label": row, "column": column.title or column.key, "task": column.task}
            head |= {"metric": column.metric, "group": column.group, "domain": arena.domain}
            rows.append(head | _flat(cell))
    return rows


def _flat(cell: Cell) -> dict[str, Json]:
    flat: dict[str, Json] = asdict(cell)
    found = cell.difference
    for name in ("value", "low", "high", "p"):
        flat[f"difference_{name}"] = None if found is None else getattr(found, name)
    flat["difference_how"] = "" if found is None else found.how
    flat["differs"] = " ".join(cell.differs)
    flat["ledger"] = ledger_text(cell)
    flat["levels"] = " ".join(f"{k} {v!r}" for k, v in sorted(cell.levels.items()))
    flat["marks"] = cell.marks
    prompt, reply = cell.tokens or (None, None)
    flat |= {"prompt_tokens": prompt, "reply_tokens": reply}
    del flat["tokens"]
    del flat["difference"]
    return flat


def as_csv(board: Board) -> str:
    """Long form, one line a cell, full precision. A text that a spreadsheet would run as a formula
    is quoted for it (``'=1+1``)."""
    rows = table(board)
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: _csv(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def _csv(value: Json) -> Json:
    if not isinstance(value, str):
        return value
    value = visible(value)
    return f"'{value}" if value.lstrip(" ?").startswith(("=", "+", "-", "@")) else value


def as_json(board: Board) -> str:
    """Everything, keys sorted."""
    value = {
        "rows": list(board.rows),
        "columns": [{**c._asdict(), "key": c.key} for c in board.columns],
        "arenas": {name: asdict(arena) for name, arena in board.arenas.items()},
        "cells": [
            {"label": row, "column": key, "marks": cell.marks, **asdict(cell)}
            for (row, key), cell in sorted(board.cells.items())
        ],
        "gaps": [
            {"label": row, "column": title, **asdict(cell)}
            for (row, title), cell in sorted(board.gaps.items())
        ],
        "baseline": board.baseline,
        "caption": list(board.caption),
    }
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS
    return orjson.dumps(plain(value), option=options).decode()


def plain(value: Json) -> Json:
    """Named tuples as objects, for JSON."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if hasattr(value, "_asdict"):
        return {k: plain(v) for k, v in value._asdict().items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def _html(board: Board) -> str:
    from ..report.page import page

    return page(board)


FORMATS: Final[dict[str, Callable[[Board], str]]] = {
    "terminal": terminal,
    "md": markdown,
    "html": _html,
    "csv": as_csv,
    "json": as_json,
    "latex": latex,
}
