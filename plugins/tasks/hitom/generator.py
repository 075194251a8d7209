"""Stories of Hi-ToM's kind, drawn anew: rooms, chapters, moves, and people who tend to lie.

In a chapter a group enters a room, a thing lies somewhere, and one after the other moves it or
stays, and leaves. The first chapter has everybody, later ones some of the people; a chapter may
return to a room. With deception, claims aloud or in private follow a chapter. The question is
about the first chapter's thing and names any of the people in any order. Names, things and
places are those of the split, so that nothing seen in training is seen again.

>>> sample = draw(seed=1, kind=Kind("test", True, 2, 3), number=0)
>>> len(sample.truth["trace"]), sample.truth["answer"] in sample.data["choices"]
(3, True)
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from harness.seeds import derive
from harness.types import Sample

from ..counterfactual_tom.published import canonical
from ..counterfactual_tom.vocabulary import POOLS
from ..counterfactual_tom.wording import people as spoken
from ..tom.oracle import Beliefs
from ..tom.question import ask
from .reader import read_story
from .rules import RULES, WAITING

GENERATOR: Final = "1"
LENGTHS: Final = (1, 2, 3)
ORDERS: Final = (0, 1, 2, 3, 4)
"""Orders of the training range."""
OOD_ORDERS: Final = (5, 6)
COUNTS: Final = {"train": 80, "validation": 10, "test": 20}
"""Samples of each (deception, length, order)."""
OOD_COUNT: Final = 50
NOISE: Final = 0.1
"""Chance of an idle line after a line."""
_IDLE: Final = (
    "{name} looked at the {prop}.",
    "{name} misses the {prop}.",
    "{name} hummed a tune.",
)


class Kind(NamedTuple):
    """A cell of the design."""

    split: str
    deception: bool
    length: int
    order: int

    @property
    def name(self) -> str:
        """The cell as part of an id."""
        lies = "tell" if self.deception else "plain"
        return f"{self.split}-{lies}-l{self.length}-o{self.order}"


def kinds(split: str, orders: Sequence[int]) -> Iterator[Kind]:
    """The cells of a split."""
    for deception in (False, True):
        for length in LENGTHS:
            for order in orders:
                yield Kind(split, deception, length, order)


class _Writer:
    """Writes one story."""

    def __init__(self, kind: Kind, rng: random.Random) -> None:
        pool = POOLS[kind.split]
        self.kind, self.rng, self.pool = kind, rng, pool
        self.names = rng.sample(pool.name_list, max(5, kind.order + 1))
        self.things = rng.sample(pool.object_list, 3)
        self.rooms = rng.sample(pool.room_list, 3)
        self.choices = rng.sample(pool.place_list, 15)
        self.lies: dict[str, tuple[str, str]] = {}  # room: its thing and where that is now
        self.lines: list[str] = []

    def write(self) -> None:
        """All chapters. With deception at least the last one is followed by a claim."""
        for number in range(self.kind.length):
            group = self.names
            if number:
                group = self.rng.sample(self.names, self.rng.randint(3, len(self.names) - 1))
            self._chapter(group, self._room(number))
            if self.kind.deception and (number + 1 == self.kind.length or self.rng.random() < 0.5):
                self._claims(group)

    def _room(self, number: int) -> str:
        """The next room; from the second chapter on it may be the first again."""
        return self.rooms[0] if number and self.rng.random() < 0.4 else self.rooms[number]

    def _chapter(self, group: Sequence[str], room: str) -> None:
        index = self.rooms.index(room)
        places = self.choices[5 * index : 5 * index + 5]
        thing, place = self.lies.get(room, (self.things[index], self.rng.choice(places)))
        self._say(f"{spoken(tuple(group))} entered the {room}.")
        self._say(f"The {thing} is in the {place}.")
        for name in group:
            if self.rng.random() < 0.6:
                place = self.rng.choice([p for p in places if p != place])
                self._say(f"{name} moved the {thing} to the {place}.")
            else:
                self._say(f"{name} made no movements and stayed in the {room} for 1 minute.")
            self._say(f"{name} exited the {room}.")
        self.lies[room] = (thing, place)
        self._say(f"{spoken(tuple(group))} entered the {WAITING}.")

    def _claims(self, group: Sequence[str]) -> None:
        for _ in range(self.rng.randint(1, 2)):
            speaker = self.rng.choice(group)
            # Mostly of the question's thing, else the claims would not matter.
            index = 0 if self.rng.random() < 0.7 else self.rng.randrange(3)
            room = self.rooms[index]
            if room not in self.lies:
                room = self.rooms[0]
            index, thing = self.rooms.index(room), self.lies[room][0]
            place = self.rng.choice(self.choices[5 * index : 5 * index + 5])
            if self.rng.random() < 0.5:
                self._say(f"{speaker} publicly claimed that the {thing} is in the {place}.")
            else:
                listener = self.rng.choice([n for n in self.names if n != speaker])
                self._say(
                    f"{speaker} privately told {listener} that the {thing} is in the {place}."
                )

    def _say(self, line: str) -> None:
        self.lines.append(line)
        if self.rng.random() < NOISE:
            name, prop = self.rng.choice(self.names), self.rng.choice(self.pool.prop_list)
            self.lines.append(self.rng.choice(_IDLE).format(name=name, prop=prop))


def draw(seed: int, kind: Kind, number: int) -> Sample:
    """One sample of a cell; it depends on the arguments alone."""
    rng = random.Random(derive("hitom", GENERATOR, seed, kind.name, number))
    writer = _Writer(kind, rng)
    writer.write()
    thing, order = writer.things[0], kind.order
    chain = tuple(rng.sample(writer.names, order))
    story = "\n".join(f"{k} {line}" for k, line in enumerate(writer.lines, start=1))
    beliefs = Beliefs(read_story(story), RULES)
    steps = beliefs.trace(thing, chain)
    answer = steps[-1].place if steps else beliefs.place(thing)
    question = ask(chain, thing)
    return Sample(
        id=f"hitom-{kind.name}-{number:03d}",
        split=kind.split,
        data={
            "story": story,
            "question": question,
            "chain": list(chain),
            "object": thing,
            "choices": rng.sample(writer.choices, len(writer.choices)),
            "deception": kind.deception,
            "length": kind.length,
        },
        truth={"order": order, "answer": answer, "trace": [step.place for step in steps]},
        group=f"order-{order}",
        cluster=f"hitom-{kind.name}-{number:03d}",
        canonical=canonical(story, question),
    )
