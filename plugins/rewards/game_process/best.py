"""Steps about best replies: payoffs against an action or a mixture, and which of them is the most.

``Against X, Firm 1 gets 3 from Up and 1 from Down: best Up.``
``Check: against [1/2, 1/2] of Firm 2, Firm 1 expects Up 2 and Down 2; best Up and Down.``
``The most is 5, from Right.``
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from ...tasks.gamesolve.profiles import weights
from ...tasks.gamesolve.tokens import Label
from .claims import BEST_RESPONSE, PARSE, Claim, Notes, near
from .view import View
from .words import Sentence, player_of

AGAINST = ("against", "if", "when", "given", "versus", "vs", "facing", "suppose")
CHOICE = ("best", "optimal", "maximum", "highest", "largest", "most", "prefers", "chooses")


def best_replies(s: Sentence, view: View, notes: Notes) -> Iterator[Claim]:
    """Payoffs against one action, and the best of them."""
    at = s.find(*AGAINST)
    if at < 0 or any(t.kind == "V" for t in s.tokens):
        return
    place = next((k for k in range(at, len(s.tokens)) if s.tokens[k].kind == "L"), -1)
    if place < 0:
        return
    against = s.tokens[place].label
    assert against is not None
    stop = s.find(*CHOICE, after=place + 1)
    listed = s.pairs(place + 1, stop if stop >= 0 else None)
    if not listed:
        return
    player = _actor(s, place, against, [name for _, name in listed])
    if player is None:
        return
    other = against.of(1 - player)
    own = [name.of(player) for _, name in listed]
    if other is None or any(i is None for i in own):
        return
    pays = {int(str(i)): said for i, (said, _) in zip(own, listed, strict=True)}
    read = [notes.quoted(view, player, i, other, said) for i, said in pays.items()]
    if not all(read):
        yield Claim(PARSE, False, ("best", player, other))
        return
    if stop < 0:
        notes.column = (player, other) if len(pays) == view.size(player) else None
        yield Claim(PARSE, True)
        return
    named = {name.of(player) for name in s.labels(stop)}
    top = {i for i in pays if view.payoff(player, i, other) == max(map(Fraction, pays.values()))}
    whole = set(pays) >= set(notes.alive[player])
    right = named == top
    yield Claim(BEST_RESPONSE, right, ("best", player, other) if whole or not right else None)


def _actor(s: Sentence, place: int, against: Label, names: Sequence[Label]) -> int | None:
    """Who gets the payoffs: named after the other's action, or the only one with these actions."""
    after = s.roles(place + 1)
    if after:
        return after[0]
    player = player_of(names)
    if player is None:
        other = player_of([against])
        player = None if other is None else 1 - other
    return player


def most(s: Sentence, view: View, notes: Notes) -> Iterator[Claim]:
    """``The most is V, from L``: the end of a best-response question, or of a list of payoffs."""
    at = s.find(*CHOICE)
    if at < 0 or s.find(*AGAINST) >= 0 or any(t.kind == "V" for t in s.tokens):
        return
    if "sigma" in view.data:
        player, pays, fact = view.me, list(view.expected), ("most",)
    elif notes.column is not None:
        player, other = notes.column
        pays = [view.payoff(player, i, other) for i in range(view.size(player))]
        fact = ("best", player, other)
    else:
        return
    numbers, found = s.numbers(at), [name.of(player) for name in s.labels(at)]
    if len(numbers) > 1 or (fact == ("most",) and not numbers) or not found or None in found:
        return
    best = {i for i, pay in enumerate(pays) if pay == max(pays)}
    right = all(near(said, max(pays)) for said in numbers) and set(found) == best
    notes.column = None
    yield Claim(BEST_RESPONSE, right, fact)


def checks(s: Sentence, view: View, notes: Notes) -> Iterator[Claim]:
    """Expected payoffs against a mixture, and the best of them."""
    vectors = [k for k, t in enumerate(s.tokens) if t.kind == "V"]
    stop = s.find("best", "optimal")
    if len(vectors) != 1 or stop < 0:
        return
    listed = s.pairs(vectors[0] + 1, stop)
    if not listed:
        return
    roles = s.roles(vectors[0] + 1, stop)
    player = roles[-1] if roles else player_of([name for _, name in listed])
    if player is None:
        return
    mix = s.tokens[vectors[0]].vector
    strategy = weights(mix, view.size(1 - player))
    own = [name.of(player) for _, name in listed]
    if any(i is None for i in own):
        return
    if strategy is None:
        yield Claim(BEST_RESPONSE, False)
        return
    exact = tuple(Fraction(part, strategy.unit) for part in strategy.parts)
    pays = view.board.pays(player, exact)
    top = {i for i, pay in enumerate(pays) if pay == max(pays)}
    right = all(near(said, pays[int(str(i))]) for i, (said, _) in zip(own, listed, strict=True))
    named = {name.of(player) for name in s.labels(stop)}
    whole = set(own) == set(range(view.size(player)))
    right = right and named == top and len(set(own)) == len(own)
    fact = ("check", player, tuple(map(str, exact))) if whole or not right else None
    yield Claim(BEST_RESPONSE, right, fact)
