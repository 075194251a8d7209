"""Steps of arithmetic: sums of products, and linear equations for probabilities.

``Up: 0.25 * 3 + 0.75 * (-1) = 0.75 + (-0.75) = 0``
``With t = q(X) and 1 - t = q(Y): 3 t - (1 - t) = 2 (1 - t), so 6 t = 3 and q(X) = 1/2, ...``

An equation with unknowns is judged by the values that the solution finds for them: it must hold
there. It counts as derived from the game where it says that two actions of the other player pay the
same: for each action of the support its difference of sides is one multiple of theirs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Final

from .algebra import Linear, parse
from .claims import ARITHMETIC, PARSE, Claim, Notes, near
from .view import View
from .words import LINE

MOST: Final = 40
"""Equations of a line, and equations waiting for values, that are read at most."""

_PIECE: Final = re.compile(
    r"[,;:]|\.(?!\d)|\b(?:so|and|with|thus|hence|then|where|eliminating)\b", re.IGNORECASE
)
_CHAIN: Final = re.compile(r"[-+*/().\d\s]{1,400}(?:=[-+*/().\d\s]{1,400})+")
_FACTORS: Final = re.compile(
    r"(?<![\d.])(\d{1,24}(?:\.\d{1,24})?)\s*\*\s*\(?\s*(-?\d{1,24}(?:\.\d{1,24})?)(?![\d.])"
)
_LEAD: Final = re.compile(
    r"^\W{0,4}(?:E(?:U|xpected (?:payoff|utility))\s*(?:of|for)?\s*\(?\s*)?"
    r"(?P<name>[^\W\d](?:[\w ]{0,38}\w)?)\)?\s*[:=]\s*(?=[-\d(.])"
)


def expected(line: str, view: View, notes: Notes) -> Iterator[Claim]:
    """``L: sum of products = ... = value``, in a best-response question."""
    found = _LEAD.match(line) if "sigma" in view.data and "=" in line else None
    label = None if found is None else view.names.label(found["name"])
    action = None if label is None else label.of(view.me)
    if found is None or action is None:
        return
    texts = line[found.end() :].rstrip(" .").split("=")
    sides = [parse(text) for text in texts]
    if len(sides) < 2 or any(side is None or side.terms for side in sides):
        return
    values = [side.constant for side in sides if side is not None]
    read = values[0] == view.expected[action] and _products(texts[0], view, action)
    notes.right += read
    notes.wrong += not read
    if not read:
        yield Claim(PARSE, False, ("expected", action))
        return
    first = sides[0]
    worked = first is not None and first.steps >= view.size(1 - view.me)
    right = all(_same(text, value, values[0]) for text, value in zip(texts, values, strict=True))
    yield Claim(ARITHMETIC, right, ("expected", action) if worked or not right else None)


def _products(text: str, view: View, action: int) -> bool:
    """Whether the factors are the probabilities and the payoffs, where all are written out."""
    own = view.board.own[view.me][action]
    pairs = [
        sorted((Fraction(p), Fraction(x))) for p, x in zip(view.data["sigma"], own, strict=True)
    ]
    read = [sorted((Fraction(a), Fraction(b))) for a, b in _FACTORS.findall(text)]
    return len(read) != len(pairs) or sorted(read) == sorted(pairs)


def _same(text: str, value: Fraction, exact: Fraction) -> bool:
    bare = text.strip().strip("()").strip()
    rounded = re.fullmatch(r"-?\d{1,24}\.\d{2,24}", bare)
    return value == exact or (rounded is not None and near(bare, exact))


def chains(text: str, view: View, notes: Notes) -> Iterator[Claim]:
    """Sums of plain numbers anywhere: only their errors count."""
    for found in _CHAIN.finditer(text):
        texts = found.group().split("=")
        sides = [parse(part.strip().rstrip(".,")) for part in texts]
        known = [side for side in sides if side is not None]
        if len(known) < len(sides) or not any(side.steps for side in known):
            continue
        if known[0].terms:
            continue
        right = all(
            _same(t.strip().rstrip("."), side.constant, known[0].constant)
            for t, side in zip(texts, known, strict=True)
        )
        yield Claim(ARITHMETIC, right)


def equations(line: str, view: View, notes: Notes) -> Iterator[Claim]:
    """Linear equations and what they are solved to."""
    fresh: dict[str, Fraction] = {}
    for piece in _PIECE.split(line[:LINE])[: 4 * MOST]:
        texts = [part.strip() for part in piece.split("=")]
        sides = [parse(text) for text in texts] if len(texts) > 1 else []
        known = [side for side in sides if side is not None]
        if len(known) < len(sides) or not any(side.terms for side in known):
            continue
        for left, right in pairwise(known):
            _take(left, right, notes, fresh)
    if fresh:
        notes.known |= fresh
        yield from _judged(view, notes)


def _take(left: Linear, right: Linear, notes: Notes, fresh: dict[str, Fraction]) -> None:
    """Note an equation as a value, as the meaning of a helper, or as one to be judged."""
    for one, other in ((left, right), (right, left)):
        name = _bare(one)
        if name is None:
            continue
        if not other.terms and len(name) > 1:
            fresh[name] = other.constant
            return
        if len(name) == 1 and (meaning := _bare(other)) is not None and len(meaning) > 1:
            notes.alias[name] = other
            return
    if len(notes.equations) < MOST:
        notes.equations.append(left.plus(right, -1))


def _bare(side: Linear) -> str | None:
    """The unknown that a side is, alone."""
    if side.constant or len(side.terms) != 1:
        return None
    (name, size), *_ = side.terms.items()
    return name if size == 1 else None


def _judged(view: View, notes: Notes) -> Iterator[Claim]:
    """Judge the equations by the values found, and see whether they make a strategy."""
    players = {name: _unknown(view, name) for name in notes.known}
    sides = {found[0] for found in players.values() if found is not None}
    values = notes.known | _helpers(notes, notes.known)
    judged = [(e, e.value(values)) for e in notes.equations]
    for player in sides:
        mix = {
            found[1]: notes.known[name]
            for name, found in players.items()
            if found is not None and found[0] == player
        }
        if sum(mix.values()) != 1 or min(mix.values()) < 0:
            continue
        own = [(e, v) for e, v in judged if v is not None]
        for _, value in own:
            yield Claim(ARITHMETIC, value == 0)
        derived = sum(_derived(view, notes, player, mix, e) for e, value in own if value == 0)
        full = tuple(str(mix.get(k, Fraction(0))) for k in range(view.size(player)))
        support = sum(p > 0 for p in mix.values())
        if derived >= support - 1 >= 1:
            yield Claim(ARITHMETIC, True, ("solved", player, full))
        # What is solved is done with: the next strategy has equations of its own.
        notes.equations, notes.alias, notes.known = [], {}, {}
        return


def _helpers(notes: Notes, known: Mapping[str, Fraction]) -> dict[str, Fraction]:
    found = {}
    for name, meaning in notes.alias.items():
        value = meaning.value(known)
        if value is not None:
            found[name] = value
    return found


def _unknown(view: View, name: str) -> tuple[int, int] | None:
    """p(A) -> (player, action)."""
    if len(name) < 4:
        return None
    inner = name[2:-1].strip()
    # The tokens of an expression have no blanks, so neither may the names.
    named = (label for text, label in view.names.labels.items() if text.replace(" ", "") == inner)
    label = next(named, None)
    player = "pq".index(name[0])
    action = None if label is None else label.of(player)
    return None if action is None else (player, action)


def _derived(
    view: View, notes: Notes, player: int, mix: Mapping[int, Fraction], equation: Linear
) -> bool:
    """Whether an equation says that two actions of the other player pay the same."""
    support = [k for k, p in mix.items() if p > 0]
    found = [_corner(view, notes, player, k, equation) for k in support]
    corners = [corner for corner in found if corner is not None]
    if len(corners) < len(found) or not any(corners):
        return False
    own = view.board.own[1 - player]
    for i, k in combinations(range(len(own)), 2):
        gaps = [own[i][s] - own[k][s] for s in support]
        pairs = list(zip(corners, gaps, strict=True))
        if any(gaps) and all(a * h == b * g for a, g in pairs for b, h in pairs):
            return True
    return False


def _corner(
    view: View, notes: Notes, player: int, action: int, equation: Linear
) -> Fraction | None:
    """The equation's difference of sides where one action is certain."""
    point = {
        name: Fraction(int(found[1] == action))
        for name in {*notes.known, *equation.terms}
        if (found := _unknown(view, name)) is not None and found[0] == player
    }
    return equation.value(point | _helpers(notes, point))
