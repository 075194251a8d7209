"""Helpers of the game tests: an own cache, positions by moves, episodes without an engine."""

from __future__ import annotations

import asyncio

import pytest

from harness.player import Player, Seat
from harness.seeds import Streams, derive
from harness.types import Reply
from harness_plugins.tasks.gtbench.games import skin
from harness_plugins.tasks.gtbench.task import GTBench
from harness_plugins.tasks.gtbench.text import prompt


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setenv("HARNESS_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


class Saying(Player):
    """A stand-in for a model: says the given texts in turn (the last one for ever)."""

    def __init__(self, *texts, finish_reason="stop"):
        self.texts = list(texts)
        self.finish_reason = finish_reason
        self.turns = []

    async def act(self, turn):
        self.turns.append(turn)
        text = self.texts[min(len(self.turns), len(self.texts)) - 1]
        text = text(turn) if callable(text) else text
        return Reply(text, finish_reason=self.finish_reason)


@pytest.fixture
def saying():
    """The class of the stand-in."""
    return Saying


@pytest.fixture
def play():
    """``play(key, moves, seed)``: a position after moves given by their texts."""

    def play(key, moves=(), seed=0, variant="plain"):
        look = skin(key, variant)
        position = look.game.start(seed)
        for move in moves:
            look.act(position, position.seats()[0], move)
        return position

    return play


@pytest.fixture
def told():
    """``told(key, position, seat)``: the user message that a seat is shown."""

    def told(key, position, seat, variant="plain", **more):
        look = skin(key, variant)
        legal = look.legal(position, seat) if seat in position.seats() else {}
        return prompt(look, position, seat, legal, **more)[1].content

    return told


@pytest.fixture
def roll():
    """``roll(options, model, opponent)``: (sample, outcome) of each episode, one after another.

    Players are names of reference players or functions from a seat to a player.
    """

    def roll(options, model="random", opponent="random", seed=0, split="test", repeat=0):
        task = GTBench(options)
        named = task.players()

        async def all_of_them():
            found = []
            for sample in task.samples(split):
                start = derive(seed, sample.id, repeat)
                players = []
                for place, who in enumerate(task.lineup(sample)):
                    chosen = model if who == "model" else opponent
                    factory = named[chosen] if isinstance(chosen, str) else chosen
                    players.append(factory(Seat(task, sample, place, start)))
                found.append((sample, await task.rollout(sample, players, Streams(start))))
            return found

        return asyncio.run(all_of_them())

    return roll
