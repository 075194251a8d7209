"""Search: worlds that agree with what a seat knows, the same moves again, threads that run."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from harness.player import Seat
from harness.types import Turn
from harness_plugins.tasks.gtbench.games import skin
from harness_plugins.tasks.gtbench.opponents import PLAYERS, search
from harness_plugins.tasks.gtbench.position import load
from harness_plugins.tasks.gtbench.task import GTBench
from harness_plugins.tasks.gtbench.view import View


@pytest.mark.parametrize("key", sorted(search.HIDDEN))
def test_worlds_agree_with_what_the_seat_knows_and_differ_in_the_rest(key):
    look, rng = skin(key, "plain"), Random(3)
    other = set()
    for seed in range(25):
        position = look.game.start(seed)
        while len(position.moves) < seed % 3 and not position.over:
            [seat] = position.seats()
            position.play({seat: rng.choice(position.legal(seat))})
        if position.over:
            continue
        [seat] = position.seats()
        view = View(look, position, seat, look.legal(position, seat))
        for _ in range(10):
            world = view.world(rng)
            same = "information_state_string"
            if key == "negotiation":
                same = "observation_string"
            know = [getattr(p.state, same)(seat) for p in (position, world)]
            assert know[0] == know[1]
            assert world.legal(seat) == position.legal(seat)
            other.add(str(world.state) == str(position.state))
    assert other == {True, False} or key == "negotiation"


def test_search_is_the_same_again_and_in_other_company():
    look = skin("connect4", "plain")
    task = GTBench({"games": ["connect4"], "pairs": 1})
    sample = next(iter(task.samples("test")))
    position = look.game.start(0)
    legal = look.legal(position, 0)
    turn = Turn(0, (), tuple(legal), None, View(look, position, 0, legal))

    async def moves(count):
        seats = [Seat(task, sample, 0, seed) for seed in range(count)]
        replies = await asyncio.gather(*(PLAYERS["mcts-200"](seat).act(turn) for seat in seats))
        return [reply.text for reply in replies]

    many = asyncio.run(moves(24))
    assert asyncio.run(moves(24)) == many
    assert asyncio.run(moves(5)) == many[:5]
    assert len(set(many)) > 1  # seeds matter


def test_search_lets_go_of_the_lock():
    """While a search runs, the event loop goes on."""
    state = load("connect_four").new_initial_state()

    async def ticks():
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(search.threads(), search.search, "connect4", [state], 40_000, 1)
        count = 0
        while not work.done():
            await asyncio.sleep(0.005)
            count += 1
        return count

    assert asyncio.run(ticks()) >= 10


def test_search_takes_wins_and_stops_losses(play):
    win = play("connect4", ["C1", "C7", "C1", "C7", "C1", "C6"])
    assert search.search("connect4", [win.state], 200, 0) == 0
    stop = play("connect4", ["C1", "C7", "C1", "C7", "C2", "C7"])
    assert search.search("connect4", [stop.state], 1000, 0) == 6


# Best responses
