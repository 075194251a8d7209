"""Pairs of actions and mixed strategies, in all the ways in which they are written.

>>> from .tokens import tree
>>> names = Names.of(("A", "B"), ("X", "Y"))
>>> pairs(tree("(A, Y), [Firm 1: B, Firm 2: X]", names)).cells
[(0, 1), (1, 0)]
>>> profiles(tree("P(A)=1/3, P(B)=2/3; X with 25 % and Y with 75 %", names), names).claims
[(['1/3', '2/3'], ['0.25', '0.75'])]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .tokens import Group, Label, Names, Token

Claim = tuple[list[str], list[str]]
"""A row strategy and a column strategy, as written."""

_AWARD = re.compile(r"pay|util|value|eu$|expect", re.IGNORECASE)


class Pairs(NamedTuple):
    """Cells that were named, and how many pairs name none."""

    cells: list[tuple[int, int]]
    invalid: int


class Profiles(NamedTuple):
    """Pairs of strategies as written, and how many strategies have no partner."""

    claims: list[Claim]
    invalid: int


class Strategy(NamedTuple):
    """A vector of written numbers, and whose it is, where that was said."""

    player: int | None
    texts: list[str]


def pairs(root: Group) -> Pairs:
    """The pairs of actions in a text: bracketed ones, or without any the bare ones line by line."""
    cells: list[tuple[int, int] | None] = []
    for group in root.walk():
        tokens = group.tokens()
        named = _named(tokens)
        if group is root:
            continue
        if len(named) >= 2 and len(named) % 2 == 0:
            cells += [_cell(*named[k : k + 2]) for k in range(0, len(named), 2)]
        elif len(named) == 1 and [t.kind for t in tokens if t.kind in ",LW"] in (
            [",", "W"], ["L", ",", "W"], ["W", ",", "L"],
        ):  # fmt: skip
            cells.append(None)
    if not cells:
        for line in split(root.tokens(), ";n"):
            named = _named(line)
            if len(named) % 2 == 0:
                cells += [_cell(*named[k : k + 2]) for k in range(0, len(named), 2)]
    right = [cell for cell in cells if cell is not None]
    return Pairs(right, len(cells) - len(right))


def profiles(root: Group, names: Names) -> Profiles:
    """The pairs of strategies in a text, row player's first unless said otherwise."""
    out: list[Claim] = []
    lone = _read(root, names, out, top=True)
    invalid = sum(0.95 <= sum(map(approximate, strategy.texts)) <= 1.05 for strategy in lone)
    return Profiles(out, invalid)


def split(tokens: Sequence[Token], kinds: str) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.kind in kinds:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _named(tokens: Sequence[Token]) -> list[tuple[int | None, Label]]:
    """The labels among tokens, each with the role named before it. Doubtful labels count only
    where nothing but labels stands."""
    strict = any(token.kind in "WN" for token in tokens)
    role: int | None = None
    named: list[tuple[int | None, Label]] = []
    for token in tokens:
        if token.kind == "R":
            role = token.role
        elif token.label is not None and (token.label.sure or not strict):
            named.append((role, token.label))
            role = None
    return named


def _cell(
    first: tuple[int | None, Label], second: tuple[int | None, Label]
) -> tuple[int, int] | None:
    if first[0] == 1 or (second[0] == 0 and first[0] is None):
        first, second = second, first
    i, j = first[1].row, second[1].col
    return None if i is None or j is None else (i, j)


def _read(group: Group, names: Names, out: list[Claim], top: bool = False) -> list[Strategy]:
    """Read a group: pairs go to ``out``, strategies that are still single are handed up."""
    found: list[Strategy] = []
    stream: list[Token] = []
    for item in group.items:
        if isinstance(item, Token):
            stream.append(item)
            continue
        found += streamed(stream, names, top)
        role = next((t.role for t in reversed(stream) if t.kind == "R"), None)
        award = any(t.kind == "W" and _AWARD.match(t.text) for t in stream)
        inner = [] if award else _read(item, names, out)
        if len(inner) == 1 and inner[0].player is None:
            inner = [Strategy(role, inner[0].texts)]
        found += inner
        stream = []
    found += streamed(stream, names, top)
    if len(found) == 1:
        found = _with_pure(found[0], group, names)
    if len(found) < 2 and not top:
        return found
    return _matched(found, out)


def _matched(found: list[Strategy], out: list[Claim]) -> list[Strategy]:
    """Pair strategies in order; those without a partner come back."""
    lone: list[Strategy] = []
    k = 0
    while k < len(found):
        if k + 1 == len(found) or (
            found[k].player is not None and found[k].player == found[k + 1].player
        ):
            lone.append(found[k])
            k += 1
            continue
        first, second = found[k], found[k + 1]
        if first.player == 1 or (second.player == 0 and first.player is None):
            first, second = second, first
        out.append((first.texts, second.texts))
        k += 2
    return lone


