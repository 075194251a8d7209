"""The judge itself: cache, budget, retries, order-swapped repeat, figures.

judge = Judge.of(options)               # None where no judge_model is named
grades = await judge.scores(case, replies)
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from harness.batching import ModelQueue
from harness.registry import Registry
from harness.seeds import derive
from harness.types import Decoding, HarnessError, Json, Message, ProviderError, Reply, Request

from .cache import Cache
from .ledger import Ledger
from .protocol import AGAIN, BadReply, Case, Grades, read_reply
from .vendors import require_key, vendor

Ask = Callable[[Request], Awaitable[Reply]]

DEFAULTS: Final[Mapping[str, Json]] = {
    "judge_model": "",
    "judge_preset": "",
    "judge_model_options": {},
    "judge_cache": "",
    "judge_replay": False,
    "judge_concurrency": 8,
    "judge_retries": 4,
    "judge_delay": 1.0,
    "judge_max_tokens": 3000,
    "judge_requests": 0,
    "judge_tokens": 0,
    "judge_ledger": "",
    "judge_failure": "stop",
    "judge_swap": False,
}
"""Options of every reward that takes a judge, with their defaults."""


UNSEEN: Final = frozenset(
    {"api_key_env", "input_price", "output_price", "budget", "ledger", "retries", "retry_delay"}
    | {"timeout", "max_concurrency"}
)
"""Options of a back end that no reply depends on; not part of cache keys."""


class JudgeFailed(Exception):
    """No usable reply after the last try; what happens then is the reward's choice."""


@dataclass(slots=True)
class JudgeStats:
    """What was asked for. ``difference`` sums |a - b| over ``compared`` scores that were given
    twice, the second time with the candidates in reverse order."""

    groups: int = 0
    candidates: int = 0
    requests: int = 0
    cache_hits: int = 0
    retries: int = 0
    failures: int = 0
    repaired: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    compared: int = 0
    difference: float = 0.0

    def figures(self) -> dict[str, float]:
        """For logs: counts, mean and largest latency in seconds, swap difference."""
        kept: dict[str, float] = asdict(self)
        kept["latency_mean"] = self.seconds / self.requests if self.requests else 0.0
        answered = self.cache_hits + self.requests
        kept["cache_hit_rate"] = self.cache_hits / answered if answered else 0.0
        kept["swap_difference"] = self.difference / self.compared if self.compared else 0.0
        return kept


