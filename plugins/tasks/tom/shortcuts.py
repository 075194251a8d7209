"""Shortcuts: rules that answer without following who knows what of whom.

Each is blind to something: to the story but for its places (positions, lengths), to who sees what
(names), to who knows of whom (beliefs of single people), or to the order of the chain. The audit
measures them; as players (`harness run --model player:NAME`) they show what a model could earn so.

>>> story = "Al saw it put in tin_box. Bea saw it go to red_jar."
>>> facts = Facts(story, chain=("Al",), object="key", choices=("red_jar", "tin_box"), events=())
>>> RULES["last place named"](facts), RULES["last line naming the outer person"](facts)
('red_jar', 'tin_box')
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from harness.types import Json

from .oracle import Beliefs
from .world import RULES as WORLD
from .world import Event, Rule

MOST_PLACES: Final = 16
"""Positions that are rules of their own, from either end."""
_PLACE = re.compile(r"[a-z]+(?:_[a-z]+)+")
_NAME = re.compile(r"\b[A-Z][a-z]+\b")


@dataclass
class Facts:
    """A sample as the rules see it; what is costly is computed once.

    ``mentions`` are the places among the choices in the order of their first mention, ``lines`` the
    sentences that name a place, ``bags`` what a classifier has computed of them.
    """

    story: str
    chain: tuple[str, ...]
    object: str
    choices: tuple[str, ...]
    events: tuple[Event, ...]
    rules: Mapping[str, Rule] = field(default_factory=lambda: WORLD)
    bags: dict[str, Counter[str]] = field(default_factory=dict, repr=False)

    @staticmethod
    def of(data: Mapping[str, Json], rules: Mapping[str, Rule] = WORLD) -> Facts:
        """The facts of a sample's data."""
        return Facts(
            data["story"],
            tuple(data["chain"]),
            data["object"],
            tuple(data["choices"]),
            tuple(Event.of(e) for e in data["events"]),
            rules,
        )

    @cached_property
    def named(self) -> list[str]:
        """Every mention of a choice, in order."""
        known = set(self.choices)
        return [place for place in _PLACE.findall(self.story) if place in known]

    @cached_property
    def mentions(self) -> list[str]:
        """The places that are mentioned, by first mention."""
        return list(dict.fromkeys(self.named))

    @cached_property
    def lines(self) -> list[str]:
        """Sentences that name a place among the choices."""
        known = set(self.choices)
        return [s for s in re.split(r"(?<=\.)\s+", self.story) if known & set(_PLACE.findall(s))]

    @cached_property
    def beliefs(self) -> Beliefs:
        """The oracle's view of the story."""
        return Beliefs(self.events, self.rules)

    def place(self, chain: Sequence[str]) -> str | None:
        """The belief of a chain other than the question's."""
        return self.beliefs.place(self.object, chain)

    def last_line(self, accept: Callable[[str], bool]) -> str | None:
        """The last place of the last line that is accepted."""
        for line in reversed(self.lines):
            if accept(line):
                return [p for p in _PLACE.findall(line) if p in set(self.choices)][-1]
        return None

    def last_event(self, accept: Callable[[Event], bool]) -> str | None:
        """Where the last accepted move went."""
        for event in reversed(self.events):
            if event.to is not None and accept(event):
                return event.to
        return None

    @cached_property
    def first_lines(self) -> dict[str, str]:
        """The first line that names a place, by place."""
        found: dict[str, str] = {}
        for line in self.lines:
            for place in _PLACE.findall(line):
                found.setdefault(place, line)
        return found


Guess = Callable[[Facts], "str | Mapping[str, float] | None"]


def _naming(*which: Callable[[tuple[str, ...]], Sequence[str]]) -> Guess:
    """The last line that names certain people of the chain."""

    def rule(facts: Facts) -> str | None:
        wanted = {name for pick in which for name in pick(facts.chain)}
        return facts.last_line(lambda line: wanted <= set(_NAME.findall(line)))

    return rule


def _line_by(key: Callable[[str], float]) -> Guess:
    """The last place of the line with the highest key, the last of equal ones."""

    def rule(facts: Facts) -> str | None:
        best = max(map(key, facts.lines), default=0.0)
        return facts.last_line(lambda line: key(line) == best)

    return rule


