"""Whether a reply is right: its States and its Answer against the gold trace, twice.

The strict comparison forgives case, blanks and underscores only. The lenient one also forgives a
full stop, quotes, an article, hyphens, and the letter of an option. Both are reported, so that no
such thing decides between 0 and 1 unseen.

>>> same("Tin  Box", "tin_box"), same("tin_box.", "tin_box")
(True, False)
>>> same_leniently("The tin box.", "tin_box", ()), same_leniently("B.", "jar", ("tin_box", "jar"))
(True, True)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from harness.types import HarnessError, Json

from .grammar import Reading, Structure, structure

_DECORATION = " \t\"'`*_.,;:!?()[]{}<>"
_OPTION = re.compile(r"\(?([a-z])\s*[.):]\s*(.*)", re.IGNORECASE | re.DOTALL)
_ARTICLE = re.compile(r"(?:in |inside |the |a |an |its |his |her )+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Target:
    """The gold: places of the trace, innermost belief first, and the answer."""

    places: tuple[str, ...]
    answer: str
    choices: tuple[str, ...] = ()

    @property
    def order(self) -> int:
        """N: the number of nested beliefs."""
        return len(self.places)

    @staticmethod
    def of(truth: Mapping[str, Json], data: Mapping[str, Json]) -> Target:
        """Read and check a sample's truth; raises HarnessError when it is no target."""
        trace, answer = truth.get("trace"), truth.get("answer")
        if not isinstance(trace, Sequence) or isinstance(trace, str) or not trace:
            raise HarnessError("the truth has no trace; a process reward needs one")
        if not all(isinstance(place, str) and place.strip() for place in trace):
            raise HarnessError(f"trace {trace!r}: each step needs the name of a place")
        if not isinstance(answer, str) or not answer.strip():
            raise HarnessError(f"answer {answer!r}: the truth needs the name of a place")
        if truth.get("order", len(trace)) != len(trace):
            raise HarnessError(f"order {truth['order']!r} with a trace of {len(trace)} steps")
        return Target(tuple(trace), answer, tuple(data.get("choices", ())))


@dataclass(frozen=True, slots=True)
class Verdict:
    """A reply judged: one truth value a step (by the number of the block), and the answer's."""

    order: int
    states: tuple[bool, ...]
    states_lenient: tuple[bool, ...]
    answered: bool
    answer: bool
    answer_lenient: bool
    consistent: bool
    structure: Structure

    @property
    def all_states(self) -> bool:
        """Every State is right (strictly)."""
        return all(self.states)


def judge(reading: Reading, target: Target) -> Verdict:
    """Judge a reading. A State counts if its number occurs in one block only and the block has
    exactly one; ``consistent`` says that the Answer repeats the last State."""
    counts = Counter(block.index for block in reading.blocks)
    values = {b.index: b.state for b in reading.blocks if counts[b.index] == 1}
    said = [values.get(i + 1) for i in range(target.order)]
    pairs = list(zip(said, target.places, strict=True))
    answer = reading.answer
    return Verdict(
        order=target.order,
        states=tuple(s is not None and same(s, gold) for s, gold in pairs),
        states_lenient=tuple(
            s is not None and same_leniently(s, gold, target.choices) for s, gold in pairs
        ),
        answered=answer is not None,
        answer=answer is not None and same(answer, target.answer),
        answer_lenient=answer is not None and same_leniently(answer, target.answer, target.choices),
        consistent=answer is not None and said[-1] is not None and same(answer, said[-1]),
        structure=structure(reading, target.order),
    )


def normal(text: str) -> str:
    """Lower case, underscores as blanks, blanks collapsed: all that strictness forgives."""
    return " ".join(text.lower().replace("_", " ").split())


def same(said: str, gold: str) -> bool:
    """The strict comparison."""
    return normal(said) == normal(gold)


def same_leniently(said: str, gold: str, choices: Sequence[str]) -> bool:
    """The lenient comparison; ``choices`` give the letters their meaning."""
    return plain(said, choices) == plain(gold)


def plain(said: str, choices: Sequence[str] = ()) -> str:
    """A place's name without letter, article, punctuation, hyphens; a lone letter as its option.

    >>> plain("(C) the Red-Box", ("a", "b", "red_box")), plain("C", ("x", "y", "jar"))
    ('red box', 'jar')
    """
    text = said.strip(_DECORATION + "\n")
    letters = ascii_uppercase[: len(choices)]
    if len(text) == 1 and text.upper() in letters:
        return plain(choices[letters.index(text.upper())])
    if (
        choices
        and (found := _OPTION.fullmatch(said.strip(" \t\"'`*")))
        and found[1].upper() in letters
    ):
        # A letter with a text is read by its text, so that the two cannot disagree unseen.
        text = found[2].strip(_DECORATION)
    text = _ARTICLE.sub("", text, count=1) if _ARTICLE.match(text) else text
    return normal(text.replace("-", " "))
