"""The log of a sweep: one event a line, from the scheduler and from the cells themselves.

    {"time": "2026-12-01T10:00:00Z", "event": "cell_started", "cell": "grpo--seed0", "slot": 0, ...}

Events: ``sweep_started``, ``cell_started``, ``cell_training``, ``cell_chosen`` (a checkpoint),
``cell_testing``, ``cell_done``, ``cell_failed``, ``cell_stopped``, ``cell_given_up``,
``sweep_stopped``, ``sweep_finished``.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ..types import Json

EVENTS: Final = "events.jsonl"


class Events:
    """Appends to the log; several processes may at once, as each line is written whole."""

    def __init__(self, root: Path) -> None:
        self.path = root / EVENTS

    def add(self, event: str, **facts: Json) -> None:
        """Write one event."""
        row = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "event": event, **facts}
        line = json.dumps(row, default=str).encode() + b"\n"
        log = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(log, line)
        finally:
            os.close(log)


def read_events(root: Path) -> Iterator[dict[str, Json]]:
    """The events so far, in order; a line that a crash cut short is left out."""
    try:
        lines = (root / EVENTS).read_text().splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            continue
