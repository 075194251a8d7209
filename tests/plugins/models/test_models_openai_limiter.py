"""The limiter, against servers whose capacity is known, on a clock of the test's own."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random

import pytest

from harness_plugins.models.openai_limiter import Limiter


class Clock:
    """Time that passes only when everything waits."""

    def __init__(self):
        self.now = 0.0
        self.sleepers = []
        self.count = itertools.count()

    async def sleep(self, seconds):
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self.sleepers, (self.now + seconds, next(self.count), future))
        await future

    async def drive(self, until):
        while not until.done():
            for _ in range(6):
                await asyncio.sleep(0)
            if self.sleepers and not until.done():
                self.now, _, due = heapq.heappop(self.sleepers)
                due.set_result(None)


def simulate(serve, requests, most=256, clients=400, start=16):
    """Send requests through a limiter; ``serve(clock, running)`` gives throttled or not."""

    async def main():
        clock = Clock()
        limiter = Limiter(most, start, clock=lambda: clock.now)
        left = iter(range(requests))
        limits = []

        async def client():
            for _ in left:
                async with limiter.slot():
                    throttled = await serve(clock, limiter.running)
                    limiter.note(throttled)
                    limits.append(limiter.limit)

        work = asyncio.gather(*(client() for _ in range(clients)))
        await clock.drive(work)
        await work
        return limiter, limits, clock.now

    return asyncio.run(main())


def batch_server(slots, seconds):
    """Takes any number; those beyond ``slots`` share its speed (as a batching engine does)."""

    async def serve(clock, running):
        await clock.sleep(seconds * max(1.0, running / slots))
        return False

    return serve


def test_reaches_a_server_without_limits():
    limiter, _, _ = simulate(batch_server(10_000, 1.0), 4_000)
    assert limiter.limit == 256
    assert limiter.highest == 256


def test_random_throttling_of_a_tenth_costs_little():
    rng = random.Random(1)

    async def serve(clock, running):
        throttled = rng.random() < 0.1
        await clock.sleep(0.01 if throttled else 1.0)
        return throttled

    _, limits, _ = simulate(serve, 6_000)
    assert min(limits[3_000:]) > 64


def test_a_few_slow_answers_and_some_lost_ones_do_not_hold_a_fast_server_back():
    rng = random.Random(2)

    async def serve(clock, running):
        drawn = rng.random()
        await clock.sleep(1.0 if drawn < 0.05 else 0.005)
        return drawn > 0.9

    _, limits, seconds = simulate(serve, 10_000)
    assert min(limits[5_000:]) > 64
    assert seconds < 20  # with 16 in flight it would be 34


def test_backs_off_to_what_a_server_accepts():
    async def serve(clock, running):
        throttled = running > 20
        await clock.sleep(0.05 if throttled else 1.0)
        return throttled

    _, limits, _ = simulate(serve, 4_000)
    settled = limits[2_000:]
    assert 12 < sum(settled) / len(settled) < 40


def test_stops_growing_where_requests_only_wait_longer():
    _, limits, seconds = simulate(batch_server(24, 1.0), 6_000)
    settled = limits[3_000:]
    assert 20 < sum(settled) / len(settled) < 100
    assert 6_000 / seconds > 0.9 * 24  # and the rate is the server's


@pytest.mark.parametrize("most", [1, 3])
def test_never_more_than_asked(most):
    limiter, _, _ = simulate(batch_server(100, 0.1), 200, most=most)
    assert limiter.highest == most


def test_a_server_that_refuses_all_is_left_with_one_request():
    async def serve(clock, running):
        await clock.sleep(0.01)
        return True

    limiter, _, _ = simulate(serve, 400)
    assert limiter.limit == 1


def test_cancelled_waiters_lose_no_place():
    async def main():
        limiter = Limiter(1, 1)
        order = []

        async def client(name):
            async with limiter.slot():
                order.append(name)
                await asyncio.sleep(0.01)

        tasks = [asyncio.create_task(client(n)) for n in range(4)]
        await asyncio.sleep(0)
        tasks[1].cancel()  # waiting
        await asyncio.sleep(0.011)
        tasks[2].cancel()  # holding
        await asyncio.gather(*tasks, return_exceptions=True)
        assert limiter.running == 0
        return order

    assert asyncio.run(main())[-1] == 3


def test_a_place_that_was_given_while_its_waiter_was_cancelled_is_passed_on():
    async def main():
        limiter = Limiter(1, 1)
        slot = limiter.slot()
        await slot.__aenter__()

        async def client():
            async with limiter.slot():
                return True

        first, second = asyncio.create_task(client()), asyncio.create_task(client())
        await asyncio.sleep(0)
        await slot.__aexit__(None, None, None)  # the place goes to the first waiter ...
        first.cancel()  # ... which is cancelled before it runs
        with pytest.raises(asyncio.CancelledError):
            await first
        return await asyncio.wait_for(second, 1)

    assert asyncio.run(main())
