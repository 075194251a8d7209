"""The task: ten games against an opponent, in pairs of episodes with the seats swapped.

    harness run --task gtbench --model smollm2 --opponent mcts-50 --set games=[tictactoe,nim]

One sample is one episode, here Kuhn poker with the model in the first seat:

    {"game": "kuhn_poker", "pair": 0, "seed": 2305843009213693951, "model_seat": 0,
     "opening": [], "variant": "plain"}

The model sees the rules, its card and the moves so far, and answers with ``ANSWER: Bet``.

What depends on what: the cards, dice and openings on the data seed, the split, the game and the
pair alone - both seats, all repeats and all run seeds share them. What players draw (a random
opponent's moves, a search) depends on the seed of the rollout.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import ClassVar

from harness.exhibits import Exhibit
from harness.player import Player, PlayerFactory
from harness.seeds import Streams
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

from . import answers, deals, presets, text
from .agents import ChainOfThought, SelfConsistent, TreeOfThought
from .deals import opened
from .episode import Episode, judge
from .game import Skin
from .games import game, skin
from .position import Position
from .view import View


class GTBench(Task):
    """Games of strategy against reference players or models."""

    name = "gtbench"
    version = "1"
    reward = "gtbench"
    seats = 2
    default_opponent = "random"
    columns: ClassVar[tuple[str, ...]] = (
        "return",
        "win.first",
        "win.second",
        "draw",
        "legal.first",
        "forfeit",
    )

    def __init__(self, options: Mapping[str, Json] | None = None) -> None:
        super().__init__(options)
        self.plan = presets.resolve(self.options)
        self.decoding = self.plan.decoding  # type: ignore[misc]  # a preset brings its own
        if len(self.plan.variants) > 1:
            self.columns = (*self.columns, "relabelled.difference")  # type: ignore[misc]
        if self.options.get("regret"):
            self.columns = (*self.columns, "optimal", "regret")  # type: ignore[misc]
        if self.options.get("variates"):
            self.columns = (*self.columns, "return.aivat", "aivat.saving")  # type: ignore[misc]
        if self.plan.conduct.substitute:
            self.columns = (*self.columns, "return.substituted")  # type: ignore[misc]

    # Data

    def samples(self, split: str) -> Iterable[Sample]:
        return deals.samples(self.plan, split)

    def verify(self, samples: Iterable[Sample]) -> Iterable[str]:
        return deals.verify(samples)

    # Playing

    def messages(self, sample: Sample) -> list[Message]:
        """The prompt of the model's first turn. Where the opponent moves before, the first legal
        move that leaves the turn to the model stands for what it may do."""
        view, position = self._first_turn(sample)
        prompt = text.prompt(
            view.skin,
            position,
            view.seat,
            view.legal,
            show_legal=self.plan.conduct.show_legal,
            opening=len(sample.data["opening"]),
        )
        return list(prompt)

    def _first_turn(self, sample: Sample) -> tuple[View, Position]:
        look, position = self._skin(sample), opened(sample.data["game"], sample.data)
        seat = sample.data["model_seat"]
        while seat not in position.seats():
            position = _example(position, seat)
        return View(look, position, seat, look.legal(position, seat)), position

    def parse(self, sample: Sample, reply: Reply) -> Parsed:
        """The move that a reply commits to; whether it is legal depends on the position, which
        only a rollout knows."""
        return answers.read(reply.text, self._skin(sample), reply.finish_reason)

    def turns(self, sample: Sample) -> float:
        """By game, without openings; agents ask several times a turn."""
        asked = {"prompt": 1, "cot": 1, "sc-cot": self.plan.samples}
        votes = TreeOfThought.requests(self.plan.samples)
        return game(sample.data["game"]).turns * asked.get(self.plan.agent, votes)

    def lineup(self, sample: Sample) -> tuple[str, ...]:
        return ("model", "opponent") if sample.data["model_seat"] == 0 else ("opponent", "model")

    async def rollout(self, sample: Sample, players: Sequence[Player], rng: Streams) -> Outcome:
        seats = list(players)
        model = sample.data["model_seat"]
        seats[model] = self._agent(seats[model])
        episode = Episode(self._skin(sample), sample, seats, rng, self.plan.conduct)
        outcome = await episode.play()
        if not self.options.get("variates"):
            return outcome
        from .variates import known

        return replace(outcome, data={**outcome.data, "opponent": known(seats[1 - model])})

    def _agent(self, player: Player) -> Player:
        """The player, wrapped as the option says; players that read no messages stay bare."""
        if self.plan.agent == "prompt" or not getattr(player, "reads_messages", True):
            return player
        if self.plan.agent == "cot":
            return ChainOfThought(player, judge)
        kind: type[SelfConsistent | TreeOfThought]
        kind = SelfConsistent if self.plan.agent == "sc-cot" else TreeOfThought
        return kind(player, judge, self.plan.samples)

    def players(self) -> Mapping[str, PlayerFactory]:
        from .opponents import PLAYERS

        return PLAYERS

    def _skin(self, sample: Sample) -> Skin:
        return skin(sample.data["game"], sample.data["variant"])

    # Reporting and training

    def metrics(self, records: Iterable[Record]) -> list[Metric]:
        if self.options.get("regret") or self.options.get("variates"):
            from . import extras

            chosen = (bool(self.options.get(name)) for name in ("regret", "variates"))
            return extras.summarise(self.plan, records, *chosen)
        from .metrics import summarise

        return summarise(self.plan, records)

    def exhibits(self, sample: Sample, outcome: Outcome) -> list[Exhibit]:
        """The position move by move."""
        from .exhibits import steps

        played = "line" in outcome.data and "pair" in sample.data
        return [steps(sample, outcome)] if played else []

    def target(self, sample: Sample) -> str | None:
        """Best play's answer to the prompt of `messages`, in games where a table or a formula
        gives it; None in the others."""
        from .opponents import TARGETS

        choose = TARGETS.get(sample.data["game"])
        if choose is None:
            return None
        view, _ = self._first_turn(sample)
        return f"ANSWER: {view.skin.say(choose(view, Random(sample.data['seed'])))}"


def _example(position: Position, seat: int) -> Position:
    """The position after an opponent's move that gives ``seat`` the turn, or at least goes on."""
    [mover] = position.seats()
    going_on = None
    for action in position.legal(mover):
        after = position.copy()
        after.play({mover: action})
        if seat in after.seats():
            return after
        if going_on is None and not after.over:
            going_on = after
    if going_on is None:
        raise HarnessError(
            "the opening leaves no turn to one of the seats; use a smaller openings="
        )
    return going_on
