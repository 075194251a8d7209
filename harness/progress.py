"""Progress of long work, on stderr, through rich; silent where stderr is no terminal.

>>> list(track([1, 2], "counting"))
[1, 2]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import Any, TypeVar

T = TypeVar("T")
PATIENCE = 1.0
"""Seconds before a bar or a line appears: short work shows none."""

quiet = False
"""Whether the user asked for none at all (``--quiet``)."""


def track(items: Iterable[T], description: str, total: int | None = None) -> Iterator[T]:
    """Yield the items, showing how far they are.

    On a terminal a bar appears after a second; elsewhere (logs, CI) one line when work has taken
    longer than that, and one at its end.
    """
    if total is None and isinstance(items, Sized):
        total = len(items)
    if quiet:
        yield from items
    elif sys.stderr.isatty():
        yield from _bar(items, description, total)
    else:
        yield from _lines(items, description, total)


def _bar(items: Iterable[T], description: str, total: int | None) -> Iterator[T]:
    started = time.monotonic()
    bar = None
    try:
        for count, item in enumerate(items, 1):
            yield item
            if bar is None and time.monotonic() - started > PATIENCE:
                bar = _open_bar()
                task = bar.add_task(description, total=total)
            if bar is not None:
                bar.update(task, completed=count)
    finally:
        if bar is not None:
            bar.stop()


def _open_bar() -> Any:  # rich is imported only when a bar is shown
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    bar.start()
    return bar


def _lines(items: Iterable[T], description: str, total: int | None) -> Iterator[T]:
    started = time.monotonic()
    told = False
    done = 0
    for item in items:
        yield item
        done += 1
        if not told and time.monotonic() - started > PATIENCE:
            told = True
            size = f" ({total})" if total is not None else ""
            print(f"{description}{size} ...", file=sys.stderr, flush=True)
    if told:
        seconds = time.monotonic() - started
        print(f"{description}: {done} in {seconds:.1f} s", file=sys.stderr, flush=True)
