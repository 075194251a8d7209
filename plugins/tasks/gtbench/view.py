"""What a seat may know of a position: the state that reference players and searches get.

Where information is hidden, a view never hands out the running game, only worlds: copies in which
all that the seat cannot see has been dealt anew, so that no opponent can look at cards.

    view = View(skin, position, seat)
    view.legal                    # {"Pass": 0, "Bet": 1}
    view.world(rng).state         # an OpenSpiel state that agrees with all that the seat knows
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from .game import Game, Skin
from .games.auction import VALUES
from .games.liars_dice import FACES
from .games.negotiation import KINDS, NegotiationPosition
from .position import Position, SpielPosition


class View:
    """A position seen from a seat. ``legal`` maps canonical texts to actions."""

    __slots__ = ("_position", "legal", "seat", "skin")

    def __init__(self, skin: Skin, position: Position, seat: int, legal: dict[str, int]) -> None:
        self.skin = skin
        self.seat = seat
        self.legal = legal
        self._position = position

    @property
    def game(self) -> Game:
        """The game that is played."""
        return self.skin.game

    @property
    def moves(self) -> list[tuple[int, int]]:
        """The moves that the seat has seen: (seat, action)."""
        if self.game.key == "first_sealed_auction":
            return []
        return list(self._position.moves)

    def open_position(self) -> Position:
        """The position itself, in games where nothing is hidden."""
        if self.game.hidden:
            raise PermissionError(f"{self.game.key} hides information: ask for a world")
        return self._position

    def private(self) -> int:
        """The one card, die or value that the seat was dealt (as OpenSpiel numbers it)."""
        return self._position.chance()[self.seat]

    def information(self) -> str:
        """OpenSpiel's text of all that the seat knows."""
        assert isinstance(self._position, SpielPosition)
        return str(self._position.state.information_state_string(self.seat))

    def negotiation(self) -> NegotiationPosition:
        """A negotiation in which the opponent's values are unknown (all 0)."""
        assert isinstance(self._position, NegotiationPosition)
        return self._position.with_values(1 - self.seat, (0,) * KINDS)

    def world(self, rng: Random) -> SpielPosition:
        """A copy in which what the seat cannot see is drawn anew, given what it can see."""
        position = self._position
        assert isinstance(position, SpielPosition)
        deal = _DEALS.get(self.game.key)
        return position.copy() if deal is None else deal(position, self.seat, rng)


def _kuhn(position: SpielPosition, seat: int, rng: Random) -> SpielPosition:
    own = position.rolls[seat]
    other = rng.choice([card for card in range(3) if card != own])
    return redealt(position, seat, other)


def _dice(position: SpielPosition, seat: int, rng: Random) -> SpielPosition:
    return redealt(position, seat, rng.randrange(FACES))


def _auction(position: SpielPosition, seat: int, rng: Random) -> SpielPosition:
    # The opponent's value, and its bid if it has been made, are as a uniform bidder's.
    value = 1 + rng.randrange(VALUES)
    bids = [rng.randrange(value) for _ in position.moves]
    return redealt(position, seat, value, bids)


def _negotiation(position: SpielPosition, seat: int, rng: Random) -> SpielPosition:
    assert isinstance(position, NegotiationPosition)
    return position.with_values(1 - seat, tuple(rng.randrange(11) for _ in range(KINDS)))


_DEALS: dict[str, Callable[[SpielPosition, int, Random], SpielPosition]] = {
    "kuhn_poker": _kuhn,
    "liars_dice": _dice,
    "first_sealed_auction": _auction,
    "negotiation": _negotiation,
}


def redealt(
    position: SpielPosition, seat: int, other: int, actions: list[int] | None = None
) -> SpielPosition:
    """The same course of play (or other actions), had the opponent been dealt ``other``."""
    own = position.rolls[seat]
    deal = [own, other] if seat == 0 else [other, own]
    played = [action for _, action in position.moves] if actions is None else actions
    twin = position.copy()
    twin.state = position.state.get_game().new_initial_state()
    twin.rolls = deal
    twin.moves = [(mover, a) for (mover, _), a in zip(position.moves, played, strict=True)]
    for event in [*deal, *played]:
        twin.state.apply_action(event)
    return twin
