"""Scripted models: players that need no weights, under the same door as a model.

    harness run --task gamesolve --model oracle        # the task's own right answers
    harness run --task gtbench --model player:minimax  # any reference player of the task
    harness run --task gamesolve --model echo          # the last message back, through the queue

``random``, ``oracle``, ``constant`` and ``player:NAME`` are what the task's ``players()`` holds
under that name; ``empty`` says nothing; ``echo`` answers like a model does, through the request
queue. ``delay`` makes each answer take a while that depends on the rollout alone, to try out
concurrency and interruption.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from harness import hookimpl
from harness.model import Model
from harness.player import FixedPlayer, Player, Seat
from harness.seeds import Streams
from harness.types import HarnessError, Json, Reply, Request, Turn


class SlowPlayer(Player):
    """Another player, who takes up to ``delay`` seconds for each turn."""

    def __init__(self, inner: Player, delay: float, seed: int) -> None:
        self.inner = inner
        self.delay = delay
        self.streams = Streams(seed)

    async def act(self, turn: Turn) -> Reply:
        """What the other says, later."""
        share = self.streams.uniform("delay", turn.seat, turn.number, turn.attempt)
        await asyncio.sleep(self.delay * share)
        return await self.inner.act(turn)


class ScriptedModel(Model):
    """A model whose turns are taken by a player of its own."""

    def __init__(self, name: str, options: Mapping[str, Json]) -> None:
        self.name = name
        self.identity = f"scripted:{name}"
        self.delay = float(options.get("delay", 0.0))
        if self.delay < 0:
            raise HarnessError("the delay cannot be negative")

    def player(self, seat: Seat) -> Player | None:
        """The player of a seat, slowed down if asked for."""
        player = self.make(seat)
        return SlowPlayer(player, self.delay, seat.seed) if self.delay else player

    def make(self, seat: Seat) -> Player:
        """The player of a seat."""
        raise NotImplementedError(f"{type(self).__name__}.make")

    def describe(self) -> Mapping[str, Json]:
        """The back end and the delay."""
        return {"backend": "scripted", "delay": self.delay}


class ReferenceModel(ScriptedModel):
    """A reference player of the task at hand."""

    def make(self, seat: Seat) -> Player:
        """Raises HarnessError where the task has no player of this name."""
        players = seat.task.players()
        try:
            factory = players[self.name]
        except KeyError:
            names = ", ".join(sorted(players)) or "none"
            raise HarnessError(
                f"{seat.task.name} has no player {self.name!r}; it has {names}"
            ) from None
        return factory(seat)


class EmptyModel(ScriptedModel):
    """Says nothing, whatever it is asked."""

    def make(self, seat: Seat) -> Player:
        """A player who replies with an empty text."""
        return FixedPlayer(lambda turn: "")


class EchoModel(ScriptedModel):
    """Says the last user message back; its requests take the way of a real model's."""

    def player(self, seat: Seat) -> None:
        """None: a model's player that asks the queue."""

    async def generate(self, request: Request) -> Reply:
        """The last user message, up to a stop text."""
        if self.delay:
            await asyncio.sleep(self.delay * Streams(request.seed).uniform("delay"))
        said = next((m.content for m in reversed(request.messages) if m.role == "user"), "")
        for stop in filter(None, request.decoding.stop):
            said = said.partition(stop)[0]
        return Reply(said)


@hookimpl
def create_model(name: str, options: Mapping[str, Json]) -> ScriptedModel:
    """``empty``, ``echo``, or the name of a reference player."""
    if name == "player":
        raise HarnessError("which player? --model player:NAME, a reference player of the task")
    kind = {"empty": EmptyModel, "echo": EchoModel}.get(name, ReferenceModel)
    return kind(name, options)
