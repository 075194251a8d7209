r"""Reading a move out of a reply: the last one that the player commits to, and nothing else.

A commitment is one of

* ``ANSWER: move`` (as the prompt asks), ``<answer>move</answer>`` or ``\boxed{move}``, anywhere;
* a JSON object with the move;
* a last line that is nothing but a move.

The last explicit one counts; without any, the last line. What is read must be a move in some
spelling (case, blanks, brackets, unicode signs, leading zeros), and is compared with the legal
moves as it stands: prose is not searched for moves, and no move is turned into another. Reasoning
(``<think>`` and the like, channels) is removed before. All steps take linear time.

>>> from harness_plugins.tasks.gtbench.games import skin
>>> read("I like <C2R2>, though C1R1 is fine.\nANSWER: **c2r2**", skin("tictactoe", "plain")).value
'C2R2'
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import deque
from typing import NamedTuple

from harness.parsing import plain, visible
from harness.types import OK, UNPARSED, Parsed

from .game import Skin

_MARKER = re.compile(
    r"(?<![A-Za-z])answer[*_`\"')\]]{0,4}\s{0,3}(?:is\s{0,2}:?|[:=])[*_`]{0,4}", re.IGNORECASE
)
_BOXED = re.compile(r"\\boxed\s{0,2}\{\s{0,2}(?:\\text\s{0,2}\{)?([^{}\n]{0,200})\}")
_CONTROL = re.compile(r"[\x00\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_CHANNEL = re.compile(r"<\|[a-z_]{1,20}\|>", re.IGNORECASE)
_FINAL = re.compile(r"<\|channel\|>\s{0,2}final[^<]{0,40}<\|message\|>", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"[<\[(]?(?:your\s|the\s|my\s)?(?:move|action|answer|\.\.\.)?[>\])]?")
_LABEL = re.compile(
    r"(?:(?:my|final|the)\s)?(?:move|action|choice|decision|answer)\s{0,2}[:=]\s{0,2}",
    re.IGNORECASE,
)
_REASON = re.compile(
    r"\s{0,4}(?:[,;:.!)\]>*\"'`-]{1,4}(?:\s|$)|\(|(?:because|since|as|for|to|so)\s)",
    re.IGNORECASE,
)
_DECORATION = "*_`\"'$~ \t\r\n"
_PAIRS = {"<": ">", "[": "]", "(": ")", "{": "}"}
_KEYS = ("move", "action", "answer", "choice", "decision")
_TALK = frozenset(
    {"reason", "reasoning", "thought", "thoughts", "explanation", "analysis", "rationale"}
)
LONGEST = 400
"""Characters of an answer that are looked at: moves are short."""


class Commitment(NamedTuple):
    """Where in the text a player commits itself, and to what. ``closed`` says that text follows,
    so that a cut cannot have shortened it."""

    start: int
    end: int
    text: str
    closed: bool


def read(text: str, skin: Skin, finish_reason: str = "stop") -> Parsed:
    """The move that a reply commits to, as its canonical text, with class ``ok`` or ``unparsed``.

    Whether it is legal is not asked here.
    """
    shown = clean(text)
    found = explicit(shown)
    if found is None:
        found = last_line(shown)
        move, note = whole(found.text, skin), "it has no line ANSWER: <move>"
    else:
        move, note = answer(found.text, skin)
    if move is None:
        return Parsed(None, UNPARSED, note)
    if finish_reason == "length" and not (found.closed or text.endswith("\n")):
        # "ANSWER: 1" may be the beginning of "ANSWER: 10".
        return Parsed(None, UNPARSED, "it was cut off within the answer")
    return Parsed(move, OK)


def clean(text: str) -> str:
    """The visible part of a reply in plain characters."""
    if not text.isascii() or "\x00" in text:
        text = _CONTROL.sub("", plain(text))
    if "<|" in text:
        text = _last_channel(text)
    return visible(text)


def last_match(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The last match of a pattern; None without one."""
    return next(iter(deque(pattern.finditer(text), maxlen=1)), None)


def _last_channel(text: str) -> str:
    last = last_match(_FINAL, text)
    if last is not None:
        text = text[last.end() :]
    elif "<|channel|>" in text.lower():
        return ""
    return _CHANNEL.sub("\n", text)


def explicit(shown: str) -> Commitment | None:
    """The last explicit commitment, passing over echoes of the form (``ANSWER: <move>``)."""
    thing = _json_object(shown)
    latest = max(
        (item for item in (thing, _tag(shown), _boxed(shown)) if item is not None),
        key=lambda item: item.end,
        default=None,
    )
    for marker in _MARKER.finditer(shown):
        if thing is not None and thing.start < marker.start() < thing.end:
            continue
        found = _after(shown, marker.end())
        if latest is not None and found.end < latest.end:
            continue
        if not _PLACEHOLDER.fullmatch(found.text.strip(_DECORATION).lower()):
            latest = found
    return latest


