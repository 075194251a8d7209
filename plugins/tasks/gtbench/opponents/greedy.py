"""Greedy players: one look ahead and a rule of thumb, and tit-for-tat.

The second rung of the ladder after random: an opponent that takes what is offered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from ..cards import BettingPosition
from ..games.breakthrough import squares
from ..games.kuhn import BET, PASS
from ..games.liars_dice import CALL, FACES
from ..games.negotiation import AGREE, last_offer, numbers
from ..games.prisoners_dilemma import COOPERATE, DEFECT
from ..games.uno import ACTIONS
from ..position import SpielPosition
from ..view import View
from .pig_table import hold_at_20


def winning(view: View) -> list[int]:
    """The moves that win at once."""
    position = view.open_position()
    assert isinstance(position, SpielPosition)
    found = []
    for action in view.legal.values():
        after = position.state.child(action)
        if after.is_terminal() and after.returns()[view.seat] > 0:
            found.append(action)
    return found


def win_or_random(view: View, rng: Random) -> int:
    """A winning move if there is one, else any."""
    return rng.choice(winning(view) or list(view.legal.values()))


def breakthrough(view: View, rng: Random) -> int:
    """A winning move, else a capture, else a move of a most advanced piece."""
    best = winning(view)
    if not best:
        best = [action for action in view.legal.values() if squares(action)[2]]
    if not best:
        ends = {action: squares(action)[1][1] for action in view.legal.values()}
        far = max(ends.values()) if view.seat else min(ends.values())
        best = [action for action, row in ends.items() if row == far]
    return rng.choice(best)


def auction(view: View, rng: Random) -> int:
    """The highest bid: it wins most often and earns least."""
    return max(view.legal.values())


def kuhn(view: View, rng: Random) -> int:
    """Bets with the highest card only."""
    return BET if view.private() == 2 else PASS


def liars_dice(view: View, rng: Random) -> int:
    """Calls a bid that the own die does not support, else makes the lowest bid that it does."""
    own = view.private() + 1
    bids = [action for _, action in view.moves if action != CALL]

    def supported(action: int) -> bool:
        more, face = divmod(action, FACES)
        return more + 1 <= (1 if own in (face + 1, FACES) else 0)

    if bids and not supported(bids[-1]):
        return CALL
    legal = sorted(view.legal.values())
    return next((action for action in legal if action != CALL and supported(action)), legal[-1])


def negotiation(view: View, rng: Random) -> int:
    """Asks for all that is worth anything; accepts half of the pool's worth."""
    position = view.negotiation()
    deal = position.deal
    offer = last_offer(position, view.seat)
    worth = -1 if offer is None else deal.worth(view.seat, offer)
    if AGREE in view.legal.values() and 2 * worth >= deal.worth(view.seat, deal.pool):
        return AGREE
    if min(view.legal.values()) > AGREE:
        return min(view.legal.values())
    own = deal.values[view.seat]
    wanted = tuple(n if v else 0 for n, v in zip(deal.pool, own, strict=True))
    return next(a for a in view.legal.values() if a < AGREE and numbers(a) == wanted)


def prisoners_dilemma(view: View, rng: Random) -> int:
    """Defects: that pays more in any single round."""
    return DEFECT


def tit_for_tat(view: View, rng: Random) -> int:
    """Cooperates first, then does what the opponent did last."""
    theirs = [action for seat, action in view.moves if seat != view.seat]
    return theirs[-1] if theirs else COOPERATE


def betting(view: View, rng: Random) -> int:
    """Raises while it may, then calls or checks."""
    order = ("raise", "call", "check", "fold")
    names = {BettingPosition.actions[action]: action for action in view.legal.values()}
    return next(names[name] for name in order if name in names)


def uno(view: View, rng: Random) -> int:
    """Any card before a wild one, any card before drawing."""
    plain = [a for a in view.legal.values() if "wild" not in ACTIONS[a] and ACTIONS[a] != "draw"]
    return rng.choice(plain or list(view.legal.values()))


CHOOSERS: Mapping[str, Callable[[View, Random], int]] = {
    "tictactoe": win_or_random,
    "connect4": win_or_random,
    "nim": win_or_random,
    "breakthrough": breakthrough,
    "first_sealed_auction": auction,
    "kuhn_poker": kuhn,
    "liars_dice": liars_dice,
    "negotiation": negotiation,
    "pig": hold_at_20,  # rolling gains points on average up to 20
    "prisoners_dilemma": prisoners_dilemma,
    "limit-holdem": betting,
    "leduc-holdem": betting,
    "uno": uno,
}
