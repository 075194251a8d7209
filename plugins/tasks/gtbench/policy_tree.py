"""A game's tree in sequence form: what policies are worth, exactly, many policies at once.

A sequence of a seat is an information set and an action taken there; sequence 0 is the start. Each
ending of the game is one number: chance probability times pay-off, at the pair of last sequences
of both seats. A policy is an array of probabilities over the sequences of a seat, and its
realisation plan the product along each path, so an expected value is a bilinear form and a best
response a pass from the last information sets to the first (Koller, Megiddo and von Stengel, 1996).

    tree = build("kuhn_poker")
    uniform = [side.uniform() for side in tree.sides]
    tree.value(uniform[0], uniform[1], 0)      # 0.125

Every information set has one sequence more than legal actions: giving up. It ends the game with
what a forfeit pays, so a model that names no legal move has exact values as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np
from scipy import sparse

from .games import game
from .position import Position, load

Array = np.ndarray[Any, Any]


@dataclass
class Side:
    """One seat: its information sets in the order in which they were found, and their sequences.

    Information set i has the sequences ``start[i]`` to ``start[i] + len(actions[i])``, the last of
    them giving up; ``parent[i]`` is the seat's sequence before it, ``depth[i]`` counts its own
    moves before it, ``example[i]`` is one course of play (chance included) that leads to it.
    """

    names: list[str] = field(default_factory=list)
    actions: list[tuple[int, ...]] = field(default_factory=list)
    example: list[tuple[int, ...]] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    size: int = 1

    @cached_property
    def place(self) -> Mapping[str, int]:
        """Information set by name."""
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def blocks(self) -> list[tuple[Array, Array]]:
        """Information sets with as many own moves before them and as many actions, first ones
        first: (information sets (m,), their sequences (m, actions + 1))."""
        groups: dict[tuple[int, int], list[int]] = {}
        for i, actions in enumerate(self.actions):
            groups.setdefault((self.depth[i], len(actions)), []).append(i)
        found = []
        for (_, count), members in sorted(groups.items()):
            starts = np.array([self.start[i] for i in members])
            found.append((np.array(members), starts[:, None] + np.arange(count + 1)))
        return found

    def uniform(self) -> Array:
        """Each legal action alike; (sequences,)."""
        policy: Array = np.ones(self.size)
        for _, places in self.blocks:
            policy[places[:, :-1]] = 1.0 / (places.shape[1] - 1)
            policy[places[:, -1]] = 0.0
        return policy

    def policy(self, table: Mapping[str, Mapping[int, float]]) -> Array:
        """A policy from action probabilities by information set; what is missing is uniform."""
        policy = self.uniform()
        for name, chances in table.items():
            i = self.place.get(name)
            if i is not None:
                first = self.start[i]
                for k, action in enumerate(self.actions[i]):
                    policy[first + k] = chances.get(action, 0.0)
        return policy

    def plan(self, policy: Array) -> Array:
        """Realisation plans of policies, (..., sequences)."""
        plan: Array = np.ones_like(policy)
        parents = np.array(self.parent)
        for members, places in self.blocks:
            plan[..., places] = policy[..., places] * plan[..., parents[members], None]
        return plan

    def legalised(self, policy: Array) -> Array:
        """The policy with random legal moves in place of giving up."""
        legal: Array = np.array(policy)
        for _, places in self.blocks:
            gone = legal[..., places[:, -1:]] / (places.shape[1] - 1)
            legal[..., places[:, :-1]] += gone
            legal[..., places[:, -1]] = 0.0
        return legal

    def backward(self, gains: Array, policy: Array | None) -> tuple[Array, Array]:
        """Values from the last information sets to the first.

        :param gains: (..., sequences) what endings pay at each last sequence, the other seat's plan
            and chance multiplied in.
        :param policy: (..., sequences) how the seat plays on; None: as is best, never giving up.
        :returns: the value at the start (...), and the total of each sequence (..., sequences).
        """
        total: Array = np.array(gains)
        parents = np.array(self.parent)
        for members, places in reversed(self.blocks):
            if policy is None:
                worth = total[..., places[:, :-1]].max(-1)
            else:
                worth = (total[..., places] * policy[..., places]).sum(-1)
            flat = total.reshape(-1, self.size)
            flat += _gather(parents[members], self.size, worth.reshape(-1, len(members)))
        return total[..., 0], total


def _gather(parents: Array, size: int, worth: Array) -> Array:
    """Sums of worths (batch, m) by parent sequence: (batch, size)."""
    m = len(parents)
    into = sparse.csr_array((np.ones(m), (parents, np.arange(m))), shape=(size, m))
    found: Array = (into @ worth.T).T
    return found


@dataclass(frozen=True)
class Tree:
    """A game's tree. ``payoffs[s]`` is the matrix (sequences of seat 0, of seat 1) of what seat s
    gets, chance multiplied in; ``squares`` that of the squared return of seat 0 and seat 1."""

    key: str
    sides: tuple[Side, Side]
    payoffs: tuple[Any, Any]
    squares: tuple[Any, Any]
    endings: tuple[Array, Array, Array, Array]
    """Chance, sequence of seat 0, sequence of seat 1 of each ending, and the returns (n, 2)."""

    def gains(self, seat: int, other: Array, squared: bool = False) -> Array:
        """What the endings pay a seat at each of its sequences, for plans (..., sequences) of the
        other seat."""
        matrix = (self.squares if squared else self.payoffs)[seat]
        flat = other.reshape(-1, other.shape[-1])
        found: Array = (matrix @ flat.T).T if seat == 0 else (matrix.T @ flat.T).T
        return found.reshape(*other.shape[:-1], -1)

    def value(self, first: Array, second: Array, seat: int) -> Array:
        """What a seat gets on average under policies of both; batches (..., sequences) go with
        single policies."""
        plans = [side.plan(p) for side, p in zip(self.sides, (first, second), strict=True)]
        found: Array = (self.gains(seat, plans[1 - seat]) * plans[seat]).sum(-1)
        return found

    def best(self, seat: int, other: Array) -> Array:
        """What a best response of a seat gets against policies of the other seat."""
        gains = self.gains(seat, self.sides[1 - seat].plan(other))
        return self.sides[seat].backward(gains, None)[0]

    def spread(self, first: Array, second: Array, seat: int) -> float:
        """The standard deviation of an episode's return to a seat."""
        plans = [side.plan(p) for side, p in zip(self.sides, (first, second), strict=True)]
        mean = float((self.gains(seat, plans[1 - seat]) * plans[seat]).sum())
        square = float((self.gains(seat, plans[1 - seat], True) * plans[seat]).sum())
        return float(np.sqrt(max(0.0, square - mean * mean)))


