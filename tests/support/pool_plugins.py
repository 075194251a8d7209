"""A pool for tournaments: rock, paper, scissors, and a ladder, as a task for two seats."""

from __future__ import annotations

from random import Random

from harness import hookimpl
from harness.player import FixedPlayer
from harness.seeds import derive
from harness.task import Task
from harness.types import OK, Message, Outcome, Parsed, Sample, Turn

MOVES = ("rock", "paper", "scissors")


class Pool(Task):
    """Each seat says a hand or a number. Hands beat in a circle, the larger number beats the
    smaller one, both with the chance `LUCK`; else the hand of the other wins, or nobody."""

    name = "pool"
    reward = "pool"
    seats = 2
    default_opponent = "rock"

    def samples(self, split):
        for pair in range(self.options["pairs"]):
            for seat in (0, 1):
                yield Sample(
                    id=f"pool-{pair}-{seat}",
                    split=split,
                    data={"model_seat": seat, "pair": pair},
                    cluster=f"pool-{pair}",
                    ordinal=2 * pair + seat,
                )

    def messages(self, sample):
        return [Message("user", "Choose.")]

    def parse(self, sample, reply):
        return Parsed(reply.text, OK)

    def lineup(self, sample):
        return ("model", "opponent") if sample.data["model_seat"] == 0 else ("opponent", "model")

    async def rollout(self, sample, players, rng):
        said = []
        for seat, player in enumerate(players):
            said.append(await self.ask(player, Turn(seat, tuple(self.messages(sample))), sample))
        lead = outcome([move.parsed for move in said], Random(derive("luck", rng.seed)))
        data = {"model_seat": sample.data["model_seat"]}
        return Outcome(tuple(said), OK, (float(lead), float(-lead)), data)

    def players(self):
        names = (*MOVES, "1", "2", "3", "4")
        return {name: lambda seat, name=name: FixedPlayer(lambda turn: name) for name in names}


def outcome(said: list[str], rng: Random) -> int:
    """1, 0 or -1 for the first seat."""
    first, second = (MOVES.index(s) if s in MOVES else int(s) for s in said)
    better = (first - second) % 3 == 1 if said[0] in MOVES else first > second
    draw = rng.random()
    if first == second or draw < 0.1:
        return 0
    return (1 if better else -1) * (1 if draw < 0.8 else -1)


@hookimpl
def create_task(name, options):
    """The hook of tasks."""
    return Pool(options)


@hookimpl
def create_reward(name, options):
    """The hook of rewards."""
    from harness.reward import Reward
    from harness.types import Score

    class PoolReward(Reward):
        name = "pool"

        def score(self, sample, outcome):
            first = (1 + outcome.returns[0]) / 2
            both = (first, 1 - first)
            return Score(both[sample.data["model_seat"]], per_seat=both)

    return PoolReward(options)
