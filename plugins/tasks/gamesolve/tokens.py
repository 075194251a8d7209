"""A reply as tokens in nested brackets: the labels of a game, roles, numbers, the rest as words.

Every step is linear in the length of the text.

>>> names = Names.of(("Up", "Down"), ("X", "Y"))
>>> [token.kind + token.text for token in tree("Firm 1: 33.3 %", names).items]
['R', '=', 'N0.333']
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from .text import ROLES

GENERIC_ROLES = (
    ("row player", "player 1", "player one", "player i", "first player", "p1", "row", "rows"),
    ("column player", "player 2", "player two", "player ii", "second player", "p2", "column",
     "columns", "col", "cols"),
)  # fmt: skip
"""What the row player and the column player are called besides the roles of the stories."""

DEPTH = 12
"""Brackets nested deeper than this are not told apart."""

_NUMBER = (
    r"(?:(?:(?<=[(\[{,:=\n])|(?<=[(\[{,:=\n]\s))[+-]\s?|(?<![\w)\]])[+-])?"
    r"(?<![\w.])(?:\d{1,24}\s?/\s?\d{1,24}(?!\.?\d)|\d{1,24}(?:\.\d{0,24})?|\.\d{1,24})"
    r"(?:[eE][+-]?\d{1,2}(?!\d))?(?:\s?%)?"
)
_KINDS = {
    "(": "(", "[": "(", "{": "(", "\u27e8": "(", ")": ")", "]": ")", "}": ")", "\u27e9": ")",
    ",": ",", ";": ";", "/": "/", "|": "/", "&": "/", "\n": "n", "=": "=", ":": "=",
    "\u2248": "~", "~": "~", "+": "+", "*": "+", "\u00d7": "+", "\u00b7": "+",
}  # fmt: skip
_LATEX = (
    (re.compile(r"\\\\"), "\n"),
    (re.compile(r"\\[dt]?frac\s?\{\s?(-?\d{1,24})\s?\}\s?\{\s?(\d{1,24})\s?\}"), r"\1/\2"),
    (re.compile(r"\\[dt]?frac\s?(\d)\s?(\d)"), r"\1/\2"),
    (re.compile(r"\\(?:text\w{0,8}|math\w{0,8}|operatorname|emph)\s?\{([^{}\n]{0,80})\}"), r" \1 "),
    (
        re.compile(r"\\(?:left|right|[Bb]ig[lr]?|q?quad|displaystyle|boxed)(?![A-Za-z])|\\[,;!: ]"),
        " ",
    ),
    (re.compile(r"\\[()\[\]]|\$"), " "),
    (re.compile(r"\\(?:approx|simeq)"), "\u2248"),
    (re.compile(r"\\(?:times|cdot)"), "*"),
    (re.compile(r"\\(?:emptyset|varnothing)"), "none"),
    (re.compile(r"\\[lr]angle"), " "),
    (re.compile(r"_\{([^{}\n]{1,40})\}"), r"_\1"),
    (re.compile(r"\\"), ""),
)
_BULLET = re.compile(
    r"^[ \t>]{0,12}(?:[-*\u2022][ \t]{1,8}|\(?\d{1,2}[.)][ \t]{1,8})", re.MULTILINE
)
ROLE_NAMES = {
    name.casefold(): player for pair in (*ROLES.values(),) for player, name in enumerate(pair)
}
ROLE_NAMES |= {name: player for player in (0, 1) for name in GENERIC_ROLES[player]}


class Label(NamedTuple):
    """An action's name: its index among the row actions and the column actions (None: not one).

    ``sure`` is False for a single letter in the wrong case, which may be an article.
    """

    row: int | None
    col: int | None
    sure: bool = True

    def of(self, player: int) -> int | None:
        """The index among the actions of a player (0 row, 1 column)."""
        return self.col if player else self.row


class Token(NamedTuple):
    """One token: ``kind`` is ``L`` label, ``N`` number, ``R`` role, ``W`` word, or a separator.

    ``text`` is what a number or a word says, ``label`` what a label stands for, ``role`` whose role
    it is (0 row, 1 column).
    """

    kind: str
    text: str = ""
    label: Label | None = None
    role: int | None = None


@dataclass(slots=True)
class Group:
    """What stands between two brackets (or, for the root, the whole text)."""

    items: list[Token | Group] = field(default_factory=list)

    def tokens(self) -> list[Token]:
        """The tokens that stand in it directly."""
        return [item for item in self.items if isinstance(item, Token)]

    def walk(self) -> Iterator[Group]:
        """This group and all in it."""
        stack = [self]
        while stack:
            group = stack.pop()
            yield group
            stack.extend(item for item in reversed(group.items) if isinstance(item, Group))

    def flat(self) -> Iterator[Token]:
        """All tokens in order, brackets forgotten."""
        stack = [iter(self.items)]
        while stack:
            for item in stack[-1]:
                if isinstance(item, Group):
                    stack.append(iter(item.items))
                    break
                yield item
            else:
                stack.pop()


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a game's actions and players, ready for reading."""

    sizes: tuple[int, int]
    labels: dict[str, Label]
    pattern: re.Pattern[str]

    @staticmethod
    @lru_cache(maxsize=1024)
    def of(rows: tuple[str, ...], cols: tuple[str, ...]) -> Names:
        """The names of a game with these two sets of labels, in any of the stories."""
        labels: dict[str, Label] = {}
        for name in (*rows, *cols):
            row = rows.index(name) if name in rows else None
            label = Label(row, cols.index(name) if name in cols else None)
            labels[name] = label
            labels.setdefault(name.casefold(), label._replace(sure=len(name) > 1))
        pattern = "|".join(
            f"(?P<{name}>{part})"
            for name, part in (
                ("R", rf"(?<![^\W_])(?:{_choice(ROLE_NAMES)})(?!\w)"),
                ("L", rf"(?<!\w)(?:{_choice((*rows, *cols))})(?!\w)"),
                ("N", _NUMBER),
                ("S", r"[()\[\]{}\u27e8\u27e9,;/|&\n=:\u2248~+*\u00d7\u00b7]"),
                ("W", r"[^\W\d]\w*"),
            )
        )
        sizes = (len(rows), len(cols))
        return Names(sizes, labels, re.compile(pattern, re.IGNORECASE))

    def label(self, text: str) -> Label | None:
        """The label that a text is."""
        return self.labels.get(text) or self.labels.get(text.casefold())


