"""Questions and options: "Where does Ana think Bo thinks the stamp is?" and "A. jar, B. tin_box".

>>> ask(("Ana", "Bo"), "stamp")
'Where does Ana think Bo thinks the stamp is?'
>>> parse("Where does Ana think Bo thinks the stamp is?")
Question(chain=('Ana', 'Bo'), object='stamp')
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import ascii_uppercase
from typing import NamedTuple

from harness.types import HarnessError

_NESTED = re.compile(r"Where does (\w+) (?:really )?think ((?:\w+ thinks )*)the (.+) is\?")
_WORLD = re.compile(r"Where is the (.+) really\?")
_OPTION = re.compile(r"([A-Z])\. ([^,]+)")


class Question(NamedTuple):
    """Who thinks that who thinks (outermost first; empty: where is it really), and of what."""

    chain: tuple[str, ...]
    object: str


def ask(chain: Sequence[str], thing: str) -> str:
    """The question in English; the empty chain asks for the world."""
    if not chain:
        return f"Where is the {thing} really?"
    inner = "".join(f"{name} thinks " for name in chain[1:])
    return f"Where does {chain[0]} think {inner}the {thing} is?"


def parse(text: str) -> Question:
    """Read a question. Raises HarnessError for any other wording."""
    text = text.strip()
    if found := _WORLD.fullmatch(text):
        return Question((), found[1])
    if found := _NESTED.fullmatch(text):
        return Question((found[1], *found[2].replace("thinks", "").split()), found[3])
    raise HarnessError(f"{text!r} is no question of the form 'Where does A think B thinks ...'")


def options(choices: Sequence[str]) -> str:
    """The options with their letters, in one line."""
    return ", ".join(f"{ascii_uppercase[i]}. {place}" for i, place in enumerate(choices))


def parse_options(text: str) -> tuple[str, ...]:
    """Read `options`. Raises HarnessError when the letters are not A, B, C, ..."""
    found = _OPTION.findall(text)
    if not found or [letter for letter, _ in found] != list(ascii_uppercase[: len(found)]):
        raise HarnessError(f"{text!r} is no list of options 'A. x, B. y'")
    return tuple(place.strip() for _, place in found)
