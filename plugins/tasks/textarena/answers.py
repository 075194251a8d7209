r"""Reading a reply: the move that the player commits to, and what it says aloud.

Reasoning (``<think>`` and the like, channels) is removed first and goes nowhere. A move is a pair
of brackets whose content is a move of the game in some spelling. It counts as committed

* for certain, where it has a line to itself (with a label such as ``Answer:`` or emphasis at most),
  or in ``\boxed{}``, ``<answer>``, or a JSON field ``move``, ``action`` or ``answer``;
* else, where it stands in a sentence that does not reject or merely mention it (*not [3]*,
  *rather than [3]*, *I expect [3]*, *for example [3]*) and is not one of a list of moves.

Lines that repeat the prompt are passed over. The last certain one counts; without any, the last of
the others; without brackets at all, a last line that is nothing but a move. Prose is not searched
for moves, and no move becomes another.

>>> from harness_plugins.tasks.textarena.adapters import adapter
>>> read("<think>maybe [0]</think>[4]", adapter("TicTacToe-v0")).value
'[4]'
>>> read("[col 3] rather than [col 0]", adapter("ConnectFour-v0")).value
'[col 3]'
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from harness.parsing import plain, visible
from harness.types import OK, UNPARSED, Message, Parsed

from .adapter import Adapter

_BRACKETS: Final = re.compile(r"\[([^\[\]]{1,300})\]")
_CONTROL: Final = re.compile(r"[\x00\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_CHANNEL: Final = re.compile(r"<\|[a-z_]{1,20}\|>", re.IGNORECASE)
_FINAL: Final = re.compile(r"<\|channel\|>\s{0,2}final[^<]{0,40}<\|message\|>", re.IGNORECASE)
_BOXED: Final = re.compile(r"\\boxed\s{0,2}\{\s{0,2}(?:\\text\s{0,2}\{)?([^{}\n]{1,300})\}")
_TAG: Final = re.compile(r"<answer>\s{0,9}([^<>]{1,300}(?:->[^<>]{1,300})?)\s{0,9}</answer>", re.I)
_FIELD: Final = re.compile(
    r'"(?:move|action|answer)"\s{0,4}:\s{0,4}(?:"([^"\n]{1,300})"|(-?\d{1,9})(?=\s{0,4}[,}]))'
)
_LABEL: Final = re.compile(
    r"(?:(?:so|thus|therefore|and|my|the|final|next|chosen|best|i)[,\s]{1,3}){0,4}"
    r"(?:answer|move|action|choice|decision|guess|bid|play|choose|pick|select|final)"
    r"(?:\s{1,3}is|\s{1,3}will be)?\s{0,3}:?\s{0,3}",
    re.IGNORECASE,
)
_REJECTED: Final = re.compile(
    r"(?:\b(?:not|never|rather than|instead of|better than|worse than|than|avoid|against|unlike"
    r"|expects?|expecting|(?:legal|available|possible|valid) (?:moves?|actions?)|format"
    r"|opponent(?:'s)?(?: next)?(?: moves?| plays?)?"
    r"|(?:they|he|she|opponent) (?:will |may |might |could |would |can )?(?:play|choose|pick)s?"
    r"|for example|for instance|such as|(?<!i )(?<!i'd )(?<!would )like|e\.g\.)|n't)"
    r"(?: (?:play|choose|pick|take|do|use|to|a|the|be|are|is|were))?[\s:,'\"*`(]{0,4}$",
    re.IGNORECASE,
)
_PLAYER: Final = re.compile(
    # "As Player 0, I play [4]" is something else.
    r"\bplayer (\d)\]?(?:(?!\bI\b|\bmy\b)[^.\n\[\]]){0,45}$",
    re.IGNORECASE,
)
_SAY: Final = re.compile(r"^[ \t*_`]{0,4}say[ \t*_`]{0,3}:[ \t*_`]{0,3}(.{1,4000})$", re.I | re.M)
_DECORATION: Final = "*_`\"'$~.!,;:()<> \t\r\n"
_BETWEEN: Final = re.compile(r"[\s,;/|'\"`*\u2022-]{0,8}(?:or|and)?[\s,;/|'\"`*\u2022-]{0,8}")
_OR: Final = re.compile(
    r"['\"`*]{0,3}\s{0,2}(?:,\s{0,2}(?:or\s{1,2})?|/\s{0,2}|or\s{1,2})['\"`*]{0,3}"
)
CONTEXT: Final = 60
"""Characters before a move that are looked at for a rejection."""
MOST: Final = 1_000
"""Pairs of brackets that are looked at, the last ones."""


class Token(NamedTuple):
    """A pair of brackets in the text: where it stands, and the canonical form of the move in it
    (None: it holds none)."""

    start: int
    end: int
    move: str | None


def clean(text: str) -> str:
    """The visible part of a reply in plain characters."""
    if not text.isascii() or "\x00" in text:
        text = _CONTROL.sub("", plain(text))
    if "<|" in text:
        final = deque(_FINAL.finditer(text), 1)
        if final:
            text = text[final[0].end() :]
        elif "<|channel|>" in text.lower():
            return ""
        text = _CHANNEL.sub("\n", text)
    return visible(text)


def prompt_lines(messages: Iterable[Message]) -> frozenset[str]:
    """The lines of a prompt that hold brackets and more: repeating one is no answer."""
    return frozenset(
        line.strip()
        for message in messages
        if message.role != "assistant" and "[" in message.content
        for line in plain(message.content).split("\n")
        if "[" in line and not _BRACKETS.fullmatch(line.strip())
    )


def bare(text: str, adapter: Adapter) -> Parsed | None:
    """What `read` makes of a reply that is a canonical token and nothing else; None for others."""
    if len(text) < 200 and text[:1] == "[" and adapter.read(text[1:-1]) == text:
        return Parsed(text, OK)
    return None


def read(
    text: str,
    adapter: Adapter,
    finish_reason: str = "stop",
    echoes: Collection[str] = frozenset(),
    seat: int | None = None,
) -> Parsed:
    """The committed move as its canonical token, with class ``ok`` or ``unparsed``.

    What is said of a player other than ``seat`` (None: of any) is a mention, and lines that are
    among ``echoes`` (of the prompt) are passed over. Whether the move is legal is not asked here.
    Of a reply that was cut off, a move counts only if it is certain and the only one that is: what
    follows might have taken it back.
    """
    shown = clean(text)
    if adapter.talks and adapter.listed:
        shown = _SAY.sub("", shown)
    if echoes:
        shown = "\n".join(line for line in shown.split("\n") if line.strip() not in echoes)
    found = [
        Token(found.start(), found.end(), adapter.read(found[1]))
        for found in deque(_BRACKETS.finditer(shown), MOST)
    ]
    tokens = [token for token in found if token.move is not None]
    single = _unlike_lists(shown, found)
    certain = [*_explicit(shown, adapter), *(t for t in single if _alone(shown, t))]
    if finish_reason == "length" and len({token.move for token in certain}) != 1:
        # None yet, or several: where the count would have stopped nobody knows.
        return Parsed(None, UNPARSED, "the reply was cut off before it held a move")
    if certain:
        return Parsed(max(certain, key=lambda token: token.end).move, OK)
    if not adapter.listed:
        return _unlisted(shown, tokens)
    committed = [token for token in single if not _rejected(shown, token, seat)]
    if committed:
        return Parsed(committed[-1].move, OK)
    if tokens:
        return Parsed(None, UNPARSED, "it mentions moves but commits to none")
    return _last_line(shown, adapter)


def say(text: str, everything: bool, limit: int) -> str:
    """What a reply says to the other players: lines that begin with ``SAY:``.

    Without any, ``everything`` makes the whole visible text count. Brackets are turned into
    parentheses, so that no message can pass for a move or for the game's voice; line breaks go.
    """
    shown = clean(text)
    lines = [found[1].strip() for found in _SAY.finditer(shown)]
    spoken = " ".join(lines) if lines else shown if everything else ""
    spoken = spoken[: 4 * limit].replace("[", "(").replace("]", ")")
    return " ".join(spoken.split())[:limit]


def _explicit(shown: str, adapter: Adapter) -> Iterator[Token]:
    for pattern in (_BOXED, _TAG, _FIELD):
        for found in pattern.finditer(shown):
            inner = next(group for group in found.groups() if group is not None)
            move = _inner(inner, adapter)
            if move is not None:
                yield Token(found.start(), found.end(), move)


def _inner(text: str, adapter: Adapter) -> str | None:
    """The move in a text that is a move with or without brackets, and nothing else."""
    text = text.strip(_DECORATION)
    found = _BRACKETS.fullmatch(text)
    if found is not None:
        return adapter.read(found[1])
    return adapter.read(text) if "[" not in text else None


def _alone(shown: str, token: Token) -> bool:
    """Whether a move has its line to itself, but for a label and emphasis."""
    start = shown.rfind("\n", max(0, token.start - CONTEXT), token.start) + 1
    if start == 0 and token.start > CONTEXT:
        return False
    before = shown[start : token.start].strip(_DECORATION + "#>-\\")
    end = shown.find("\n", token.end, token.end + CONTEXT)
    if end < 0 and len(shown) - token.end > CONTEXT:
        return False
    after = shown[token.end : end if end >= 0 else len(shown)].strip(_DECORATION)
    return not after and (not before or _LABEL.fullmatch(before) is not None)


def _unlike_lists(shown: str, found: list[Token]) -> list[Token]:
    """The moves that are not part of a list of different ones."""
    listed = set()
    for i in range(1, len(found)):
        one, two = found[i - 1], found[i]
        if one.move == two.move or two.start - one.end > 20:
            continue
        between = _BETWEEN if one.move and two.move else _OR
        if between.fullmatch(shown, one.end, two.start):
            listed |= {i - 1, i}
    return [token for i, token in enumerate(found) if token.move and i not in listed]


def _rejected(shown: str, token: Token, seat: int | None) -> bool:
    before = shown[max(0, token.start - CONTEXT) : token.start]
    player = _PLAYER.search(before)
    if player is not None and int(player[1]) != seat:
        return True
    return _REJECTED.search(before) is not None


def _last_line(shown: str, adapter: Adapter) -> Parsed:
    line = shown[shown.rfind("\n") + 1 :]
    if len(line) <= 300:
        bare = line.strip(_DECORATION)
        for text in (bare, _LABEL.sub("", bare, count=1).strip(_DECORATION)):
            move = adapter.read(text) if text else None
            if move is not None:
                return Parsed(move, OK)
    return Parsed(None, UNPARSED, "there is no move in square brackets")


def _unlisted(shown: str, tokens: list[Token]) -> Parsed:
    """Without an adapter: the last brackets, or the whole text if it is short."""
    if tokens:
        return Parsed(tokens[-1].move, OK)
    if shown and len(shown) <= 1000:
        return Parsed(shown, OK)
    return Parsed(None, UNPARSED, "there is no move in square brackets")
