"""Prompts and replies of Hi-ToM: a choice among fifteen places, or the place in one's own words.

>>> said("She saw it last.\\nAnswer: red_box"), said("B"), said("I don't know where it is")
('red_box', 'B', None)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from harness.types import Json

from ..tom.grammar import read
from ..tom.question import options

FORMS: Final = ("choice", "open")
STYLES: Final = ("cot", "direct")

_LONGEST: Final = 40
"""Characters of a reply that may be a bare answer."""
_BARE: Final = re.compile(r"[A-Za-z](?:[.)].*)?|(?:[Tt]he )?[A-Za-z]+[_ -][A-Za-z_ -]+\.?")

ASSUMPTIONS: Final = (
    "Everybody sees all that happens in a room, and who is there, until leaving it.",
    "Somebody can tell what another person knows only after they were in one place or have spoken.",
    "People tend to lie: what they say changes nothing in what they think themselves. A listener "
    "believes only who left the room later than the listener did; the order of leaving is known to "
    "all.",
    "What is told in private is not heard by others; a public claim is heard by everybody.",
)


def prompt(data: Mapping[str, Json], form: str, style: str) -> str:
    """Story, question, choices (unless open), assumptions, and how to answer."""
    parts = [
        "Read the story and answer the question about it.",
        f"Story:\n{data['story']}",
        f"Question: {data['question']}",
    ]
    if form == "choice":
        parts.append(f"Choices: {options(data['choices'])}")
    parts.append("Take it that:\n" + "\n".join(f"- {line}" for line in ASSUMPTIONS))
    named = "the place or its letter" if form == "choice" else "the place"
    if style == "cot":
        parts.append(f"Think step by step. End with one line `Answer:` and {named}.")
    else:
        parts.append(f"Reply with one line only: `Answer:` and {named}.")
    return "\n\n".join(parts)


def said(text: str) -> str | None:
    """The committed answer: the last Answer line, or a reply that is nothing but an answer."""
    answers = [answer for answer in read(text.replace("**", "")).answers if answer]
    if answers:
        return answers[-1]
    bare = text.strip()
    return bare if len(bare) <= _LONGEST and _BARE.fullmatch(bare) else None
