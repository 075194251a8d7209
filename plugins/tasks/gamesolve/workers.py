"""Work on many items in several processes, results in the order of the items.

>>> spread(len, ["a", "bb"], "measuring")
[1, 2]
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Final, TypeVar

from harness.progress import track

A = TypeVar("A")
B = TypeVar("B")

CHUNK: Final = 40
WORTHWHILE: Final = 400
"""With fewer items than this, starting processes takes longer than it saves."""


def spread(function: Callable[[A], B], items: Sequence[A], description: str) -> list[B]:
    """``[function(item) for item in items]``, on all cores where that pays, showing progress.

    ``function`` and the items must be picklable: workers are spawned, nothing is inherited. Where
    workers cannot start (inside another worker, under a program read from stdin or without a main
    guard) the work is done here.
    """
    chunks = [items[start : start + CHUNK] for start in range(0, len(items), CHUNK)]
    count = min(os.cpu_count() or 1, len(chunks))
    work = partial(_each, function)
    if count > 1 and len(items) >= WORTHWHILE and _can_spawn():
        context = multiprocessing.get_context("spawn")
        try:
            with ProcessPoolExecutor(count, mp_context=context) as pool:
                return _flat(track(pool.map(work, chunks), description, len(chunks)))
        except BrokenProcessPool:
            pass
    return _flat(track(map(work, chunks), description, len(chunks)))


def _can_spawn() -> bool:
    """Whether a spawned process could import the main module again, and may be started here."""
    main = getattr(sys.modules["__main__"], "__file__", None)
    return (main is None or os.path.exists(main)) and not multiprocessing.current_process().daemon


def _each(function: Callable[[A], B], items: Sequence[A]) -> list[B]:
    return [function(item) for item in items]


def _flat(lists: Iterable[list[B]]) -> list[B]:
    return [item for part in lists for item in part]
