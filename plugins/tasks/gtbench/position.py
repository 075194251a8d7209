"""A position: a running game that knows who moves, what is legal and how it ended.

Chance is not random here. Every chance event is drawn from a hash of (seed, game, number of the
event), so two episodes with the same seed get the same cards and dice whatever is played in
between, and a position can be rebuilt from its seed and its moves.

    position = SpielPosition("kuhn_poker", load("kuhn_poker"), seed=7)
    while not position.over:
        for seat in position.seats():
            print(seat, position.legal(seat))
        position.play({seat: 0 for seat in position.seats()})
    print(position.returns())
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from harness.seeds import Streams
from harness.types import HarnessError

CHANCE, SIMULTANEOUS, TERMINAL = -1, -2, -4
"""OpenSpiel's numbers for nodes where no single seat moves."""


class Position:
    """What every game library is wrapped as. ``moves`` holds (seat, action) in order."""

    __slots__ = ("moves", "seed")

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.moves: list[tuple[int, int]] = []

    @property
    def over(self) -> bool:
        """Whether the game has ended."""
        raise NotImplementedError

    def seats(self) -> tuple[int, ...]:
        """The seats that move now: one, or both at once."""
        raise NotImplementedError

    def legal(self, seat: int) -> list[int]:
        """The legal actions of a seat that moves now, in a fixed order."""
        raise NotImplementedError

    def play(self, actions: Mapping[int, int]) -> None:
        """Apply one action for each seat that moves, then all chance events that follow."""
        raise NotImplementedError

    def returns(self) -> tuple[float, float]:
        """What each seat has got."""
        raise NotImplementedError

    def chance(self) -> list[int]:
        """The chance outcomes so far, for the record."""
        return []

    def copy(self) -> Position:
        """An independent copy."""
        return copy.deepcopy(self)


class SpielPosition(Position):
    """A position of OpenSpiel."""

    __slots__ = ("key", "rolls", "state", "streams")

    def __init__(self, key: str, game: Any, seed: int) -> None:
        super().__init__(seed)
        self.key = key
        self.streams = Streams(seed)
        self.rolls: list[int] = []
        self.state = game.new_initial_state()
        self._settle()

    @property
    def over(self) -> bool:
        return bool(self.state.is_terminal())

    def seats(self) -> tuple[int, ...]:
        player = int(self.state.current_player())
        return (0, 1) if player == SIMULTANEOUS else (player,)

    def legal(self, seat: int) -> list[int]:
        return self.state.legal_actions(seat)  # type: ignore[no-any-return]

    def play(self, actions: Mapping[int, int]) -> None:
        if len(actions) == 1:
            [(seat, action)] = actions.items()
            self.moves.append((seat, action))
            self.state.apply_action(action)
        else:
            pair = [actions[0], actions[1]]
            self.moves.extend(enumerate(pair))
            self.state.apply_actions(pair)
        self._settle()

    def returns(self) -> tuple[float, float]:
        first, second = self.state.returns()
        return (float(first), float(second))

    def chance(self) -> list[int]:
        return list(self.rolls)

    def copy(self) -> SpielPosition:
        twin = object.__new__(type(self))
        twin.seed, twin.key, twin.streams = self.seed, self.key, self.streams
        twin.moves, twin.rolls = list(self.moves), list(self.rolls)
        twin.state = self.state.clone()
        return twin

    def _settle(self) -> None:
        while self.state.is_chance_node():
            outcome = pick(
                self.state.chance_outcomes(),
                self.streams.uniform(self.key, len(self.rolls)),
            )
            self.rolls.append(outcome)
            self.state.apply_action(outcome)


def pick(outcomes: list[tuple[int, float]], number: float) -> int:
    """The outcome at a place in [0, 1) of the cumulated probabilities.

    >>> pick([(4, 0.5), (7, 0.5)], 0.6)
    7
    """
    for outcome, probability in outcomes:
        number -= probability
        if number < 0.0:
            return int(outcome)
    return int(outcomes[-1][0])


@lru_cache(maxsize=64)
def load(name: str) -> Any:
    """An OpenSpiel game by its name with parameters; games never change and are shared."""
    try:
        import pyspiel
    except ImportError:
        raise HarnessError(
            "gtbench plays on OpenSpiel, which is missing: pip install 'open_spiel==2.0.2'"
        ) from None
    if name.startswith("python_"):
        import open_spiel.python.games  # noqa: F401  # registers the games written in Python
    return pyspiel.load_game(name)
