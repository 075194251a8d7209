"""Reference players: they read the position, not the prompt.

``random`` plays a random legal move (the floor), ``oracle`` a best one where that is computed (the
ceiling), ``constant`` always the first legal one, ``empty`` says nothing at all.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from harness.player import Player, PlayerFactory, Seat
from harness.seeds import derive
from harness.types import HarnessError, Reply, Turn

from .adapters import adapter
from .episode import View

GREETING = "I wish us both a good game."


class Reference(Player):
    """A player of the task: ``choose`` gives a move for a view and a generator of the turn."""

    reads_messages = False

    def __init__(self, seed: int, choose: Callable[[View, random.Random], str]) -> None:
        self.seed = seed
        self.choose = choose

    async def act(self, turn: Turn) -> Reply:
        view: View = turn.state
        if view.adapter.talking(view.session.env):
            return Reply(GREETING)
        seed = derive(self.seed, turn.seat, turn.number, turn.attempt)
        return Reply(self.choose(view, random.Random(seed)))


def players() -> Mapping[str, PlayerFactory]:
    """The reference players by name."""
    return {
        "random": lambda seat: Reference(_seed(seat, "random"), _listed(seat, _random)),
        "oracle": lambda seat: Reference(_seed(seat, "oracle"), _oracle(seat)),
        "constant": lambda seat: Reference(_seed(seat, "constant"), _listed(seat, _first)),
        "empty": lambda seat: _Silent(),
    }


class _Silent(Player):
    async def act(self, turn: Turn) -> Reply:
        return Reply("")


def _seed(seat: Seat, name: str) -> int:
    return derive(seat.seed, name, seat.seat)


def _random(view: View, rng: random.Random) -> str:
    return view.adapter.guess(view.session.env, view.seat, rng)


def _first(view: View, rng: random.Random) -> str:
    legal = view.adapter.legal(view.session.env, view.seat)
    return legal[0] if legal else _random(view, random.Random(0))


def _best(view: View, rng: random.Random) -> str:
    return view.adapter.best(view.session.env, view.seat, rng)


def _listed(
    seat: Seat, choose: Callable[[View, random.Random], str]
) -> Callable[[View, random.Random], str]:
    name = seat.sample.data["env"]
    if not adapter(name).listed:
        raise HarnessError(
            f"{name} has no adapter, so there is no random baseline: only models can play it, as "
            "--model and as --opponent (games=all names the environments with an adapter)"
        )
    return choose


def _oracle(seat: Seat) -> Callable[[View, random.Random], str]:
    name = seat.sample.data["env"]
    if not adapter(name).oracle:
        raise HarnessError(f"{name}: best play is not computed, so it has no oracle")
    return _best
