"""What a teacher is told besides the prompt: the verified answer, and the events that settle it.

The events are those that the beliefs of the chain and of its suffixes come from, each in the
story's own words and in the story's order: no number, no role, no label of an event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from harness.types import Json

from ..tom.shortcuts import Facts

ADVICE: Final = (
    "Reason from the innermost belief outwards, and rest each step on the event that settles it. "
    "Write as somebody who found all of this in the story: do not say that you were told."
)


def known(data: Mapping[str, Json], truth: Mapping[str, Json]) -> str:
    """The teacher's knowledge of a sample. Raises HarnessError for a story without an answer."""
    lines = "\n".join(f"- {line}" for line in support(Facts.of(data)))
    return (
        f"Known to you alone, and verified: the answer is {truth['answer']}. These events of the "
        f"story are all that it takes, in their order:\n{lines}\n{ADVICE}"
    )


def support(facts: Facts) -> list[str]:
    """The sentences of the last event that reaches each suffix of the chain, in story order."""
    sources = sorted(facts.beliefs.trace(facts.object, facts.chain), key=lambda s: s.event)
    return list(dict.fromkeys(facts.first_lines[source.place] for source in sources))
