"""The engine: drives the rollouts of a job, many at once, and journals what they end in.

Admission is bounded (memory does not grow with the number of samples), all rollouts ask one queue
per model, faults of engine or provider are retried, and a record counts once it is on disk. What a
record holds depends on (sample, seed, replies) only, never on the order in which things happened.

    done = await Engine(job, folder).run()
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from .observers import Observers
from .plan import Item, Job
from .reward import Reward
from .seeds import Streams, derive
from .store import RunFolder
from .types import (
    ENGINE_ERROR,
    INFRASTRUCTURE_FAULTS,
    PROVIDER_ERROR,
    HarnessError,
    Outcome,
    ProviderError,
    Record,
    Score,
)

COMMIT_EVERY: Final = 0.05
"""Seconds between group commits."""

YIELD_EVERY: Final = 32
"""Rollouts after which a worker lets the loop breathe (scripted players never wait)."""


@dataclass(slots=True)
class Progress:
    """How far a job is; read by the display."""

    total: int
    done: int = 0
    resumed: int = 0
    faults: int = 0
    score_sum: float = 0.0
    scored: int = 0
    retries: int = 0


class Engine:
    """Runs one job into one folder."""

    def __init__(
        self,
        job: Job,
        folder: RunFolder,
        total: int,
        concurrency: int,
        observers: Observers | None = None,
        tick: Callable[[Progress], None] | None = None,
        retry_delay: float = 0.5,
    ) -> None:
        self.job = job
        self.folder = folder
        self.concurrency = concurrency
        self.observers = observers or Observers()
        self.tick = tick or (lambda _: None)
        self.retry_delay = retry_delay
        self.progress = Progress(total)
        self._ended = asyncio.Event()
        self._unobserved: dict[int, Record] = {}
        self._scores: dict[int, float] = {}
        self._grouping = type(job.reward).score_group is not Reward.score_group

    async def run(self) -> Progress:
        """Roll out what is missing. Cancellation leaves a journal that resumes."""
        items = self._missing()
        workers = [asyncio.create_task(self._work(items)) for _ in range(self.concurrency)]
        committer = asyncio.create_task(self._commit_regularly())
        try:
            await _first_failure(committer, workers)
        finally:
            for task in workers:
                task.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            self._ended.set()
            await committer
        return self.progress

    def _missing(self) -> Iterator[Item]:
        for item in self.job.items():
            if self.folder.journal.has(item.index):
                self.progress.resumed += 1
                self.progress.done += 1
            else:
                yield item

    async def _work(self, items: Iterator[Item]) -> None:
        for count, item in enumerate(items, 1):
            await self._finish(item)
            if count % YIELD_EVERY == 0:
                await asyncio.sleep(0)

    async def _commit_regularly(self) -> None:
        loop = asyncio.get_running_loop()
        journal = self.folder.journal
        while True:
            ended = self._ended.is_set()
            if batch := journal.take():
                self._count(await loop.run_in_executor(None, journal.write, batch))
            self.tick(self.progress)
            if ended:
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), COMMIT_EVERY)

    def _count(self, finished: list[int]) -> None:
        for index in finished:
            self.progress.done += 1
            self.progress.scored += 1
            self.progress.score_sum += self._scores.pop(index)
            if self.observers:
                self.observers.record_finished(self.folder, self._unobserved.pop(index))

    async def _finish(self, item: Item) -> None:
        """One rollout, tried again after faults, journalled whatever came of it."""
        started, clock = time.time(), time.perf_counter()
        for attempt in range(1, self.job.settings.retries + 2):
            try:
                record = await self._roll_out(item)
            except HarnessError:
                raise
            except ProviderError as error:
                cls, reason = PROVIDER_ERROR, str(error)
            except Exception:  # a task, player or reward must not take the run down: recorded
                cls, reason = ENGINE_ERROR, traceback.format_exc(limit=-6)
                if attempt > 1:
                    break
            else:
                seconds = time.perf_counter() - clock
                try:
                    self.folder.journal.append(record, started, seconds, attempt)
                except TypeError as error:  # a task or reward made something that is not JSON
                    cls, reason = ENGINE_ERROR, f"{item.sample.id} cannot be stored: {error}"
                    break
                self._scores[item.index] = record.score.value
                if self.observers:
                    self._unobserved[item.index] = record
                return
            if attempt <= self.job.settings.retries:
                self.progress.retries += 1
                jitter = 0.5 + Streams(item.index).uniform("retry", attempt)
                await asyncio.sleep(min(30.0, self.retry_delay * 2 ** (attempt - 1)) * jitter)
        self.progress.faults += 1
        self.folder.journal.append_fault(item.index, started, cls, reason, attempt)

    async def _roll_out(self, item: Item) -> Record:
        sample, job = item.sample, self.job
        seed = derive(item.seed, sample.id, item.repeat)
        players = job.players(sample, seed, item.seed, item.repeat)
        outcome = await job.task.rollout(sample, players, Streams(seed))
        if outcome.cls in INFRASTRUCTURE_FAULTS:
            raise ProviderError(f"{sample.id}: {outcome.cls}")
        score = await self._score(item, outcome)
        return Record(
            item.index,
            job.task.name,
            sample.id,
            sample.split,
            item.seed,
            item.repeat,
            sample.group,
            sample.cluster or sample.id,
            sample.canonical or sample.id,
            outcome,
            score,
        )

    async def _score(self, item: Item, outcome: Outcome) -> Score:
        reward = self.job.reward
        if self._grouping:
            score = (await reward.score_group(item.sample, [outcome]))[0]
        else:
            score = reward.score(item.sample, outcome)
        if not 0.0 <= score.value <= 1.0:
            raise HarnessError(
                f"the reward {reward.name!r} gave {score.value} for {item.sample.id}; values must "
                "lie in [0, 1]"
            )
        return score


async def _first_failure(committer: asyncio.Task[None], workers: list[asyncio.Task[None]]) -> None:
    """Wait until all workers are done, or raise what any task raised first.

    Callbacks, since `asyncio.wait` looks at all tasks again for each that ends.
    """
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    left = len(workers)

    def note(task: asyncio.Task[None]) -> None:
        nonlocal left
        left -= task is not committer
        if over.done():
            return
        if task.cancelled():
            over.cancel()
        elif (error := task.exception()) is not None:
            over.set_exception(error)
        elif left == 0:
            over.set_result(None)

    for task in (committer, *workers):
        task.add_done_callback(note)
    await over
