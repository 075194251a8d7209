"""What random play gets against random play: the figure beside every score.

Computed once for each game and opening by playing it out, and kept in the cache folder. Games of
OpenSpiel that move in turn are played by its C++ bots, 50,000 to 200,000 episodes a second.

    random_play("kuhn_poker", 0).win[0]      # 0.56: the first seat wins
"""

from __future__ import annotations

import json
import os
from collections import Counter
from functools import cache
from statistics import fmean, pstdev
from typing import Any, NamedTuple

from harness.paths import cache_dir
from harness.seeds import Streams, derive

from .deals import random_moves
from .games import game, skin
from .games.negotiation import Negotiation
from .opponents import best_response
from .position import Position, SpielPosition

VERSION = 3
EPISODES = {"prisoners_dilemma": 3000, "limit-holdem": 2000, "leduc-holdem": 2000, "uno": 400}
EPISODES_IN_C = {"connect4": 8_000, "breakthrough": 8_000, "negotiation": 5_000}
MOST = 20_000
"""Episodes of the other games; the standard error of a rate is at most 0.0036 there."""


class Baseline(NamedTuple):
    """Rates, mean payoffs and standard deviations of payoffs by seat, over some episodes."""

    episodes: int
    win: tuple[float, float]
    draw: float
    payoff: tuple[float, float]
    spread: tuple[float, float]


@cache
def random_play(key: str, opening: int) -> Baseline:
    """Random against random after ``opening`` random moves, from the cache or computed."""
    path = cache_dir("gtbench") / f"random-{key}-{opening}-v{VERSION}.json"
    if path.exists():
        episodes, win, draw, payoff, spread = json.loads(path.read_text())
        return Baseline(episodes, tuple(win), draw, tuple(payoff), tuple(spread))
    found = measure(key, opening, EPISODES.get(key) or EPISODES_IN_C.get(key, MOST))
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    draft.write_text(json.dumps(found))
    draft.replace(path)
    return found


def measure(key: str, opening: int, episodes: int) -> Baseline:
    """Play it out."""
    rules, results = game(key), Counter[int]()
    payoffs: tuple[list[float], list[float]] = ([], [])
    bots = None if key in EPISODES else _bots()
    for episode in range(episodes):
        seed = derive("baseline", key, opening, episode)
        position = _start(key, opening, seed)
        returns = _in_python(position, seed) if bots is None else _in_c(position, bots, seed)
        results[(returns[0] > returns[1]) - (returns[0] < returns[1])] += 1
        for seat, most in enumerate(rules.scale(position)):
            payoffs[seat].append(rules.payoff(returns[seat], most))
    return Baseline(
        episodes,
        (results[1] / episodes, results[-1] / episodes),
        results[0] / episodes,
        (fmean(payoffs[0]), fmean(payoffs[1])),
        (pstdev(payoffs[0]), pstdev(payoffs[1])),
    )


def _start(key: str, opening: int, seed: int) -> Position:
    plain = skin(key, "plain")
    position = plain.game.start(seed)
    if opening:
        draws = (random_moves(key, opening, Streams(derive(seed, n))) for n in range(10_000))
        for move in next(moves for moves in draws if moves is not None):
            plain.act(position, position.seats()[0], move)
    return position


def _bots() -> list[Any]:
    import pyspiel

    return [pyspiel.make_uniform_random_bot(seat, 1 + seat) for seat in (0, 1)]


def _in_c(position: Position, bots: list[Any], seed: int) -> tuple[float, float]:
    import pyspiel

    assert isinstance(position, SpielPosition)
    first, second = pyspiel.evaluate_bots(position.state.clone(), bots, seed % 2**31)
    return (float(first), float(second))


def _in_python(position: Position, seed: int) -> tuple[float, float]:
    streams, number = Streams(seed), 0
    while not position.over:
        actions = {}
        for seat in position.seats():
            legal = position.legal(seat)
            actions[seat] = legal[streams.below(len(legal), "move", seat, number)]
        position.play(actions)
        number += 1
    return position.returns()


@cache
def ceiling(key: str) -> float:
    """The mean payoff of a best response to random play in a general-sum game, exact but for
    negotiation's average over deals."""
    if key == "first_sealed_auction":
        return best_response.auction_value()
    if key == "prisoners_dilemma":
        return best_response.dilemma_value()
    assert key == Negotiation.key
    return best_response.negotiation_value()
