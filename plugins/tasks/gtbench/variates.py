"""Control variates: the luck of cards, dice and of opponents with known policies taken out.

For an episode against an opponent whose policy is known, what happens between two decisions of the
model is a known lottery. With values V of the model's information sets under some guess of its play
and Q(I, a) the mean value after action a at I,

    estimate = V(start) + sum over the model's decisions of Q(I, a) - V(I)

has the same mean as the return, whatever the model's true policy, because what is left out has mean
zero: (return or V(next) - Q(I, a)) given I and a. That is AIVAT (Burch et al., AAAI 2018) with one
player's policy known and all chance, the opponent's hand included, averaged. How much variance goes
depends on the guess; that the mean stays does not.

Kuhn poker, liar's dice and the auction, against random or the equilibrium: the guess is the model's
own play in other episodes. Tic-tac-toe and nim, against random: the guess is random play, and
V(start) is that of the opening.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from harness.player import Player
from harness.seeds import derive
from harness.stats import mean_metric
from harness.types import Json, Metric

from .course import Course
from .games import game
from .opponents import PolicyPlayer, RandomPlayer, cfr
from .policy_solve import equilibrium
from .policy_tree import Array, build
from .replay import steps

RANDOM, EQUILIBRIUM = "random", "equilibrium"
FOLDS = 5
HIDDEN = ("kuhn_poker", "liars_dice", "first_sealed_auction")
OPEN = ("tictactoe", "nim")


def known(player: Player) -> str:
    """The name of a player's policy where it is one of ours and stochastic; else ""."""
    if isinstance(player, RandomPlayer):
        return RANDOM
    if isinstance(player, PolicyPlayer) and player.choose is cfr.choose:
        return EQUILIBRIUM
    return ""


class Values(NamedTuple):
    """Of one seat against a known policy: the value of the start, of each information set (its
    index), and of each sequence (given that its information set was reached)."""

    start: float
    sets: Array
    sequences: Array


def values(key: str, seat: int, opponent: str, guess: Array | None = None) -> Values:
    """The values under a guess of the seat's play, (sequences,); None: random. Exact, from the
    game's tree."""
    tree = build(key)
    own, other = tree.sides[seat], tree.sides[1 - seat]
    plan = other.plan(_policy(key, 1 - seat, opponent))
    guess = own.uniform() if guess is None else guess
    start, totals = own.backward(tree.gains(seat, plan), guess)
    # Giving up ends the game in every position of an information set: what leads there adds up to
    # the chance that cards and the opponent bring it about.
    chance, first, second, _ = tree.endings
    mine, theirs = (first, second) if seat == 0 else (second, first)
    reach = np.bincount(mine, chance * plan[theirs], minlength=own.size)
    sets: Array = np.zeros(len(own.names))
    sequences: Array = np.zeros(own.size)
    for members, places in own.blocks:
        arrived = reach[places[:, -1]]
        safe = np.where(arrived > 0, arrived, 1.0)
        sequences[places] = totals[places] / safe[:, None]
        sets[members] = (guess[places] * sequences[places]).sum(1)
    return Values(float(start), sets, sequences)


@cache
def _policy(key: str, seat: int, name: str) -> Array:
    side = build(key).sides[seat]
    return side.uniform() if name == RANDOM else side.policy(equilibrium(key).table)


def guessed(key: str, seat: int, episodes: Iterable[Mapping[str, Json]]) -> Array:
    """The model's play as these episodes show it: frequencies, with one decision's worth of random
    play at each information set."""
    side = build(key).sides[seat]
    counts = side.uniform()
    for data in episodes:
        if data["model_seat"] == seat:
            for i, place in decided(data):
                counts[side.start[i] + place] += 1.0
    for _, places in side.blocks:
        counts[places] /= counts[places].sum(1, keepdims=True)
    return counts


def decided(data: Mapping[str, Json]) -> Iterator[tuple[int, int]]:
    """The model's decisions: information set and place of the action (the last one: gave up)."""
    seat = data["model_seat"]
    side = build(data["game"]).sides[seat]
    for step in steps(data):
        if step.seat == seat:
            i = side.place[str(step.position.state.information_state_string(seat))]
            actions = side.actions[i]
            yield i, len(actions) if step.action is None else actions.index(step.action)


