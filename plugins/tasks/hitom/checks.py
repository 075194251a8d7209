"""Checking answers by other means than the oracle: all beliefs kept in one table, event by event.

The oracle asks each event, from the last back, what it means to one chain. Here a table holds the
belief of every chain of the question's people; each event writes into all chains that it
reaches, by the rules as Hi-ToM states them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations

from harness.types import Sample

from ..tom.question import ask
from ..tom.world import Event
from .reader import read_story

Chain = tuple[str, ...]


def table(events: Sequence[Event], people: Sequence[str], thing: str) -> dict[Chain, str]:
    """Where each chain of different people thinks that the thing is, after the story."""
    chains = [c for n in range(len(people) + 1) for c in permutations(people, n)]
    found: dict[Chain, str] = {}
    rooms: dict[str, str] = {}
    for event in events:
        if event.kind == "enter":
            rooms |= dict.fromkeys(event.groups[0], event.room)
        elif event.kind == "leave":
            rooms = {n: r for n, r in rooms.items() if n not in event.groups[0]}
        if event.object != thing:
            continue
        if event.kind == "persuade":
            found |= _claimed(event)
            continue
        inside = {name for name, room in rooms.items() if room == event.room}
        group = inside if event.kind == "inside" else set(event.groups[0])
        place = event.to if event.kind == "inside" else found.get(())
        if place is not None:
            found |= dict.fromkeys((c for c in chains if set(c) <= group), place)
    return found


def _claimed(event: Event) -> dict[Chain, str]:
    """What a claim changes: beliefs of order one and two."""
    (speaker,), believers, doubters = event.groups
    place = event.shown or ""
    told = {(name,): place for name in believers}
    of_speaker = {(name, speaker): place for name in believers}
    of_hearers = {(speaker, name): place for name in (*believers, *doubters)}
    return told | of_speaker | of_hearers


def agrees(sample: Sample) -> bool:
    """Whether the table gives the sample's answer."""
    data = sample.data
    chain = tuple(data["chain"])
    found = table(read_story(data["story"]), chain, data["object"])
    return found.get(chain) == sample.truth["answer"]


def problems(samples: Iterable[Sample]) -> Iterator[str]:
    """What is wrong with generated samples, each in one line."""
    for sample in samples:
        data, chain = sample.data, tuple(sample.data["chain"])
        found = table(read_story(data["story"]), chain, data["object"])
        trace = [found.get(chain[start:]) for start in range(len(chain) - 1, -1, -1)]
        if trace != list(sample.truth["trace"]):
            yield f"{sample.id}: the trace is {trace}, not {sample.truth['trace']}"
        if found.get(chain) != sample.truth["answer"]:
            yield f"{sample.id}: the answer is {found.get(chain)}, not {sample.truth['answer']}"
        if sample.truth["answer"] not in data["choices"]:
            yield f"{sample.id}: the answer is not among the choices"
        if data["question"] != ask(chain, data["object"]):
            yield f"{sample.id}: the question is not about its chain and object"
