"""The sentences of a solution, as words, numbers, actions, players and vectors.

>>> names = Names.of(("Up", "Down"), ("X", "Y"))
>>> sentence = Sentence.of("Against X, Firm 1 gets 3 from Up and -1 from Down: best Up.", names)
>>> [t.kind for t in sentence.tokens]
['W', 'L', 'S', 'R', 'W', 'N', 'W', 'L', 'W', 'N', 'W', 'L', 'S', 'W', 'L']
>>> [(pay, label.row) for pay, label in sentence.pairs(5, 12)]
[('3', 0), ('-1', 1)]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from harness.parsing import plain, visible

from ...tasks.gamesolve.tokens import ROLE_NAMES, Label, Names, clean, written

READ: Final = 64_000
"""Characters of a solution that are read at most."""
LINE: Final = 2_000
"""Characters of a line that are read at most."""

_ANSWER: Final = re.compile(
    r"^[ \t*_#>]{0,8}(?:final\s+)?answer\s*[:=]", re.IGNORECASE | re.MULTILINE
)
_STOP: Final = re.compile(r"(?<=[.!?;])\s+(?=[A-Z(\[{])")
_NUMBER: Final = r"-?\d{1,24}(?:[./]\d{1,24})?"
_VECTOR: Final = re.compile(rf"[\[(]\s*{_NUMBER}(?:\s*,\s*{_NUMBER}){{1,20}}\s*[\])]")


class Token(NamedTuple):
    """``kind`` is W word (lower case), L action, R player, N number, V vector, S a sign."""

    kind: str
    text: str
    start: int
    label: Label | None = None
    role: int | None = None
    vector: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence with its tokens; ``text`` has no emphasis, bullets or LaTeX any more."""

    text: str
    tokens: tuple[Token, ...]

    @classmethod
    def of(cls, text: str, names: Names) -> Sentence:
        """Split a sentence into tokens."""
        return cls(text, tuple(_tokens(text, names)))

    @property
    def words(self) -> set[str]:
        """The words in it."""
        return {t.text for t in self.tokens if t.kind == "W"}

    @property
    def identity(self) -> str:
        """Equal for sentences that differ in case and spacing only."""
        return " ".join(self.text.casefold().split()).rstrip(".;:, ")

    def find(self, *words: str, after: int = 0) -> int:
        """The place of the first token that is one of these words; -1 without any."""
        for place in range(after, len(self.tokens)):
            if self.tokens[place].kind == "W" and self.tokens[place].text in words:
                return place
        return -1

    def labels(self, start: int = 0, stop: int | None = None) -> list[Label]:
        """The actions named between two places."""
        return [t.label for t in self.tokens[start:stop] if t.label is not None]

    def numbers(self, start: int = 0, stop: int | None = None) -> list[str]:
        """The numbers between two places."""
        return [t.text for t in self.tokens[start:stop] if t.kind == "N"]

    def roles(self, start: int = 0, stop: int | None = None) -> list[int]:
        """The players named between two places."""
        return [t.role for t in self.tokens[start:stop] if t.role is not None]

    def vectors(self) -> list[tuple[str, ...]]:
        """The vectors of numbers."""
        return [t.vector for t in self.tokens if t.kind == "V"]

    def pairs(self, start: int, stop: int | None = None) -> list[tuple[str, Label]]:
        """Numbers with actions between two places: ``3 from Up`` or ``Up: 3``; empty where they do
        not alternate."""
        kept = [t for t in self.tokens[start:stop] if t.kind in "NL"]
        kinds = "".join(t.kind for t in kept)
        half = len(kinds) // 2
        if not kinds or kinds not in ("NL" * half, "LN" * half):
            return []
        found = []
        for one, other in zip(kept[::2], kept[1::2], strict=True):
            number, name = (one, other) if one.kind == "N" else (other, one)
            assert name.label is not None
            found.append((number.text, name.label))
        return found

    def cells(self) -> list[tuple[int, int]]:
        """The cells named as (row action, column action)."""
        found = []
        for k in range(len(self.tokens) - 4):
            window = self.tokens[k : k + 5]
            if [t.text for t in window[::2]] != ["(", ",", ")"] or window[0].kind != "S":
                continue
            row, col = window[1].label, window[3].label
            if row is not None and col is not None and row.row is not None and col.col is not None:
                found.append((row.row, col.col))
        return found


def steps(reply: str) -> str:
    """What a reply says before its answer section: the text of the steps."""
    text = plain(visible(reply))
    marks = list(_ANSWER.finditer(text))
    return clean(text[: marks[-1].start()] if marks else text)[:READ]


def sentences(line: str, names: Names) -> list[Sentence]:
    """The sentences of a line."""
    return [Sentence.of(part, names) for part in _STOP.split(line[:LINE]) if part.strip()]


def player_of(labels: Sequence[Label]) -> int | None:
    """Whose actions these are, where only one player has them all."""
    able = [p for p in (0, 1) if all(label.of(p) is not None for label in labels)]
    return able[0] if len(able) == 1 and labels else None


def _tokens(text: str, names: Names) -> Iterator[Token]:
    vectors = {m.start(): m for m in _VECTOR.finditer(text)}
    skip = 0
    for found in names.pattern.finditer(text):
        start = found.start()
        if start in vectors:
            vector = vectors[start]
            skip = vector.end()
            numbers = re.findall(_NUMBER, vector.group())
            yield Token(
                "V", vector.group(), start, vector=tuple(written(n) or "0" for n in numbers)
            )
        if start < skip:
            continue
        kind, value = found.lastgroup, found.group()
        label = names.label(value) if kind == "L" else None
        if kind == "R":
            yield Token("R", value, start, role=ROLE_NAMES[value.casefold()])
        elif label is not None and label.sure:
            yield Token("L", value, start, label)
        elif kind == "N":
            number = written(value.replace("\n", " "))
            if number is not None:
                yield Token("N", number, start)
        elif kind == "S":
            yield Token("S", value, start)
        else:
            yield Token("W", value.casefold(), start)
