"""Rock, paper, scissors over several rounds: who remembers, wins.

One sample: 10 rounds, the model in the first seat. Both choose at once; each is told the rounds so
far. The opponent copies what the model did last, so a model that notices wins every round but the
first, and one that does not gets what chance gives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

from harness import hookimpl
from harness.parsing import after_last, visible
from harness.player import FixedPlayer, Player, PlayerFactory, Seat
from harness.reward import Reward
from harness.seeds import Streams, derive
from harness.task import Task
from harness.types import (
    OK,
    UNPARSED,
    Decoding,
    HarnessError,
    Json,
    Message,
    Move,
    Outcome,
    Parsed,
    Reply,
    Sample,
    Score,
    Turn,
)

MOVES = ("rock", "paper", "scissors")
BEATS = {"rock": "scissors", "paper": "rock", "scissors": "paper"}
BEATEN_BY = {loser: winner for winner, loser in BEATS.items()}

Rounds = Sequence[tuple[str, str]]
"""The rounds so far: what the first and the second seat chose."""


class RpsMemory(Task):
    """Rock, paper, scissors with memory."""

    name = "rps-memory"
    version = "1"
    reward = "rps-memory"
    splits = ("test",)
    seats = 2
    default_opponent = "copycat"
    decoding = Decoding(max_tokens=128)

    def samples(self, split: str) -> Iterable[Sample]:
        if split not in (*self.splits, "all"):
            raise HarnessError(f"rps-memory has no split {split!r}")
        if int(self.option("rounds")) < 1:
            raise HarnessError("rounds must be at least 1")
        for i in range(2 * int(self.option("pairs"))):
            pair, seat = divmod(i, 2)
            yield Sample(
                id=f"rps-{pair}-{'first' if seat == 0 else 'second'}",
                split="test",
                data={"model_seat": seat, "rounds": int(self.option("rounds"))},
                group="first" if seat == 0 else "second",
                cluster=f"pair-{pair}",
                ordinal=i,
            )

    def lineup(self, sample: Sample) -> tuple[str, ...]:
        return ("model", "opponent") if sample.data["model_seat"] == 0 else ("opponent", "model")

    def turns(self, sample: Sample) -> float:
        return float(sample.data["rounds"])

    def prompt(self, seat: int, rounds: Rounds, total: int) -> tuple[Message, ...]:
        """The rules, and every round so far as this seat saw it."""
        lines = [
            f"You play rock, paper, scissors against the same player for {total} rounds.",
            *(
                f"Round {n}: you {pair[seat]}, the other player {pair[1 - seat]}."
                for n, pair in enumerate(rounds, 1)
            ),
            f'Round {len(rounds) + 1}: what do you choose? End with a line "ANSWER: <move>".',
        ]
        return (Message("user", "\n".join(lines)),)

    def parse(self, sample: Sample, reply: Reply) -> Parsed:
        words = (after_last(visible(reply.text), "answer:") or "").strip(" *<>.\n").lower().split()
        word = words[0].strip("*<>.,!") if words else ""
        return Parsed(word, OK) if word in MOVES else Parsed(None, UNPARSED)

    async def rollout(self, sample: Sample, players: Sequence[Player], rng: Streams) -> Outcome:
        """Both choose at once in each round. A reply without a move loses the match."""
        total = int(sample.data["rounds"])
        rounds, moves = list[tuple[str, str]](), list[Move]()
        for number in range(total):
            asked = (
                Turn(seat, self.prompt(seat, rounds, total), MOVES, state=rounds, number=number)
                for seat in (0, 1)
            )
            both = await asyncio.gather(
                *(self.ask(players[turn.seat], turn, sample) for turn in asked)
            )
            moves += both
            if any(move.cls != OK for move in both):
                return self.forfeited(sample, moves, both)
            rounds.append((both[0].parsed, both[1].parsed))
        won = sum((BEATS[a] == b) - (BEATS[b] == a) for a, b in rounds) / total
        return Outcome(tuple(moves), OK, (won, -won), {"rounds": [list(pair) for pair in rounds]})

    def forfeited(self, sample: Sample, moves: list[Move], last: Sequence[Move]) -> Outcome:
        """Who said no move has lost; the class tells the model's fault only."""
        own = last[int(sample.data["model_seat"])].cls
        returns = tuple(-1.0 if move.cls != OK else 1.0 for move in last)
        return Outcome(tuple(moves), own, returns, {"rounds": []})

    def players(self) -> Mapping[str, PlayerFactory]:
        return {
            "random": player(lambda own, other, draw: draw),
            "copycat": player(lambda own, other, draw: other[-1] if other else draw),
            # The best reply to the copycat: beat what oneself did last.
            "oracle": player(lambda own, other, draw: BEATEN_BY[own[-1]] if own else draw),
            "constant": player(lambda own, other, draw: "rock"),
        }


def player(choose: Callable[[list[str], list[str], str], str]) -> PlayerFactory:
    """A player that chooses by its own moves so far, the other's, and a draw of the turn."""

    def make(seat: Seat) -> Player:
        def say(turn: Turn) -> str:
            own = [pair[seat.seat] for pair in turn.state]
            other = [pair[1 - seat.seat] for pair in turn.state]
            draw = MOVES[derive(seat.seed, seat.seat, turn.number) % len(MOVES)]
            return f"ANSWER: {choose(own, other, draw)}"

        return FixedPlayer(say)

    return make


class RpsMemoryReward(Reward):
    """The return of the model's seat, from -1 to 1, moved to [0, 1]."""

    name = "rps-memory"
    version = "1"

    def score(self, sample: Sample, outcome: Outcome) -> Score:
        won = outcome.returns[sample.data["model_seat"]]
        return Score((1 + won) / 2, {"forfeit": float(outcome.cls != OK)}, {"margin": won})


@hookimpl
def create_task(name: str, options: Mapping[str, Json]) -> Task:
    """Called when a run names the task."""
    return RpsMemory(options)


@hookimpl
def create_reward(name: str, options: Mapping[str, Json]) -> Reward:
    """Called when a run names the reward, or the task that it belongs to."""
    return RpsMemoryReward(options)
