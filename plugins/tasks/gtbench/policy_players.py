"""Reference players of `mode=policy`: policies that are known, and answered by draw or by quota.

By quota, query k of an information set takes the k-th point of van der Corput's sequence as its
draw, so that n queries differ from the policy by less than log2(n) / n, where draws would by about
n ** -0.5. That takes known policies through the whole path to their exact values.

>>> [van_der_corput(k) for k in range(4)]
[0.0, 0.5, 0.25, 0.75]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.player import Player, PlayerFactory, Seat
from harness.types import Reply, Turn

from .opponents import FixedReference, RandomPlayer, first_legal
from .policy_solve import equilibrium
from .policy_tree import build
from .view import View

Chances = Callable[[View], Mapping[int, float]]
"""Probabilities of the legal actions."""


class QuotaPlayer(Player):
    """Answers query after query so that the shares come out."""

    reads_messages = False
    __slots__ = ("chances", "query")

    def __init__(self, chances: Chances, seat: Seat) -> None:
        self.chances = chances
        self.query = int(seat.sample.data["query"])

    async def act(self, turn: Turn) -> Reply:
        view: View = turn.state
        left = van_der_corput(self.query)
        chances = self.chances(view)
        for action, chance in chances.items():
            left -= chance
            if left < 0.0:
                return Reply(view.skin.say(action))
        return Reply(view.skin.say(max(chances, key=lambda a: chances[a])))


def van_der_corput(number: int) -> float:
    """The number's binary digits mirrored at the point (van der Corput, 1935)."""
    value, share = 0.0, 0.5
    while number:
        value += share * (number & 1)
        number >>= 1
        share /= 2
    return value


def uniform(view: View) -> Mapping[int, float]:
    """Each legal action alike."""
    return {action: 1.0 / len(view.legal) for action in view.legal.values()}


def balanced(view: View) -> Mapping[int, float]:
    """The equilibrium."""
    return equilibrium(view.game.key).probabilities(view.information())


def best(view: View) -> Mapping[int, float]:
    """The best action against a random opponent, with best play afterwards."""
    from .policy import against_random

    side = build(view.game.key).sides[view.seat]
    i = side.place[view.information()]
    values = against_random(view.game.key, view.seat)[side.start[i] :]
    actions = side.actions[i]
    return {actions[max(range(len(actions)), key=values.__getitem__)]: 1.0}


def _quota(chances: Chances) -> PlayerFactory:
    return lambda seat: QuotaPlayer(chances, seat)


PLAYERS: Mapping[str, PlayerFactory] = {
    "random": RandomPlayer,
    "uniform": _quota(uniform),
    "equilibrium": _quota(balanced),
    "best-response": _quota(best),
    "oracle": _quota(best),
    "constant": lambda seat: FixedReference(first_legal),
    "empty": lambda seat: FixedReference(lambda turn: ""),
}
"""``oracle`` is the best response to a random opponent, which the score of a query measures."""