class Judge:
    """Grades groups of candidates. One object serves a run; it may be used from one event loop
    after another."""

    def __init__(
        self,
        ask: Ask,
        identity: str,
        options: Mapping[str, Json],
        close: Callable[[], None] = lambda: None,
        cost: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.options = o = {**DEFAULTS, **options}
        self.ask = ask
        self.identity = identity
        self.close = close
        self.cost = cost
        self.ledger = Ledger(
            Path(str(o["judge_ledger"])).expanduser() if o["judge_ledger"] else None
        )
        self.stats = JudgeStats()
        self.cache = Cache(Path(str(o["judge_cache"])).expanduser() if o["judge_cache"] else None)
        self.decoding = Decoding(temperature=0.0, max_tokens=int(o["judge_max_tokens"]))
        self._slots: asyncio.Semaphore | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        _check(o)

    @classmethod
    def of(cls, options: Mapping[str, Json], registry: Registry | None = None) -> Judge | None:
        """The judge that the options name, or None. Raises HarnessError for bad options."""
        o = {**DEFAULTS, **options}
        name = str(o["judge_model"])
        if not name:
            return None
        _check(o)
        settings = settings_of(o)
        if o["judge_replay"]:
            known = Cache(Path(str(o["judge_cache"])).expanduser()).judge(name, settings)
            if known is None:
                raise HarnessError(
                    f"judge_replay: {o['judge_cache']} holds no replies of {name} with these "
                    "options"
                )
            return cls(_nobody, known, o)
        registry = registry or Registry.load()
        entry, argument = registry.for_model(name)
        given = {**vendor(str(o["judge_preset"])), **_object(o["judge_model_options"])}
        require_key(given)
        given = {k: json.dumps(v) if k == "extra_body" else v for k, v in given.items()}
        model = registry.create("model", entry.name, given, argument)
        queue = ModelQueue(model)

        def close() -> None:
            queue.close()
            model.close()

        def cost() -> float:
            totals = getattr(getattr(model, "ledger", None), "totals", None)
            return float(totals.cost) if totals is not None else 0.0

        made = cls(queue.ask, model.identity, o, close, cost)
        made.cache.remember(name, settings, model.identity)
        return made

    def figures(self) -> dict[str, float]:
        """Running totals of this process: `JudgeStats.figures`, and the cost."""
        return {**self.stats.figures(), "cost": self.cost()}

    async def scores(self, case: Case, candidates: Sequence[str]) -> list[list[float]]:
        """Grades (candidates, steps) in [0, 1]; 0 for a candidate without text, unasked.

        Raises JudgeFailed after the last try, HarnessError when a budget is spent.
        """
        self.stats.groups += 1
        self.stats.candidates += len(candidates)
        given = [place for place, text in enumerate(candidates) if text.strip()]
        rows = [[0.0] * len(case.steps) for _ in candidates]
        if not given or not case.steps:
            return rows
        texts = [candidates[place] for place in given]
        async with self._slot():
            grades = await self._grades(case, texts)
            if self.options["judge_swap"]:
                grades = self._compared(grades, await self._grades(case, texts[::-1]))
        for place, row in zip(given, grades, strict=True):
            rows[place] = row
        return rows

    def _slot(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if self._slots is None or self._loop is not loop:
            self._slots, self._loop = (
                asyncio.Semaphore(int(self.options["judge_concurrency"])),
                loop,
            )
        return self._slots

    def _compared(self, first: list[list[float]], swapped: list[list[float]]) -> list[list[float]]:
        """The mean of both readings; how far they lie apart is noted."""
        second = swapped[::-1]
        for a, b in zip(first, second, strict=True):
            self.stats.compared += len(a)
            self.stats.difference += sum(abs(x - y) for x, y in zip(a, b, strict=True))
        return [
            [(x + y) / 2 for x, y in zip(a, b, strict=True)]
            for a, b in zip(first, second, strict=True)
        ]

    async def _grades(self, case: Case, texts: Sequence[str]) -> list[list[float]]:
        messages = case.messages(texts)
        key = Cache.key(self.identity, settings_of(self.options), self.decoding, messages)
        stored = self.cache.get(key)
        if stored is not None:
            try:
                grades = read_reply(stored, len(texts), len(case.steps))
            except BadReply:  # a damaged file: ask again
                pass
            else:
                self.stats.cache_hits += 1
                return grades.scores
        if self.options["judge_replay"]:
            raise HarnessError(
                "judge_replay: the cache does not hold a request of this run; give the judge_cache "
                "of the run to repeat, or leave judge_replay out"
            )
        grades = await self._asked(key, messages, len(texts), len(case.steps))
        self.stats.repaired += grades.repaired
        return grades.scores

    async def _asked(
        self, key: str, messages: tuple[Message, ...], candidates: int, steps: int
    ) -> Grades:
        trouble, said = "", messages
        tries = int(self.options["judge_retries"]) + 1
        for attempt in range(tries):
            if attempt:
                self.stats.retries += 1
            try:
                reply = await self._request(said, derive(key, attempt))
                grades = read_reply(reply.text, candidates, steps)
            except BadReply as error:
                # The same request at temperature 0 would fail the same way: say what was wrong.
                trouble = str(error)
                said = (*messages, Message("user", AGAIN.format(reason=trouble)))
            except ProviderError as error:
                trouble = str(error)
                if attempt + 1 < tries:
                    await asyncio.sleep(self._wait(attempt))
            else:
                self.cache.put(key, reply.text)
                return grades
        self.stats.failures += 1
        raise JudgeFailed(f"the judge gave no usable reply in {tries} tries: {trouble}")

    async def _request(self, messages: tuple[Message, ...], seed: int) -> Reply:
        self._within_budget()
        self.ledger.add(requests=1)
        self.stats.requests += 1
        began = time.perf_counter()
        reply = await self.ask(Request(messages, self.decoding, seed))
        seconds = time.perf_counter() - began
        self.stats.seconds += seconds
        self.stats.slowest = max(self.stats.slowest, seconds)
        self.stats.prompt_tokens += reply.prompt_tokens
        self.stats.completion_tokens += reply.completion_tokens
        self.ledger.add(tokens=reply.prompt_tokens + reply.completion_tokens)
        return reply

    def _within_budget(self) -> None:
        requests, tokens = int(self.options["judge_requests"]), int(self.options["judge_tokens"])
        if requests or tokens:
            self.ledger.refresh()
        used = self.ledger.tokens
        if requests and self.ledger.requests >= requests:
            raise HarnessError(
                f"the judge's budget of {requests:,} requests is spent; the same command with a "
                "larger judge_requests goes on (what the cache holds is not paid for again)"
            )
        if tokens and used >= tokens:
            raise HarnessError(
                f"the judge's budget of {tokens:,} tokens is spent ({used:,} used); the same "
                "command with a larger judge_tokens goes on"
            )

    def _wait(self, attempt: int) -> float:
        """Seconds, doubling, with jitter (the back end itself obeys a server's Retry-After)."""
        return float(self.options["judge_delay"]) * 2.0**attempt * random.uniform(0.5, 1.5)


async def _nobody(request: Request) -> Reply:
    raise HarnessError("a replayed judge asks nobody")


def settings_of(o: Mapping[str, Json]) -> dict[str, Json]:
    """What of the back end's options a reply may depend on."""
    given = {**vendor(str(o["judge_preset"])), **_object(o["judge_model_options"])}
    return {k: v for k, v in given.items() if k not in UNSEEN}


def _check(o: Mapping[str, Json]) -> None:
    if o["judge_failure"] not in ("stop", "unjudged"):
        raise HarnessError(f"judge_failure={o['judge_failure']!r}: give stop or unjudged")
    for name, least in (
        ("judge_concurrency", 1),
        ("judge_retries", 0),
        ("judge_max_tokens", 1),
        ("judge_requests", 0),
        ("judge_tokens", 0),
    ):
        value = o[name]
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise HarnessError(f"{name}={value!r}: give a whole number of at least {least}")
    if o["judge_replay"] and not o["judge_cache"]:
        raise HarnessError("judge_replay needs judge_cache, the folder of the earlier run")


def _object(value: Any) -> dict[str, Json]:
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else {}
        except ValueError as error:
            raise HarnessError(f"judge_model_options: not JSON: {error}") from None
    if not isinstance(value, Mapping):
        raise HarnessError("judge_model_options: give a JSON object of the back end's options")
    return dict(value)
