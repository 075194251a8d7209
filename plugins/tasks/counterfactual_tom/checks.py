"""Checking a data set by other means than those that drew it (``data build --verify``).

The oracle steps through points of view. Here each kind of event has instead a closed condition on
the chain of names, which says outright whether the event reaches it; the last one that does gives
the belief.

>>> reached(Event("overseen", "stamp", "jar", (("Bo",), ("Ana",))), ("Ana", "Bo"), set())
'jar'
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import pairwise
from typing import Final

from harness.types import Sample

from ..tom.question import ask
from ..tom.world import Event
from .data import PRESETS
from .vocabulary import POOLS

LAYERED: Final = ("overseen", "announced")


def reached(event: Event, chain: Sequence[str], present: Set[str]) -> str | None:
    """The place that an event gives to a chain of beliefs; None when it does not reach it.

    :param present: who is in the event's room.
    """
    groups, names = event.groups, set(chain)
    if event.kind == "joint":
        return event.to if names <= set(groups[0]) else None
    if event.kind == "inside":
        return event.to if names <= present else None
    if event.kind == "private":
        return event.to if len(chain) == 1 and names <= set(groups[0]) else None
    if event.kind in LAYERED:
        layer = {name: depth for depth, group in enumerate(groups) for name in group}
        depths = [layer.get(name, -1) for name in chain]
        down = all(outer >= inner for outer, inner in pairwise(depths))
        return event.to if down and -1 not in depths else None
    if event.kind == "assumed":
        return event.to if chain[0] in groups[0] and names <= {*groups[0], *groups[1]} else None
    if event.kind in ("decoy", "claim", "tell"):
        if not names <= {*groups[0], *groups[1]}:
            return None
        return event.to if names <= set(groups[0]) else event.shown
    return None


def belief(events: Sequence[Event], chain: Sequence[str]) -> str | None:
    """Where the last event that reaches the chain says that the object is."""
    place: str | None = None
    rooms: dict[str, str] = {}
    for event in events:
        if event.kind == "enter":
            rooms |= dict.fromkeys(event.groups[0], event.room)
        elif event.kind == "leave":
            for name in event.groups[0]:
                del rooms[name]
        present = {name for name, room in rooms.items() if room == event.room}
        place = reached(event, chain, present) or place
    return place


def problems(samples: Iterable[Sample], preset: str) -> Iterator[str]:
    """Everything that is wrong with a data set, each in one line.

    :param preset: the design that it must follow; "" for samples from a file.
    """
    held = list(samples)
    pairs: dict[str, list[Sample]] = {}
    for sample in held:
        pairs.setdefault(sample.cluster, []).append(sample)
        yield from (f"{sample.id}: {problem}" for problem in sample_problems(sample))
        if preset == "strict":
            yield from (f"{sample.id}: {problem}" for problem in _words(sample))
    for name, sides in pairs.items():
        yield from (f"{name}: {problem}" for problem in _pair(sides))
    if preset:
        yield from _counts(held, preset)


def sample_problems(sample: Sample) -> Iterator[str]:
    """What is wrong with one sample: its truth, its question, its places."""
    data, truth = sample.data, sample.truth
    chain, events = tuple(data["chain"]), [Event.of(e) for e in data["events"]]
    trace = [belief(events, chain[start:]) for start in range(len(chain) - 1, -1, -1)]
    if trace != list(truth["trace"]):
        yield f"the trace is {trace}, not {truth['trace']}"
    if trace[-1] != truth["answer"]:
        yield f"the answer is {trace[-1]}, not {truth['answer']}"
    if truth["answer"] not in data["choices"]:
        yield f"the answer {truth['answer']} is not among the choices"
    if len(set(chain)) < len(chain):
        yield "somebody occurs twice in the question"
    if data["question"] != ask(chain, data["object"]):
        yield "the question is not about its chain and object"


def _words(sample: Sample) -> Iterator[str]:
    """Words that the split must not hold, and places told in another order than the events'."""
    pool = POOLS[sample.split]
    names = {name for other in POOLS.values() for name in other.names} - pool.names
    places = {place for other in POOLS.values() for place in other.places} - pool.places
    words = sample.data["story"].replace(",", " ").replace(".", " ").replace(";", " ").split()
    if foreign := sorted(set(words) & (names | places)):
        yield f"words of another split: {', '.join(foreign)}"
    if twice := [p for p in sample.data["choices"] if words.count(p) > 1]:
        yield f"places told twice: {', '.join(twice)}"


def _pair(sides: Sequence[Sample]) -> Iterator[str]:
    if sorted(s.data["side"] for s in sides) != ["hidden", "observed"]:
        yield "a pair has an observed and a hidden side"
        return
    first, second = sides
    if first.truth["answer"] == second.truth["answer"]:
        yield "both sides have the same answer"
    for field in ("question", "choices"):
        if first.data[field] != second.data[field]:
            yield f"the sides differ in {field}"
    moves = [[(e["kind"], e.get("to"), e.get("shown")) for e in s.data["events"]] for s in sides]
    if moves[0] != moves[1]:
        yield "the sides differ in more than who takes part"


def _counts(samples: Sequence[Sample], preset: str) -> Iterator[str]:
    found = Counter((s.split, s.truth["order"]) for s in samples)
    for split in {s.split for s in samples} - {"ood"}:
        for order, pairs in PRESETS[preset][split].items():
            if found[split, order] != 2 * pairs:
                yield f"{split} has {found[split, order]} samples of order {order}, not {2 * pairs}"
