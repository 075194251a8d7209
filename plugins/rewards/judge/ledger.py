"""What a judge was asked for, kept in a file: a budget holds across processes and resumed jobs.

    ledger = Ledger(Path("runs/grpo/judge/ledger.jsonl"))
    ledger.add(requests=1)
    ledger.requests, ledger.tokens      # of all that share the file

Each entry is one short line that is appended, so that processes may share a file; without a file
only this process counts.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from harness.types import HarnessError


class Ledger:
    """Requests and tokens of all processes that share ``file``."""

    def __init__(self, file: Path | None = None) -> None:
        self.file = file
        self.requests = 0
        self.tokens = 0
        self._read = 0
        self.refresh()

    def add(self, requests: int = 0, tokens: int = 0) -> None:
        """Count what this process asked for. Raises HarnessError where it cannot be written."""
        if self.file is None:
            self.requests += requests
            self.tokens += tokens
            return
        line = json.dumps({"requests": requests, "tokens": tokens}) + "\n"
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                os.write(descriptor, line.encode())
            finally:
                os.close(descriptor)
        except OSError as error:
            raise HarnessError(f"judge_ledger {self.file}: {error.strerror}") from None
        self.refresh()

    def refresh(self) -> None:
        """Read what was added since the last time, by whomever."""
        if self.file is None or not self.file.exists():
            return
        try:
            with self.file.open("rb") as file:
                file.seek(self._read)
                data = file.read()
            whole = data.rfind(b"\n") + 1  # a line that is being written is read later
            for line in data[:whole].splitlines():
                entry = json.loads(line)
                self.requests += int(entry["requests"])
                self.tokens += int(entry["tokens"])
            self._read += whole
        except (OSError, ValueError, KeyError, TypeError):
            raise HarnessError(
                f"judge_ledger {self.file}: no ledger (lines of JSON with requests and tokens)"
            ) from None
