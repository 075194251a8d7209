"""Players: whoever takes a turn. Random, oracle, a search, a model: all are asked the same way.

The smallest player:

    class Passer(Player):
        async def act(self, turn):
            return Reply(text="pass")

A task names reference players in ``Task.players``; each is made for one seat of one rollout by a
factory that gets a `Seat`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .seeds import derive
from .types import Decoding, Message, Reply, Request, Sample, Turn

if TYPE_CHECKING:
    from .task import Task

Ask = Callable[[Request], Awaitable[Reply]]
"""Sends a request to a model's queue and waits for the reply."""


@dataclass(frozen=True, slots=True)
class Seat:
    """Whom a player is made for: the task, the sample, the seat, and the rollout's seed, which is
    made of ``run_seed``, the sample and ``repeat``."""

    task: Task
    sample: Sample
    seat: int
    seed: int
    run_seed: int = 0
    repeat: int = 0


class Player:
    """Takes turns in one seat of one rollout."""

    async def act(self, turn: Turn) -> Reply:
        """Answer one turn. Raises ProviderError when a back end failed."""
        raise NotImplementedError(f"{type(self).__name__}.act")


PlayerFactory = Callable[[Seat], Player]


class FixedPlayer(Player):
    """Says what a function makes of the turn; for reference players without state.

    >>> import asyncio
    >>> player = FixedPlayer(lambda turn: "first" if turn.number == 0 else "later")
    >>> asyncio.run(player.act(Turn(seat=0, messages=()))).text
    'first'
    """

    __slots__ = ("say",)

    def __init__(self, say: Callable[[Turn], str]) -> None:
        self.say = say

    async def act(self, turn: Turn) -> Reply:
        return Reply(text=self.say(turn))


class ModelPlayer(Player):
    """A model in a seat: it is shown the messages, and nothing else of the turn."""

    __slots__ = ("ask", "decoding", "prepare", "seed")

    def __init__(
        self,
        ask: Ask,
        decoding: Decoding,
        seed: int,
        prepare: Callable[[tuple[Message, ...]], tuple[Message, ...]] | None = None,
    ) -> None:
        self.ask = ask
        self.decoding = decoding
        self.seed = seed
        self.prepare = prepare

    async def act(self, turn: Turn) -> Reply:
        messages = turn.messages if self.prepare is None else self.prepare(turn.messages)
        seed = derive(self.seed, turn.seat, turn.number, turn.attempt)
        return await self.ask(Request(messages, self.decoding, seed))


class ReplayPlayer(Player):
    """Repeats stored replies in order; used to score old rollouts again without a model."""

    def __init__(self, replies: list[Reply]) -> None:
        self.replies = iter(replies)

    async def act(self, turn: Turn) -> Reply:
        try:
            return next(self.replies)
        except StopIteration:
            raise LookupError(
                "the stored rollout has fewer replies than the task now asks for"
            ) from None