class _Dealt(Position):
    """Just the chance events: what a forfeit's returns are made of."""

    def __init__(self, rolls: Sequence[int]) -> None:
        super().__init__(0)
        self.rolls = list(rolls)

    def chance(self) -> list[int]:
        return self.rolls


class _Builder:
    def __init__(self, key: str) -> None:
        self.rules = game(key)
        self.sides = (Side(), Side())
        self.found: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self.chance: list[float] = []
        self.pairs: list[tuple[int, int]] = []
        self.returns: list[tuple[float, float]] = []

    def end(self, chance: float, last: tuple[int, int], returns: Sequence[float]) -> None:
        self.chance.append(chance)
        self.pairs.append(last)
        self.returns.append((float(returns[0]), float(returns[1])))

    def walk(
        self,
        state: Any,
        chance: float,
        last: tuple[int, int],
        rolls: tuple[int, ...],
        deep: tuple[int, int],
    ) -> None:
        if state.is_terminal():
            self.end(chance, last, state.returns())
            return
        if state.is_chance_node():
            for outcome, probability in state.chance_outcomes():
                after = state.child(outcome)
                self.walk(after, chance * probability, last, (*rolls, outcome), deep)
            return
        seat = int(state.current_player())
        side, i = self.sides[seat], self.place(state, seat, last[seat], deep[seat])
        gone = side.start[i] + len(side.actions[i])
        pays = self.rules.forfeit(_Dealt(rolls), [seat])
        self.end(chance, _with(last, seat, gone), pays)
        deeper = _with(deep, seat, deep[seat] + 1)
        for k, action in enumerate(side.actions[i]):
            self.walk(
                state.child(action), chance, _with(last, seat, side.start[i] + k), rolls, deeper
            )

    def place(self, state: Any, seat: int, parent: int, depth: int) -> int:
        name = str(state.information_state_string(seat))
        side, found = self.sides[seat], self.found[seat]
        if name not in found:
            found[name] = len(side.names)
            side.names.append(name)
            side.actions.append(tuple(map(int, state.legal_actions())))
            side.example.append(tuple(map(int, state.history())))
            side.start.append(side.size)
            side.parent.append(parent)
            side.depth.append(depth)
            side.size += len(side.actions[-1]) + 1
        return found[name]


def _with(pair: tuple[int, int], seat: int, value: int) -> tuple[int, int]:
    return (value, pair[1]) if seat == 0 else (pair[0], value)


@cache
def build(key: str) -> Tree:
    """The tree of a game (liar's dice: 0.3 million endings, some seconds; the others at once)."""
    builder = _Builder(key)
    builder.walk(load(game(key).spiel).new_initial_state(), 1.0, (0, 0), (), (0, 0))
    chance, returns = np.array(builder.chance), np.array(builder.returns)
    first, second = np.array(builder.pairs).T
    shape = (builder.sides[0].size, builder.sides[1].size)

    def matrix(values: Array) -> Any:
        return sparse.csr_array(sparse.coo_array((chance * values, (first, second)), shape=shape))

    return Tree(
        key,
        builder.sides,
        (matrix(returns[:, 0]), matrix(returns[:, 1])),
        (matrix(returns[:, 0] ** 2), matrix(returns[:, 1] ** 2)),
        (chance, first, second, returns),
    )
