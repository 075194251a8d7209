"""Progress of a run on stderr: samples/s, tokens/s, time left, running score.

On a terminal a live bar; elsewhere one line now and then. Nothing is shown for runs of under two
seconds, and rich is imported only when a bar appears.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Final

from .batching import ModelQueue
from .engine import Progress

PATIENCE: Final = 2.0
LINE_EVERY: Final = 15.0


class Display:
    """Shows the progress of one job; `tick` is called by the engine."""

    def __init__(self, label: str, queue: ModelQueue | None, quiet: bool = False) -> None:
        self.label = label
        self.queue = queue
        self.quiet = quiet
        self.started = time.monotonic()
        self._shown = 0.0
        self._tokens = self._seen_tokens()
        self._bar: Any = None
        self._task: Any = None

    def tick(self, progress: Progress) -> None:
        """Show how far the job is."""
        now = time.monotonic()
        if self.quiet or now - self.started < PATIENCE:
            return
        if sys.stderr.isatty():
            if now - self._shown >= 0.2:
                self._shown = now
                self._show_bar(progress)
        elif now - self._shown >= LINE_EVERY:
            self._shown = now
            self._line(progress)

    def close(self, progress: Progress | None) -> None:
        """Take the bar away; print the last line where lines were printed."""
        if self._bar is not None:
            self._bar.stop()
        elif self._shown and progress is not None:
            self._line(progress)

    def figures(self, progress: Progress) -> str:
        """The running figures as text."""
        seconds = max(1e-6, time.monotonic() - self.started)
        rate = progress.scored / seconds
        tokens = (self._seen_tokens() - self._tokens) / seconds
        left = (progress.total - progress.done) / rate if rate > 0 else None
        parts = [f"{rate:.1f} samples/s"]
        if tokens > 0:
            parts.append(f"{tokens:,.0f} tokens/s")
        if left is not None:
            parts.append(f"{_clock(left)} left")
        if progress.scored:
            parts.append(f"score {progress.score_sum / progress.scored:.3f}")
        if progress.faults:
            parts.append(f"{progress.faults} faults")
        return ", ".join(parts)

    def _seen_tokens(self) -> int:
        if self.queue is None:
            return 0
        return max(self.queue.completion_tokens, self.queue.model.produced)

    def _line(self, progress: Progress) -> None:
        text = f"{self.label}: {progress.done}/{progress.total}, {self.figures(progress)}"
        print(text, file=sys.stderr, flush=True)

    def _show_bar(self, progress: Progress) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(bar_width=20),
                MofNCompleteColumn(),
                TextColumn("{task.fields[figures]}"),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task(self.label, total=progress.total, figures="")
        self._bar.update(self._task, completed=progress.done, figures=self.figures(progress))


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
