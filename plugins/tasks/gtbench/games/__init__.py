"""The games by their keys.

>>> sorted(GAMES)[:3]
['breakthrough', 'connect4', 'first_sealed_auction']
"""

from __future__ import annotations

from functools import cache

from harness.types import HarnessError

from ..game import VARIANTS, Game, Skin
from .auction import Auction
from .breakthrough import Breakthrough
from .connect4 import ConnectFour
from .holdem import LeducHoldem, LimitHoldem
from .kuhn import KuhnPoker
from .leduc import LeducPoker
from .liars_dice import LiarsDice
from .matrix import MATRIX
from .negotiation import Negotiation
from .nim import Nim
from .pig import Pig
from .prisoners_dilemma import PrisonersDilemma
from .tictactoe import TicTacToe
from .uno import Uno

TEN: tuple[type[Game], ...] = (
    TicTacToe,
    ConnectFour,
    Breakthrough,
    Nim,
    Auction,
    KuhnPoker,
    LiarsDice,
    Negotiation,
    Pig,
    PrisonersDilemma,
)
MORE: tuple[type[Game], ...] = (LimitHoldem, LeducHoldem, Uno)

GAMES: dict[str, Game] = {kind.key: kind() for kind in (*TEN, *MORE)}
"""Every game by its key."""

SMALL: dict[str, Game] = {kind.key: kind() for kind in (LeducPoker, *MATRIX)}
"""Games that are asked information set by information set (`mode=policy`), and not played."""

DEFAULT_GAMES = tuple(kind.key for kind in TEN)
"""The ten games that are played unless others are named."""


def game(key: str) -> Game:
    """A game by its key. Raises HarnessError for an unknown one."""
    try:
        return GAMES.get(key) or SMALL[key]
    except KeyError:
        raise HarnessError(f"gtbench has no game {key!r}; choose from {', '.join(GAMES)}") from None


@cache
def skin(key: str, variant: str) -> Skin:
    """A game in a vocabulary (``plain`` or ``relabelled``)."""
    if variant not in VARIANTS:
        raise HarnessError(f"gtbench has no variant {variant!r}; choose from {', '.join(VARIANTS)}")
    return Skin(game(key), variant)
