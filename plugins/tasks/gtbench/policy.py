"""A policy instead of matches: every information set asked several times (`mode=policy`).

    harness run --task gtbench --model smollm2 --set mode=policy --set games=[kuhn_poker]

One sample is one query of one information set, here Kuhn poker's first seat with the lowest card,
after a pass and a bet:

    {"game": "kuhn_poker", "information": "0pb", "course": [0, 1, 0, 1], "query": 3,
     "variant": "plain", "seed": 0, "opening": []}

The replies make an empirical policy, and the game's tree turns that into exact values: no cards, no
opponent, no luck but the model's own. ``course`` is one way to the information set (chance events
and moves); the prompt says only what the seat knows of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from harness.player import Player, PlayerFactory
from harness.seeds import Streams
from harness.types import (
    OK,
    HarnessError,
    Json,
    Message,
    Metric,
    Outcome,
    Record,
    Sample,
)

from . import text
from .episode import Episode
from .games import skin
from .policy_tree import build
from .position import Position, SpielPosition, load
from .presets import Plan
from .task import GTBench
from .view import View

GAMES = (
    "kuhn_poker",
    "first_sealed_auction",
    "leduc_poker",
    "liars_dice",
    "matrix_pd",
    "matrix_rps",
    "matrix_mp",
    "matrix_sh",
    "matrix_bos",
    "matrix_cd",
)
DEFAULT = tuple(key for key in GAMES if key not in ("leduc_poker", "liars_dice"))
"""Without the two games that have hundreds and thousands of information sets."""
QUERIES = 20


class PolicyTask(GTBench):
    """Information sets of small games, asked one by one."""

    seats = 1
    level_players: ClassVar[tuple[str, ...]] = ("random", "oracle")
    columns: ClassVar[tuple[str, ...]] = (
        "value.random",
        "value.equilibrium",
        "exploitability",
        "exploitability.substituted",
        "forfeit",
        "matches.needed",
    )

    def __init__(self, options: Mapping[str, Json] | None = None) -> None:
        given = dict(options or {})
        super().__init__({**given, "games": given.get("games") or list(DEFAULT)})
        self.options = given
        self.columns = type(self).columns  # type: ignore[misc]
        for key in self.plan.games:
            if key not in GAMES:
                raise HarnessError(f"mode=policy has no {key}; choose from {', '.join(GAMES)}")
        self.queries = int(given.get("queries") or QUERIES)
        if self.queries < 1:
            raise HarnessError(f"queries={self.queries} must be at least 1")
        # A policy is what the model does, not its most likely move.
        self.decoding = replace(self.plan.decoding, temperature=1.0)  # type: ignore[misc]

    # Data

    def samples(self, split: str) -> Iterable[Sample]:
        """Query by query over all games, so that any prefix holds each information set as often."""
        if split not in ("test", "all"):
            raise HarnessError("mode=policy asks whole games: there is only the split test")
        return samples(self.plan, self.queries)

    def verify(self, samples: Iterable[Sample]) -> Iterator[str]:
        for sample in samples:
            position = at(sample)
            seat = position.seats()[0]
            if position.state.information_state_string(seat) != sample.data["information"]:
                yield f"{sample.id}: the course leads to another information set"

    # Playing

    def messages(self, sample: Sample) -> list[Message]:
        view, position = self._first_turn(sample)
        shown = self.plan.conduct.show_legal
        return list(text.prompt(view.skin, position, view.seat, view.legal, show_legal=shown))

    def _first_turn(self, sample: Sample) -> tuple[View, Position]:
        look, position = self._skin(sample), at(sample)
        [seat] = position.seats()
        return View(look, position, seat, look.legal(position, seat)), position

    def players(self) -> Mapping[str, PlayerFactory]:
        from .policy_players import PLAYERS

        return PLAYERS

    def turns(self, sample: Sample) -> float:
        return super().turns(sample) / self._skin(sample).game.turns

    def lineup(self, sample: Sample) -> tuple[str, ...]:
        return ("model",)

    async def rollout(self, sample: Sample, players: Sequence[Player], rng: Streams) -> Outcome:
        query = Query(self._skin(sample), sample, [self._agent(players[0])], rng, self.plan.conduct)
        return await query.play()

    # Reporting

    def metrics(self, records: Iterable[Record]) -> list[Metric]:
        from .policy_metrics import summarise

        return summarise(self.plan, records)


class Query(Episode):
    """One decision at one information set. ``Outcome.data``: ``information``, the ``action`` that
    was chosen (None: given up) and its ``worth``, from the worst (0) to the best (1) legal action
    against a random opponent, with best play afterwards."""

    async def play(self) -> Outcome:
        self.position = at(self.sample)
        [seat] = self.position.seats()
        self.players = [self.players[0]] * 2
        decision = await self._turn(seat)
        data = self.sample.data
        return Outcome(
            tuple(decision.replies),
            OK if decision.action is not None else decision.cls,
            data={
                "game": data["game"],
                "variant": data["variant"],
                "information": data["information"],
                "seat": seat,
                "action": decision.action,
                "attempts": decision.attempts,
                "worth": worth(data["game"], seat, data["information"], decision.action),
            },
        )


def samples(plan: Plan, queries: int) -> Iterator[Sample]:
    """All queries of all information sets with a choice."""
    ordinal = 0
    for query in range(queries):
        for key in plan.games:
            for side in build(key).sides:
                for i, name in enumerate(side.names):
                    if len(side.actions[i]) < 2:
                        continue
                    for variant in plan.variants:
                        yield _sample(key, name, side.example[i], query, variant, ordinal)
                        ordinal += 1


def _sample(
    key: str, name: str, course: tuple[int, ...], query: int, variant: str, ordinal: int
) -> Sample:
    tail = "" if variant == "plain" else f"/{variant}"
    return Sample(
        id=f"{key}{tail}/{name}/{query}",
        split="test",
        data={
            "game": key,
            "information": name,
            "course": list(course),
            "query": query,
            "variant": variant,
            "seed": 0,
            "opening": [],
        },
        group=key + tail,
        cluster=f"{key}{tail}/{name}",
        canonical=f"{key}/{name}",
        ordinal=ordinal,
    )


def at(sample: Sample) -> SpielPosition:
    """The position of a sample, after its course."""
    key = sample.data["game"]
    return replayed(key, sample.data["course"])


def replayed(key: str, course: Sequence[int]) -> SpielPosition:
    """A position after chance events and moves, in OpenSpiel's numbers."""
    game = load(skin(key, "plain").game.spiel)
    position = SpielPosition.__new__(SpielPosition)
    Position.__init__(position, 0)
    position.key, position.streams, position.rolls = key, Streams(0), []
    position.state = game.new_initial_state()
    for action in course:
        if position.state.is_chance_node():
            position.rolls.append(action)
        else:
            position.moves.append((int(position.state.current_player()), action))
        position.state.apply_action(action)
    return position


def worth(key: str, seat: int, information: str, action: int | None) -> float:
    """How good an action is against a random opponent, in [0, 1]; giving up is 0.

    0 is the worst legal action, 1 the best, both with best play afterwards; 1 where all are alike.
    """
    if action is None:
        return 0.0
    side = build(key).sides[seat]
    i = side.place[information]
    first, actions = side.start[i], side.actions[i]
    values = against_random(key, seat)[first : first + len(actions)]
    least, most = min(values), max(values)
    if most - least < 1e-12:
        return 1.0
    return (values[actions.index(action)] - least) / (most - least)


_VALUES: dict[tuple[str, int], list[float]] = {}


def against_random(key: str, seat: int) -> list[float]:
    """The value of each sequence of a seat against a random opponent, chance multiplied in."""
    if (key, seat) not in _VALUES:
        tree = build(key)
        other = tree.sides[1 - seat]
        gains = tree.gains(seat, other.plan(other.uniform()))
        _VALUES[key, seat] = [float(v) for v in tree.sides[seat].backward(gains, None)[1]]
    return _VALUES[key, seat]
