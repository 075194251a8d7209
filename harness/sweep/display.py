"""Progress of a sweep on stderr: a line when a cell starts or ends, and how far the running ones
are (a live bar on a terminal, elsewhere a line now and then)."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ..training.curves import LOGS
from .cells import Cell, Places

LINE_EVERY: Final = 60.0
DRAW_EVERY: Final = 1.0


class SweepDisplay:
    """Shows a sweep of so many cells."""

    def __init__(self, root: Path, cells: tuple[Cell, ...], quiet: bool = False) -> None:
        self.root = root
        self.cells = cells
        self.quiet = quiet
        self._shown = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def tell(self, text: str) -> None:
        """Print a line, above the bar where there is one."""
        if self.quiet:
            return
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def tick(self, running: Mapping[int, Cell]) -> None:
        """Show how far the running cells are."""
        every = DRAW_EVERY if sys.stderr.isatty() else LINE_EVERY
        if self.quiet or time.monotonic() - self._shown < every:
            return
        self._shown = time.monotonic()
        done = sum(bool(Places(self.root, c.name).result(c)) for c in self.cells)
        text = "; ".join(f"{c.name} {phase(self.root, c)}" for _, c in sorted(running.items()))
        if sys.stderr.isatty():
            self._draw(done, text)
        else:
            print(f"{done} of {len(self.cells)} cells done; {text}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _draw(self, done: int, text: str) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            self._bar = Progress(
                BarColumn(bar_width=16),
                MofNCompleteColumn(),
                TextColumn("{task.fields[text]}", markup=False),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("cells", total=len(self.cells), text=text)
        self._bar.update(self._task, completed=done, text=text)


def phase(root: Path, cell: Cell) -> str:
    """How far a running cell is: the last step that its training logged."""
    logs = (Places(root, cell.name).model / LOGS).glob("metrics-*.jsonl")
    newest = max(logs, key=lambda p: p.stat().st_mtime, default=None)
    if newest is None:
        return "starts"
    with newest.open("rb") as file:
        file.seek(max(0, newest.stat().st_size - 65_536))
        lines = file.read().rpartition(b"\n")[0].splitlines()
    try:
        return f"step {json.loads(lines[-1])['step']}"
    except (ValueError, LookupError, TypeError):
        return "starts"
