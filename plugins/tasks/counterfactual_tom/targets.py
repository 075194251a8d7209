"""Targets of supervised training: each belief with the sentence that it comes from.

Think 1: The last thing that changes where Bo thinks the stamp is: "Bo alone saw ..."
State: jar
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.types import Json

from ..tom.grammar import write
from ..tom.shortcuts import Facts


def target(data: Mapping[str, Json], truth: Mapping[str, Json]) -> str:
    """The perfect reply: N blocks, innermost belief first, each with its reason."""
    facts, places = Facts.of(data), tuple(truth["trace"])
    return write(places, tuple(_reason(facts, k, p) for k, p in enumerate(places, start=1)))


def plainly(places: tuple[str, ...]) -> str:
    """A well-formed reply without an argument, for players that have none."""
    return write(places, ("the story says so.",) * len(places))


def _reason(facts: Facts, depth: int, place: str) -> str:
    names = " thinks ".join(facts.chain[len(facts.chain) - depth :])
    line = facts.first_lines[place]
    return f'The last thing that changes where {names} thinks the {facts.object} is: "{line}"'
