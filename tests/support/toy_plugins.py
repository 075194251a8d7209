"""Small plugins for tests of the core: tasks that copy a word, count down, and fail on demand."""

from __future__ import annotations

import asyncio

from harness import hookimpl
from harness.model import Model
from harness.player import FixedPlayer
from harness.reward import Reward
from harness.seeds import derive
from harness.task import Task
from harness.types import (
    OK,
    UNPARSED,
    Decoding,
    HarnessError,
    Message,
    Outcome,
    Parsed,
    ProviderError,
    Reply,
    Sample,
    Score,
    Turn,
)


class Copy(Task):
    """Say the word: ``copy-7`` asks for ``w7``."""

    name = "copy"
    reward = "exact"
    decoding = Decoding(max_tokens=16)

    def samples(self, split):
        splits = self.splits if split == "all" else (split,)
        for each in splits:
            for i in range(int(self.option("size"))):
                yield Sample(
                    id=f"copy-{each}-{i}",
                    split=each,
                    data={"word": f"w{i}"},
                    truth={"answer": f"w{i}"},
                    group="even" if i % 2 == 0 else "odd",
                    cluster=f"c{i // 2}",
                    ordinal=i,
                )

    def messages(self, sample):
        return [Message("system", "Copy."), Message("user", sample.data["word"])]

    def parse(self, sample, reply):
        text = reply.text.strip()
        return Parsed(text, OK) if text else Parsed(None, UNPARSED)

    def players(self):
        return {
            "oracle": lambda seat: FixedPlayer(lambda turn: turn.truth["answer"]),
            "random": lambda seat: FixedPlayer(lambda turn: f"w{derive(seat.seed) % 10}"),
            "empty": lambda seat: FixedPlayer(lambda turn: ""),
        }

    def target(self, sample):
        return sample.truth["answer"]

    def privileged(self, sample):
        return [*self.messages(sample), Message("user", f"It is {sample.truth['answer']}.")]


class Marks(Task):
    """Say a word of letters a to d. Concepts: whether a dominates, and (of every other item) which
    of b, c and d there are most of."""

    name = "marks"
    reward = "exact"
    decoding = Decoding(max_tokens=16)

    def samples(self, split):
        place = self.splits.index(split)
        for i in range(int(self.option("size"))):
            most = "bcd"[derive(1, place, i) % 3]
            letters = ["a"] * (5 if derive(2, place, i) % 2 else 1) + list("bcd".replace(most, ""))
            letters += [most] * (10 - len(letters))
            order = sorted(range(10), key=lambda at, i=i: derive(3, place, i, at))
            word = "".join(letters[at] for at in order) + str(i)
            yield Sample(f"marks-{split}-{i}", split, {"word": word}, {"answer": word}, ordinal=i)

    def messages(self, sample):
        return [Message("user", sample.data["word"])]

    def parse(self, sample, reply):
        text = reply.text.strip()
        return Parsed(text, OK) if text else Parsed(None, UNPARSED)

    def target(self, sample):
        return sample.truth["answer"]

    def concepts(self, sample):
        word = sample.data["word"]
        most = "bcd".index(max("bcd", key=word.count))
        return {"dominant": int(word.count("a") > 3), "most": most if sample.ordinal % 2 else -1}


