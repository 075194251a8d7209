"""Prompts: story, question and choices in one line, and how to answer.

``compact`` (the default) lets the model find the order of the question itself; ``exact-order``
tells the order and the chain, explains the rules of visibility and shows an empty scaffold.
Neither ever holds a place of the truth outside the story and the choices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from harness.types import HarnessError, Json

from ..tom.question import options

STYLES: Final = ("compact", "exact-order")

REQUIREMENTS: Final = (
    "Output requirements: Count how many beliefs the question nests inside each other and call "
    "that number N; a question about what one person thinks has N of 1. Reason from the innermost "
    "belief outwards in exactly N blocks of plain text, numbered from 1 with real numbers. Start "
    "each block on a new line with its marker (`Think 1:`, `Think 2:` and so on), give your "
    "reasons there, and end it with one new line `State:` and a single location from Choices. "
    "After the last block, write one new line `Answer:` that repeats the last State, and nothing "
    "more. Every marker begins its line. Use no JSON, no Markdown, no option letters and no "
    "further blocks."
)

RULES: Final = (
    "Who sees an event together knows that the others of the group see it too, and so on.",
    "Who sees something alone or in secret is known to have seen it by nobody but those who are "
    "said to watch or to know.",
    "What somebody neither sees, hears nor learns leaves all of that person's beliefs as they "
    "were.",
)


def lead(data: Mapping[str, Json]) -> str:
    """Story, question and choices in one line."""
    return (
        f"Read the story, then answer the question about it. Story: {data['story']} "
        f"Question: {data['question']} Choices: {options(data['choices'])}"
    )


def prompt(data: Mapping[str, Json], style: str, known: str = "") -> str:
    """The whole prompt; ``known`` is what a teacher is told between the choices and how to answer.

    Raises HarnessError for a style that does not exist.
    """
    told = [lead(data), known] if known else [lead(data)]
    if style == "compact":
        return "\n\n".join([*told, REQUIREMENTS])
    if style == "exact-order":
        chain = data["chain"]
        return "\n\n".join([*told, _rules(chain, data["object"]), _scaffold(len(chain))])
    raise HarnessError(f"style={style}: choose {' or '.join(STYLES)}")


def _rules(chain: Sequence[str], thing: str) -> str:
    n = len(chain)
    levels = [
        f"- Think {i} is about where {' thinks '.join(chain[n - i :])} thinks the {thing} is."
        for i in range(1, n + 1)
    ]
    return "\n".join(
        [
            "Rules:",
            f"- The question nests N = {n} beliefs, from outer to inner: {' -> '.join(chain)}.",
            f"- Write exactly {n} blocks, one for each belief, none for events or other people.",
            *levels,
            *(f"- {rule}" for rule in RULES),
            "- State holds the name of a location from Choices, not its letter.",
            f"- Answer repeats State {n}. Stop after it; there is no Think {n + 1}.",
        ]
    )


def _scaffold(n: int) -> str:
    blocks = [f"Think {i}: ...\nState: ..." for i in range(1, n + 1)]
    return "\n".join(["Fill in this form:", *blocks, "Answer: ..."])
