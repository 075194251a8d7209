"""What every answer parser needs: strip reasoning, find the last committed answer, read numbers.

All functions take linear time in the length of the text, whatever it holds.

>>> visible("<think>maybe 3</think>The answer is 4")
'The answer is 4'
>>> number("−1/3")
Fraction(-1, 3)
>>> number("12.5 %")
Fraction(1, 8)
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from fractions import Fraction

from .types import EMPTY, REFUSED, TRUNCATED, UNPARSED, Parsed, Reply

_OPEN = re.compile(r"<\s*(think|thinking|reasoning|scratchpad|reflection)\s*>", re.IGNORECASE)
_CLOSE = re.compile(r"<\s*/\s*(think|thinking|reasoning|scratchpad|reflection)\s*>", re.IGNORECASE)
_REFUSAL = re.compile(
    r"\b(?:i(?:'m| am) (?:sorry|unable|not able)"
    r"|i (?:can(?:no|')t|won't|will not|must decline)"
    r"|as an ai\b|against my (?:guidelines|programming))",
    re.IGNORECASE,
)
_TRANSLATION = str.maketrans(
    {
        "\u2212": "-", "\u2010": "-", "\u2011": "-", "\u2012": "-", "\u2013": "-", "\ufe63": "-",
        "\uff0d": "-", "\u00a0": " ", "\u2007": " ", "\u202f": " ", "\u2009": " ", "\u200b": "",
        "\u2060": "", "\ufeff": "", "\u2044": "/", "\u2215": "/", "\u201c": '"', "\u201d": '"',
        "\u2018": "'", "\u2019": "'", "\u2192": "->", "\u27f6": "->", "\u21d2": "->",
    }
)  # fmt: skip
_NUMBER = re.compile(
    r"(?:([+-])\s{0,4})?"
    r"(?:(\d++)\s{0,4}/\s{0,4}(\d++)|(\d++(?:\.\d*+)?|\.\d++)(?:[eE]([+-]?\d++))?)"
    r"(?:\s{0,4}(\\?%))?"
)
LONGEST_NUMBER = 400
"""Digits beyond which a text is no number that anyone meant."""

LATEX_FRACTION = re.compile(
    r"(?:(-)\s{0,4})?\\[dt]?frac\s{0,4}\{\s{0,4}(-?\d{1,24})\s{0,4}\}"
    r"\s{0,4}\{\s{0,4}(-?\d{1,24})\s{0,4}\}"
)


def plain(text: str) -> str:
    """Unicode look-alikes turned into ASCII: minus signs, blanks, quotes, arrows, full width.

    >>> plain("（\uff14） \u2212 5")
    '(4) - 5'
    """
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", text.translate(_TRANSLATION)).translate(_TRANSLATION)


def visible(text: str) -> str:
    """The reply without its reasoning, stripped.

    A block that is opened and never closed hides all that follows (the reply was cut off while
    thinking); a closing tag without an opening one hides all that precedes it (templates that put
    the opening tag into the prompt).

    >>> visible("a<think>b")
    'a'
    >>> visible("b</think>a")
    'a'
    """
    if "<" not in text:
        return text.strip()
    events = sorted(
        [(m.start(), m.end(), True) for m in _OPEN.finditer(text)]
        + [(m.start(), m.end(), False) for m in _CLOSE.finditer(text)]
    )
    kept: list[str] = []
    depth = position = 0
    for start, end, opens in events:
        if opens:
            if depth == 0:
                kept.append(text[position:start])
            depth += 1
        elif depth:
            depth -= 1
        else:
            kept.clear()
        position = end
    if depth == 0:
        kept.append(text[position:])
    return "".join(kept).strip()


def after_last(text: str, marker: str) -> str | None:
    """What follows the last occurrence of a marker, case-insensitively; None without one.

    >>> after_last("Answer: 1. Answer: 2", "answer:")
    ' 2'
    """
    ends = [found.end() for found in re.finditer(re.escape(marker), text, re.IGNORECASE)]
    return text[ends[-1] :] if ends else None


def number(text: str) -> Fraction | None:
    """The exact value of a text that is one number: whole, decimal, exponent, fraction, percent.

    None for anything else. Unicode signs and LaTeX fractions are read.
    """
    text = plain(text).strip().strip("$").strip()
    latex = LATEX_FRACTION.fullmatch(text)
    if latex:
        sign, top, bottom = latex.groups()
        if int(bottom) == 0:
            return None
        return Fraction(int(top), int(bottom)) * (-1 if sign else 1)
    found = _NUMBER.fullmatch(text)
    return None if found is None else _value(found)


def numbers(text: str) -> list[Fraction]:
    """All numbers of a text in order, exact.

    >>> numbers("[1/3, .5, 20%]")
    [Fraction(1, 3), Fraction(1, 2), Fraction(1, 5)]
    """
    text = LATEX_FRACTION.sub(_latex_as_plain, plain(text))
    return [value for m in _NUMBER.finditer(text) if (value := _value(m)) is not None]


def _latex_as_plain(found: re.Match[str]) -> str:
    sign, top, bottom = found[1] or "", int(found[2]), int(found[3])
    if bottom < 0:
        top, bottom = -top, -bottom
    if sign:
        top = -top
    return f"{top}/{bottom}"


def _value(found: re.Match[str]) -> Fraction | None:
    sign, top, bottom, decimal, exponent, percent = found.groups()
    if found.end() - found.start() > LONGEST_NUMBER or (exponent and abs(int(exponent)) > 99):
        return None
    if top is not None:
        if int(bottom) == 0:
            return None
        value = Fraction(int(top), int(bottom))
    else:
        value = Fraction(decimal.rstrip(".") if decimal.endswith(".") else decimal)
        if exponent:
            value *= Fraction(10) ** int(exponent)
    if percent:
        value /= 100
    return -value if sign == "-" else value


def classify(reply: Reply, parsed: Parsed) -> Parsed:
    """Name the fault of a reply that holds no answer: empty, truncated, refused or unparsed.

    A committed answer counts even when the reply was cut off after it.
    """
    if parsed.cls != UNPARSED:
        return parsed
    if not reply.text.strip():
        return replace(parsed, cls=TRUNCATED if reply.finish_reason == "length" else EMPTY)
    if reply.finish_reason == "length":
        return replace(parsed, cls=TRUNCATED)
    shown = visible(reply.text)
    if not shown:
        return replace(parsed, cls=EMPTY)
    if _REFUSAL.search(plain(shown[:2000])):
        return replace(parsed, cls=REFUSED)
    return parsed
