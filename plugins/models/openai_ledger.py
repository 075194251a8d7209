"""What requests cost, and the budget that they keep to.

    ledger = Ledger(Prices(input=0.15, output=0.60), budget=2.0)
    entry = await ledger.reserve(prompt_tokens=900, reply_tokens=512)   # HarnessError: spent
    ledger.settle(entry, prompt_tokens=612, reply_tokens=80)

A request is sent only if the budget could pay for its longest reply. While others are in flight it
waits for what they really cost; when none is, the budget is spent and the run stops, to be resumed
with a larger one. With a file, several runs share the ledger, and what an interrupted one spent
still counts.
"""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, NamedTuple

from harness.types import HarnessError

SAVE_EVERY: Final = 20
"""Requests after which a ledger with a file adds a line to it."""


class Prices(NamedTuple):
    """Money for a million tokens."""

    input: float = 0.0
    output: float = 0.0

    def cost(self, prompt_tokens: float, reply_tokens: float) -> float:
        """Money for so many tokens."""
        return (prompt_tokens * self.input + reply_tokens * self.output) / 1e6


FREE: Final = Prices()


@dataclass(slots=True)
class Totals:
    """What was asked for and spent."""

    requests: int = 0
    retries: int = 0
    throttled: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0


@dataclass(slots=True, eq=False)
class Entry:
    """One request's reservation."""

    prompt_tokens: int
    reply_tokens: int
    cost: float


class Ledger:
    """Totals of this process, and with a file of all processes that share it."""

    def __init__(
        self, prices: Prices = FREE, budget: float = 0.0, file: Path | None = None
    ) -> None:
        if budget and not any(prices):
            raise HarnessError(
                "a budget needs prices: give input_price and output_price, per million tokens"
            )
        self.prices = prices
        self.budget = budget
        self.file = file
        self.totals = Totals()
        self.before = _spent_before(file)
        self._reserved = 0.0
        self._in_flight = 0
        self._saved = Totals()
        self._settled: asyncio.Event | None = None

    @property
    def spent(self) -> float:
        """Money spent so far, earlier processes included."""
        return self.before + self.totals.cost

    async def reserve(self, prompt_tokens: int, reply_tokens: int) -> Entry:
        """Set the cost of a request aside. Raises HarnessError once the budget is spent."""
        entry = Entry(prompt_tokens, reply_tokens, self.prices.cost(prompt_tokens, reply_tokens))
        while self.budget and self.spent + self._reserved + entry.cost > self.budget:
            if not self._in_flight:
                raise HarnessError(
                    f"the budget of {self.budget:g} is spent: {self.spent:.4f} so far, and the "
                    f"next request may cost {entry.cost:.4f}; give a larger budget to go on"
                )
            if self._settled is None or self._settled.is_set():
                self._settled = asyncio.Event()
            await self._settled.wait()
        self._reserved += entry.cost
        self._in_flight += 1
        return entry

    def settle(self, entry: Entry, prompt_tokens: int, reply_tokens: int) -> None:
        """The request was answered, with this usage (none known: it counts as reserved)."""
        if not prompt_tokens and not reply_tokens:
            prompt_tokens, reply_tokens = entry.prompt_tokens, entry.reply_tokens
        totals = self.totals
        totals.requests += 1
        totals.prompt_tokens += prompt_tokens
        totals.completion_tokens += reply_tokens
        totals.cost += self.prices.cost(prompt_tokens, reply_tokens)
        self.release(entry)
        if totals.requests - self._saved.requests >= SAVE_EVERY:
            self.save()

    def release(self, entry: Entry) -> None:
        """The request came to nothing."""
        self._reserved = max(0.0, self._reserved - entry.cost)
        self._in_flight -= 1
        if self._settled is not None:
            self._settled.set()

    def save(self) -> None:
        """Add to the file what was spent since the last time. One short line, so that processes
        may share a file."""
        if self.file is None or self.totals == self._saved:
            return
        now, then = asdict(self.totals), asdict(self._saved)
        line = json.dumps({name: now[name] - then[name] for name in now}) + "\n"
        try:
            descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                os.write(descriptor, line.encode())
            finally:
                os.close(descriptor)
        except OSError as error:
            raise HarnessError(f"ledger {self.file}: {error.strerror}") from None
        self._saved = Totals(**now)

    def text(self) -> str:
        """One line for the user."""
        t = self.totals
        parts = [f"{t.requests:,} requests"]
        if t.retries:
            parts.append(f"{t.retries:,} sent again ({t.throttled:,} throttled)")
        parts.append(f"{t.prompt_tokens:,} + {t.completion_tokens:,} tokens")
        if any(self.prices):
            parts.append(f"cost {t.cost:.4f}")
        if self.before:
            parts.append(f"{self.spent:.4f} with earlier runs")
        return ", ".join(parts)


def _spent_before(file: Path | None) -> float:
    """The money that a ledger file holds. Raises HarnessError for a file that is none."""
    if file is None or not file.exists():
        return 0.0
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        return sum(float(json.loads(line)["cost"]) for line in lines if line.strip())
    except (OSError, ValueError, KeyError, TypeError):
        raise HarnessError(f"{file} is no ledger (lines of JSON with a cost)") from None
