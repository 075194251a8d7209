"""A task and a reward with nothing in them: what is left is the harness's own cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness import hookimpl
from harness.reward import Reward
from harness.task import Task
from harness.types import Json, Message, Outcome, Sample, Score


class Echo(Task):
    """Sample ``echo-7`` asks to say ``word 7``."""

    name = "echo-task"
    reward = "echo-reward"

    def samples(self, split: str) -> Iterable[Sample]:
        for i in range(self.option("size")):
            word = f"word {i}"
            yield Sample(f"echo-{i}", split, {"word": word}, {"answer": word}, ordinal=i)

    def messages(self, sample: Sample) -> list[Message]:
        return [Message("user", sample.data["word"])]


class EchoReward(Reward):
    """1 when the reply is the word."""

    name = "echo-reward"

    def score(self, sample: Sample, outcome: Outcome) -> Score:
        return Score(float(outcome.moves[-1].parsed == sample.truth["answer"]))


@hookimpl
def create_task(name: str, options: Mapping[str, Json]) -> Task:
    return Echo(options)


@hookimpl
def create_reward(name: str, options: Mapping[str, Json]) -> Reward:
    return EchoReward(options)
