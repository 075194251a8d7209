"""Reference players, by name: from random to perfect.

    PLAYERS["mcts-200"](seat)       # a player for this seat, or HarnessError if the game has none

Every player depends on the rollout's seed, its seat and the turn, and on nothing else; none sees
what its seat cannot know (`View`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from harness.player import FixedPlayer, Player, Seat
from harness.seeds import derive
from harness.types import HarnessError, Reply, Turn

from ..games import GAMES
from ..view import View
from . import best_response, cfr, greedy, perfect, pig_table, search

Choose = Callable[[View, Random], int]
"""Picks an action."""


class PolicyPlayer(Player):
    """Plays what a function picks from its view of the position."""

    reads_messages = False
    __slots__ = ("choose", "seat", "seed")

    def __init__(self, choose: Choose, seat: Seat) -> None:
        self.choose = choose
        self.seed = seat.seed
        self.seat = seat.seat

    async def act(self, turn: Turn) -> Reply:
        view: View = turn.state
        rng = Random(derive(self.seed, "policy", self.seat, turn.number))
        return Reply(text=view.skin.say(self.choose(view, rng)))


class RandomPlayer(Player):
    """Plays each legal move with the same probability."""

    reads_messages = False
    __slots__ = ("seat", "seed")

    def __init__(self, seat: Seat) -> None:
        self.seed = seat.seed
        self.seat = seat.seat

    async def act(self, turn: Turn) -> Reply:
        assert turn.legal is not None
        place = derive(self.seed, "random", self.seat, turn.number) % len(turn.legal)
        return Reply(text=turn.legal[place])


class FixedReference(FixedPlayer):
    """Says what a function makes of the turn."""

    reads_messages = False
    __slots__ = ()


def first_legal(turn: Turn) -> str:
    """The first legal move."""
    assert turn.legal
    return turn.legal[0]


@dataclass(frozen=True, slots=True)
class Reference:
    """A named player: which games it plays and how it is made for a seat."""

    name: str
    plays: frozenset[str]
    make: Callable[[Seat], Player]

    def __call__(self, seat: Seat) -> Player:
        """The player. Raises HarnessError for a game that it does not play."""
        key = seat.sample.data["game"]
        if key not in self.plays:
            known = ", ".join(k for k in GAMES if k in self.plays)
            raise HarnessError(
                f"player {self.name!r} does not play {key}; it plays {known}: "
                "choose another player, or these games with --set games=[...]"
            )
        return self.make(seat)


def _policy(name: str, choosers: Mapping[str, Choose]) -> Reference:
    def make(seat: Seat) -> Player:
        return PolicyPlayer(choosers[seat.sample.data["game"]], seat)

    return Reference(name, frozenset(choosers), make)


def _search(simulations: int) -> Reference:
    def make(seat: Seat) -> Player:
        return search.SearchPlayer(simulations, seat)

    return Reference(f"mcts-{simulations}", search.PLAYS, make)


def _pick(name: str, table: Mapping[str, str]) -> Reference:
    """For each game the player that a table names."""

    def make(seat: Seat) -> Player:
        return PLAYERS[table[seat.sample.data["game"]]](seat)

    return Reference(name, frozenset(table), make)


def _always(action: int) -> Choose:
    return lambda view, rng: action


EVERY = frozenset(GAMES)
TARGETS: Mapping[str, Choose] = {
    **best_response.CHOOSERS,
    **perfect.CHOOSERS,
    "pig": pig_table.choose,
    "kuhn_poker": cfr.choose,
}
"""Best play that takes no search, for training targets."""

ORACLE = {
    "tictactoe": "perfect",
    "connect4": "mcts-1000",
    "breakthrough": "mcts-1000",
    "nim": "perfect",
    "first_sealed_auction": "best-response",
    "kuhn_poker": "cfr",
    "liars_dice": "cfr",
    "negotiation": "best-response",
    "pig": "perfect",
    "prisoners_dilemma": "defect",
    "limit-holdem": "greedy",
    "leduc-holdem": "greedy",
    "uno": "greedy",
}
"""The strongest player of each game: perfect or equilibrium play where it can be computed."""

_TABLE = (
    Reference("random", EVERY, RandomPlayer),
    Reference("constant", EVERY, lambda seat: FixedReference(first_legal)),
    Reference("empty", EVERY, lambda seat: FixedReference(lambda turn: "")),
    _policy("greedy", greedy.CHOOSERS),
    *(_search(simulations) for simulations in (50, 200, 1000)),
    Reference("ismcts", search.HIDDEN, lambda seat: search.SearchPlayer(1000, seat)),
    _policy("perfect", {**perfect.CHOOSERS, "pig": pig_table.choose, "kuhn_poker": cfr.choose}),
    _policy("cfr", dict.fromkeys(cfr.PLAYS, cfr.choose)),
    _policy("best-response", best_response.CHOOSERS),
    _policy("hold-at-20", {"pig": pig_table.hold_at_20}),
    _policy("tit-for-tat", {"prisoners_dilemma": greedy.tit_for_tat}),
    _policy("defect", {"prisoners_dilemma": _always(1)}),
    _policy("cooperate", {"prisoners_dilemma": _always(0)}),
    _pick("oracle", ORACLE),
)


PLAYERS: Mapping[str, Reference] = {player.name: player for player in _TABLE}
"""All reference players. ``mcts-N`` searches worlds instead of the position where information is
hidden; ``ismcts`` is mcts-1000 for those games alone."""
