"""Models around models: test-time methods that ask another model several times and give one reply.

    harness run --task gamesolve --model best-of:8:smollm2

A wrapper is registered like any model, with ``handles = ["model"]``; what follows its name is
``N:MODEL``, where MODEL is any other ``--model`` value. The core loads that one and hands it over
(`Wrapper.bind`); the wrapper's players then ask its players. Draft k of repeat r has the seed of
repeat ``N r + k`` of a plain run, so the drafts *are* the replies of ``--n N`` with the same seed:
``best-of:8:replay:RUN`` chooses among the replies of a run with ``--n 8`` and asks nobody.

The chosen reply keeps all drafts (`Reply.drafts`), and its token counts are those of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from .model import Estimate, Model
from .player import Player, Seat
from .registry import Registry
from .seeds import derive
from .task import Task
from .types import HarnessError, Json, Message, Reply

Make = Callable[[Seat], Player]
"""Makes a player of the wrapped model for a seat."""


class Wrapper(Model):
    """A model that asks another one ``samples`` times. ``sees_truth`` marks an upper bound: its
    runs are shown and never ranked."""

    sees_truth: ClassVar[bool] = False

    def __init__(self, method: str, argument: str) -> None:
        count, colon, around = argument.partition(":")
        if not colon or not around or not count.isdecimal() or not 1 <= int(count) <= 1024:
            raise HarnessError(
                f"{method}: {argument!r} is no N:MODEL; write --model {method}:8:smollm2, say"
            )
        self.method = method
        self.samples = int(count)
        self.around = around
        self._inner: Model | None = None
        self.registry: Registry | None = None

    def bind(self, inner: Model, registry: Registry) -> None:
        """Take the other model, loaded, and the registry that verifiers come from."""
        self._inner, self.registry = inner, registry
        self.identity = f"{self.method}-{self.samples}+{inner.identity}"
        self.name = f"{self.method}:{self.samples}:{inner.label or self.around}"
        self.label = self.name
        self.context_length = inner.context_length
        self.concurrency = inner.concurrency
        self.incidental = inner.incidental
        self.given = inner.given

    @property
    def inner(self) -> Model:
        """The other model."""
        assert self._inner is not None
        return self._inner

    def wrap(self, make: Make, seat: Seat) -> Player:
        """The player of a seat, around players that ``make`` gives (see `draft_seat`).

        Raises HarnessError for a task that this method cannot be used on.
        """
        raise NotImplementedError(f"{type(self).__name__}.wrap")

    def specification(self, task: Task) -> dict[str, Json]:
        """What records depend on beyond the other model: part of the specification of a run."""
        return {"method": self.method, "samples": self.samples}

    def draft_seat(self, seat: Seat, k: int) -> Seat:
        """The seat of draft k: that of repeat ``samples * repeat + k`` of a plain run."""
        repeat = self.samples * seat.repeat + k
        return replace(seat, seed=derive(seat.run_seed, seat.sample.id, repeat), repeat=repeat)

    def count_tokens(self, messages: Sequence[Message]) -> int | None:
        return self.inner.count_tokens(messages)

    async def measure(self, messages: Sequence[Message]) -> int | None:
        return await self.inner.measure(messages)

    def estimate(self, prompts: int, prompt_tokens: float, reply_tokens: float) -> Estimate:
        return self.inner.estimate(prompts * self.samples, prompt_tokens, reply_tokens)

    def describe(self) -> Mapping[str, Json]:
        """What the other model tells, with the method and the label of tables."""
        return {
            **self.inner.describe(),
            "label": self.label,
            "method": self.method,
            "sees_truth": self.sees_truth,
        }


def chosen(drafts: Sequence[Reply], place: int) -> Reply:
    """The reply at a place with all drafts beside it; tokens are those of all drafts."""
    return replace(
        drafts[place],
        prompt_tokens=sum(draft.prompt_tokens for draft in drafts),
        completion_tokens=sum(draft.completion_tokens for draft in drafts),
        drafts=tuple(replace(draft, prompt_ids=None, ids=None, logprobs=None) for draft in drafts),
    )
