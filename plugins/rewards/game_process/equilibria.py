"""Steps about equilibria: cells, profiles of probabilities, continua, supports that fail.

``(Up, X): both actions are best replies, so this is an equilibrium.``
``(Up, Y): Firm 2 would deviate to X.``
``Equilibrium: ([1/3, 2/3], [1/2, 1/2]).``
``Supports {Up, Down} with {X, Y}: indifference would need p(Up) = -1, so no equilibrium.``
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction

from ...tasks.gamesolve.mixing import solved
from ...tasks.gamesolve.profiles import weights
from .claims import ELIMINATION, EQUILIBRIUM, PARSE, Claim, Notes, near
from .view import View
from .words import Sentence, Token

NAMES = ("equilibrium", "equilibria", "ne", "nash", "extreme")
MOVE = ("deviate", "deviates", "switch", "switches")
_DENIED = re.compile(r"\b(?:not|isn't|no|never)\b(?:\s+\w+){0,2}\s+equilibri", re.IGNORECASE)
_NO_PURE = re.compile(r"\bno\s+(?:\w+\s+){0,2}?pure\b|\bpure\b[^.]{0,30}:\s*none", re.IGNORECASE)
_NEED = re.compile(r"\b([pq])\s?\(\s?([^()]{1,40}?)\s?\)\s*=\s*(-?\d{1,24}(?:[./]\d{1,24})?)")


def cells(s: Sentence, view: View, notes: Notes) -> Iterator[Claim]:
    """Cells that are, or are not, equilibria; and that there is no pure one."""
    found = s.cells()
    if s.find(*MOVE) >= 0 and len(found) == 1:
        yield from _deviation(s, view, *found[0])
    elif found and s.find(*NAMES) >= 0:
        denied = _DENIED.search(s.text) is not None
        for i, j in found:
            yield Claim(EQUILIBRIUM, view.cell(i, j) != denied, None if denied else ("pure", i, j))
    elif not found and s.find(*NAMES) >= 0 and _NO_PURE.search(s.text):
        yield Claim(EQUILIBRIUM, not view.nash["pure"], ("no pure",))


def _deviation(s: Sentence, view: View, i: int, j: int) -> Iterator[Claim]:
    at = s.find(*MOVE)
    roles, names = s.roles(), s.labels(at)
    if not roles or not names:
        return
    player = roles[-1]
    own, other = ((i, j), (j, i))[player]
    action = names[0].of(player)
    if action is not None:
        gain = view.payoff(player, action, other) > view.payoff(player, own, other)
        yield Claim(EQUILIBRIUM, gain)


def read_payoffs(s: Sentence, view: View, notes: Notes) -> Iterator[Claim]:
    """``The cell (A, X) pays (5, 2)`` and ``Firm 1's payoff is the first number``."""
    found = s.cells()
    vectors = [v for v in s.vectors() if len(v) == 2]
    if len(found) == 1 and len(vectors) == 1 and s.find("pays", "pay", "gives", "is", "has") >= 0:
        i, j = found[0]
        first, second = vectors[0]
        read = [
            notes.quoted(view, 0, i, j, first),
            notes.quoted(view, 1, j, i, second),
        ]
        yield Claim(PARSE, all(read), ("cell", i, j))
    at = s.find("first", "second")
    if at >= 0 and s.find("number", "payoff", "one", "entry") >= 0 and len(set(s.roles())) == 1:
        player = s.roles()[-1]
        yield Claim(PARSE, s.tokens[at].text == ("first", "second")[player], ("place", player))


def profiles(s: Sentence, view: View, notes: Notes) -> Iterator[Claim]:
    """Pairs of mixed strategies that are called an equilibrium."""
    at = [k for k, t in enumerate(s.tokens) if t.kind == "V"]
    if "mixture" in s.words:
        yield from _continuum(s, view)
        return
    if len(at) < 2 or len(at) % 2 or s.find(*NAMES) < 0 or _DENIED.search(s.text):
        return
    for one, other in zip(at[::2], at[1::2], strict=True):
        x, y = s.tokens[one].vector, s.tokens[other].vector
        if len(x) == view.size(0) and len(y) == view.size(1):
            yield from _profile(view, x, y)


def _profile(view: View, x: Sequence[str], y: Sequence[str]) -> Iterator[Claim]:
    true = view.equilibrium(x, y)
    yield Claim(EQUILIBRIUM, true)
    for k in view.subsets(x, y) if true else ():
        yield Claim(EQUILIBRIUM, True, ("mixed", k, *_exact(view, x, y)))


