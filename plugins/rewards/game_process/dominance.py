"""Steps about dominance: one action beats another one, an action is struck out, or none is.

``For Firm 1, Up strictly dominates Down: 3 > 1 against X and 2 > 0 against Y. Strike out Down.``
``Up is not dominated: Down pays only 1 against X, where Up pays 3.``
"""

from __future__ import annotations

from collections.abc import Iterator

from ...tasks.gamesolve.truth import dominant
from .claims import DOMINANCE, ELIMINATION, PARSE, Claim, Notes
from .view import View, without
from .words import Sentence, Token, player_of

STRIKE = ("strike", "eliminate", "eliminated", "remove", "removed", "delete", "discard", "cross")
NOBODY = ("no", "none", "neither", "nothing")
OTHERS = ("others", "each", "every", "all", "other")


def dominations(s: Sentence, view: View, notes: Notes) -> Iterator[Claim]:
    """All claims of a sentence that speaks of dominance."""
    at = s.find("dominates", "dominate", "dominated", "dominant")
    if at < 0:
        return
    if (player := next(iter(s.roles()), None)) is None:
        player = view.me if view.kind == "dominance" else player_of(s.labels())
    before, after = s.labels(0, at), s.labels(at)
    word = s.tokens[at].text
    nobody = s.find(*NOBODY) in range(at) and not before
    if nobody and word in ("dominates", "dominate", "dominant"):
        yield from _dominant(view, None)
    elif nobody:
        none = not any(view.dominated(p, a, notes.alive) for p in (0, 1) for a in notes.alive[p])
        yield Claim(DOMINANCE, none, ("none",))
    elif word == "dominates" and not after and before and s.find(*OTHERS, after=at) >= 0:
        yield from _dominant(view, before[0].of(view.me))
    elif player is None or not before:
        return
    elif word == "dominated" and {"not", "isn't"} & {t.text for t in s.tokens[:at]}:
        yield from _undominated(s, at, view, notes, player)
    elif word in ("dominates", "dominated") and after:
        yield from _pair(s, at, view, notes, player)


def _dominant(view: View, action: int | None) -> Iterator[Claim]:
    if view.kind == "dominance":
        own = view.board.own[view.me]
        yield Claim(DOMINANCE, dominant(own) == action, ("dominant",))


def _pair(s: Sentence, at: int, view: View, notes: Notes, player: int) -> Iterator[Claim]:
    """``W dominates L: a > b against X and ...``, or the same in the passive."""
    names = [k for k, t in enumerate(s.tokens) if t.label is not None]
    left, right = max(k for k in names if k < at), min(k for k in names if k > at)
    first, second = (s.tokens[k].label for k in (left, right))
    assert first is not None
    assert second is not None
    if s.tokens[at].text == "dominated":
        first, second = second, first
    winner, loser = first.of(player), second.of(player)
    if winner is None or loser is None:
        return
    compared = list(_comparisons(s, right + 1, player))
    read = [
        notes.quoted(view, player, winner, o, a) and notes.quoted(view, player, loser, o, b)
        for a, b, o in compared
    ]
    if not all(read):
        yield Claim(PARSE, False)
        return
    others = notes.alive[1 - player]
    true = view.dominates(player, winner, loser, others)
    shown = {o for _, _, o in compared} >= set(others)
    if true and shown:
        notes.shown.add((player, loser))
    notes.last = (player, loser)
    if true:
        yield Claim(DOMINANCE, True, ("dominated", player, loser) if shown else None)
    else:
        yield Claim(DOMINANCE, False, ("undominated", player, loser))


def _comparisons(s: Sentence, start: int, player: int) -> Iterator[tuple[str, str, int]]:
    """``a > b against X`` as (a, b, X)."""
    kept: list[Token] = [t for t in s.tokens[start:] if t.kind in "NL"]
    for one, two, name in zip(kept, kept[1:], kept[2:], strict=False):
        if (one.kind, two.kind, name.kind) != ("N", "N", "L") or name.label is None:
            continue
        other = name.label.of(1 - player)
        if other is not None and ">" in s.text[one.start : two.start]:
            yield one.text, two.text, other


def _undominated(s: Sentence, at: int, view: View, notes: Notes, player: int) -> Iterator[Claim]:
    """``L is not dominated: B pays only b against X, where L pays a, and ...``"""
    first = s.labels(0, at)[-1].of(player)
    if first is None:
        return
    kept = [t for t in s.tokens[at:] if t.kind in "NL"]
    beaten: set[int] = set()
    place = 0
    while place + 4 < len(kept) and "".join(t.kind for t in kept[place : place + 5]) == "LNLLN":
        rival, low, against, me, high = kept[place : place + 5]
        place += 5
        assert rival.label is not None
        assert against.label is not None
        b, o = rival.label.of(player), against.label.of(1 - player)
        if b is None or o is None or me.label is None or me.label.of(player) != first:
            continue
        read = [
            notes.quoted(view, player, b, o, low.text),
            notes.quoted(view, player, first, o, high.text),
        ]
        if not all(read):
            yield Claim(PARSE, False)
            return
        if view.payoff(player, b, o) > view.payoff(player, first, o):
            yield Claim(DOMINANCE, False)
            return
        beaten.add(b)
    everything = (tuple(range(view.size(0))), tuple(range(view.size(1))))
    true = not view.dominated(player, first, everything)
    shown = beaten >= set(range(view.size(player))) - {first}
    if true:
        yield Claim(DOMINANCE, True, ("undominated", player, first) if shown else None)
    else:
        yield Claim(DOMINANCE, False, ("dominated", player, first))


def strikes(s: Sentence, view: View, notes: Notes) -> Iterator[Claim]:
    """``Strike out L``: true where L is dominated among the actions that are left."""
    at = s.find(*STRIKE)
    if at < 0 or s.find("not", "no") >= 0:
        return
    names = s.labels(at) or (s.labels(0, at)[-1:] if s.tokens[at].text.endswith("d") else [])
    for name in names:
        player = next(iter(s.roles()), None)
        if player is None and notes.last is not None and name.of(notes.last[0]) == notes.last[1]:
            player = notes.last[0]
        if player is None:
            player = player_of([name])
        action = None if player is None else name.of(player)
        if player is None or action is None or action not in notes.alive[player]:
            continue
        true = view.dominated(player, action, notes.alive)
        shown = (player, action) in notes.shown
        yield Claim(ELIMINATION, true, ("strike", player, action) if shown else None)
        if true:
            notes.alive = without(notes.alive, player, action)
