"""Exhibits: what a task shows beside a transcript, so that a reader sees what was at stake.

A task returns them from `Task.exhibits`; viewers draw them, and know nothing of games or stories.

    Table("Payoffs", ("", "Left", "Right"), (("Up", "3, 2", "0, 0"),), marks=(Mark(0, 1, KEY),))
    Steps("The game", (Step("1. X plays C2R2", ". . .\\n. X .\\n. . ."),))

All of it is text: what stands in a cell is shown as it is, whatever characters it holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final, NamedTuple

from .types import Json

KEY: Final = "key"
"""A mark: look here (an equilibrium, the belief that is asked for)."""
GOOD: Final = "good"
"""A mark: right."""
BAD: Final = "bad"
"""A mark: wrong."""
CHANGED: Final = "changed"
"""A mark: differs from the row above."""


class Mark(NamedTuple):
    """Emphasis on the cell in a row and a column, both from 0: one of the marks above."""

    row: int
    column: int
    kind: str


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under column titles; the first column holds the rows' names.

    ``note`` says in words what the marks say in colour.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marks: tuple[Mark, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what happened, the board after it (as monospaced text), and a remark."""

    label: str
    board: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps in order, shown one at a time."""

    title: str
    steps: tuple[Step, ...]
    note: str = ""


Exhibit = Table | Steps


def as_json(exhibit: Exhibit) -> Mapping[str, Json]:
    """An exhibit for a viewer.

    >>> as_json(Steps("Moves", (Step("1. A"),)))["kind"]
    'steps'
    """
    found = {"kind": type(exhibit).__name__.lower(), **asdict(exhibit)}
    if isinstance(exhibit, Table):
        found["marks"] = [list(mark) for mark in exhibit.marks]
    return found