def _with_pure(strategy: Strategy, group: Group, names: Names) -> list[Strategy]:
    """A pair of one vector and one bare label, as in (A, [1/2, 1/2])."""
    kinds = [item.kind if isinstance(item, Token) else "G" for item in group.items]
    if kinds.count("L") != 1 or kinds.count("G") != 1 or "N" in kinds:
        return [strategy]
    at, vector = kinds.index("L"), kinds.index("G")
    player = int(at > vector) if strategy.player is None else 1 - strategy.player
    label = group.tokens()[sum(kind != "G" for kind in kinds[:at])].label
    index = None if label is None else label.of(player)
    if index is None:
        return [strategy]
    unit = ["1" if i == index else "0" for i in range(names.sizes[player])]
    pair = [Strategy(player, unit), Strategy(1 - player, strategy.texts)]
    return pair


def streamed(stream: list[Token], names: Names, top: bool) -> list[Strategy]:
    """The strategies in tokens without brackets."""
    tokens = _without_repeats(stream)
    if not any(t.kind == "N" for t in tokens):
        return []
    if any(t.kind == "L" for t in tokens):
        return _Labelled(names).read(tokens)
    parts: list[Strategy] = []
    role: int | None = None
    numbers: list[str] = []
    for token in (*tokens, Token(";")):
        if token.kind == "N":
            numbers.append(token.text)
        elif token.kind in ("R", ";", "/") or (token.kind == "n" and top):
            if len(numbers) in names.sizes or (len(numbers) > 1 and not top):
                parts.append(Strategy(role, numbers))
                role = None
            numbers = []
            role = token.role if token.kind == "R" else role
    return parts


def _without_repeats(stream: list[Token]) -> list[Token]:
    """The stream without numbers that say the one before again (1/3 = 0.333, 1/3 ~ 0.33)."""
    kept: list[Token] = []
    after = ""
    for token in stream:
        if token.kind == "N" and after in ("N=", "N~"):
            continue
        after = {"N": "N", "=": after and after[0] + "=", "~": after and after[0] + "~"}.get(
            token.kind, ""
        )
        kept.append(token)
    return kept


@dataclass(slots=True)
class _Labelled:
    """Reads numbers that stand beside labels: A: 1/3, P(B) = 2/3, 1/2 X + 1/2 Y."""

    names: Names
    done: list[Strategy] = field(default_factory=list)
    current: dict[int, str] = field(default_factory=dict)
    player: int | None = None
    told: bool = False

    def read(self, tokens: list[Token]) -> list[Strategy]:
        """The strategies, zeros filled in for actions that are not mentioned."""
        labels: list[Label] = []
        numbers: list[str] = []
        first = next(t.kind for t in tokens if t.kind in "LN")
        for token in (*tokens, Token("R")):
            if token.kind == first and (labels and numbers):
                self._zip(labels, numbers, first)
                labels, numbers = [], []
            if token.label is not None:
                labels.append(token.label)
            elif token.kind == "N":
                numbers.append(token.text)
            elif token.kind in "R;/n":
                alone = token.kind == "R" or token.kind in ";/"
                self._zip(labels, numbers, first, alone)
                labels, numbers = [], []
                if token.kind == "R":
                    self._finish()
                    self.player, self.told = token.role, True
        return self.done

    def _zip(
        self, labels: list[Label], numbers: list[str], first: str, alone: bool = False
    ) -> None:
        if not numbers and alone and self.told and len(labels) == 1 and not self.current:
            numbers = ["1"]  # "Row plays A; Column plays ..."
        count = min(len(labels), len(numbers))
        if count:
            chosen = labels[-count:] if first == "L" else labels[:count]
            for label, text in zip(chosen, numbers[:count], strict=True):
                self._add(label, text)

    def _add(self, label: Label, text: str) -> None:
        if self.current:
            index = label.of(self.player or 0)
            full = sum(map(approximate, self.current.values())) > 0.999
            if index is None or index in self.current or (full and approximate(text) > 0):
                self._finish()
        if not self.current and not self.told:
            expected = 0 if not self.done else 1 - (self.done[-1].player or 0)
            self.player = expected if label.of(expected) is not None else 1 - expected
        index = label.of(self.player or 0)
        if index is not None:
            self.current[index] = text

    def _finish(self) -> None:
        if self.current:
            player = self.player or 0
            size = self.names.sizes[player]
            self.done.append(Strategy(player, [self.current.get(i, "0") for i in range(size)]))
        self.current, self.told = {}, False


def approximate(text: str) -> float:
    top, _, bottom = text.partition("/")
    return float(top) / float(bottom or 1)