def _exact(view: View, x: Sequence[str], y: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for player, strategy in ((0, x), (1, y)):
        read = weights(strategy, view.size(player))
        assert read is not None
        yield tuple(str(Fraction(part, read.unit)) for part in read.parts)


def _continuum(s: Sentence, view: View) -> Iterator[Claim]:
    """``R1 plays any mixture of [..] and [..], and R2 plays X``: every pair must hold."""
    sides: dict[int, list[Sequence[str]]] = {}
    player: int | None = None
    for token in s.tokens:
        if token.role is not None:
            player = token.role
        elif player is not None and token.kind == "V" and len(token.vector) == view.size(player):
            sides.setdefault(player, []).append(token.vector)
        elif player is not None and token.label is not None and player not in sides:
            action = token.label.of(player)
            if action is not None:
                sides[player] = [[str(int(k == action)) for k in range(view.size(player))]]
    if len(sides) == 2:
        pairs = [(x, y) for x in sides[0] for y in sides[1]]
        if pairs and len(pairs) <= 64:
            yield Claim(EQUILIBRIUM, all(view.equilibrium(x, y) for x, y in pairs))


def supports(s: Sentence, view: View, notes: Notes) -> Iterator[Claim]:
    """``R1 on A and B, R2 on X and Z``: some equilibrium uses exactly these actions."""
    if s.find(*NAMES) < 0 or any(t.kind in "VN" for t in s.tokens) or s.cells():
        return
    used: dict[int, frozenset[int]] = {}
    player: int | None = None
    begun = False
    for token in s.tokens:
        if token.role is not None:
            player, begun = token.role, False
        elif token.text == "on" and player is not None:
            begun = True
        elif begun and player is not None and token.label is not None:
            action = token.label.of(player)
            if action is not None:
                used[player] = used.get(player, frozenset()) | {action}
    if len(used) == 2:
        yield Claim(EQUILIBRIUM, view.supported(used[0], used[1]))


def indifferent(s: Sentence, view: View, notes: Notes) -> Iterator[Claim]:
    """``R must be indifferent between A and B``: an action is not compared with itself."""
    at = s.find("indifferent")
    if at >= 0 and s.find("between", after=at) >= 0:
        names = s.labels(at)[:2]
        if len(names) == 2 and names[0] == names[1]:
            yield Claim(EQUILIBRIUM, False)


def failures(s: Sentence, view: View, notes: Notes) -> Iterator[Claim]:
    """``Supports {..} with {..}: ...``, why no equilibrium has them."""
    if "supports" not in s.words:
        return
    groups = _braces(s)
    if len(groups) != 2:
        return
    sides = []
    for player, group in enumerate(groups):
        found = [t.label.of(player) for t in group if t.label is not None]
        if not found or None in found:
            return
        sides.append(tuple(sorted(int(str(i)) for i in found)))
    pair = (sides[0], sides[1])
    need = _NEED.search(s.text)
    right = _impossible(view, pair, *need.groups()) if need else _better(s, view, pair)
    if right is None:
        return
    fact = ("support", *pair) if pair in view.failing else None
    yield Claim(ELIMINATION, right, fact)


def _braces(s: Sentence) -> list[list[Token]]:
    groups: list[list[Token]] = []
    inside = False
    for token in s.tokens:
        if token.kind == "S" and token.text in "{}":
            inside = token.text == "{"
            if inside:
                groups.append([])
        elif inside:
            groups[-1].append(token)
    return groups


Pair = tuple[tuple[int, ...], tuple[int, ...]]


def _mixture(view: View, pair: Pair, player: int) -> dict[int, Fraction] | None:
    """What a player's mixture on the support must be to make the other one indifferent."""
    mine, theirs = pair[player], pair[1 - player]
    own = view.board.own[1 - player]
    lines = [[own[theirs[0]][k] - own[i][k] for k in mine] for i in theirs[1:]]
    found = solved(lines) if lines else None
    return None if found is None else dict(zip(mine, found, strict=True))


def _impossible(view: View, pair: Pair, letter: str, name: str, said: str) -> bool | None:
    player = "pq".index(letter)
    label = view.names.label(name)
    mix = _mixture(view, pair, player)
    action = None if label is None else label.of(player)
    if action is None or mix is None or action not in mix:
        return False
    return mix[action] == Fraction(said) and mix[action] <= 0


def _better(s: Sentence, view: View, pair: Pair) -> bool | None:
    """``against [..] of R, C would pay 3 instead of 2``."""
    vectors, roles, numbers = s.vectors(), s.roles(), s.numbers()
    place = next((k for k, t in enumerate(s.tokens) if t.kind == "V"), 0)
    names = s.labels(place)
    if len(vectors) != 1 or not roles or not names or len(numbers) != 2:
        return None
    player = roles[0]
    mix = _mixture(view, pair, player)
    action = names[0].of(1 - player)
    if mix is None or action is None or len(vectors[0]) != view.size(player):
        return False
    full = [mix.get(k, Fraction(0)) for k in range(view.size(player))]
    pays = view.board.pays(1 - player, full)
    inside = pays[pair[1 - player][0]]
    told = [Fraction(x) for x in vectors[0]] == full
    right = near(numbers[0], pays[action]) and near(numbers[1], inside)
    return told and right and pays[action] > inside