def last_line(shown: str) -> Commitment:
    """The last line that holds more than decoration, without a label such as ``Move:``."""
    text = shown.rstrip(_DECORATION)
    start = text.rfind("\n") + 1
    line = text[start:].strip(_DECORATION)
    line = "" if len(line) > LONGEST else _LABEL.sub("", line, count=1)
    return Commitment(start, len(text), line, len(text) < len(shown))


def _after(shown: str, start: int) -> Commitment:
    """The rest of the line, or the next line with content; at most `LONGEST` characters on."""
    most = min(len(shown), start + LONGEST)
    end = start
    while True:
        line_end = shown.find("\n", end, most)
        stop = most if line_end < 0 else line_end
        text = shown[end:stop].strip(_DECORATION)
        if text or line_end < 0:
            return Commitment(start, stop, text, stop < len(shown))
        end = stop + 1


def _tag(shown: str) -> Commitment | None:
    lower = shown.lower()
    close = lower.rfind("</answer>")
    start = lower.rfind("<answer>", 0, close if close >= 0 else len(lower))
    if start < 0:
        return None
    inner = start + len("<answer>")
    text = shown[inner : min(inner + LONGEST, close if close >= 0 else len(shown))]
    if _PLACEHOLDER.fullmatch(text.strip(_DECORATION).lower()):
        return None
    return Commitment(start, close if close >= 0 else len(shown), text, close >= 0)


def _boxed(shown: str) -> Commitment | None:
    found = last_match(_BOXED, shown)
    return None if found is None else Commitment(found.start(), found.end(), found[1], True)


def _json_object(shown: str) -> Commitment | None:
    """The JSON object that ends last, if it is one and speaks of a move."""
    end = shown.rfind("}")
    depth = 0
    for start in range(end, max(-1, end - 10 * LONGEST), -1):
        depth += {"}": 1, "{": -1}.get(shown[start], 0)
        if depth == 0:
            break
    else:
        return None
    text = _json_move(shown[start : end + 1])
    return None if text is None else Commitment(start, end + 1, text, True)


def _json_move(source: str) -> str | None:
    try:
        thing = json.loads(source)
    except (ValueError, RecursionError):
        try:
            thing = json.loads(source.replace("'", '"'))
        except (ValueError, RecursionError):
            return None
    if not isinstance(thing, dict):
        return None
    named = {str(key).lower(): value for key, value in thing.items()}
    for key in _KEYS:
        if key in named:
            value = named[key]
            return _fields(value) if isinstance(value, dict) else str(value)
    return _fields({key: value for key, value in named.items() if key not in _TALK})


def _fields(thing: dict[str, object]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in thing.items())


def bare(text: str) -> str:
    """The text without blanks, quotes, markup and symbols (emoji) around it."""
    text = text.strip(_DECORATION)
    while text and not text.isascii():
        start = unicodedata.category(text[0])[0] in "SMC"
        end = unicodedata.category(text[-1])[0] in "SMC" and not text[-1].isascii()
        if not end and not (start and not text[0].isascii()):
            break
        text = text[1 if start and not text[0].isascii() else 0 : -1 if end else None]
        text = text.strip(_DECORATION)
    return text


def whole(text: str, skin: Skin) -> str | None:
    """The move, if the text is nothing else but decoration; None otherwise."""
    if len(text) > LONGEST:
        return None
    for _ in range(8):
        text = bare(text)
        move = skin.read(text)
        if move is not None:
            return move
        if text.endswith((".", "!", ",", ";")):
            text = text[:-1]
        elif text and _PAIRS.get(text[0]) == text[-1]:
            text = text[1:-1]
        else:
            return None
    return None


def answer(text: str, skin: Skin) -> tuple[str | None, str]:
    """The move that an explicit answer begins with, and a note if there is none.

    A reason may follow it, but no other move: which one is meant would be a guess.
    """
    text = _LABEL.sub("", text.strip(_DECORATION)[:LONGEST], count=1)
    move = whole(text, skin)
    if move is not None:
        return move, ""
    text = text.lstrip(_DECORATION + "<[({")
    found = skin.pattern.match(text)
    if found is None:
        return None, "what follows ANSWER: is not a move of this game"
    rest = text[found.end() :]
    if not _REASON.match(rest):
        return None, "what follows ANSWER: is not one move alone"
    move = skin.canonical(found)
    if {skin.canonical(other) for other in skin.pattern.finditer(rest)} - {move}:
        return None, "it names more than one move after ANSWER:"
    return move, ""
