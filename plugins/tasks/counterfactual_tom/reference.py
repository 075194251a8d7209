"""Preset ``reference``: stories by the study's plan, with the leaks that its plan brings along.

One object goes from place to place; a move is joint (a group sees it and each other), private or
hidden. The plan fixes the order of the moves by role, so the place of the answer in the story is
nearly fixed too, and chains are reached by sets of people, so their order means nothing. That is
what `harness data audit` shows; train on ``strict``.

    pair = make_pair(order=3, split="train", rng=random.Random(1))
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from ..tom.oracle import Beliefs
from ..tom.question import ask
from ..tom.world import Event
from .pair import Pair, Side
from .vocabulary import REFERENCE
from .wording import people

MOST_AFTER: Final = 6
"""Lines after the critical move, at most; order 4 has exactly as many moves."""

INITIAL: Final = (
    "{who} together saw the {obj} put into the {to}, and each of them saw who else was there.",
    "In front of {who}, who all saw one another, the {obj} was first put into the {to}.",
)
JOINT: Final = (
    "{who} together saw a machine take the {obj} from the {origin} to the {to}, each aware of the "
    "whole group.",
    "A machine took the {obj} from the {origin} to the {to} in front of the group of {who}, and "
    "everybody in the group saw who was in it.",
    "On a shared screen {who} saw the {obj} go from the {origin} to the {to}, knowing of one "
    "another.",
)
PRIVATE: Final = (
    "{who} alone saw on a private screen how the {obj} went from the {origin} to the {to}.",
    "A message told only {who} that the {obj} had gone from the {origin} to the {to}.",
    "Unknown to the others, {who} alone saw the {obj} go from the {origin} to the {to}.",
)
HIDDEN: Final = (
    "Unseen, a machine took the {obj} from the {origin} to the {to}.",
    "When no one was there, the {obj} went from the {origin} to the {to}.",
    "The {obj} was taken from the {origin} to the {to}, and no one learned of it.",
)
FILLERS: Final = (
    "{a} glanced at a watch.",
    "{a} left a {prop} by the window.",
    "{a} and {b} spoke of the weather.",
    "A door slammed somewhere.",
    "{a} noted down the temperature.",
)


@dataclass(frozen=True, slots=True)
class Move:
    """A move by its role in the plan, and who sees it."""

    role: str
    kind: str
    who: tuple[str, ...] = ()
    wording: int = 0


class _Plan:
    """The moves of one pair."""

    def __init__(self, chain: tuple[str, ...], agents: tuple[str, ...], rng: random.Random) -> None:
        self.chain, self.agents, self.rng = chain, agents, rng
        self.controls = [a for a in agents if a not in chain]
        self.replacement = rng.choice(self.controls)

    def moves(self) -> list[Move]:
        """The observed side."""
        others = [c for c in self.controls if c != self.replacement]
        before = [
            self._joint("initial", self.agents),
            *(self._prelude() for _ in range(self.rng.randint(0, 2))),
            self._joint("baseline", (*self.chain, *self._some(self.controls))),
            self._joint("critical", (*self.chain, *self._some(others))),
        ]
        after = self._after()
        final = Move("final_world", "hidden", (), self.rng.randrange(3))
        return [*before, *after, final]

    def hidden(self, moves: Sequence[Move]) -> list[Move]:
        """The hidden side: the outermost person missed the critical move, somebody else did not."""
        swap = {self.chain[0]: self.replacement}
        return [
            replace(m, who=self._sorted(swap.get(name, name) for name in m.who))
            if m.role == "critical"
            else m
            for m in moves
        ]

    def _after(self) -> list[Move]:
        chain, rng = self.chain, self.rng
        after: list[Move] = []
        if len(chain) > 1:
            for start in range(1, len(chain) - 1):
                who = (*chain[start:], *self._some(self.controls))
                after.append(self._joint("suffix_joint", who))
            after.append(self._private("inner_private", chain[-1]))
            after.insert(rng.randint(0, len(after)), self._private("outer_private", chain[0]))
        others = [a for a in self.agents if a != chain[-1]]
        group = rng.sample(others, rng.randint(2, len(others)))
        after.append(self._joint("post_control", group))
        for _ in range(rng.randint(0, MOST_AFTER - 1 - len(after))):
            after.insert(rng.randint(0, len(after)), self._extra())
        return after

    def _prelude(self) -> Move:
        kind = self.rng.choice(("joint", "private", "hidden"))
        if kind == "joint":
            missing = self.rng.choice(self.chain)
            rest = [a for a in self.agents if a != missing]
            return self._joint("prelude", self.rng.sample(rest, self.rng.randint(1, len(rest))))
        if kind == "private":
            return self._private("prelude", self.rng.choice(self.agents))
        return Move("prelude", "hidden", (), self.rng.randrange(3))

    def _extra(self) -> Move:
        kind = self.rng.choice(("joint", "private", "hidden"))
        if kind == "joint":
            rest = [a for a in self.agents if a != self.chain[-1]]
            return self._joint("post_extra", self.rng.sample(rest, self.rng.randint(2, len(rest))))
        if kind == "private":
            rest = [a for a in self.agents if a not in (self.chain[0], self.chain[-1])]
            return self._private("post_extra", self.rng.choice(rest))
        return Move("post_extra", "hidden", (), self.rng.randrange(3))

    def _joint(self, role: str, who: Sequence[str]) -> Move:
        count = len(INITIAL) if role == "initial" else len(JOINT)
        return Move(role, "joint", self._sorted(who), self.rng.randrange(count))

    def _private(self, role: str, who: str) -> Move:
        return Move(role, "private", (who,), self.rng.randrange(len(PRIVATE)))

    def _some(self, names: Sequence[str]) -> list[str]:
        return self.rng.sample(names, self.rng.randint(0, len(names)))

    def _sorted(self, names: object) -> tuple[str, ...]:
        chosen = set(names)  # type: ignore[call-overload]
        return tuple(a for a in self.agents if a in chosen)


def make_pair(order: int, split: str, rng: random.Random) -> Pair:
    """Draw a pair; plans whose answer a simple rule would give are drawn again, as in the study."""
    if not 1 <= order <= 4:
        raise ValueError(f"order {order}: the plan has five people, so orders 1 to 4")
    while True:
        agents = tuple(rng.sample(REFERENCE.name_list, 5))
        chain = tuple(rng.sample(agents, order))
        thing = rng.choice(REFERENCE.object_list)
        places = rng.sample(REFERENCE.place_list, 15)
        plan = _Plan(chain, agents, rng)
        seen = plan.moves()
        sides = [_events(side, thing, places) for side in (seen, plan.hidden(seen))]
        if all(_separate(events, thing, chain) for events in sides):
            break
    critical = next(i for i, move in enumerate(seen) if move.role == "critical")
    choices = tuple(rng.sample(places, 15))
    swap = (chain[0], plan.replacement)
    pair = Pair(chain, thing, agents, ask(chain, thing), choices, critical, swap)
    fillers = _fillers(critical, len(seen), agents, rng)
    for name, moves, events in zip(
        ("observed", "hidden"), (seen, plan.hidden(seen)), sides, strict=True
    ):
        pair.sides[name] = Side(_story(moves, events, fillers), tuple(events))
    return pair


def _events(moves: Sequence[Move], thing: str, places: Sequence[str]) -> list[Event]:
    return [
        Event(move.kind, thing, place, (move.who,) if move.who else ())
        for move, place in zip(moves, places, strict=False)
    ]


def _separate(events: Sequence[Event], thing: str, chain: tuple[str, ...]) -> bool:
    """The study's build-time checks on one side."""
    beliefs = Beliefs(events)
    trace = [step.place for step in beliefs.trace(thing, chain)]
    joint = [event.to for event in events if event.kind == "joint"]
    shallow = {events[0].to, events[-1].to, events[-2].to, joint[-1]}
    outer = beliefs.place(thing, chain[:1])
    if trace[-1] in shallow:
        return False
    return len(chain) < 2 or len({beliefs.place(thing), outer, *trace}) == len(chain) + 2


