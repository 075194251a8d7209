"""Preset ``strict``: pairs of stories whose answer is told by nothing but who knows what of whom.

The answer is drawn first: two places of the story, uniformly, one for each side of the pair. Then
people are cast into the parts so that the question's chain of beliefs ends up at those places:
the last part that reaches the chain is the one that names the answer. The sides differ in one part,
where two people change roles. What a rule without eyes could use is drawn independently of the
answer: kinds, sizes of groups, wordings, lengths, and every part names everybody.

    pair = make_pair(order=2, split="train", rng=random.Random(1))
    [sample.truth["answer"] for sample in pair.samples("pair-1", "train", 0)]
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from ..tom.question import ask
from ..tom.world import Event
from .casting import Casting, Goal
from .pair import SIDES, Pair, Side
from .plots import Cast, Part, Plotter, places_of
from .vocabulary import POOLS, Pool
from .wording import FILLERS, tell

OPTIONS: Final = 15
"""Places among the choices."""
FIRST: Final = 0.7
LAST: Final = 0.5
"""Shares of the answers at the first and the last place that are kept. Shortcuts that look for a
shared event fall back on the opening, and after the last part nothing can lead them away."""
NEAR: Final = 0.5
"""Share of the pairs that are kept although a shorter or reversed chain leads to an answer too."""
PARTS: Final = (8, 10)
"""Parts of a story, least and most, the opening included."""


def people_for(order: int) -> int:
    """How many people a story has: some are always outside the chain."""
    return max(5, order + 2)


def make_pair(order: int, split: str, rng: random.Random) -> Pair:
    """Draw a pair. The same generator state gives the same pair."""
    while True:
        if (pair := _try_pair(order, split, rng)) is not None:
            return pair


def _try_pair(order: int, split: str, rng: random.Random) -> Pair | None:
    pool = POOLS[split]
    agents = tuple(rng.sample(pool.name_list, people_for(order)))
    chain = tuple(rng.sample(agents, order))
    thing = rng.choice(pool.object_list)
    choices = tuple(rng.sample(pool.place_list, OPTIONS))
    parts = _plot(order, split, rng, pool, rng.sample(choices, OPTIONS))
    goals = _goals(parts, order, rng)
    if goals is None:
        return None
    found = Casting(parts, chain, agents, rng).both(*goals)
    if found is None or (found.near and rng.random() > NEAR):
        return None
    critical = goals[0].part
    pair = Pair(chain, thing, agents, ask(chain, thing), choices, critical, found.swap)
    fillers = _fillers(split, agents, pool, len(parts), rng)
    for side, cast in zip(SIDES, (found.observed, found.hidden), strict=True):
        pair.sides[side] = _side(parts, cast, thing, split, fillers)
    return pair


def _plot(
    order: int, split: str, rng: random.Random, pool: Pool, places: Sequence[str]
) -> list[Part]:
    """The parts, with places dealt in the order of the text."""
    plotter = Plotter(order, people_for(order), split, rng)
    kinds = plotter.kinds(rng.randint(*PARTS) - 1)
    parts = [plotter.first(places[0])]
    used = 1
    for kind in kinds:
        count = places_of(kind)
        if used + count > len(places):
            break
        parts.append(plotter.part(kind, places[used : used + count], rng.choice(pool.room_list)))
        used += count
    return parts


def _goals(parts: Sequence[Part], order: int, rng: random.Random) -> tuple[Goal, Goal] | None:
    """Two of the places that can be the answer, uniformly: of the observed side (the later one) and
    of the hidden side. None when one part holds both."""
    found = [Goal(i, role) for i, part in enumerate(parts) for role in part.reach(order)]
    hidden, observed = (found[i] for i in sorted(rng.sample(range(len(found)), 2)))
    share = (FIRST if hidden == found[0] else 1.0) * (LAST if observed == found[-1] else 1.0)
    if rng.random() > share:
        return None
    return None if hidden.part == observed.part else (observed, hidden)


def _fillers(
    split: str, agents: Sequence[str], pool: Pool, parts: int, rng: random.Random
) -> list[tuple[int, str]]:
    """Two to five lines that tell nothing, each with the number of the part that it precedes."""
    lines = FILLERS["test" if split == "ood" else split]
    found = []
    for _ in range(rng.randint(2, 5)):
        name, other = rng.sample(agents, 2)
        text = rng.choice(lines).format(name=name, other=other, prop=rng.choice(pool.prop_list))
        found.append((rng.randint(0, parts), text))
    return sorted(found)


def _side(
    parts: Sequence[Part],
    casts: Sequence[Cast],
    thing: str,
    split: str,
    fillers: Sequence[tuple[int, str]],
) -> Side:
    lines: list[str] = []
    events: list[Event] = []
    for number, (part, cast) in enumerate(zip(parts, casts, strict=True)):
        lines += [text for before, text in fillers if before == number]
        words = {"obj": thing, "room": part.room, **part.places}
        text = tell(part.kind, split, part.wording, cast, **words)
        lines.append(text[0].upper() + text[1:])
        events += part.events(cast, thing)
    lines += [text for before, text in fillers if before == len(parts)]
    return Side(" ".join(lines), tuple(events))
