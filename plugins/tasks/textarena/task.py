"""The task: games of the TextArena library, in pairs of episodes with the seats swapped.

    harness run --task textarena --model smollm2 --set pairs=50 --set games=Nim-v0,PigDice-v0-50

One sample is one episode, here Nim with the model in the second seat:

    {"env": "Nim-v0", "pair": 0, "model_seat": 1, "seed": 1186453923}

The model sees the environment's rules, what has happened, the board and the legal moves, and ends
its reply with ``[0 3]``. A game of one player has one episode for each number of a pair.

What depends on what: all chance of an environment on the data seed, the split, the environment and
the pair alone - both seats, all repeats and all run seeds share it. What players draw (a random
opponent's moves) depends on the seed of the rollout.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from harness.exhibits import Exhibit
from harness.player import Player, PlayerFactory
from harness.seeds import Streams, derive
from harness.task import Task
from harness.types import (
    HarnessError,
    Json,
    Message,
    Metric,
    Outcome,
    Parsed,
    Record,
    Reply,
    Sample,
)

from . import answers, presets, text
from .adapter import Adapter
from .adapters import adapter
from .episode import Episode, opened


class TextArena(Task):
    """Games of TextArena against reference players or models, and puzzles for one."""

    name = "textarena"
    version = "1"
    reward = "textarena"
    seats = 2
    default_opponent = "random"

    def __init__(self, options: Mapping[str, Json] | None = None) -> None:
        super().__init__(options)
        self.plan = presets.resolve(self.options)
        self.decoding = self.plan.decoding  # type: ignore[misc]  # a preset brings its own
        if all(self._seats(name) == 1 for name in self.plan.games):
            self.seats = 1  # type: ignore[misc]  # nobody sits on the other side
        self.level_players = self._levels()  # type: ignore[misc]  # as far as they are computed

    def _levels(self) -> tuple[str, ...]:
        made = [adapter(name) for name in self.plan.games]
        if not all(one.listed for one in made):
            return ()
        return ("random", "oracle") if all(one.oracle for one in made) else ("random",)

    # Data

    def samples(self, split: str) -> Iterator[Sample]:
        """Pair after pair, within it all environments: any prefix holds nearly the same of each."""
        if split not in (*self.splits, "all"):
            raise HarnessError(f"textarena has no split {split!r}; it has {', '.join(self.splits)}")
        ordinal = 0
        for each in self.splits if split == "all" else (split,):
            for pair in range(self.plan.pairs):
                for name in self.plan.games:
                    for seat in range(self._seats(name)):
                        yield self._sample(each, name, pair, seat, ordinal)
                        ordinal += 1

    def _sample(self, split: str, name: str, pair: int, seat: int, ordinal: int) -> Sample:
        # 31 bits: environments without an adapter may hand the seed to numpy.
        seed = derive("textarena", self.plan.data_seed, split, name, pair) >> 32
        return Sample(
            id=f"{split}/{name}/{pair}/{seat}",
            split=split,
            data={"env": name, "pair": pair, "model_seat": seat, "seed": seed},
            group=name,
            cluster=f"{split}/{name}/{pair}",
            canonical=f"{name}/{seed}",
            ordinal=ordinal,
        )

    def data_identity(self) -> str:
        """The version of the library: another one may play by other rules."""
        from .library import version

        return f"textarena {version()}"

    def verify(self, samples: Iterable[Sample]) -> Iterator[str]:
        """Each sample's episode must start, and start the same way twice."""
        for sample in samples:
            try:
                first, second = (opened(sample, self.plan.conduct).events for _ in range(2))
            except (HarnessError, RuntimeError) as error:
                yield f"{sample.id}: does not start: {error}"
                continue
            if first != second:
                yield f"{sample.id}: two starts from the same seed differ"

    def _seats(self, name: str) -> int:
        known = adapter(name).seats
        if known:
            return known
        from .library import seats

        return seats(name)

    # Playing

    def messages(self, sample: Sample) -> list[Message]:
        """The prompt of the model's seat at the start; in the seats that do not move first it is
        what they know before anything has happened."""
        session = opened(sample, self.plan.conduct)
        seat = sample.data["model_seat"]
        to_move = session.seat == seat
        return list(text.view(session, seat, self.plan.conduct.show_legal, to_move))

    def parse(self, sample: Sample, reply: Reply) -> Parsed:
        """The move that a reply commits to; whether it is legal depends on the position, which
        only a rollout knows."""
        return answers.read(reply.text, self._adapter(sample), reply.finish_reason)

    def lineup(self, sample: Sample) -> tuple[str, ...]:
        """The model in its seat, the opponent in every other one."""
        seats = range(self._seats(sample.data["env"]))
        own = sample.data["model_seat"]
        return tuple("model" if seat == own else "opponent" for seat in seats)

    async def rollout(self, sample: Sample, players: Sequence[Player], rng: Streams) -> Outcome:
        """Play the episode; all its chance comes from the sample's own seed."""
        return await Episode(sample, players, self.plan.conduct).play()

    def players(self) -> Mapping[str, PlayerFactory]:
        """``random``, ``oracle`` (where best play is computed), ``constant`` and ``empty``."""
        from .players import players

        return players()

    def _adapter(self, sample: Sample) -> Adapter:
        return adapter(sample.data["env"])

    # Reporting and training

    def metrics(self, records: Iterable[Record]) -> list[Metric]:
        """By environment, and the average over the sound ones."""
        from .metrics import summarise

        return summarise(self.plan, records)

    def exhibits(self, sample: Sample, outcome: Outcome) -> list[Exhibit]:
        """The board move by move."""
        from .exhibits import steps

        return [steps(sample, outcome, self.plan.conduct)]

    def target(self, sample: Sample) -> str | None:
        """Best play's answer to the first turn, where the model moves first and it is computed."""
        import random

        made = self._adapter(sample)
        seat = sample.data["model_seat"]
        if not made.oracle:
            return None
        session = opened(sample, self.plan.conduct)
        if session.seat != seat or made.talking(session.env):
            return None
        return made.best(session.env, seat, random.Random(sample.data["seed"]))