def _fillers(
    critical: int, moves: int, agents: Sequence[str], rng: random.Random
) -> list[tuple[int, str]]:
    """Two to five distinct idle lines, each with the number of the move that it precedes."""
    room = max(0, MOST_AFTER - (moves - 1 - critical))
    lines = rng.sample(FILLERS, rng.randint(2, 5))
    late = rng.randint(0, min(2, room, len(lines)))
    found = []
    for k, line in enumerate(lines):
        a, b = rng.sample(list(agents), 2)
        text = line.format(a=a, b=b, prop=rng.choice(REFERENCE.prop_list))
        found.append((moves if k < late else rng.randint(0, critical), text))
    return sorted(found)


def _story(
    moves: Sequence[Move], events: Sequence[Event], fillers: Sequence[tuple[int, str]]
) -> str:
    lines: list[str] = []
    origin = ""
    wordings = {"joint": JOINT, "private": PRIVATE, "hidden": HIDDEN}
    for number, (move, event) in enumerate(zip(moves, events, strict=True)):
        lines += [text for before, text in fillers if before == number]
        texts = INITIAL if move.role == "initial" else wordings[move.kind]
        words = {"who": people(move.who), "obj": event.object, "to": event.to, "origin": origin}
        lines.append(texts[move.wording].format(**words))
        origin = event.to or ""
    return " ".join([*lines, *(text for before, text in fillers if before == len(moves))])
