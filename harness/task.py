'''Tasks: what a model is asked to do, as a rollout that ends in an outcome.

The smallest task, whole:

    class Echo(Task):
        """Say the word."""

        name = "echo"
        reward = "exact"

        def samples(self, split):
            for i, word in enumerate(["ab", "cd"]):
                yield Sample(id=f"echo-{i}", split=split, data={"word": word}, ordinal=i)

        def messages(self, sample):
            return [Message("user", f"Say only: {sample.data['word']}")]

        def parse(self, sample, reply):
            return Parsed(reply.text.strip(), OK)

A task with several turns or seats overrides ``rollout``; everything else stays as it is.
'''

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from . import parsing
from .exhibits import Exhibit
from .player import Player, PlayerFactory
from .seeds import Streams
from .types import (
    Decoding,
    Json,
    Message,
    Metric,
    Move,
    Outcome,
    Parsed,
    Record,
    Reply,
    Sample,
    Turn,
)


class Task:
    """A task. Subclasses set the class attributes and override what differs from one question.

    ``version`` is part of the specification of a run: raise it when samples, prompts or rules
    change. ``reward`` names the default reward, ``verifier`` one that reads no truth and so may
    choose among replies at test time, ``decoding`` the default decoding, ``splits`` what
    ``samples`` accepts besides ``all``. Tasks with several ``seats`` name a ``default_opponent``
    (one of `players`). ``level_players`` are the reference players whose scores are shown as
    floor and ceiling of a run (empty: the task's metrics show their own). ``columns`` names the
    metrics that are shown as a table with a line a group; a figure ``random.NAME`` of the group
    stands in brackets behind NAME.
    """

    name: ClassVar[str] = ""
    version: ClassVar[str] = "1"
    reward: ClassVar[str] = ""
    verifier: ClassVar[str] = ""
    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test")
    decoding: ClassVar[Decoding] = Decoding()
    seats: ClassVar[int] = 1
    default_opponent: ClassVar[str] = "random"
    level_players: ClassVar[tuple[str, ...]] = ("random", "oracle")
    columns: ClassVar[tuple[str, ...]] = ()

    def __init__(self, options: Mapping[str, Json] | None = None) -> None:
        self.options: dict[str, Json] = dict(options or {})

    # Data

    def samples(self, split: str) -> Iterable[Sample]:
        """The samples of a split (or ``all``), lazily, with stable ids, in the order that
        ``--limit`` cuts: stratified, so that any prefix keeps the proportions (see `stratified`).

        Raises HarnessError for a split that does not exist or data that cannot be read.
        """
        raise NotImplementedError(f"{type(self).__name__}.samples")

    def stratum(self, sample: Sample) -> str:
        """The part of the data that acceptance and rewards are counted by, as fine as the task can
        tell (an order and a side); the default: the group."""
        return sample.group

    def data_identity(self) -> str:
        """A hash or version of foreign data that the samples come from ("" for generated data)."""
        return ""

    def stats(self, samples: Iterable[Sample]) -> dict[str, Json]:
        """Counts for ``stats.json`` of a built data set. The default: by split and group."""
        counts: dict[str, dict[str, int]] = {}
        for sample in samples:
            groups = counts.setdefault(sample.split, {})
            groups[sample.group] = groups.get(sample.group, 0) + 1
        return {"counts": counts}

    def verify(self, samples: Iterable[Sample]) -> Iterable[str]:
        """Check the data independently (``data build --verify``); each problem in one line."""
        return ()

    # Playing

    def messages(self, sample: Sample) -> list[Message]:
        """The prompt of the first turn: the one place where it is worded, in training as here.

        A game whose first prompt depends on the opponent leaves it out; its prompts are then not
        counted before a run.
        """
        raise NotImplementedError(f"{type(self).__name__}.messages")

    def parse(self, sample: Sample, reply: Reply) -> Parsed:
        """The committed answer of a reply. The default takes the visible text as it is."""
        text = parsing.visible(reply.text)
        return Parsed(text, "ok") if text else Parsed(None, "unparsed")

    def turns(self, sample: Sample) -> float:
        """How often the model is asked in a rollout, on average: for the estimate of a run."""
        return 1.0

    def lineup(self, sample: Sample) -> tuple[str, ...]:
        """Who sits where: ``model`` or ``opponent`` for each seat."""
        return ("model",)

    async def rollout(self, sample: Sample, players: Sequence[Player], rng: Streams) -> Outcome:
        """Play one sample to its end. The default asks seat 0 once.

        Must depend on its arguments only, and every reply that was asked for must be a move of the
        outcome, each seat's in the order of asking: `harness score` replays them. Faults of a model
        end in an outcome with their class; ProviderError passes through.
        """
        turn = Turn(
            seat=0,
            messages=tuple(self.messages(sample)),
            truth=sample.truth,
            state=sample,
        )
        move = await self.ask(players[0], turn, sample)
        return Outcome(moves=(move,), cls=move.cls)

    async def ask(self, player: Player, turn: Turn, sample: Sample) -> Move:
        """Let a player take a turn, and read the reply: the building block of rollouts."""
        reply = await player.act(turn)
        parsed = parsing.classify(reply, self.parse(sample, reply))
        return Move(
            turn.seat, reply, parsed.value, parsed.cls, turn.messages, turn.number, turn.attempt
        )

    def players(self) -> Mapping[str, PlayerFactory]:
        """Reference players by name. ``random`` and ``oracle`` give the floor and the ceiling."""
        return {}

    # Reporting and training

    def metrics(self, records: Iterable[Record]) -> list[Metric]:
        """Figures of a run, from its records in order. The default: mean score, by group."""
        from .stats import grouped_means

        return grouped_means(records)

    def target(self, sample: Sample) -> str | None:
        """The reply that supervised training aims at, where the task has one."""
        return None

    def privileged(self, sample: Sample) -> list[Message] | None:
        """The prompt of a teacher: that of `messages` with the verified answer and what it rests
        on, for self-distillation (None: the task has none). No player ever sees it.

        Only for tasks that ask once: it stands where the first prompt stood.
        """
        return None

    def ballot(self, sample: Sample, value: Json) -> Json:
        """A parsed answer as it counts in a vote: equal for answers that say the same."""
        return value

    def concepts(self, sample: Sample) -> Mapping[str, int]:
        """Labels for probes: concept -> class index (-1: not applicable)."""
        return {}

    def exhibits(self, sample: Sample, outcome: Outcome) -> Sequence[Exhibit]:
        """What a reader of a transcript wants to see beside it: the matrix with its equilibria, the
        story as a timeline, the board move by move (see `harness.exhibits`). The default: nothing.

        Called on stored outcomes, in a process that has no model.
        """
        return ()

    def option(self, name: str) -> Any:
        """An option's value (the registry has filled in the defaults)."""
        return self.options[name]


def stratified(samples: Iterable[Sample]) -> Iterator[Sample]:
    """The samples reordered so that each prefix has the groups in proportion, ordinals set anew.

    The k-th of n samples of a group is placed at (k + 1/2) / n; ties fall in the order of the
    groups' first appearance. Holds all samples at once: for data that fits in memory.

    >>> marks = [Sample(id=f"{g}{k}", split="test", data={}, group=g) for g in "ab" for k in (0, 1)]
    >>> [s.id for s in stratified(marks)]
    ['a0', 'b0', 'a1', 'b1']
    """
    from dataclasses import replace

    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.group, []).append(sample)
    placed = [
        ((2 * k + 1) / (2 * len(members)), place, k, sample)
        for place, members in enumerate(groups.values())
        for k, sample in enumerate(members)
    ]
    placed.sort(key=lambda row: row[:3])
    for ordinal, row in enumerate(placed):
        yield replace(row[3], ordinal=ordinal)