def estimates(episodes: Sequence[tuple[str, Mapping[str, Json]]]) -> list[float | None]:
    """The model's return in each episode (cluster and `Outcome.data`) of a game with the luck taken
    out; None where there is no variate for the game and opponent.

    The guess of the model's play is made from the other folds of the clusters: from an episode's
    own fold it would not be independent of its luck.
    """
    found: list[float | None] = [None] * len(episodes)
    hidden: dict[tuple[int, str], list[int]] = {}
    for k, (_, data) in enumerate(episodes):
        opponent = str(data.get("opponent", ""))
        if data["game"] in HIDDEN and opponent:
            hidden.setdefault((data["model_seat"], opponent), []).append(k)
        elif data["game"] in OPEN and opponent == RANDOM:
            found[k] = _open(data)
    for (seat, opponent), members in hidden.items():
        key = episodes[members[0]][1]["game"]
        folds = {k: derive("fold", episodes[k][0]) % FOLDS for k in members}
        for fold in range(FOLDS):
            others = (episodes[k][1] for k in members if folds[k] != fold)
            table = values(key, seat, opponent, guessed(key, seat, others))
            for k in members:
                if folds[k] == fold:
                    found[k] = estimate(episodes[k][1], table)
    return found


def estimate(data: Mapping[str, Json], table: Values) -> float:
    """The estimate of one episode."""
    start = build(data["game"]).sides[data["model_seat"]].start
    gains = (table.sequences[start[i] + place] - table.sets[i] for i, place in decided(data))
    return table.start + float(sum(gains))


def _open(data: Mapping[str, Json]) -> float:
    seat, total = data["model_seat"], None
    for step in steps(data):
        if total is None:
            total = random_value(data["game"], step.position.state, seat)
        if step.seat == seat:
            before = random_value(data["game"], step.position.state, seat)
            if step.action is None:
                after = -game(data["game"]).top
            else:
                after = random_value(data["game"], step.position.state.child(step.action), seat)
            total += after - before
    assert total is not None
    return total


_MEANS: dict[tuple[str, str, int], float] = {}


def random_value(key: str, state: Any, seat: int) -> float:
    """What a seat gets on average from a position where both play at random."""
    if state.is_terminal():
        return float(state.returns()[seat])
    place = (key, f"{state}/{state.current_player()}", seat)
    if place not in _MEANS:
        children = (state.child(action) for action in state.legal_actions())
        _MEANS[place] = fmean(random_value(key, child, seat) for child in children)
    return _MEANS[place]


def figures(
    group: str,
    episodes: Sequence[tuple[str, Mapping[str, Json], Course]],
    scaled: Any,
) -> list[Metric]:
    """``return.aivat`` of one game, and ``aivat.saving``: how many times fewer pairs it needs."""
    adjusted, plain, clusters = [], [], []
    taken = estimates([(cluster, data) for cluster, data, _ in episodes])
    for (cluster, data, course), own in zip(episodes, taken, strict=True):
        if own is None:
            continue
        rules = game(data["game"])
        adjusted.append(scaled(rules.payoff(own, data["scale"][data["model_seat"]])))
        plain.append(scaled(course.payoff))
        clusters.append(cluster)
    if len(adjusted) < 2:
        return []
    note = "the return with the luck of chance and opponent taken out; same mean"
    found = [mean_metric("return.aivat", adjusted, clusters, group, note)]
    before, after = _spread(plain, clusters), _spread(adjusted, clusters)
    if after > 1e-12 and len(set(clusters)) > 1:
        note = "variance over pairs of the return, over that of return.aivat"
        found.append(
            Metric("aivat.saving", before / after, n=len(plain), clusters=len(set(clusters)),
                   group=group, note=note)
        )  # fmt: skip
    return found


def _spread(numbers: Sequence[float], clusters: Sequence[str]) -> float:
    """The variance of means of clusters."""
    sums: dict[str, list[float]] = {}
    for number, cluster in zip(numbers, clusters, strict=True):
        sums.setdefault(cluster, []).append(number)
    means = [fmean(v) for v in sums.values()]
    return float(np.var(means, ddof=1)) if len(means) > 1 else 0.0
