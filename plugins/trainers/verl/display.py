"""Progress of training on stderr: a bar on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

LINE_EVERY: Final = 15.0
RECENT: Final = 20
"""Steps that the pace is taken from."""

SHOWN: Final = (
    ("reward", ("reward/mean", "critic/score/mean"), "{:.3f}"),
    ("loss", ("train/loss", "actor/loss"), "{:.4f}"),
    ("KL", ("actor/teacher_kl", "actor/kl_loss", "actor/ppo_kl"), "{:.2e}"),
    ("probe", ("probe/loss",), "{:.3f}"),
    ("tokens/s", ("perf/throughput",), "{:,.0f}"),
)
PHASES: Final = ("gen", "old_log_prob", "ref", "adv", "update_actor", "update_weights", "step")


class TrainDisplay:
    """Shows steps as they are logged."""

    def __init__(self, label: str, total: int, done: int, quiet: bool = False) -> None:
        self.label = label
        self.total = total
        self.done = done
        self.quiet = quiet
        self.figures = "starting"
        self.began = self._shown = time.monotonic()
        self._recent: deque[tuple[float, int]] = deque(maxlen=RECENT)
        self._bar: Any = None
        self._task: Any = None
        self._new = False

    def step(self, step: int, row: Mapping[str, float]) -> None:
        """Take in the figures of a step."""
        self.done = max(self.done, step)
        self._recent.append((time.monotonic(), step))
        self.figures = self.text(row)
        self._new = True

    def text(self, row: Mapping[str, float]) -> str:
        """The figures of a step in one line."""
        parts = []
        for title, names, form in SHOWN:
            value = next((row[n] for n in names if n in row), None)
            if value is not None:
                parts.append(f"{title} {form.format(value)}")
        if "train/global_tokens" in row and row.get("timing_s/step"):
            parts.append(f"tokens/s {row['train/global_tokens'] / row['timing_s/step']:,.0f}")
        timed = [(p, row[f"timing_s/{p}"]) for p in PHASES if f"timing_s/{p}" in row]
        if timed:
            parts.append("s: " + " ".join(f"{p} {s:.2f}" for p, s in timed))
        if (left := self.left()) is not None:
            parts.append(f"{left // 60:.0f}:{left % 60:02.0f} left")
        return ", ".join(parts)

    def left(self) -> float | None:
        """Seconds to the end at the recent pace; None before two steps."""
        if len(self._recent) < 2 or self._recent[-1][1] <= self._recent[0][1]:
            return None
        (t0, s0), (t1, s1) = self._recent[0], self._recent[-1]
        return (self.total - s1) * (t1 - t0) / (s1 - s0)

    def tick(self) -> None:
        """Draw."""
        now = time.monotonic()
        if self.quiet or now - self.began < 2.0:
            return
        if sys.stderr.isatty():
            self._draw()
        elif self._new and now - self._shown >= LINE_EVERY:
            self._line()

    def close(self) -> None:
        """Take the bar away; print the last line where lines are printed."""
        if self._bar is not None:
            self._bar.stop()
        elif self._new and not self.quiet:
            self._line()

    def _line(self) -> None:
        self._shown = time.monotonic()
        self._new = False
        print(
            f"{self.label}: {self.done}/{self.total}, {self.figures}", file=sys.stderr, flush=True
        )

    def _draw(self) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=16),
                MofNCompleteColumn(),
                TextColumn("{task.fields[figures]}"),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task(self.label, total=self.total, figures=self.figures)
        self._bar.update(self._task, completed=self.done, figures=self.figures)
