"""Belief beside behaviour: what a model thinks of its opponent, and whether it acts on it.

    harness run --task gtbench --model smollm2 --set mode=belief

Kuhn poker against an opponent whose habits are told ("bets with the King, passes otherwise"). At
the same information set the model is asked, each time anew: for its move, for the chances of the
opponent's card, and for the chances of the opponent's answer to each of its moves. Exact answers
follow from the habits by Bayes' rule, so an error is placed: in the belief, in the prediction, in
the step from one to the other, or in the choice.

    {"game": "kuhn_poker", "information": "1pb", "course": [1, 2, 0, 1], "opponent": "honest", ...}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import ClassVar

from harness import parsing
from harness.player import FixedPlayer, Player, PlayerFactory, Seat
from harness.seeds import Streams, derive
from harness.stats import mean_metric
from harness.types import (
    OK,
    UNPARSED,
    HarnessError,
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

from .episode import judge
from .game import Skin
from .games.kuhn import BET, PASS
from .kuhn_beliefs import (
    HABITS,
    answered,
    judged,
    normal,
    optimal,
    posterior,
    predicted,
)
from .policy import PolicyTask, at
from .policy_tree import build
from .view import View

GAME = "kuhn_poker"
CARDS = ("low", "middle", "high")
FIGURES = (
    "belief.error",
    "prediction.error",
    "incoherence",
    "action.optimal",
    "action.consistent",
    "answered",
)


class BeliefTask(PolicyTask):
    """Three questions about one information set. Figures, by opponent:

    * ``belief.error``, ``prediction.error``: total variation distance from the exact chances;
    * ``incoherence``: distance of the stated prediction from the one that follows from the stated
      belief and the habits;
    * ``action.optimal``: the move is a best one given the exact chances; ``action.consistent``:
      given the stated belief;
    * ``answered``: the share of questions with an answer that could be read.
    """

    columns: ClassVar[tuple[str, ...]] = FIGURES

    def __init__(self, options: Mapping[str, Json] | None = None) -> None:
        given = dict(options or {})
        super().__init__({**given, "games": given.get("games") or [GAME]})
        self.options = given
        if self.plan.games != (GAME,):
            raise HarnessError(f"mode=belief asks about {GAME} only")

    def samples(self, split: str) -> Iterable[Sample]:
        if split not in ("test", "all"):
            raise HarnessError("mode=belief asks a whole game: there is only the split test")
        return self._samples()

    def _samples(self) -> Iterator[Sample]:
        ordinal = 0
        for query in range(self.queries):
            for habit in HABITS:
                for side in build(GAME).sides:
                    for name, course in zip(side.names, side.example, strict=True):
                        if sum(posterior(course, habit)) == 0.0:
                            continue  # this opponent never plays like that
                        for variant in self.plan.variants:
                            yield Sample(
                                id=f"{GAME}/{variant}/{habit}/{name}/{query}",
                                split="test",
                                data={
                                    "game": GAME,
                                    "information": name,
                                    "course": list(course),
                                    "query": query,
                                    "variant": variant,
                                    "seed": 0,
                                    "opening": [],
                                    "opponent": habit,
                                },
                                group=habit if variant == "plain" else f"{habit}/{variant}",
                                cluster=f"{habit}/{name}",
                                canonical=f"{habit}/{name}",
                                ordinal=ordinal,
                            )
                            ordinal += 1

    def messages(self, sample: Sample) -> list[Message]:
        """The question for the move."""
        first, second = super().messages(sample)
        look = self._skin(sample)
        return [
            first,
            Message("user", f"{told(look, sample.data['opponent'])}\n\n{second.content}"),
        ]

    def turns(self, sample: Sample) -> float:
        return 2.0 + len(answered(sample.data["course"]))

    async def rollout(self, sample: Sample, players: Sequence[Player], rng: Streams) -> Outcome:
        look, position = self._skin(sample), at(sample)
        [seat] = position.seats()
        legal = look.legal(position, seat)
        habit, course = sample.data["opponent"], tuple(sample.data["course"])
        right = normal(posterior(course, habit))
        best = optimal(course, habit, right)
        asked = tuple(self.messages(sample))
        view = View(look, position, seat, legal)
        turn = Turn(seat, asked, tuple(legal), f"ANSWER: {look.say(min(best))}", view, 0)
        reply = await players[0].act(turn)
        moves = [_move(turn, reply, judge(turn, reply))]
        action = legal[moves[0].parsed] if moves[0].cls == OK else None

        names = [look.words[card] for card in CARDS]
        others = [name for k, name in enumerate(names) if k != course[seat]]
        question = f"Which card does your opponent have? {form(others)}"
        belief = await self._chances(players[0], sample, turn, question, names, right, 1, moves)
        predictions: dict[str, list[float] | None] = {}
        for number, own in enumerate(answered(course), 2):
            question = (
                f"Suppose you play {look.say(own)} now. What will your opponent do then? "
                f"{form([look.say(PASS), look.say(BET)])}"
            )
            exact = predicted(course, own, habit, right)
            predictions[str(own)] = await self._chances(
                players[0], sample, turn, question, [look.say(PASS), look.say(BET)], exact,
                number, moves,
            )  # fmt: skip
        return self._outcome(sample, moves, action, belief, predictions)

    async def _chances(
        self,
        player: Player,
        sample: Sample,
        turn: Turn,
        question: str,
        names: Sequence[str],
        exact: Sequence[float],
        number: int,
        moves: list[Move],
    ) -> list[float] | None:
        """Ask for chances; record the reply."""
        first, second = turn.messages
        situation = second.content.rpartition("\n\n")[0].partition("Legal moves:")[0].rstrip()
        system = first.content.partition("Play to get the highest score.")[0].rstrip()
        messages = (Message("system", system), Message("user", f"{situation}\n\n{question}"))
        said = ", ".join(f"{n} {100 * p:.4f}" for n, p in zip(names, exact, strict=True))
        asked = Turn(turn.seat, messages, None, f"ANSWER: {said}", tuple(names), number)
        reply = await player.act(asked)
        parsed = parsing.classify(reply, chances(reply, names))
        moves.append(_move(asked, reply, parsed))
        return list(parsed.value) if parsed.cls == OK else None

    def _outcome(
        self,
        sample: Sample,
        moves: list[Move],
        action: int | None,
        belief: list[float] | None,
        predictions: Mapping[str, list[float] | None],
    ) -> Outcome:
        data = sample.data
        found = judged(tuple(data["course"]), data["opponent"], action, belief, predictions)
        parts = [
            1.0 - found.get("belief.error", 1.0),
            found["action.optimal"],
            *([1.0 - found.get("prediction.error", 1.0)] if predictions else []),
        ]
        return Outcome(
            tuple(moves),
            moves[0].cls,
            data={
                "game": GAME,
                "variant": data["variant"],
                "information": data["information"],
                "opponent": data["opponent"],
                "action": action,
                "belief": belief,
                "predictions": dict(predictions),
                "figures": found,
                "worth": sum(parts) / len(parts),
            },
        )

    def players(self) -> Mapping[str, PlayerFactory]:
        return PLAYERS

    def metrics(self, records: Iterable[Record]) -> list[Metric]:
        rows: dict[str, list[tuple[str, Mapping[str, float]]]] = {}
        for record in records:
            row = (record.cluster, record.outcome.data["figures"])
            for group in ("", record.group):
                rows.setdefault(group, []).append(row)
        found = []
        for group, members in rows.items():
            for name in FIGURES:
                some = [(cluster, row[name]) for cluster, row in members if name in row]
                values, clusters = [v for _, v in some], [c for c, _ in some]
                found.append(mean_metric(name, values, clusters, group))
        return found


def told(look: Skin, habit: str) -> str:
    """The opponent's habits in words."""
    rates = ", ".join(
        f"{rate:.0%} of the time with the {look.words[card]}"
        for card, rate in zip(CARDS, HABITS[habit], strict=True)
    )
    bet, pass_ = look.say(BET), look.say(PASS)
    return (
        f"You know how this opponent plays, whatever was played before: it chooses {bet} {rates}; "
        f"otherwise it chooses {pass_}."
    )


