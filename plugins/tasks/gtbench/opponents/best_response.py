"""Best responses to a random opponent, exact: the auction, negotiation, the prisoner's dilemma.

The ceiling against the default opponent in games without a single best play, and the anchor of
their normalised returns (`anchors`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from itertools import product
from random import Random

from harness.seeds import Streams

from ..games.auction import VALUES
from ..games.negotiation import AGREE, Deal, draw_deal, last_offer, numbers
from ..games.prisoners_dilemma import DEFECT, PAYOFFS
from ..view import View


def bid_profit(worth: int, bid: int) -> float:
    """The mean profit of a bid against a bidder with a uniform value and a uniform legal bid."""
    chance = 0.0
    for other in range(1, VALUES + 1):
        lower, equal = min(bid, other), 1 if bid < other else 0
        chance += (lower + equal / 2.0) / other / VALUES
    return chance * (worth - bid)


@cache
def best_bid(worth: int) -> int:
    """The most profitable bid, the lowest of them on ties."""
    return max(range(worth), key=lambda bid: (bid_profit(worth, bid), -bid))


def auction(view: View, rng: Random) -> int:
    """The best bid."""
    return best_bid(view.private())


@lru_cache(maxsize=4096)
def reserves(deal: Deal, seat: int) -> tuple[float, ...]:
    """The worth of making the k-th proposal oneself (instead of agreeing), for each k.

    The opponent agrees with probability 1 / (n + 1) and otherwise makes each of the n possible
    proposals alike, so asking for everything is best, and its offers are worth the same as uniform
    shares of the pool. Backward induction from the last proposal, after which nothing is earned.
    """
    shares = [deal.worth(seat, kept) for kept in product(*(range(n + 1) for n in deal.pool))]
    n, all_ = len(shares), deal.worth(seat, deal.pool)
    found = [0.0] * (deal.proposals + 2)
    for k in reversed(range(deal.proposals - 1)):
        # Proposal k + 1 is the opponent's; after it we agree or make proposal k + 2, if it exists.
        later = 0.0
        if k + 2 < deal.proposals:
            later = sum(max(share, found[k + 2]) for share in shares) / n
        found[k] = all_ / (n + 1) + later * n / (n + 1)
    return tuple(found[: deal.proposals])


def negotiation(view: View, rng: Random) -> int:
    """Agrees to what is worth at least the reserve, else asks for everything."""
    position = view.negotiation()
    deal, legal = position.deal, view.legal.values()
    if min(legal) > AGREE:
        return min(legal)
    made = sum(action < AGREE for _, action in position.moves)
    offer = last_offer(position, view.seat)
    worth = -1 if offer is None else deal.worth(view.seat, offer)
    if AGREE in legal and worth >= reserves(deal, view.seat)[made]:
        return AGREE
    return next(a for a in legal if a < AGREE and numbers(a) == deal.pool)


def auction_value() -> float:
    """The mean of the best bid's profit, over the largest possible one."""
    worths = range(1, VALUES + 1)
    return sum(bid_profit(worth, best_bid(worth)) for worth in worths) / VALUES / VALUES


def dilemma_value() -> float:
    """Defecting against a random opponent, a round: the mean of its two payoffs."""
    other = PAYOFFS[DEFECT]
    return sum(other) / len(other) / max(map(max, PAYOFFS))


def negotiation_value(deals: int = 2_000) -> float:
    """The mean share of the pool's worth, over deals and both seats.

    The first seat makes proposal 0. The second answers a uniform one: it agrees or makes proposal
    1, whichever is worth more.
    """
    total = 0.0
    for number in range(deals):
        deal = draw_deal(Streams(number).stream("negotiation value"))
        total += reserves(deal, 0)[0] / deal.worth(0, deal.pool) / 2.0
        shares = [deal.worth(1, kept) for kept in product(*(range(n + 1) for n in deal.pool))]
        mean = sum(max(share, reserves(deal, 1)[1]) for share in shares) / len(shares)
        total += mean / deal.worth(1, deal.pool) / 2.0
    return total / deals


def defect(view: View, rng: Random) -> int:
    """Defects: the opponent's choices do not depend on ours."""
    return DEFECT


CHOOSERS: Mapping[str, Callable[[View, Random], int]] = {
    "first_sealed_auction": auction,
    "negotiation": negotiation,
    "prisoners_dilemma": defect,
}
