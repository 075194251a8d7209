"""The oracle against an independent one: possible worlds with accessibility relations.

A world is a whole history, one thing that may have happened at each event. Each agent has, for each
event, a relation between what happened and what the agent holds possible. "A thinks that B thinks"
is two steps through the product of these relations, and a belief is what all worlds reached say.
"""

from __future__ import annotations

import random
from itertools import product

import pytest

from harness.types import HarnessError
from harness_plugins.tasks.tom.oracle import Beliefs
from harness_plugins.tasks.tom.world import Event, check, unfold

NAMES = ("Ana", "Bo", "Cy", "Dee", "Eli", "Fay", "Gus")
KINDS = [
    "joint",
    "private",
    "hidden",
    "overseen",
    "announced",
    "assumed",
    "decoy",
    "claim",
    "tell",
    "enter",
    "leave",
    "inside",
    "look",
]


class Worlds:
    """A story as a set of possible histories."""

    def __init__(self, events, names):
        self.outcomes, self.relations = [], []
        rooms, place = {}, {}
        for event in events:
            outcome, relation = self.reading(event, names, rooms, place)
            if outcome is None:
                continue
            self.outcomes.append((event.object, outcome))
            self.relations.append(relation)
            if outcome["fact"] is not None:
                place[event.object] = outcome["fact"]

    def reading(self, event, names, rooms, place):
        """What may have happened (point -> new place or None), and each agent's relation."""
        kind, groups = event.kind, event.groups
        if kind in ("enter", "leave"):
            for name in groups[0]:
                rooms[name] = event.room if kind == "enter" else None
            return None, None
        if kind in ("joint", "hidden", "inside", "look"):
            if kind == "inside":
                audience = {n for n, room in rooms.items() if room == event.room}
            else:
                audience = set(groups[0]) if groups else set()
            to = place.get(event.object) if kind == "look" else event.to
            points = {"fact": to, "nothing": None}
            believed = {n: {"fact": "fact"} for n in audience}
        elif kind == "private":
            points = {"fact": event.to, "nothing": None}
            points |= {f"only {n} knows": event.to for n in groups[0]}
            believed = {
                n: {"fact": f"only {n} knows", f"only {n} knows": f"only {n} knows"}
                for n in groups[0]
            }
        elif kind in ("overseen", "announced"):
            points = {f"{k} layers": event.to for k in range(1, len(groups))}
            points |= {"fact": event.to, "nothing": None}
            believed = {}
            for j, layer in enumerate(groups, start=1):
                mine = "fact" if j == len(groups) else f"{j} layers"
                aware = {"fact": mine} | {f"{k} layers": mine for k in range(j, len(groups))}
                believed |= dict.fromkeys(layer, aware)
        elif kind == "assumed":
            points = {"fact": event.to, "all saw": event.to, "nothing": None}
            believed = {n: {"fact": "all saw", "all saw": "all saw"} for n in groups[0]}
            believed |= {n: {"all saw": "all saw"} for n in groups[1]}
        else:  # decoy, claim, tell
            points = {"fact": event.to, "false": event.shown, "nothing": None}
            believed = {n: {"fact": "fact", "false": "false"} for n in groups[0]}
            believed |= {n: {"fact": "false", "false": "false"} for n in groups[1]}
        relation = {}
        for name in names:
            mine = believed.get(name, {})
            relation[name] = {(p, mine.get(p, "nothing")) for p in points}
        return points, relation

    def place(self, thing, chain):
        worlds = {("fact",) * len(self.outcomes)}
        for name in chain:
            worlds = {
                other
                for world in worlds
                for other in product(
                    *(
                        [q for p, q in relation[name] if p == point]
                        for relation, point in zip(self.relations, world, strict=True)
                    )
                )
            }
        found = {self.last(world, thing) for world in worlds}
        assert len(found) == 1, "a belief of one place each"
        return found.pop()

    def last(self, world, thing):
        place = None
        for (subject, outcome), point in zip(self.outcomes, world, strict=True):
            if subject == thing and outcome[point] is not None:
                place = outcome[point]
        return place


def random_story(rng):
    """Random events of all kinds, about two objects and two rooms, and the names in it."""
    names = NAMES[: rng.randint(2, 7)]
    rooms, events = {}, []
    for number in range(rng.randint(1, 9)):
        kind = rng.choice(KINDS)
        thing = rng.choice(("stamp", "stamp", "key"))
        people = rng.sample(names, len(names))
        to, shown, groups, room = f"place{number}", None, (), ""
        cut = sorted(rng.sample(range(1, len(names) + 1), min(2, len(names))))
        if kind in ("joint", "private", "look"):
            groups = (tuple(people[: cut[0]]),)
        elif kind == "overseen" and len(names) > 2 and rng.random() < 0.5:
            a, b, c = sorted(rng.sample(range(1, len(names) + 1), 3))
            groups = (tuple(people[:a]), tuple(people[a:b]), tuple(people[b:c]))
        elif kind in ("overseen", "announced", "assumed", "decoy", "claim"):
            a = 1 if kind == "claim" else cut[0]
            groups = (tuple(people[:a]), tuple(people[a : max(cut[-1], a + 1)]))
            if kind in ("decoy", "claim"):
                shown = f"false{number}"
        elif kind == "tell":
            groups, shown = ((people[0],), (people[1],)), f"false{number}"
        elif kind == "enter":
            room = rng.choice(("attic", "hall"))
            groups = (tuple(people[: cut[0]]),)
            rooms |= dict.fromkeys(groups[0], room)
        elif kind == "leave":
            room = rng.choice(("attic", "hall"))
            inside = [n for n, where in rooms.items() if where == room]
            if not inside:
                continue
            groups = (tuple(rng.sample(inside, rng.randint(1, len(inside)))),)
            for name in groups[0]:
                del rooms[name]
        elif kind == "inside":
            room = rng.choice(("attic", "hall"))
        if any(not group for group in groups):
            continue
        moves = kind not in ("claim", "tell", "enter", "leave", "look")
        events.append(Event(kind, thing, to if moves else None, groups, shown, room))
    return names, events


