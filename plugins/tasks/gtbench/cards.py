"""Positions of rlcard's card games, played on its game objects.

rlcard's environments encode every state as arrays and reach for numpy's global generator in
places; the game objects below them do neither. Each position owns a generator made from its seed:
the order of the deck is fixed when the position starts, whatever is played.

    position = CardPosition("limit-holdem", seed=7)
    position.table().hand       # what the seat to move holds
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from harness.types import HarnessError

from .position import Position


class CardPosition(Position):
    """A position of one of rlcard's games: ``module`` and ``actions`` say which."""

    module: ClassVar[str] = ""
    actions: ClassVar[tuple[str, ...]] = ()
    limit: ClassVar[int] = 10_000

    __slots__ = ("core",)

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        import_rlcard()
        import numpy

        self.core = importlib.import_module(self.module).Game()
        self.core.np_random = numpy.random.RandomState(seed % 2**32)
        self.core.init_game()

    @property
    def over(self) -> bool:
        return len(self.moves) >= self.limit or bool(self.core.is_over())

    def seats(self) -> tuple[int, ...]:
        return (int(self.core.get_player_id()),)

    def legal(self, seat: int) -> list[int]:
        return sorted({self.actions.index(name) for name in self.core.get_legal_actions()})

    def play(self, actions: Mapping[int, int]) -> None:
        [(seat, action)] = actions.items()
        self.moves.append((seat, action))
        self.core.step(self.actions[action])

    def returns(self) -> tuple[float, float]:
        first, second = self.core.get_payoffs()
        return (float(first), float(second))


class BettingPosition(CardPosition):
    """Hold'em games: returns in chips (rlcard counts in big blinds), and when cards were shown."""

    actions = ("fold", "check", "call", "raise")
    __slots__ = ("dealt",)

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.dealt: list[int] = []

    def play(self, actions: Mapping[int, int]) -> None:
        before = self.core.round_counter
        super().play(actions)
        if self.core.round_counter > before:
            self.dealt.append(len(self.moves))

    def returns(self) -> tuple[float, float]:
        first, second = super().returns()
        return (first * self.core.big_blind, second * self.core.big_blind)

    def table(self, seat: int) -> Table:
        """What a seat sees."""
        state = self.core.get_state(seat)
        hand = state["hand"]
        shown = state.get("public_cards", state.get("public_card"))
        return Table(
            hand=tuple([hand] if isinstance(hand, str) else hand),
            board=tuple([shown] if isinstance(shown, str) else shown or ()),
            chips=tuple(int(player.in_chips) for player in self.core.players),
        )


class Table(NamedTuple):
    """Own cards, public cards (suit letter, then rank) and the chips each seat has put in."""

    hand: tuple[str, ...]
    board: tuple[str, ...]
    chips: tuple[int, ...]


RANKS = {
    "A": "ace", "K": "king", "Q": "queen", "J": "jack", "T": "10",
}  # fmt: skip
SUITS = {"S": "spades", "H": "hearts", "D": "diamonds", "C": "clubs"}


def card(name: str) -> str:
    """A card in words.

    >>> card("HQ")
    'queen of hearts'
    """
    suit, rank = name[0], name[1]
    return f"{RANKS.get(rank, rank)} of {SUITS[suit]}"


def cards(names: tuple[str, ...]) -> str:
    """Cards in words, separated by commas."""
    return ", ".join(map(card, names))


def import_rlcard() -> Any:
    """rlcard, or an error that says how to get it."""
    try:
        import rlcard
    except ImportError:
        raise HarnessError(
            "limit-holdem, leduc-holdem and uno need rlcard: pip install 'strategic-harness[cards]'"
        ) from None
    return rlcard
