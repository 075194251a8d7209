"""Cells into slots, until all are done or given up.

    scheduler = Scheduler(sweep, root, LocalLauncher(...), Events(root), tell)
    scheduler.run()          # False when it was asked to stop

A launcher starts a cell in a slot and knows which have ended; whether a cell succeeded is read from
its folder. A cell that fails is tried again at the end of the queue; one that was stopped (a
preempted job) goes on without losing a try, as long as it gets further each time.
"""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from ..store import write_atomically
from ..types import HarnessError, Json
from .cells import Cell, Places
from .events import Events
from .file import Schedule

POLL: Final = 0.2


class Ending(NamedTuple):
    """A cell that has ended, the slot that it leaves, how its process ended, and whether it had
    used up its time."""

    cell: Cell
    slot: int
    how: str
    overdue: bool = False


class Launcher(Protocol):
    """What can run cells."""

    poll: float

    def holds(self, cell: Cell) -> bool:
        """Whether the cell may still run since an earlier call: it is then looked at first."""

    def start(self, cell: Cell, slot: int) -> Mapping[str, Json]:
        """Start a cell in a slot; facts for the log. Raises HarnessError when that fails."""

    def ended(self) -> Iterator[Ending]:
        """What has ended since the last call."""

    def stop(self) -> None:
        """Ask all cells to stop, and wait for them where they are processes of this machine."""


class Scheduler:
    """Runs the cells that are not done yet."""

    def __init__(
        self,
        cells: tuple[Cell, ...],
        schedule: Schedule,
        root: Path,
        launcher: Launcher,
        events: Events,
        tell: Callable[[str], None] = lambda text: None,
        tick: Callable[[Mapping[int, Cell]], None] = lambda running: None,
    ) -> None:
        self.root = root
        self.schedule = schedule
        self.launcher = launcher
        self.events = events
        self.tell = tell
        self.tick = tick
        left = [c for c in cells if not Places(root, c.name).result(c)]
        self.waiting = deque(sorted(left, key=lambda c: not launcher.holds(c)))
        self.running: dict[int, Cell] = {}
        self.failures: Counter[str] = Counter()
        self.reached: dict[str, int] = {}
        self.given_up: dict[str, str] = {}
        self.asked_to_stop = False

    def run(self) -> bool:
        """Until nothing waits or runs. True unless somebody asked it to stop; then all cells that
        this machine runs have stopped, and the same call goes on with them."""
        with self._signals():
            while (self.waiting or self.running) and not self.asked_to_stop:
                self._fill()
                for ending in self.launcher.ended():
                    self._ended(*ending)
                self.tick(self.running)
                if self.running:
                    time.sleep(self.launcher.poll)
            if self.asked_to_stop:
                self.launcher.stop()
        return not self.asked_to_stop

    def _fill(self) -> None:
        free = (s for s in range(self.schedule.slots) if s not in self.running)
        for slot in free:
            if not self.waiting or self.asked_to_stop:
                return
            cell = self.waiting.popleft()
            number = self.failures[cell.name] + 1
            try:
                facts = self.launcher.start(cell, slot)
            except HarnessError as error:
                self._failed(cell, slot, str(error))
                continue
            self.running[slot] = cell
            self.events.add("cell_started", cell=cell.name, slot=slot, attempt=number, **facts)
            tries = f", try {number} of {1 + self.schedule.retries}" if number > 1 else ""
            self.tell(f"{cell.name}: started in slot {slot}{tries}")

    def _ended(self, cell: Cell, slot: int, how: str, overdue: bool) -> None:
        del self.running[slot]
        places = Places(self.root, cell.name)
        if result := places.result(cell):
            scores = ", ".join(f"{t} {row['value']:.3f}" for t, row in result["tests"].items())
            self.tell(f"{cell.name}: done, step {result['step']}, {scores}")
            return
        state = places.read("state.json")
        status = state.get("status")
        step = int(state.get("step") or 0)
        if status == "stopped" and not overdue and step > self.reached.get(cell.name, -1):
            self.reached[cell.name] = step
            self.waiting.append(cell)
            self.tell(f"{cell.name}: stopped at step {step}; it goes on later")
            return
        reason = str(state["reason"]) if status == "failed" else how
        self._failed(cell, slot, reason)

    def _failed(self, cell: Cell, slot: int, reason: str) -> None:
        self.failures[cell.name] += 1
        number = self.failures[cell.name]
        self.events.add("cell_failed", cell=cell.name, slot=slot, attempt=number, reason=reason)
        places = Places(self.root, cell.name)
        if places.folder.is_dir():  # one that was killed could not say so itself
            set_state(places, {**places.read("state.json"), "status": "failed", "reason": reason})
        if number <= self.schedule.retries:
            self.waiting.append(cell)
            self.tell(f"{cell.name}: failed: {reason}; it is tried again")
            return
        self.given_up[cell.name] = reason
        self.events.add("cell_given_up", cell=cell.name, attempts=number, reason=reason)
        self.tell(f"{cell.name}: failed: {reason}; given up after {number} tries")

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGTERM (a preempted machine) and Ctrl-C stop the sweep; it goes on later."""

        def ask(*_: object) -> None:
            self.asked_to_stop = True

        names = (signal.SIGTERM, signal.SIGINT)
        before = {name: signal.signal(name, ask) for name in names}
        try:
            yield
        finally:
            for name, handler in before.items():
                signal.signal(name, handler)


def prepare(root: Path, cell: Cell, facts: Mapping[str, Json]) -> None:
    """Write what a worker needs to know of its cell, and forget how an earlier attempt ended."""
    places = Places(root, cell.name)
    places.folder.mkdir(parents=True, exist_ok=True)
    described = cell.described()
    value = {"cell": described, "train": described["train"],
             "train_hash": cell.train_hash, **facts}  # fmt: skip
    write_atomically(
        places.folder / "cell.json", json.dumps(value, indent=1, default=str).encode() + b"\n"
    )
    state = places.read("state.json")
    row = {"status": "waiting", "attempt": state.get("attempt", 0), "step": state.get("step", 0)}
    set_state(places, row)


def set_state(places: Places, row: Mapping[str, Json]) -> None:
    """Write how a cell stands."""
    write_atomically(places.folder / "state.json", json.dumps(row).encode() + b"\n")
