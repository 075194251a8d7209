"""What vLLM's processes say while they start: kept back, and looked through when they fail.

    with Words() as words:
        engine = start()            # the processes write to the same place as this one
    words.reason()                  # "ValueError: ...", the line that says what went wrong

The engine and its workers are processes of their own and print pages of traces where one line
would do. What they write while they start is held back and forgotten when all goes well; later
lines pass through. With ``VLLM_LOGGING_LEVEL`` set to INFO or DEBUG everything passes at once.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import deque
from types import TracebackType
from typing import Final

KEPT: Final = 4000
"""Lines that are remembered."""

ERROR: Final = re.compile(r"(?:^|\s)((?:\w+\.)*\w*(?:Error|Exception): .+)$")
CONSEQUENCES: Final = re.compile(r"initialization failed|root cause|See stack trace|cancelled")
"""Lines that only say that something else failed."""


MARK: Final = b"\x00the start is over\x00\n"
"""Written between what came before the end of the block and what came after it."""


class Words:
    """Stands in for the standard error output (file descriptor 2) while the block runs."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=KEPT)
        level = os.environ.get("VLLM_LOGGING_LEVEL", "")
        self._through = level.upper() in ("INFO", "DEBUG")
        self._good = False
        self._over = threading.Event()

    def __enter__(self) -> Words:
        sys.stderr.flush()
        self._real = os.dup(2)
        reading, writing = os.pipe()
        os.dup2(writing, 2)
        os.close(writing)
        self._thread = threading.Thread(target=self._read, args=(reading,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sys.stderr.flush()
        self._good = kind is None
        os.write(2, b"\n" + MARK)
        os.dup2(self._real, 2)
        self._over.wait(2.0)  # all that was said before has been read

    def reason(self) -> str:
        """The last error line that is no mere consequence of another; "" where there is none."""
        for line in reversed(self.lines):
            found = ERROR.search(line)
            if found and not CONSEQUENCES.search(line):
                return found[1]
        return ""

    def _read(self, reading: int) -> None:
        with open(reading, "rb", closefd=True) as file:
            for line in file:
                if line == MARK:
                    self._through = self._through or self._good
                    self._over.set()
                    continue
                self.lines.append(line.decode(errors="replace").rstrip())
                if self._through:
                    os.write(self._real, line)
