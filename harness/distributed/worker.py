"""One replica: a model with its queue in a process of its own, asked and answered in batches.

A call of Ray costs a good part of a millisecond, more than the harness spends on a whole sample, so
requests come many to a call, and replies leave together as soon as some are there.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..batching import ModelQueue
from ..model import Estimate, Model
from ..registry import Registry
from ..types import EngineLostError, HarnessError, Json, Message, ProviderError, Reply, Request

GATHER: Final = 0.003
"""Seconds for which replies are gathered before they leave."""

Answer = tuple[int, Reply | None, str, str]
"""The number of a request, and its reply, or else the kind of its fault and what it says."""

FAULTS: Final = {"input": HarnessError, "provider": ProviderError, "engine": RuntimeError}


@dataclass(frozen=True, slots=True)
class Making:
    """How a replica makes its model."""

    registry: Registry
    backend: str
    argument: str
    options: Mapping[str, Json]
    folder: str
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Facts:
    """What the driver has to know about the model of its replicas."""

    name: str
    identity: str
    context_length: int | None
    concurrency: int
    incidental: frozenset[str]
    describe: Mapping[str, Json]
    node: str
    process: int


class Worker:
    """The actor of a replica."""

    def __init__(self, making: Making) -> None:
        if os.path.isdir(making.folder):
            os.chdir(making.folder)  # relative paths mean what they mean to the driver
        self.model = making.registry.create(
            "model", making.backend, dict(making.options), making.argument
        )
        kind = type(self.model)
        if kind.generate is Model.generate and kind.generate_batch is Model.generate_batch:
            raise HarnessError(
                f"--replicas: {self.model.name} is a player of the task; it runs in this process"
            )
        if self.model.device_share and making.share < 1:
            self.model.device_share *= making.share
        self.queue = ModelQueue(self.model)
        self.answers: list[Answer] = []
        self.some: asyncio.Event | None = None
        self.watch = 0
        self.tasks: set[asyncio.Task[None]] = set()

    async def facts(self) -> Facts:
        """What the model is. Answers once it is loaded."""
        model = self.model
        return Facts(
            model.name,
            model.identity,
            model.context_length,
            model.concurrency,
            model.incidental,
            dict(model.describe()),
            os.uname().nodename,
            os.getpid(),
        )

    async def count(self, prompts: Sequence[Sequence[Message]]) -> list[int | None]:
        """Tokens of prompts."""
        return list(self.model.count_all(prompts))

    async def estimate(self, prompts: int, prompt_tokens: float, reply_tokens: float) -> Estimate:
        """What so many requests take on this replica."""
        found: Estimate = self.model.estimate(prompts, prompt_tokens, reply_tokens)
        return found

    async def ask(self, batch: Sequence[tuple[int, Request]]) -> None:
        """Take requests; their answers are `collect`-ed."""
        for number, request in batch:
            task = asyncio.create_task(self._answer(number, request))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def collect(self, watch: int) -> list[Answer]:
        """The answers since the last call; waits until there are some. A later ``watch`` of the
        driver (another event loop) takes over: what waits for an earlier one gets nothing."""
        if watch > self.watch:
            self.watch = watch
            if self.some is not None:
                self.some.set()
            self.some = asyncio.Event()
        some = self.some
        assert some is not None
        if not self.answers and watch == self.watch:
            some.clear()
            await some.wait()
            await asyncio.sleep(GATHER)
        if watch != self.watch:
            return []
        found, self.answers = self.answers, []
        return found

    async def forget(self) -> None:
        """Drop what the model keeps of earlier requests."""
        await self.model.forget()

    async def _answer(self, number: int, request: Request) -> None:
        answer: Answer
        try:
            answer = number, await self.queue.ask(request), "", ""
        except EngineLostError:
            os._exit(70)  # a dead engine is a dead replica: its requests go to another one
        except HarnessError as error:
            answer = number, None, "input", str(error)
        except ProviderError as error:
            answer = number, None, "provider", str(error)
        except Exception as error:  # of any back end: the driver records it
            answer = number, None, "engine", f"{type(error).__name__}: {error}"
        self.answers.append(answer)
        if self.some is not None:
            self.some.set()
