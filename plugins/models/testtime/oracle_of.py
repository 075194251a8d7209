"""``oracle-of:N:MODEL``: the draft that the truth would pick, an upper bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from harness import hookimpl
from harness.player import ReplayPlayer, Seat
from harness.registry import Registry
from harness.reward import Reward
from harness.seeds import Streams
from harness.types import Json, Outcome, Reply, Turn

from .drafts import Picking


class OracleOf(Picking):
    """The draft that the task's own reward pays most: what a perfect choice would reach. It sees
    the truth."""

    sees_truth: ClassVar[bool] = True

    def __init__(self, method: str, argument: str, options: Mapping[str, Json]) -> None:
        super().__init__(method, argument, options)
        self._rewards: dict[str, Reward] = {}

    async def outcome(self, seat: Seat, turn: Turn, draft: Reply) -> Outcome:
        """A draft as the task itself judges it."""
        replay = ReplayPlayer([draft])
        return await seat.task.rollout(seat.sample, [replay], Streams(seat.seed))

    def pick(self, seat: Seat, outcomes: Sequence[Outcome]) -> int:
        """By the truth."""
        task = seat.task
        if task.reward not in self._rewards:
            registry = self.registry or Registry.load()
            self._rewards[task.reward] = registry.create("reward", task.reward, {})
        reward = self._rewards[task.reward]
        values = [reward.score(seat.sample, outcome).value for outcome in outcomes]
        return max(range(len(values)), key=lambda k: (values[k], -k))


@hookimpl
def create_model(name: str, options: Mapping[str, Json]) -> OracleOf:
    """The method around ``N:MODEL``."""
    return OracleOf("oracle-of", name, options)
