"""One queue a model: all rollouts of all tasks ask the same one.

A model with ``generate`` takes requests as they come. For a model with ``generate_batch`` the queue
gathers batches: while one batch runs (in a worker thread) requests wait; the next batch holds the
oldest request and those nearest to it in length, within the model's bounds.

    queue = ModelQueue(model)
    reply = await queue.ask(request)
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from .model import Model
from .types import HarnessError, ProviderError, Reply, Request


@dataclass(slots=True, eq=False)
class _Waiting:
    request: Request
    tokens: int
    future: asyncio.Future[Reply]


class ModelQueue:
    """The queue of one model. Counts requests and tokens for the progress display."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.requests = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self._native = type(model).generate is not Model.generate
        self._waiting: list[_Waiting] = []
        self._runner: asyncio.Task[None] | None = None
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="harness-model")

    async def ask(self, request: Request) -> Reply:
        """Send one request and wait for the reply. Raises ProviderError, HarnessError."""
        if self._native and (self.model.context_length is None or self.model.checks_length):
            reply = await self.model.generate(request)
        else:
            reply = await self._ask_counted(request)
        self.requests += 1
        self.prompt_tokens += reply.prompt_tokens
        self.completion_tokens += reply.completion_tokens
        return reply

    async def _ask_counted(self, request: Request) -> Reply:
        tokens = await self.model.measure(request.messages)
        room = self.model.context_length
        longest = None if room is None else room - request.decoding.max_tokens
        if tokens is not None and longest is not None and tokens > longest:
            # First turns were checked before the run: only a history that grew gets here.
            return Reply("", finish_reason="length", prompt_tokens=tokens)
        if self._native:
            return await self.model.generate(request)
        return await self._enqueue(request, tokens)

    def close(self) -> None:
        """Let the batch in flight end; nothing new is started."""
        if self._runner is not None:
            self._runner.cancel()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _enqueue(self, request: Request, tokens: int | None) -> asyncio.Future[Reply]:
        loop = asyncio.get_running_loop()
        if tokens is None:
            tokens = sum(len(m.content) for m in request.messages) // 3
        waiting = _Waiting(request, tokens, loop.create_future())
        self._waiting.append(waiting)
        if self._runner is None or self._runner.done():
            self._runner = loop.create_task(self._run())
        return waiting.future

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(0)  # let rollouts that are ready ask first: fuller batches
            self._waiting = [w for w in self._waiting if not w.future.cancelled()]
            if not self._waiting:
                return
            batch = self._take()
            requests = [w.request for w in batch]
            results = await loop.run_in_executor(self._threads, self._generate, requests)
            for waiting, result in zip(batch, results, strict=True):
                if waiting.future.cancelled():
                    continue
                if isinstance(result, Reply):
                    waiting.future.set_result(result)
                else:
                    waiting.future.set_exception(result)

    def _take(self) -> list[_Waiting]:
        oldest = self._waiting[0].tokens
        near = sorted(self._waiting, key=lambda w: abs(w.tokens - oldest))
        batch: list[_Waiting] = []
        longest = 0
        for waiting in near:
            size = waiting.tokens + waiting.request.decoding.max_tokens
            longest = max(longest, size)
            full = len(batch) >= self.model.batch_limit
            if batch and (full or longest * (len(batch) + 1) > self.model.batch_tokens):
                break
            batch.append(waiting)
        taken = set(map(id, batch))
        self._waiting = [w for w in self._waiting if id(w) not in taken]
        return sorted(batch, key=lambda w: w.tokens)

    def _generate(self, requests: Sequence[Request]) -> list[Reply | Exception]:
        """Run a batch; one that fails is halved, so that a bad row or a full memory stays local."""
        try:
            return list(self.model.generate_batch(requests))
        except (HarnessError, ProviderError) as error:
            if len(requests) == 1 or isinstance(error, ProviderError):
                return [error] * len(requests)
        except (
            Exception
        ) as error:  # any back end's own error: isolated, then recorded by the engine
            if len(requests) == 1:
                return [error]
        half = len(requests) // 2
        return self._generate(requests[:half]) + self._generate(requests[half:])
