"""Plugins with one planted fault each, chosen by the option ``fault``; "" is sound.

The task asks for the largest of three numbers by its letter; `harness check` must find each fault,
and nothing in the sound ones.
"""

from __future__ import annotations

import random
import re
import time
from dataclasses import replace

from harness import hookimpl
from harness.model import Model
from harness.parsing import after_last, visible
from harness.player import FixedPlayer
from harness.reward import Reward
from harness.seeds import Streams, derive
from harness.task import Task
from harness.types import (
    OK,
    UNPARSED,
    Decoding,
    HarnessError,
    Message,
    Metric,
    Outcome,
    Parsed,
    Reply,
    Sample,
    Score,
    Turn,
)

LETTERS = "ABC"


class Largest(Task):
    """Which is the largest?"""

    name = "faulty"
    reward = "faulty"
    decoding = Decoding(max_tokens=16)

    def __init__(self, options):
        super().__init__(options)
        self.fault = str(options["fault"])
        self.asked = 0
        if self.fault == "name":
            self.name = "another"
        if self.fault == "seats":
            self.seats = 2
        if self.fault == "heavy":
            import numpy

            assert numpy.__version__

    def samples(self, split):
        if split not in (*self.splits, "all"):
            if self.fault == "any split":
                yield self.sample("test", 0)
                return
            raise HarnessError(f"no split {split!r}")
        for each in self.splits if split == "all" else (split,):
            for i in range(80):
                yield self.sample(each, i)

    def sample(self, split, i):
        rng = Streams(derive(split, i))
        if self.fault == "shared generator":
            rng = Streams(random.getrandbits(40))
        numbers = [rng.below(1000, k) + 1000 * (k == rng.below(3, "best")) for k in range(3)]
        if self.fault == "constant":
            numbers[0] += 2000
        if self.fault == "hash":
            numbers[0] += hash("salted") % 100_003
        best = LETTERS[numbers.index(max(numbers))]
        made = Sample(
            id=f"largest-{split}-{i}",
            split=split,
            data={"numbers": numbers},
            truth={"answer": best},
            canonical=f"{split}-{numbers}",
            ordinal=i,
        )
        changes = {
            "same id": {"id": "largest"},
            "tuple": {"data": {"numbers": tuple(numbers)}},
            "not JSON": {"truth": {"answer": best, "set": {1}}},
            "other split": {"split": "train"},
            "leak": {"canonical": f"item {i}"},
        }
        return replace(made, **changes.get(self.fault, {}))

    def messages(self, sample):
        shown = " ".join(map(str, sample.data["numbers"])) * (
            9000 if self.fault == "long prompt" else 1
        )
        if self.fault == "counting prompt":
            self.asked += 1
            shown += f" ({self.asked})"
        role = "assistant" if self.fault == "role" else "user"
        return [Message(role, f"Which is the largest of {shown}? ANSWER: A, B or C")]

    def lineup(self, sample):
        return ("model", "model") if self.fault == "lineup" else ("model",)

    def parse(self, sample, reply):
        text = visible(reply.text)
        if self.fault == "raises":
            return Parsed("ABC"[int(after_last(text, "answer:") or "0", 36) % 3], OK)
        if self.fault == "quadratic":
            re.search(r"(?:a+)$|(?:9+)$|(?:\s+)$", reply.text.replace("x", "") + "!")
        if self.fault == "empty answers":
            return Parsed("A", OK)
        said = (after_last(text, "answer:") or "").strip()[:1]
        if self.fault == "unstorable" and not said:
            return Parsed(10**30, UNPARSED)
        return Parsed(said, OK) if said and said in LETTERS else Parsed(None, UNPARSED)

    async def rollout(self, sample, players, rng):
        if self.fault == "slow":
            until = time.process_time() + 0.06
            while time.process_time() < until:
                pass
        if self.fault == "state":
            self.current = sample
            turn = Turn(0, tuple(self.messages(sample)), truth=sample.truth)
            move = await self.ask(players[0], turn, sample)
            right = move.parsed == self.current.truth["answer"]
            return Outcome((move,), move.cls, data={"right": right})
        outcome = await super().rollout(sample, players, rng)
        if self.fault == "unrecorded":
            await self.ask(players[0], Turn(0, (), truth=sample.truth, number=1), sample)
        if self.fault == "fresh chance":
            return replace(outcome, data={"die": random.random()})
        if self.fault == "tuple in outcome":
            return replace(outcome, data={"pair": {1: "a"}})
        if self.fault == "class":
            return replace(outcome, cls="lost")
        return outcome

    def players(self):
        def draw(seat):
            if self.fault == "unseeded player":
                return random.choice(LETTERS)
            if self.fault == "deaf player":
                return LETTERS[derive(seat.sample.id) % 3]
            return LETTERS[derive(seat.seed, "draw") % 3]

        def right(turn):
            return "ANSWER: Z" if self.fault == "oracle" else f"ANSWER: {turn.truth['answer']}"

        found = {
            "oracle": lambda seat: FixedPlayer(right),
            "random": lambda seat: FixedPlayer(lambda turn: f"ANSWER: {draw(seat)}"),
        }
        if self.fault == "no floor":
            del found["random"]
        return found

    def target(self, sample):
        return "It is B." if self.fault == "target" else f"ANSWER: {sample.truth['answer']}"

    def metrics(self, records):
        count = sum(1 for _ in records)
        if self.fault == "infinite":
            return [Metric("rate", 1.0 / count if count else float("inf"), n=count)] * 2
        if self.fault == "no records":
            return [Metric("rate", 1 / count)]
        return [Metric("records", float(count), n=count)]


