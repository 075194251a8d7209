"""vLLM's processes end with this one, also where it is killed.

    guard = Guard(process.pid for process in engine_processes(engine))      # it has started
    end(engine)
    guard.release()

vLLM's engine core does not notice that the process that started it has gone, and would hold the
GPU's memory for ever; the same command could not resume the run. So a small process waits for the
end of this one (its standard input closes then) and ends the engine.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

PATIENCE: Final = 15.0
"""Seconds that an engine may take to end."""

WATCH: Final = """
import os, signal, sys, time
sys.stdin.buffer.read()
def started(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[19]
    except OSError:
        return ""
for word in (signal.SIGTERM, signal.SIGKILL):
    for given in sys.argv[1:]:
        pid, _, at = given.partition(":")
        if started(pid) == at:
            try:
                os.kill(int(pid), word)
            except OSError:
                pass
    time.sleep(3)
"""
"""What the watching process runs; it ends a process only if that still is the one it was told."""


class Guard:
    """The watching process. Does nothing where there is no ``/proc``."""

    def __init__(self, processes: Iterable[int]) -> None:
        named = [f"{pid}:{at}" for pid in processes if (at := _started(pid))]
        self._watcher: subprocess.Popen[bytes] | None = None
        if named:
            command = [sys.executable, "-I", "-S", "-c", WATCH, *named]
            self._watcher = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # an interrupt of the terminal is not meant for it
            )

    def release(self) -> None:
        """The engine has ended: so may the watcher."""
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.kill()
            watcher.wait()
            with contextlib.suppress(OSError):
                if watcher.stdin is not None:
                    watcher.stdin.close()


def engine_processes(engine: Any) -> list[Any]:
    """An AsyncLLM's engine cores (multiprocessing processes; their workers end with them)."""
    resources = getattr(engine.engine_core, "resources", None)
    manager = getattr(resources, "engine_manager", None)
    processes = getattr(manager, "processes", None) or ()
    return [process for process in processes if getattr(process, "pid", None)]


def end(engine: Any) -> None:
    """Shut an AsyncLLM down and wait until its processes have ended."""
    processes = engine_processes(engine)
    engine.shutdown()
    for process in processes:
        process.join(PATIENCE)
        if process.is_alive():
            process.kill()
            process.join(PATIENCE)


def _started(pid: int) -> str:
    """When a process started, in ticks ("" where that cannot be known)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
