"""A task played: rollouts of samples with reference players, or with replies that are given.

table = Table.of(kit)
outcomes = table.play("oracle")
table.mean("oracle")
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from ..player import FixedPlayer, Player, PlayerFactory, Seat
from ..reward import Reward
from ..seeds import Streams, derive
from ..task import Task
from ..types import HarnessError, Outcome, Record, Reply, Sample, Score, Turn
from .kit import Kit, Skip
from .tasks import samples_of


class Pausing(Player):
    """Another player, who lets others go first now and then: how often depends on ``salt``."""

    def __init__(self, inner: Player, salt: str) -> None:
        self.inner = inner
        self.salt = salt

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)  # what a task asks of its players: reads_messages, ...

    async def act(self, turn: Turn) -> Reply:
        for _ in range(derive(self.salt, turn.seat, turn.number, turn.attempt) % 5):
            await asyncio.sleep(0)
        return await self.inner.act(turn)


@dataclass(slots=True)
class Table:
    """A task with its samples, its reward, and who sits opposite."""

    task: Task
    samples: list[Sample]
    reward: Reward
    opponent: PlayerFactory | None
    known: dict[str, list[Outcome | None]] = field(default_factory=dict)

    @classmethod
    def of(cls, kit: Kit, reward: Reward | None = None) -> Table:
        """The table of the kit's task, made once. Raises Skip where it cannot be played."""

        def make() -> Table:
            task: Task = kit.made()
            opponent = task.players().get(task.default_opponent) if task.seats > 1 else None
            if task.seats > 1 and opponent is None:
                raise Skip(f"there is no player {task.default_opponent!r} to sit opposite")
            judge = reward or kit.registry.create("reward", task.reward, {})
            return cls(task, samples_of(kit), judge, opponent)

        table: Table = kit.once("table", make)
        return table

    # Players

    def seated(self, sample: Sample, factory: PlayerFactory, seed: int) -> list[Player] | None:
        """A player for each seat; None where one of them cannot play this sample."""
        found = []
        try:
            for seat, who in enumerate(self.task.lineup(sample)):
                chosen = factory if who == "model" else self.opponent
                assert chosen is not None
                found.append(chosen(Seat(self.task, sample, seat, seed)))
        except HarnessError:
            return None
        return found

    async def rollout(
        self, sample: Sample, factory: PlayerFactory, repeat: int = 0, salt: str = ""
    ) -> Outcome | None:
        """One rollout; None where a player cannot play the sample."""
        seed = derive(0, sample.id, repeat)
        players = self.seated(sample, factory, seed)
        if players is None:
            return None
        if salt:
            players = [Pausing(p, f"{salt} {sample.id} {i}") for i, p in enumerate(players)]
        return await self.task.rollout(sample, players, Streams(seed))

    def play(self, name: str) -> list[Outcome | None]:
        """The outcome of each sample with a reference player of the task in the model's seat."""
        if name not in self.known:
            factory = self.task.players()[name]
            self.known[name] = self.all(factory)
        return self.known[name]

    def all(
        self, factory: PlayerFactory, samples: Sequence[Sample] | None = None
    ) -> list[Outcome | None]:
        """One rollout of each sample, one after the other."""

        async def run() -> list[Outcome | None]:
            return [await self.rollout(s, factory) for s in (samples or self.samples)]

        return asyncio.run(run())

    # Scores

    def scores(self, outcomes: Iterable[Outcome | None]) -> list[Score | None]:
        """What the reward pays, by the way that runs take."""
        pairs = zip(self.samples, outcomes, strict=False)

        async def run() -> list[Score | None]:
            return [
                None if o is None else (await self.reward.score_group(s, [o]))[0] for s, o in pairs
            ]

        return asyncio.run(run())

    def mean(self, name: str) -> float | None:
        """The mean score of a reference player; None where there is none or it cannot play."""
        if name not in self.task.players():
            return None
        values = [s.value for s in self.scores(self.play(name)) if s is not None]
        return fmean(values) if values else None

    def record(self, index: int, outcome: Outcome, score: Score) -> Record:
        """An outcome as a run would store it."""
        sample = self.samples[index]
        return Record(
            index, self.task.name, sample.id, sample.split, 0, 0, sample.group,
            sample.cluster or sample.id, sample.canonical or sample.id, outcome, score,
        )  # fmt: skip


def saying(text: str | Callable[[Turn], str], finish: str = "stop") -> PlayerFactory:
    """A player who always says the same, or what a function makes of the turn."""
    if callable(text):
        say = text
        return lambda seat: FixedPlayer(say)
    return lambda seat: _Same(Reply(text, finish))


class _Same(Player):
    def __init__(self, reply: Reply) -> None:
        self.reply = reply

    async def act(self, turn: Turn) -> Reply:
        return self.reply
