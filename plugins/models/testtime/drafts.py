"""Methods around a model that is asked several times: what they share."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.parsing import classify
from harness.player import Player, Seat
from harness.registry import Registry
from harness.reward import Reward
from harness.task import Task
from harness.types import HarnessError, Json, Move, Outcome, Reply, Sample, Turn
from harness.wrapper import Make, Wrapper, chosen


class Method(Wrapper):
    """A method for tasks that ask once."""

    def __init__(self, method: str, argument: str, options: Mapping[str, Json]) -> None:
        super().__init__(method, argument)
        self.options = dict(options)

    def wrap(self, make: Make, seat: Seat) -> Player:
        """A player that asks players of the other model."""
        task = type(seat.task)
        plays = task.rollout is not Task.rollout and task.parse is Task.parse
        if seat.task.seats > 1 or plays:
            raise self.played(seat)
        return self.player_of(make, seat)

    def played(self, seat: Seat) -> HarnessError:
        """What is said of a task with several turns."""
        return HarnessError(
            f"{self.method} needs a task that asks once; {seat.task.name} is played (games have "
            "agents instead: harness list task)"
        )

    def player_of(self, make: Make, seat: Seat) -> Player:
        """The method's player."""
        raise NotImplementedError(f"{type(self).__name__}.player_of")


class Drafts(Player):
    """Asks for all drafts at once and picks one of them."""

    def __init__(self, method: Picking, make: Make, seat: Seat) -> None:
        self.method = method
        self.seat = seat
        self.players = [make(method.draft_seat(seat, k)) for k in range(method.samples)]

    async def act(self, turn: Turn) -> Reply:
        """The draft that the method picks, with all of them beside it."""
        if turn.number:
            raise self.method.played(self.seat)
        asked = await asyncio.gather(*(p.act(turn) for p in self.players), return_exceptions=True)
        drafts: list[Reply] = []
        for reply in asked:
            if isinstance(reply, BaseException):
                raise reply
            drafts.append(reply)
        outcomes = [await self.method.outcome(self.seat, turn, draft) for draft in drafts]
        return chosen(drafts, self.method.pick(self.seat, outcomes))


class Picking(Method):
    """A method that picks one of N independent drafts."""

    def player_of(self, make: Make, seat: Seat) -> Player:
        """A player that picks."""
        self.ready(seat.task)
        return Drafts(self, make, seat)

    def ready(self, task: Task) -> None:
        """Raise HarnessError where the method lacks something for a task."""

    async def outcome(self, seat: Seat, turn: Turn, draft: Reply) -> Outcome:
        """A draft as the method sees it: read without the truth."""
        return read(seat.task, blind(seat.sample), turn, draft)

    def pick(self, seat: Seat, outcomes: Sequence[Outcome]) -> int:
        """The place of the draft that is taken."""
        raise NotImplementedError(f"{type(self).__name__}.pick")


class Verified(Method):
    """A method with a verifier."""

    def __init__(self, method: str, argument: str, options: Mapping[str, Json]) -> None:
        super().__init__(method, argument, options)
        self._verifiers: dict[str, Reward] = {}

    def verifier(self, task: Task) -> Reward:
        """The verifier for a task. Raises HarnessError where there is none that reads no truth."""
        name = str(self.options.get("verifier") or task.verifier)
        if not name:
            raise HarnessError(
                f"{self.method}: {task.name} names no verifier; give --model-set verifier=NAME, a "
                "reward that reads no truth"
            )
        if name not in self._verifiers:
            made: Reward = (self.registry or Registry.load()).create("reward", name, {})
            if made.reads_truth:
                raise HarnessError(
                    f"{self.method}: the reward {name} reads the truth, which nobody has at test "
                    "time; oracle-of shows what that would give"
                )
            self._verifiers[name] = made
        return self._verifiers[name]

    def specification(self, task: Task) -> dict[str, Json]:
        """With the verifier and its version."""
        verifier = self.verifier(task)
        found = {"name": verifier.name, "version": verifier.version}
        return {**super().specification(task), "verifier": found}


def blind(sample: Sample) -> Sample:
    """The sample as somebody has it who was only asked."""
    return replace(sample, truth={})


def read(task: Task, sample: Sample, turn: Turn, reply: Reply) -> Outcome:
    """A draft as an outcome."""
    parsed = classify(reply, task.parse(sample, reply))
    move = Move(turn.seat, reply, parsed.value, parsed.cls, turn.messages)
    return Outcome((move,), parsed.cls)
