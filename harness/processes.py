"""Processes below this one: how they end with it, and how they are ended.

process = subprocess.Popen(command, start_new_session=True, preexec_fn=bound())
stop_group(process, signal.SIGTERM, patience=20.0)
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def die_with_parent(how: int = signal.SIGKILL) -> None:
    """Let the kernel send this process a signal when its parent dies, however that dies (Linux):
    what was killed must not go on writing behind the back of the one that resumes it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(how))


def bound(how: int = signal.SIGKILL) -> Callable[[], None]:
    """What a child does before it starts its program (``preexec_fn``): it dies with its parent, and
    can be interrupted, which the children of a shell's background job cannot."""

    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        die_with_parent(how)

    return prepare


def stop_group(process: subprocess.Popen[bytes], how: int, patience: float) -> None:
    """Send a signal to the leader of a group; when it has not ended after so many seconds, or left
    others behind, kill the group."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(how)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(patience)
    kill_group(process)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill whatever is left of a group, leader included."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def ended(code: int) -> str:
    """An exit code in words.

    >>> ended(-9), ended(2)
    ('killed by SIGKILL', 'exit code 2')
    """
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"
