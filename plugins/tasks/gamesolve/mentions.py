"""What a text says of one player's actions: which ones it names, and which numbers go with them.

>>> from .tokens import tree
>>> names = Names.of(("A", "B"), ("X", "Y"))
>>> named_actions(tree("B, since A pays less", names), 0, names)
[1]
>>> numbers(tree("EU(B) = 2*1.5 = 3, EU(A) = 1/2", names), 0, names)
['1/2', '3']
"""

from __future__ import annotations

from collections.abc import Sequence

from .notation import approximate, split, streamed
from .tokens import Group, Names, Token

_CUT = frozenset(
    ("since", "because", "as", "over", "rather", "instead", "not", "than", "which", "whereas",
     "while", "but", "gives", "yields", "giving", "beats")
)  # fmt: skip


def named_actions(root: Group, player: int, names: Names) -> list[int] | None:
    """The actions of a player (0 row, 1 column) that a text names, in order; None if it names no
    action at all.

    What follows a reason ("B, since A pays less") is not read; an action with probability 0 is not
    named.
    """
    tokens = _until_reason(root, player)
    labels = [t.label for t in tokens if t.label is not None]
    if any(label.sure for label in labels) or any(t.kind in "WN" for t in tokens):
        labels = [label for label in labels if label.sure]
    named = [label.of(player) for label in labels]
    weights = [s for s in streamed(tokens, names, top=True) if len(s.texts) == names.sizes[player]]
    if len(weights) == 1 and abs(sum(map(approximate, weights[0].texts)) - 1) < 0.02:
        named = [i for i, text in enumerate(weights[0].texts) if approximate(text) > 0]
    elif not labels:
        return None
    return list(dict.fromkeys(index for index in named if index is not None))


def _until_reason(root: Group, player: int) -> list[Token]:
    """The tokens up to the first reason; remarks in brackets behind an action are left out."""
    kept: list[Token] = []
    seen = False
    for item in root.items:
        if isinstance(item, Token):
            if seen and item.kind == "W" and item.text.lower() in _CUT:
                break
            kept.append(item)
            seen = seen or item.kind == "L"
        elif not seen or not any(t.kind in "WN" for t in item.flat()):
            kept += item.flat()
            seen = True
    return kept


def numbers(root: Group, player: int | None, names: Names) -> list[str | None]:
    """The numbers of a list. Where a player's actions stand beside them the list is in the order of
    the actions, None for one without a number. Of an equation the last side counts.
    """
    tokens = list(root.flat())
    if player is not None:
        marks = [
            (place, index)
            for place, t in enumerate(tokens)
            if t.label is not None and t.label.sure and (index := t.label.of(player)) is not None
        ]
        if marks:
            return _beside(tokens, marks, names.sizes[player])
    out: list[str | None] = []
    for part in _parts(tokens):
        if any(t.kind in "=~" for t in part):
            out += _result(part)[:1]
        elif any(t.kind == "+" for t in part):
            out += [None]
        else:
            out += _result(part)
    return out


def _parts(tokens: Sequence[Token]) -> list[list[Token]]:
    """The tokens cut at commas, semicolons and lines; empty parts left out."""
    return [part for part in split(tokens, ",;n") if any(t.kind == "N" for t in part)]


def _result(tokens: Sequence[Token]) -> list[str]:
    """The numbers on the last side of an equation, of all where there is none."""
    out: list[str] = []
    fresh = False
    for token in tokens:
        if token.kind == "=":
            fresh = True
        elif token.kind == "N":
            out = [] if fresh else out
            out.append(token.text)
            fresh = False
    return out


def _beside(
    tokens: Sequence[Token], marks: Sequence[tuple[int, int]], size: int
) -> list[str | None]:
    """For each action the number at it: behind its name, or before it where numbers come first."""
    first = next((place for place, t in enumerate(tokens) if t.kind == "N"), len(tokens))
    places = [place for place, _ in marks]
    if first < places[0]:
        spans = list(zip([-1, *places], places, strict=False))
    else:
        spans = list(zip(places, [*places[1:], len(tokens)], strict=True))
    out: list[str | None] = [None] * size
    for (start, end), (_, index) in zip(spans, marks, strict=True):
        span = list(tokens[start + 1 : end])
        read = _result(span[: _line_end(span)])
        if read and out[index] is None:
            out[index] = read[0]
    return out


def _line_end(tokens: Sequence[Token]) -> int:
    """Where the first line with a number ends."""
    seen = False
    for place, token in enumerate(tokens):
        seen = seen or token.kind == "N"
        if seen and token.kind == "n":
            return place
    return len(tokens)