class Duel(Task):
    """Two seats, three turns each; the higher sum of the numbers said wins."""

    name = "duel"
    reward = "returns"
    seats = 2

    def samples(self, split):
        for i in range(int(self.option("size"))):
            yield Sample(
                id=f"duel-{i}",
                split=split,
                canonical=f"duel-{split}-{i}",
                data={"model_seat": i % 2},
                group=f"seat{i % 2}",
                cluster=f"pair{i // 2}",
                ordinal=i,
            )

    def lineup(self, sample):
        return ("model", "opponent") if sample.data["model_seat"] == 0 else ("opponent", "model")

    def parse(self, sample, reply):
        text = reply.text.strip()
        return Parsed(int(text), OK) if text.isdigit() else Parsed(None, UNPARSED)

    async def rollout(self, sample, players, rng):
        moves, sums = [], [0.0, 0.0]
        for number in range(6):
            seat = number % 2
            bonus = rng.below(3, "bonus", number)
            turn = Turn(seat, (Message("user", f"turn {number}, bonus {bonus}"),), number=number)
            move = await self.ask(players[seat], turn, sample)
            moves.append(move)
            if move.cls != OK:
                returns = (0.0, 1.0) if seat == 0 else (1.0, 0.0)
                return Outcome(tuple(moves), move.cls, returns)
            sums[seat] += move.parsed + bonus
        won = (sums[0] > sums[1]) + 0.5 * (sums[0] == sums[1])
        return Outcome(tuple(moves), OK, (won, 1.0 - won))

    def players(self):
        return {
            "random": lambda seat: FixedPlayer(
                lambda turn: str(derive(seat.seed, turn.number) % 10)
            ),
            "oracle": lambda seat: FixedPlayer(lambda turn: "9"),
        }


class Exact(Reward):
    """1 for the very answer."""

    name = "exact"

    def score(self, sample, outcome):
        return Score(float(outcome.moves[-1].parsed == sample.truth["answer"]), {"exact": 1.0})


class Length(Reward):
    """Longer replies pay more."""

    name = "length"

    def score(self, sample, outcome):
        return Score(min(1.0, len(outcome.moves[-1].reply.text) / 10))


class Letters(Reward):
    """The share of twelve characters that are lower-case letters: a hill to climb."""

    name = "letters"

    def score(self, sample, outcome):
        text = outcome.moves[-1].reply.text[:12]
        count = sum("a" <= c <= "z" for c in text)
        return Score(count / 12, {"letters": count / 12})


class Returns(Reward):
    """The return of the model's seat."""

    name = "returns"

    def score(self, sample, outcome):
        return Score(outcome.returns[sample.data["model_seat"]], per_seat=outcome.returns)


class Flaky(Model):
    """Fails the first ``faults`` times for each prompt; ``forever`` never recovers."""

    def __init__(self, options):
        self.name = self.identity = "flaky"
        self.faults = int(options["faults"])
        self.kind = options["kind"]
        self.seen = {}

    async def generate(self, request):
        word = request.messages[-1].content
        count = self.seen[word] = self.seen.get(word, 0) + 1
        await asyncio.sleep(0)
        if count <= self.faults and word.endswith("3"):
            raise (ProviderError if self.kind == "provider" else RuntimeError)("no luck")
        return Reply(word, prompt_tokens=2, completion_tokens=1)


class Sleepy(Model):
    """Answers after a wait that depends on the request; the answer is random in its seed."""

    def __init__(self, options):
        self.name = self.identity = "sleepy"
        self.delay = float(options["delay"])

    async def generate(self, request):
        await asyncio.sleep(self.delay * (request.seed % 1000) / 1000)
        return Reply(str(request.seed % 7), prompt_tokens=3, completion_tokens=1)


class Batched(Model):
    """Answers batches; counts words as tokens and keeps the batches it saw."""

    context_length = 40
    batch_limit = 4
    batch_tokens = 200

    def __init__(self, options):
        self.name = self.identity = "batched"
        self.batches = []

    def count_tokens(self, messages):
        return sum(len(m.content.split()) for m in messages)

    def generate_batch(self, requests):
        self.batches.append([r.messages[-1].content for r in requests])
        if any("poison" in r.messages[-1].content for r in requests):
            raise RuntimeError("a bad row")
        return [Reply(r.messages[-1].content, prompt_tokens=1) for r in requests]


@hookimpl
def create_task(name, options):
    return {"copy": Copy, "duel": Duel, "marks": Marks}[name](options)


@hookimpl
def create_model(name, options):
    if name == "unloadable":
        raise HarnessError("the weights are missing")
    return {"flaky": Flaky, "batched": Batched, "sleepy": Sleepy}[name](options)


@hookimpl
def create_reward(name, options):
    return {"exact": Exact, "length": Length, "letters": Letters, "returns": Returns}[name](options)
