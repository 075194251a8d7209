"""Stories of moves, read from their English alone.

Works on the published stories and on ours of the same form (preset ``reference``): places are
snake_case words, the first move names everybody, a move that names nobody was hidden, and the words
"alone", "only" or "private camera" mark a private one.

>>> text = "Ana and Bo saw the key put in the tin_box. Bo alone saw it go to the red_jar."
>>> [(move.event.kind, move.event.to, move.event.groups) for move in read_story(text, "key")]
[('joint', 'tin_box', (('Ana', 'Bo'),)), ('private', 'red_jar', (('Bo',),))]
"""

from __future__ import annotations

import re
from typing import NamedTuple

from harness.types import HarnessError

from ..tom.world import Event

_PLACE = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")
_NAME = re.compile(r"\b[A-Z][a-z]+\b")
_PRIVATE = re.compile(r"\balone\b|\bonly\b|\bprivate camera\b", re.IGNORECASE)
_NO_NAMES = frozenset(
    [
        "A",
        "All",
        "An",
        "Everyone",
        "In",
        "No",
        "Nobody",
        "On",
        "The",
        "There",
        "They",
        "This",
        "Together",
        "While",
        "With",
        "Without",
    ]
)


class ParsedMove(NamedTuple):
    """A move, the place that it starts from (None: not told) and the number of its sentence."""

    event: Event
    origin: str | None
    line: int


def sentences(story: str) -> list[str]:
    """The sentences of a story, one line or numbered lines."""
    lines = [re.sub(r"^\d+\s+", "", line.strip()) for line in story.strip().splitlines()]
    return [s for line in lines for s in re.split(r"(?<=\.)\s+", line) if s]


def read_story(story: str, thing: str) -> list[ParsedMove]:
    """The moves of a story in order. Raises HarnessError when it has none, or the first move
    names nobody."""
    moves: list[ParsedMove] = []
    agents: frozenset[str] = frozenset()
    for line, sentence in enumerate(sentences(story), start=1):
        places = _PLACE.findall(sentence)
        if not places:
            continue
        named = tuple(dict.fromkeys(n for n in _NAME.findall(sentence) if n not in _NO_NAMES))
        if not moves:
            agents = frozenset(named)
        people = tuple(name for name in named if name in agents)
        kind = "hidden" if not people else "joint"
        if people and _PRIVATE.search(sentence):
            kind = "private"
        event = Event(kind, thing, places[-1], (people,) if people else ())
        moves.append(ParsedMove(event, places[-2] if len(places) > 1 else None, line))
    if not agents:
        raise HarnessError("the story has no first move that names who saw it")
    return moves