def clean(text: str) -> str:
    """The text without LaTeX commands, emphasis and bullets."""
    if "\\" in text or "$" in text:
        for pattern, instead in _LATEX:
            text = pattern.sub(instead, text)
    return _BULLET.sub("", text.replace("**", "").replace("__", " ").replace("`", ""))


def written(text: str) -> str | None:
    """A number's text in one of three forms that keep its precision: whole, fraction, decimal.

    >>> written(".5"), written("33.3 %"), written("2 / 6"), written("5e-1"), written("1/0")
    ('0.5', '0.333', '2/6', '0.5', None)
    >>> written("1/2e9") is None
    True
    """
    text = text.replace(" ", "").lstrip("+")
    percent = text.endswith("%")
    text = text.rstrip("%")
    if "/" in text:
        top, bottom = text.split("/")
        if not bottom.isdecimal() or int(bottom) == 0:  # "1/2e9" is nothing that anyone meant
            return None
        return str(Fraction(int(top), 100 * int(bottom))) if percent else f"{top}/{bottom}"
    number, _, power = text.lower().partition("e")
    shift = int(power or 0) - 2 * percent
    if shift:
        number = _shifted(number, shift)
    if number.startswith((".", "-.")):
        number = number.replace(".", "0.", 1)
    return number.rstrip(".") if number.endswith(".") else number


def tree(text: str, names: Names) -> Group:
    """The text as tokens in nested groups."""
    root = Group()
    stack = [root]
    for token in _tokens(clean(text), names):
        if token.kind == "(":
            stack.append(Group() if len(stack) <= DEPTH else stack[-1])
        elif token.kind == ")":
            if len(stack) > 1:
                group = stack.pop()
                if group is not stack[-1]:
                    _close(stack[-1], group)
        else:
            stack[-1].items.append(token)
    while len(stack) > 1:
        group = stack.pop()
        if group is not stack[-1]:
            _close(stack[-1], group)
    return root


def _choice(names: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(names, key=len, reverse=True)))


def _shifted(number: str, shift: int) -> str:
    """The decimal moved by powers of ten, its digits kept."""
    sign, number = ("-", number[1:]) if number.startswith("-") else ("", number)
    whole, _, digits = number.partition(".")
    if shift > 0:
        digits = digits.ljust(shift, "0")
        return f"{sign}{whole}{digits[:shift]}.{digits[shift:]}".rstrip(".")
    whole = whole.rjust(1 - shift, "0")
    return f"{sign}{whole[:shift]}.{whole[shift:]}{digits}"


def _tokens(text: str, names: Names) -> Iterator[Token]:
    for found in names.pattern.finditer(text):
        kind, value = found.lastgroup, found.group()
        if kind == "S":
            yield Token(_KINDS[value])
        elif kind == "N":
            number = written(value.replace("\n", " "))
            yield Token("W", value) if number is None else Token("N", number)
        elif kind == "R":
            yield Token("R", role=ROLE_NAMES[value.casefold()])
        elif kind == "L":
            yield Token("L", label=names.label(value))
        else:
            yield _word(value, names)


def _word(word: str, names: Names) -> Token:
    """A word; with underscores (``p_A``, ``sigma_row``) what the last part names."""
    if "_" in word:
        last = word.rsplit("_", 1)[1]
        label = names.label(last)
        if label is not None:
            return Token("L", label=label)
        for part in word.casefold().split("_"):
            if part in ROLE_NAMES:
                return Token("R", role=ROLE_NAMES[part])
    return Token("W", word)


def _close(parent: Group, group: Group) -> None:
    """Put a finished group into its parent; one with a single label or number dissolves."""
    kinds = [item.kind if isinstance(item, Token) else "G" for item in group.items]
    if not kinds:
        return
    labels, numbers = kinds.count("L"), kinds.count("N")
    if labels + numbers == 1 and "," not in kinds and "G" not in kinds:
        # "(= 0.33)" or "(about 0.33)" behind a number says it again; P(A) and (1/3) are A and 1/3.
        if numbers and parent.items and getattr(parent.items[-1], "kind", "") == "N":
            return
        parent.items += [t for t in group.tokens() if t.kind in "LNR~"]
    else:
        parent.items.append(group)
