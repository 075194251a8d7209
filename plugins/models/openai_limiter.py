"""How many requests are in flight: a limit that finds what a server will take.

    limiter = Limiter(most=256)
    async with limiter.slot():
        ...                                     # send, and note how it went:
        limiter.note(throttled=False)

The limit is looked at once a window, that is once for twice as many answers as it lets through. It
grows while growing pays: doubled at first, by one and a twentieth later. Where more than a few
answers are "too many requests" it shrinks by half of their share, so a server that turns away one
request in ten at random costs little, and one that turns away most is soon left alone. Where twice
as many requests in flight do not bring clearly more answers a second (they only wait longer), the
limit goes back, and after a while tries again.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

GROWTH: Final = 0.05
"""Share by which a limit grows in each window, besides one."""

TOLERATED: Final = 0.2
"""Share of throttled answers that does not shrink a limit."""

GAIN: Final = 1.2
"""Twice the limit must bring this many times the answers a second."""

HOLD: Final = 20
"""Windows for which a limit that did not pay is left alone."""

SMALLEST_WINDOW: Final = 32


class Limiter:
    """Admits requests in the order in which they came, at most ``limit`` at a time."""

    def __init__(
        self, most: int = 256, start: int = 16, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.most = most
        self.limit = float(min(start, most))
        self.running = 0
        self.highest = 0
        self._clock = clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._doubling = True
        self._hold = 0
        self._base_limit, self._base_rate = self.limit, 0.0
        self._begin_window()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a place, and hold it."""
        await self._enter()
        try:
            yield
        finally:
            self.running -= 1
            self._wake()

    def note(self, throttled: bool) -> None:
        """An answer came; ``throttled``: the server asked for fewer requests, or never answered."""
        self._answers += 1
        self._throttled += throttled
        self._full += self.running >= int(self.limit)
        if self._answers >= max(SMALLEST_WINDOW, 2 * self.limit):
            self._end_window()
            self._begin_window()
            self._wake()

    # Admission

    async def _enter(self) -> None:
        if not self._waiting and self.running < int(self.limit):
            self._take()
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():  # the place was given: pass it on
                self.running -= 1
            elif place in self._waiting:
                self._waiting.remove(place)
            self._wake()
            raise

    def _take(self) -> None:
        self.running += 1
        self.highest = max(self.highest, self.running)

    def _wake(self) -> None:
        while self._waiting and self.running < int(self.limit):
            place = self._waiting.popleft()
            if not place.done():
                self._take()
                place.set_result(None)

    # Adaptation

    def _begin_window(self) -> None:
        self._answers = self._throttled = self._full = 0
        self._began = self._clock()

    def _end_window(self) -> None:
        share = self._throttled / self._answers
        rate = (self._answers - self._throttled) / max(1e-6, self._clock() - self._began)
        self._doubling = self._doubling and not share
        if share > TOLERATED:
            self.limit = max(1.0, self.limit * (1 - share / 2))
            if self.limit < self._base_limit:
                self._base_limit, self._base_rate = self.limit, rate
        elif 2 * self._full >= self._answers:  # else fewer were wanted than the limit allows
            self._grow(rate)

    def _grow(self, rate: float) -> None:
        if self._hold:
            self._hold -= 1
            self.limit = max(self.limit, self._base_limit)
            self._base_rate = rate
            return
        if self.limit >= 2 * self._base_limit or not self._base_rate:
            if rate < GAIN * self._base_rate:
                self._doubling, self._hold = False, HOLD
                self.limit = self._base_limit
                return
            self._base_limit, self._base_rate = self.limit, rate
        step = self.limit if self._doubling else 1 + GROWTH * self.limit
        self.limit = min(float(self.most), self.limit + step)