def _joint(event: Event, names: Sequence[str]) -> bool:
    return event.kind == "joint" and set(names) <= set(event.groups[0])


def _all_learn(facts: Facts) -> str | None:
    """What the last event told every single person of the chain, whoever knows of whom."""
    return facts.beliefs.together(facts.object, facts.chain)


def _most_named(facts: Facts) -> str | None:
    counts = Counter(facts.named)
    return max(reversed(facts.mentions), key=lambda p: counts[p], default=None)


def _outer(chain: tuple[str, ...]) -> Sequence[str]:
    return chain[:1]


def _inner(chain: tuple[str, ...]) -> Sequence[str]:
    return chain[-1:]


def _all(chain: tuple[str, ...]) -> Sequence[str]:
    return chain


def _from_start(k: int) -> Guess:
    return lambda f: f.mentions[k] if k < len(f.mentions) else None


def _from_end(k: int) -> Guess:
    return lambda f: f.mentions[-1 - k] if k < len(f.mentions) else None


def _letter(k: int) -> Guess:
    return lambda f: f.choices[k] if k < len(f.choices) else None


BLIND: Final[Mapping[str, Guess]] = {
    **{f"place {k + 1} from the start": _from_start(k) for k in range(MOST_PLACES)},
    **{f"place {k + 1} from the end": _from_end(k) for k in range(MOST_PLACES)},
    **{f"option {chr(65 + k)}": _letter(k) for k in range(15)},
    "place in the middle": lambda f: f.mentions[len(f.mentions) // 2] if f.mentions else None,
    "last place named": lambda f: f.named[-1] if f.named else None,
    "place named most": _most_named,
    "place with the longest name": lambda f: max(f.mentions, key=len, default=None),
    "option that is named first": lambda f: next((c for c in f.choices if c in f.mentions), None),
    "longest line": _line_by(len),
    "shortest line": _line_by(lambda line: -len(line)),
    "world": lambda f: f.place(()),
    "last line naming the outer person": _naming(_outer),
    "last line naming the inner person": _naming(_inner),
    "last line naming outer and inner": _naming(_outer, _inner),
    "last line naming the whole chain": _naming(_all),
    "line with the most names": _line_by(lambda line: len(set(_NAME.findall(line)))),
}
"""Rules that don't read who sees what."""

ORDERLESS: Final[Mapping[str, Guess]] = {
    "belief of the outer person": lambda f: f.place(f.chain[:1]),
    "belief of the inner person": lambda f: f.place(f.chain[-1:]),
    "belief of the chain reversed": lambda f: f.place(f.chain[::-1]),
    "belief without the outer person": lambda f: f.place(f.chain[1:] or f.chain),
    "belief without the inner person": lambda f: f.place(f.chain[:-1] or f.chain),
    "last move that all of the chain learn": _all_learn,
    "last joint move": lambda f: f.last_event(lambda e: e.kind == "joint"),
    "last joint move with outer and inner": lambda f: f.last_event(
        lambda e: _joint(e, (*f.chain[:1], *f.chain[-1:]))
    ),
    "last joint move with the whole chain": lambda f: f.last_event(lambda e: _joint(e, f.chain)),
}
"""Rules that read who sees what, and not who knows of whom or in which order it is asked. At order
1 some of them are the right reading."""


def _outer_about_inner(facts: Facts) -> str | None:
    return facts.place((facts.chain[0], facts.chain[-1])) if len(facts.chain) > 2 else None


def _none_of_the_others(facts: Facts) -> Mapping[str, float]:
    """Any mentioned place that no belief of fewer people and neither end of the story names."""
    rules = [*ORDERLESS.values(), BLIND["world"], BLIND["last place named"], _from_start(0)]
    taken = {rule(facts) for rule in rules}
    left = [place for place in facts.mentions if place not in taken] or facts.mentions
    return {place: 1 / len(left) for place in left}


RULES: Final[Mapping[str, Guess]] = {
    **BLIND,
    **ORDERLESS,
    "belief of outer about inner": _outer_about_inner,
    "a place that no other shortcut names": _none_of_the_others,
}
"""All rules by name."""