def form(names: Sequence[str]) -> str:
    """How chances are to be answered."""
    example = ", ".join(f"{name} <number>" for name in names)
    return (
        "Give the chance of each in percent; they add up to 100. You may think before you answer. "
        f"End your reply with one line that holds nothing else:\nANSWER: {example}"
    )


def chances(reply: Reply, names: Sequence[str]) -> Parsed:
    """Percentages by name in the last ANSWER line, as shares that add up to 1; what is not named
    has none. They must add up to 100 (within 2).

    >>> chances(Reply("ANSWER: Jack 25%, King: 75"), ["Jack", "Queen", "King"]).value
    [0.25, 0.0, 0.75]
    """
    lines = [ln for ln in parsing.visible(reply.text).splitlines() if "answer:" in ln.lower()]
    if not lines:
        return Parsed(None, UNPARSED, "no ANSWER line")
    line = lines[-1][-500:]
    found = [0.0] * len(names)
    for k, name in enumerate(names):
        hits = re.findall(rf"\b{name}\b[^\w\d]{{0,3}}(\d{{1,3}}(?:\.\d{{1,6}})?)", line, re.I)
        if len(hits) > 1:
            return Parsed(None, UNPARSED, f"{name} is named twice")
        if hits:
            found[k] = float(hits[0])
    total = sum(found)
    if abs(total - 100.0) > 2.0:
        return Parsed(None, UNPARSED, "the chances do not add up to 100")
    return Parsed([value / total for value in found], OK)


def _move(turn: Turn, reply: Reply, parsed: Parsed) -> Move:
    return Move(turn.seat, reply, parsed.value, parsed.cls, turn.messages, turn.number)


def _random(seat: Seat) -> Player:
    def say(turn: Turn) -> str:
        rng = Random(derive(seat.seed, turn.number))
        if turn.legal is not None:
            return f"ANSWER: {rng.choice(turn.legal)}"
        names = turn.state
        share = rng.randrange(101)
        first, second = rng.sample(list(names), 2)
        return f"ANSWER: {first} {share}, {second} {100 - share}"

    return FixedPlayer(say)


PLAYERS: Mapping[str, PlayerFactory] = {
    "random": _random,
    "oracle": lambda seat: FixedPlayer(lambda turn: str(turn.truth)),
    "empty": lambda seat: FixedPlayer(lambda turn: ""),
}
