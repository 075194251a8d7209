"""Where in a reply the answer stands: sections that begin with ``ANSWER:``, and the keys in them.

>>> [section.text for section in sections("Hm. ANSWER: 3. Wait, answer: 4")]
[' 4', ' 3. Wait, ', 'Hm. ']
>>> keys = key_pattern(pure=r"pure ne", mixed=r"mixed ne")
>>> runs(keys, Section("Pure NE: (A, X)\\nMixed NE: none", True), Names.of(("A", "B"), ("X", "Y")))
{'pure': [['(A, X)']], 'mixed': [['none']]}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from .tokens import Names

LIMIT = 16_000
"""Characters that one part of an answer can have; what follows is not read."""

_MARKER = re.compile(
    r"^[ \t#>*_`\"'\\{(\[]{0,12}(?:final[ _]{0,2})?answers?[ \t#*_`\"'}]{0,6}(?:[:=]|$)"
    r"|(?<![A-Za-z])(?:final[ _]{0,2})?answers?[*_`\"'}]{0,4}[:=]",
    re.IGNORECASE | re.MULTILINE,
)
# A key stands at the start of a line, or quoted after a brace or comma, as in JSON.
_START = (
    r"^[ \t#>*_`\"'\\{(\[\u2022\d.)-]{0,16}(?:text\w{0,4}\{)?"
    r"|(?<=[{,]\s\")|(?<=[{,]\")"
)
_END = r"[ \t\"'*_`)}]{0,6}(?:\([^()\n]{0,60}\))?[ \t\"'*_`}]{0,6}(?P<end>[:=]|$)"

_NONE = re.compile(
    r"[\s\"'*_`.:({\[\\-]{0,12}(none|no|nil|n/?a|nothing|empty|null|emptyset|varnothing|\u2205"
    r"|not applicable|there (?:is|are|exists?) (?:no|none)|(?:does|do) not exist)(?!\w)"
    r"(?!\s{0,3}(?:other|others|besides|except|but|more)\b)",
    re.IGNORECASE,
)
_VOID = re.compile(r"(?=[^-(\[{\u2014]{0,12}[-(\[{\u2014])[\s\"'*_`.,()\[\]{}\\\u2014-]{1,200}")
_LISTED = re.compile(
    r"[ \t>*_`]{0,12}(?:[-+\u2022(\[{\"'$\\<\u2205]|\d|none\b|p\w{0,8}\(|\w{1,20}\s?[:=])",
    re.IGNORECASE,
)


class Section(NamedTuple):
    """A part of a reply that may hold an answer; ``marked``: it begins with ``ANSWER:``."""

    text: str
    marked: bool


def sections(text: str) -> Iterator[Section]:
    """The sections of a reply, the last one first, and what stands before them all."""
    end = len(text)
    for mark in reversed(list(_MARKER.finditer(text))):
        yield Section(text[mark.end() : end], True)
        end = mark.start()
    yield Section(text[:end], False)


def key_pattern(**parts: str) -> re.Pattern[str]:
    """The pattern of the keys of a kind of answer, from a pattern for each key's name."""
    names = "|".join(f"(?P<{name}>{part})" for name, part in parts.items())
    pattern = rf"(?P<start>{_START})?(?<![A-Za-z])(?:{names}){_END}"
    return re.compile(pattern, re.IGNORECASE | re.MULTILINE)


def runs(keys: re.Pattern[str], section: Section, names: Names) -> dict[str, list[list[str]]]:
    """What follows the keys of a section: for each key its runs, which are texts with no other key
    between them ("Mixed NE 1: ...", "Mixed NE 2: ...").

    Without the mark of an answer, keys count at the start of a line only.
    """
    text = section.text
    found = [
        mark
        for mark in keys.finditer(text)
        if mark["start"] is not None or (mark["end"] and section.marked)
    ]
    out: dict[str, list[list[str]]] = {}
    last = ""
    for mark, end in zip(found, [*(m.start() for m in found[1:]), len(text)], strict=False):
        body = _body(text[mark.end() : min(end, mark.end() + LIMIT)], names)
        if body:
            name = next(k for k in keys.groupindex if k not in ("start", "end") and mark[k])
            if name != last:
                out.setdefault(name, []).append([])
            out[name][-1].append(body)
            last = name
    return out


def first_line(section: Section) -> str:
    """The first line with text, without emphasis."""
    return section.text.lstrip(" \t\n*_`\"'}").split("\n", 1)[0][:LIMIT]


def is_none(text: str, names: Names) -> bool:
    """Whether a part of an answer says that there is nothing: none, N/A, [], "no mixed ones".

    >>> names = Names.of(("Yes", "No"), ("X", "Y"))
    >>> [is_none(text, names) for text in ("None (I checked).", "none but (No, X)", "(No, X)", "-")]
    [True, False, False, True]
    """
    found = _NONE.match(text)
    return bool(_VOID.fullmatch(text)) or (found is not None and names.label(found[1]) is None)


def _body(text: str, names: Names) -> str:
    """The lines that belong to a key: up to the first line of prose after the answer."""
    kept: list[str] = []
    depth = 0
    told = gap = False
    for line in text.split("\n"):
        if not line.strip(" \t*_`#>~-"):
            gap = gap or not line.strip()
            told = told or line.strip() == "-"
            continue
        if told and depth <= 0 and not _continues(line, gap, names):
            break
        kept.append(line.strip())
        depth += sum(map(line.count, "([{")) - sum(map(line.count, ")]}"))
        told = told or any(map(str.isalnum, line)) or _VOID.fullmatch(line) is not None
        gap = False
    return ("\n".join(kept) or "-") if told else ""


def _continues(line: str, gap: bool, names: Names) -> bool:
    """Whether a line goes on with the answer: an entry of a list, not prose."""
    if _LISTED.match(line):
        return True
    found = names.pattern.match(line.lstrip(" \t*_`>").removeprefix("the ").removeprefix("The "))
    return found is not None and not gap and found.lastgroup in ("L", "R", "N")