def test_ten_thousand_random_stories_agree_with_possible_worlds():
    rng = random.Random(2026)
    questions = set_beliefs = asymmetric = 0
    for _ in range(10_000):
        names, events = random_story(rng)
        ours, theirs = Beliefs(events), Worlds(events, names)
        for thing in ("stamp", "key"):
            for order in range(min(6, len(names)) + 1):
                chain = tuple(rng.sample(names, order))
                expected = theirs.place(thing, chain)
                assert ours.place(thing, chain) == expected, (events, chain)
                questions += 1
                set_beliefs += expected is not None
                asymmetric += ours.place(thing, chain[::-1]) != expected
    assert questions > 80_000
    assert set_beliefs > 20_000
    assert asymmetric > 2_000  # the order of the chain matters


@pytest.mark.parametrize(
    ("event", "chain", "place"),
    [
        (Event("joint", "o", "x", (("A", "B"),)), ("B", "A"), "x"),
        (Event("joint", "o", "x", (("A", "B"),)), ("A", "C"), None),
        (Event("private", "o", "x", (("A", "B"),)), ("B",), "x"),
        (Event("private", "o", "x", (("A", "B"),)), ("A", "B"), None),
        (Event("hidden", "o", "x"), (), "x"),
        (Event("hidden", "o", "x"), ("A",), None),
        (Event("overseen", "o", "x", (("A",), ("B",), ("C",))), ("C", "B", "A"), "x"),
        (Event("overseen", "o", "x", (("A",), ("B",), ("C",))), ("C", "A", "B"), None),
        (Event("announced", "o", "x", (("A",), ("B",))), ("B", "A"), "x"),
        (Event("announced", "o", "x", (("A",), ("B",))), ("A", "B"), None),
        (Event("assumed", "o", "x", (("A",), ("B",))), ("A", "B"), "x"),
        (Event("assumed", "o", "x", (("A",), ("B",))), ("B",), None),
        (Event("assumed", "o", "x", (("A",), ("B",))), ("B", "A"), None),
        (Event("decoy", "o", "x", (("A",), ("B",)), "y"), ("A",), "x"),
        (Event("decoy", "o", "x", (("A",), ("B",)), "y"), ("A", "B"), "y"),
        (Event("claim", "o", None, (("A",), ("B",)), "y"), (), None),
        (Event("claim", "o", None, (("A",), ("B",)), "y"), ("A",), None),
        (Event("claim", "o", None, (("A",), ("B",)), "y"), ("B", "A"), "y"),
    ],
)
def test_the_meaning_of_each_kind(event, chain, place):
    assert Beliefs([event]).place("o", chain) == place


def test_rooms_decide_who_sees_a_move_and_who_looks_into_a_box():
    story = [
        Event("enter", groups=(("A", "B", "C"),), room="hall"),
        Event("inside", "o", "x", room="hall"),
        Event("leave", groups=(("A",),), room="hall"),
        Event("inside", "o", "y", room="hall"),
        Event("enter", groups=(("A",),), room="hall"),
    ]
    assert Beliefs(story).place("o", ("A", "B")) == "x"
    assert Beliefs(story).place("o", ("B", "C")) == "y"
    looked = Beliefs([*story, Event("look", "o", groups=(("A", "B"),))])
    assert looked.place("o", ("A", "B")) == "y"
    assert looked.place("o", ("A", "C")) == "x"
    assert [(s.place, s.event) for s in looked.trace("o", ("A", "C"))] == [("y", 3), ("x", 1)]


@pytest.mark.parametrize(
    "event",
    [
        Event("joint", "o", "x", ()),
        Event("joint", "o", "x", ((),)),
        Event("joint", "o", "x", (("A", "A"),)),
        Event("hidden", "o", "x", (("A",),)),
        Event("overseen", "o", "x", (("A",),)),
        Event("claim", "o", None, (("A",), ("A",)), "y"),
        Event("rumour", "o", "x", (("A",),)),
        Event("leave", groups=(("A",),), room="hall"),
    ],
)
def test_what_cannot_happen_is_refused(event):
    with pytest.raises(HarnessError):
        unfold([event])


def test_a_belief_that_was_never_set_has_no_trace():
    with pytest.raises(HarnessError, match="never tells where A thinks B"):
        Beliefs([Event("private", "o", "x", (("B",),))]).trace("o", ("A", "B"))


def test_events_survive_json():
    rng = random.Random(3)
    for _ in range(200):
        for event in random_story(rng)[1]:
            assert Event.of(event.json()) == event
            check(event)
    with pytest.raises(HarnessError):
        Event.of({"groups": 3})