class Right(Reward):
    """1 for the right letter."""

    name = "faulty"

    def __init__(self, options):
        super().__init__(options)
        self.fault = str(options["fault"])
        self.calls = 0
        if self.fault == "gate":
            self.gates = ("no such part",)

    def score(self, sample, outcome):
        self.calls += 1
        right = float(outcome.moves[-1].parsed == sample.truth["answer"])
        if self.fault == "counting":
            return Score(right / self.calls)
        if self.fault == "crash" and outcome.cls != OK:
            raise KeyError("no answer")
        if self.fault == "mutating":
            sample.data["seen"] = True
        consoled = 0.9 if outcome.cls != OK else right
        value = {"beyond": 2 * right, "inverted": 1 - right, "consoling": consoled}
        part = float("nan") if self.fault == "nan part" else right
        raw = {"set": {1}} if self.fault == "raw" else {}
        return Score(value.get(self.fault, right), {"right": part}, raw)


class Says(Model):
    """Says words of the prompt, drawn with the request's seed."""

    def __init__(self, options):
        self.name = "faulty"
        self.fault = str(options["fault"])
        self.identity = "" if self.fault == "identity" else "faulty-1"
        self.context_length = 100
        self.calls = 0

    def count_tokens(self, messages):
        return sum(len(m.content.split()) for m in messages) + 9 * (self.fault == "miscounted")

    async def generate(self, request):
        self.calls += 1
        words = request.messages[-1].content.split()
        rng = random.Random(self.calls if self.fault == "stream" else request.seed)
        greedy = request.decoding.temperature == 0 and self.fault != "stream"
        said = words if greedy else [rng.choice(words) for _ in words]
        said = said if self.fault == "endless" else said[: request.decoding.max_tokens]
        text = " ".join(said)
        if self.fault != "keeps stops":
            for stop in request.decoding.stop:
                text = text.partition(stop)[0]
        reason = "done" if self.fault == "reason" else "stop"
        return Reply(text, reason, prompt_tokens=len(words), completion_tokens=len(said))

    def describe(self):
        return {"object": object()} if self.fault == "description" else {}


@hookimpl
def create_task(name, options):
    return Largest(options)


@hookimpl
def create_reward(name, options):
    return Right(options)


@hookimpl
def create_model(name, options):
    return Says(options)
