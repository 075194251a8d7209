"""A model that is many: requests go to the replica that has least to do.

    model = Replicas(making, count=4, wanted=True)
    reply = await model.generate(request)

* A request goes to the shortest queue; one whose conversation began on a replica goes back there,
  where its prefix is cached, unless that queue is much longer.
* A replica that dies (its process, its engine, its node) loses no request: what it had is given out
  again, and a new one is asked for. Answers are matched by number, so none counts twice.
* Replicas that find no room wait until a node joins the cluster, and take their part from then on.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Final

from ..model import Estimate, Model
from ..registry import Entry, Registry
from ..types import HarnessError, Json, Message, Reply, Request
from .cluster import Slot, connect, slot
from .worker import FAULTS, Answer, Facts, Making, Worker

SLACK: Final = 16
"""Requests by which a queue may be longer than the shortest and still get its conversations."""

REMEMBERED: Final = 65_536
"""Conversations whose replica is known."""

ROOM: Final = 128
"""Requests that a replica is given at a time, where its back end names no number. The others wait
here, so that one that comes late finds something to do."""

DRAWN: Final = 16
"""Replicas that are looked at for a request, where there are more."""

RESTARTS: Final = 3
"""New starts of each replica, before it is given up."""

GATHER: Final = 0.002
"""Seconds for which requests are gathered before they leave."""

WAITING: Final = 600.0
"""Seconds to wait for the first replica."""


GPU_OPTIONS: Final = ("tensor_parallel", "device")
"""Options by which a back end says that it can use GPUs."""


def replicated(
    registry: Registry,
    entry: Entry,
    argument: str,
    options: Mapping[str, Json],
    number: int,
    seats: int = 1,
) -> Replicas:
    """``number`` replicas of what a registry entry makes; ``seats`` models share the devices."""
    folder = os.getcwd()
    making = Making(registry, entry.name, argument or entry.name, options, folder)
    wanted = any(name in entry.options for name in GPU_OPTIONS)
    return Replicas(making, number, wanted, seats)


class _Replica:
    """One actor, what it was sent and what waits to be sent."""

    __slots__ = ("actor", "asked", "flying", "outbox", "ready", "starts", "watch")

    def __init__(self) -> None:
        self.actor: Any = None
        self.asked: Any = None
        self.flying: dict[int, Request] = {}
        self.outbox: list[tuple[int, Request]] = []
        self.ready = False
        self.starts = 0
        self.watch: asyncio.Task[None] | None = None


class Replicas(Model):
    """Several copies of a model behind one interface."""

    checks_length = True

    def __init__(self, making: Making, number: int, wanted: bool, seats: int = 1) -> None:
        self._ray = connect(number * seats)
        self.slot: Slot = slot(self._ray, number, making.options, wanted, seats)
        self.making = replace(making, share=self.slot.share)
        self._threads = max(1, (os.cpu_count() or 1) // number)
        self._replicas = [_Replica() for _ in range(number)]
        self._flying: dict[int, asyncio.Future[Reply]] = {}
        self._waiting: deque[tuple[int, Request]] = deque()
        self._numbers = count()
        self._places: OrderedDict[int, int] = OrderedDict()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._flush: asyncio.TimerHandle | None = None
        self._watches = 0
        self._draw = random.Random(0)
        self.lost = 0
        for each in self._replicas:
            self._start(each)
        facts = self._first_facts()
        self.name, self.identity = facts.name, facts.identity
        self.context_length, self.incidental = facts.context_length, facts.incidental
        self._room = facts.concurrency or ROOM
        self.concurrency = self._room * number
        self._facts = facts

    # Requests

    async def generate(self, request: Request) -> Reply:
        """Send a request to a replica and wait. Raises what the replica's model raised, and
        HarnessError when all replicas are lost."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._attach(loop)
        number = next(self._numbers)
        future: asyncio.Future[Reply] = loop.create_future()
        self._flying[number] = future
        self._send(number, request)
        try:
            return await future
        finally:
            self._flying.pop(number, None)

    def _send(self, number: int, request: Request) -> None:
        """Give a request to a replica, or let it wait until one has room."""
        place = None if self._waiting else self._choose(request)
        if place is None:
            self._waiting.append((number, request))
        else:
            self._give(place, number, request)

    def _give(self, place: int, number: int, request: Request) -> None:
        each = self._replicas[place]
        each.flying[number] = request
        each.outbox.append((number, request))
        if self._flush is None:
            assert self._loop is not None
            self._flush = self._loop.call_later(GATHER, self._send_all)

    def _send_waiting(self) -> None:
        while self._waiting:
            number, request = self._waiting[0]
            if number not in self._flying:  # its rollout was cancelled
                self._waiting.popleft()
                continue
            place = self._choose(request)
            if place is None:
                return
            self._waiting.popleft()
            self._give(place, number, request)

    def _send_all(self) -> None:
        self._flush = None
        for each in self._replicas:
            if each.outbox and each.ready:
                batch, each.outbox = each.outbox, []
                each.actor.ask.remote(batch)

    def _choose(self, request: Request) -> int | None:
        """The replica for a request: that of its conversation, or the shortest queue; None where
        all are full. Raises HarnessError where none is left."""
        able = self._with_room(range(len(self._replicas)))
        if not able:
            if all(each.actor is None for each in self._replicas):
                raise HarnessError(
                    f"all replicas of {self.name} are lost; the same command goes on from here"
                )
            return None
        least, best = min(able)
        key = hash(request.messages[:2])
        known = self._places.get(key)
        if known is not None:
            own = self._replicas[known]
            if own.ready and len(own.flying) < min(self._room, least + SLACK):
                best = known
        self._places[key] = best
        self._places.move_to_end(key)
        if len(self._places) > REMEMBERED:
            self._places.popitem(last=False)
        return best

    def _with_room(self, places: Sequence[int]) -> list[tuple[int, int]]:
        """(requests, place) of replicas that take a request. Of many a few are drawn: the best of
        `DRAWN` is nearly as good as the best of all (Mitzenmacher 2001, the power of two choices),
        and the cost of a request does not grow with their number."""
        if len(places) > DRAWN:
            drawn = [self._draw.randrange(len(places)) for _ in range(DRAWN)]
            if found := self._of(drawn):
                return found
        return self._of(places)

    def _of(self, places: Iterable[int]) -> list[tuple[int, int]]:
        replicas, room = self._replicas, self._room
        return [
            (len(replicas[place].flying), place)
            for place in places
            if replicas[place].ready and len(replicas[place].flying) < room
        ]

    # Replicas

    def _start(self, each: _Replica) -> None:
        """Ask for an actor; Ray makes it as soon as there is room."""
        environment = {"OMP_NUM_THREADS": str(self._threads)} if not self.slot.gpus else {}
        kind = self._ray.remote(Worker).options(
            num_cpus=self.slot.cpus,
            num_gpus=self.slot.gpus,
            max_concurrency=100_000,
            runtime_env={"env_vars": environment},
        )
        each.actor = kind.remote(self.making)
        each.asked = each.actor.facts.remote()
        each.ready = False
        each.starts += 1

    def _first_facts(self) -> Facts:
        """What the first replica that is ready says. Raises what its model raised."""
        waiting = {each.asked: each for each in self._replicas}
        told = time.monotonic() + 2
        until = time.monotonic() + WAITING
        while time.monotonic() < until:
            done, _ = self._ray.wait(list(waiting), num_returns=1, timeout=0.5)
            if done:
                waiting[done[0]].ready = True
                return self._facts_of(done[0])
            if time.monotonic() > told:
                told = float("inf")
                print(
                    f"starting {len(self._replicas)} replicas of {self.making.argument}",
                    file=sys.stderr, flush=True,
                )  # fmt: skip
        self.close()
        raise HarnessError(
            f"no replica started within {WAITING:.0f} s: the cluster has no room for one of "
            f"{self.slot.gpus:g} GPUs and {self.slot.cpus:g} cores (`ray status` shows what is "
            "taken)"
        )

    def _facts_of(self, asked: Any) -> Facts:
        try:
            facts: Facts = self._ray.get(asked)
        except Exception as error:  # the model's own, wrapped by Ray
            self.close()
            cause = getattr(error, "cause", None) or error
            text = (str(cause).strip().splitlines() or [type(cause).__name__])[-1]
            raise HarnessError(text.removeprefix("harness.types.HarnessError: ")) from None
        return facts

    def _attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watch the replicas from a loop: collect answers, notice deaths, welcome late ones."""
        self._loop, self._flush = loop, None
        self._watches += 1
        for each in self._replicas:
            each.watch = loop.create_task(self._watch(each))

    async def _watch(self, each: _Replica) -> None:
        while each.actor is not None:
            try:
                if not each.ready:
                    facts = await each.asked
                    if facts.identity != self.identity:
                        raise HarnessError(
                            f"a replica on {facts.node} loaded other weights ({facts.identity}) "
                            f"than the first one ({self.identity}); give all nodes the same ones"
                        )
                    each.ready = True
                    self._send_waiting()
                while True:
                    self._take(each, await each.actor.collect.remote(self._watches))
            except HarnessError as error:
                self._fail(error)
                return
            except self._ray.exceptions.RayError as error:
                self._lose(each, error)

    def _take(self, each: _Replica, answers: Sequence[Answer]) -> None:
        for number, reply, kind, text in answers:
            each.flying.pop(number, None)
            future = self._flying.get(number)
            if future is None or future.done():
                continue
            if reply is not None:
                future.set_result(reply)
            else:
                future.set_exception(FAULTS[kind](text))
        self._send_waiting()

    def _lose(self, each: _Replica, error: Exception) -> None:
        """Give a dead replica's requests out again, and ask for another one."""
        self.lost += 1
        each.ready = False
        each.outbox.clear()
        orphans, each.flying = each.flying, {}
        again = each.starts <= RESTARTS
        place = self._replicas.index(each)
        print(
            f"replica {place} of {self.name} is lost ({type(error).__name__}); "
            f"{len(orphans)} requests are given out again"
            + ("" if again else ", and it is given up"),
            file=sys.stderr, flush=True,
        )  # fmt: skip
        each.actor = None
        if again:
            self._start(each)
        wanted = [(n, r) for n, r in orphans.items() if n in self._flying]
        self._waiting.extendleft(reversed(wanted))  # they have waited longest
        try:
            self._send_waiting()
        except HarnessError as lost:
            self._fail(lost)

    def _fail(self, error: HarnessError) -> None:
        for future in self._flying.values():
            if not future.done():
                future.set_exception(error)

    # What it is and what it takes

    def count_tokens(self, messages: Sequence[Message]) -> int | None:
        """Tokens of a rendered prompt, as the replicas count them."""
        return self.count_all([messages])[0]

    def count_all(self, prompts: Sequence[Sequence[Message]]) -> list[int | None]:
        """The same for many prompts, shared among the replicas that are ready."""
        actors = [each.actor for each in self._replicas if each.ready]
        asked = [list(map(tuple, prompts[start :: len(actors)])) for start in range(len(actors))]
        found: list[int | None] = [None] * len(prompts)
        parts = [
            actor.count.remote(some) for actor, some in zip(actors, asked, strict=True) if some
        ]
        for start, counts in enumerate(self._ray.get(parts)):
            found[start :: len(actors)] = counts
        return found

    def estimate(self, prompts: int, prompt_tokens: float, reply_tokens: float) -> Estimate:
        """Seconds of the share of one replica, memory of all together."""
        number = len(self._replicas)
        actor = next(each.actor for each in self._replicas if each.ready)
        share = max(1, -(-prompts // number))
        one: Estimate = self._ray.get(actor.estimate.remote(share, prompt_tokens, reply_tokens))
        memory = None if one.memory is None else one.memory * number
        return Estimate(one.seconds, memory, f"{number} times {one.devices}" if one.devices else "")

    async def forget(self) -> None:
        """Let all replicas drop what they keep of earlier requests."""
        await asyncio.gather(*(each.actor.forget.remote() for each in self._replicas if each.ready))

    def describe(self) -> Mapping[str, Json]:
        """The model's own description. Replicas change how fast records come, not what they say."""
        return self._facts.describe

    def close(self) -> None:
        """End the replicas."""
        loop = self._loop
        for each in self._replicas:
            actor, each.actor, each.ready = each.actor, None, False
            if each.watch is not None and loop is not None and not loop.is_closed():
                each.watch.cancel()
            if actor is not None:
                self._ray.kill(actor)
