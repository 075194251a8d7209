"""A story as a timeline: after each event, where the object is and where each person thinks it is.

    timeline(facts), steps(facts, truth, reading)

The beliefs are the oracle's. Beside the world and every person stand the beliefs that the question
nests: "Bo about Ana" is where Bo thinks that Ana thinks the object is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.exhibits import BAD, CHANGED, GOOD, KEY, Exhibit, Mark, Table
from harness.types import Json

from .answers import same_leniently
from .grammar import Reading
from .oracle import Beliefs
from .shortcuts import Facts
from .world import KINDS, Event

NOWHERE = "–"


def exhibits(
    facts: Facts, truth: Mapping[str, Json], said: Sequence[str | None], answer: str | None
) -> list[Exhibit]:
    """The timeline, and the question's beliefs beside what was said of each.

    :param said: what the reply said of each belief, innermost first (empty: it was not asked).
    """
    return [timeline(facts), beliefs(facts, truth, said, answer)]


def timeline(facts: Facts) -> Table:
    """A row an event that may matter; columns: the world, each person, each nested belief."""
    chains = _chains(facts)
    rows: list[tuple[str, ...]] = []
    marks: list[Mark] = []
    before: tuple[str, ...] = (NOWHERE,) * len(chains)
    for number, event in enumerate(facts.events):
        if event.object not in ("", facts.object):
            continue
        after = Beliefs(facts.events[: number + 1], facts.rules)
        places = tuple(after.place(facts.object, chain) or NOWHERE for chain in chains)
        marks += [
            Mark(len(rows), i + 2, CHANGED)
            for i, (old, new) in enumerate(zip(before, places, strict=True))
            if old != new
        ]
        rows.append((str(number + 1), told(event), *places))
        before = places
    asked = chains.index(facts.chain) + 2
    last = len(rows) - 1
    marks = [mark for mark in marks if (mark.row, mark.column) != (last, asked)]
    return Table(
        f"Where the {facts.object} is, and where it is thought to be",
        ("", "event", *(_name(chain) for chain in chains)),
        tuple(rows),
        (*marks, Mark(last, asked, KEY)) if rows else (),
        "Tinted: changed by the event. Outlined: the belief that is asked for.",
    )


def beliefs(
    facts: Facts, truth: Mapping[str, Json], said: Sequence[str | None], answer: str | None
) -> Table:
    """What the question nests, innermost first, with what the reply said of it."""
    chain, trace = facts.chain, tuple(truth.get("trace") or ())
    rows = []
    for depth, place in enumerate(trace, start=1):
        own = said[depth - 1] if depth <= len(said) else None
        rows.append((" thinks ".join(chain[len(chain) - depth :]), place or NOWHERE, own or ""))
    rows.append(("answer", truth["answer"], answer or "(none)"))
    marks = [
        Mark(i, 2, GOOD if same_leniently(row[2], row[1], facts.choices) else BAD)
        for i, row in enumerate(rows)
        if row[2]
    ]
    return Table(
        "The beliefs asked for",
        ("belief", "truth", "said"),
        tuple(rows),
        tuple(marks),
        "Green: right; red: wrong.",
    )


def stated(parsed: Json) -> tuple[list[str | None], str | None]:
    """The State of each block of a parsed reply, and its answer."""
    if not isinstance(parsed, Mapping):
        return [], None
    reading = Reading.of(parsed)
    return [block.state for block in reading.blocks], reading.answer


def told(event: Event) -> str:
    """An event in words, with the roles of its people.

    >>> told(Event("assumed", "key", "jar", (("Ana",), ("Bo", "Cy"))))
    'assumed: to jar; watching Ana; presumed Bo, Cy'
    """
    parts = [f"to {event.to}"] if event.to else []
    parts += [f"shown {event.shown}"] if event.shown else []
    parts += [f"in {event.room}"] if event.room else []
    roles = KINDS[event.kind][0].split() if event.kind in KINDS else []
    if roles and roles[-1] == "...":
        roles = [*roles[:-1], *["overseers"] * len(event.groups)]
    for i, group in enumerate(event.groups):
        role = roles[i] if i < len(roles) else _other(event.kind, i)
        parts.append(f"{role} {', '.join(group) or 'nobody'}".strip())
    return f"{event.kind}: {'; '.join(parts)}" if parts else event.kind


def _other(kind: str, place: int) -> str:
    claims = ("speaker", "believed by", "not believed by")
    return claims[place] if kind == "persuade" and place < len(claims) else "seen by"


def _chains(facts: Facts) -> list[tuple[str, ...]]:
    """The world, each person, and the question's nested beliefs, inner ones first."""
    people = dict.fromkeys(
        name for event in facts.events for group in event.groups for name in group
    )
    people |= dict.fromkeys(facts.chain)
    nested = [facts.chain[start:] for start in range(len(facts.chain) - 2, -1, -1)]
    return [(), *((name,) for name in people), *nested]


def _name(chain: tuple[str, ...]) -> str:
    return " about ".join(chain) if chain else "world"
