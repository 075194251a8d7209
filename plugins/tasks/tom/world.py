"""The world: events, and rules that say who believes what happened.

Each kind of event is a rule that makes a `View`: a few points ("it went to the jar", "nothing
happened"), and for each agent, at each point, the point that the agent takes for true. To learn
what A thinks that B thinks of an event, start at the actual point, step to A's, from there to B's.
That one step covers all kinds, so kinds compose: a story is any sequence of them, and a new kind is
one more function in `RULES`.

>>> event = Event("overseen", "stamp", "jar", (("Bo",), ("Ana",)))
>>> view = unfold([event]).views[0]
>>> view.effect(("Ana", "Bo")), view.effect(("Bo", "Ana"))
('jar', None)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain as concat
from typing import Final, NamedTuple

from harness.types import HarnessError, Json

Group = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happens.

    ``to`` is where the object really goes (None: it stays), ``shown`` the place that a false feed
    shows or a speaker names, ``groups`` the people by role (see `KINDS`), ``room`` where it
    happens, for kinds that have a place.
    """

    kind: str
    object: str = ""
    to: str | None = None
    groups: tuple[Group, ...] = ()
    shown: str | None = None
    room: str = ""

    def json(self) -> dict[str, Json]:
        """The event as JSON, without empty fields."""
        found: dict[str, Json] = {"kind": self.kind}
        for name in ("object", "to", "shown", "room"):
            if value := getattr(self, name):
                found[name] = value
        if self.groups:
            found["groups"] = [list(group) for group in self.groups]
        return found

    @staticmethod
    def of(value: Mapping[str, Json]) -> Event:
        """Read what `json` wrote. Raises HarnessError for anything else."""
        try:
            groups = tuple(tuple(group) for group in value.get("groups", ()))
            return Event(
                value["kind"],
                value.get("object", ""),
                value.get("to"),
                groups,
                value.get("shown"),
                value.get("room", ""),
            )
        except (KeyError, TypeError, AttributeError):
            raise HarnessError(
                f"{value!r} is no event: it needs a kind and lists of names"
            ) from None


class View(NamedTuple):
    """How one event looks from everywhere.

    ``effects[p]`` is where the object is after point p (None: as before); the last point is always
    "nothing happened". ``sees[agent][p]`` is the point that the agent believes in at p; who is not
    listed believes at every point that nothing happened.
    """

    object: str
    effects: tuple[str | None, ...]
    sees: Mapping[str, tuple[int, ...]]

    def effect(self, chain: Sequence[str]) -> str | None:
        """The place that the event gives to "chain[0] thinks chain[1] thinks ..."; None: no change.

        The empty chain is the world. O(len(chain)).
        """
        point = 0
        for name in chain:
            steps = self.sees.get(name)
            if steps is None:
                return None
            point = steps[point]
        return self.effects[point]


@dataclass(slots=True)
class Scene:
    """What rules may look at: where each agent and each object is now."""

    rooms: dict[str, str] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)

    def present(self, room: str) -> Group:
        """Who is in a room, in the order of entering."""
        return tuple(name for name, where in self.rooms.items() if where == room)


Rule = Callable[[Event, Scene], Iterable[View]]


def layered(event: Event, layers: Sequence[Group]) -> View:
    """Each layer sees the move and all layers below it, and takes itself for the topmost.

    One layer is common knowledge of a group. With two, the second watches the first unnoticed: the
    second knows that the first knows, and not the other way round.
    """
    count = len(layers)
    nothing = count
    sees: dict[str, tuple[int, ...]] = {}
    for depth, layer in enumerate(layers):
        own = count - 1 - depth
        steps = tuple(own if point <= own else nothing for point in range(count))
        sees.update(dict.fromkeys(layer, (*steps, nothing)))
    return View(event.object, (*(event.to,) * count, None), sees)


def _joint(event: Event, scene: Scene) -> Iterable[View]:
    yield layered(event, event.groups or ((),))


def _private(event: Event, scene: Scene) -> Iterable[View]:
    """Each recipient is alone with the news: a point of its own for each."""
    (recipients,) = event.groups
    nothing = len(recipients) + 1
    sees = {
        name: tuple(own if point in (0, own) else nothing for point in range(nothing + 1))
        for own, name in enumerate(recipients, start=1)
    }
    yield View(event.object, (*(event.to,) * nothing, None), sees)


def _assumed(event: Event, scene: Scene) -> Iterable[View]:
    """The first group saw the move and takes it that the second saw it too, which is wrong."""
    watching, presumed = event.groups
    sees = dict.fromkeys(watching, (1, 1, 2)) | dict.fromkeys(presumed, (2, 1, 2))
    yield View(event.object, (event.to, event.to, None), sees)


def _decoy(event: Event, scene: Scene) -> Iterable[View]:
    """Insiders know the truth and that the others are misled; those take the false thing for
    common knowledge of all."""
    insiders, misled = event.groups
    sees = dict.fromkeys(insiders, (0, 1, 2)) | dict.fromkeys(misled, (1, 1, 2))
    yield View(event.object, (event.to, event.shown, None), sees)


def _enter(event: Event, scene: Scene) -> Iterable[View]:
    scene.rooms.update(dict.fromkeys(event.groups[0], event.room))
    return ()


def _leave(event: Event, scene: Scene) -> Iterable[View]:
    for name in event.groups[0]:
        if scene.rooms.pop(name, None) != event.room:
            raise HarnessError(f"{name} leaves {event.room} without being there")
    return ()


def _inside(event: Event, scene: Scene) -> Iterable[View]:
    """A move in a room is common knowledge of those who are in it; they all see each other."""
    yield layered(event, (scene.present(event.room),))


def _look(event: Event, scene: Scene) -> Iterable[View]:
    """A group sees together where the object is now."""
    now = Event(event.kind, event.object, scene.places.get(event.object), event.groups)
    yield layered(now, event.groups)


KINDS: Final = {
    "joint": ("watching", "all of a group see the move and each other"),
    "private": ("recipient", "each recipient sees it, and nobody knows of that"),
    "hidden": ("", "nobody sees it"),
    "overseen": ("watching overseers ...", "overseers see the move and the watchers, unnoticed"),
    "announced": ("recipient told", "a private feed whose content was announced to others"),
    "assumed": ("watching presumed", "the watching wrongly take it that the presumed saw it too"),
    "decoy": ("insiders misled", "the misled are shown another place, and take it for common"),
    "claim": ("speaker listeners", "the listeners believe what the speaker says aloud"),
    "tell": ("speaker listener", "the same between two, unheard by others"),
    "enter": ("entering", "people enter a room"),
    "leave": ("leaving", "people leave a room"),
    "inside": ("", "a move in a room, seen by those who are in it"),
    "look": ("looking", "a group sees together where the object is"),
}
"""Each kind with the roles of its groups, in order, and its meaning."""

RULES: Final[Mapping[str, Rule]] = {
    "joint": _joint,
    "private": _private,
    "hidden": _joint,
    "overseen": _joint,
    "announced": _joint,
    "assumed": _assumed,
    "decoy": _decoy,
    "claim": _decoy,
    "tell": _decoy,
    "enter": _enter,
    "leave": _leave,
    "inside": _inside,
    "look": _look,
}
"""The rule of each kind. A task may overlay it with rules of its own."""


class Unfolded(NamedTuple):
    """A story seen from everywhere: its views, the event that each belongs to, and the end."""

    views: tuple[View, ...]
    sources: tuple[int, ...]
    scene: Scene


def unfold(events: Sequence[Event], rules: Mapping[str, Rule] = RULES) -> Unfolded:
    """Apply the rules to a story in order. Raises HarnessError for an event that cannot happen."""
    scene = Scene()
    views: list[View] = []
    sources: list[int] = []
    for number, event in enumerate(events):
        check(event, rules)
        for view in rules[event.kind](event, scene):
            views.append(view)
            sources.append(number)
            moved = view.effects[0]
            if moved is not None:
                scene.places[view.object] = moved
    return Unfolded(tuple(views), tuple(sources), scene)


def check(event: Event, rules: Mapping[str, Rule] = RULES) -> None:
    """Raise HarnessError when an event's people do not fit its kind."""
    if event.kind not in rules:
        raise HarnessError(f"there is no kind of event {event.kind!r}; there are {sorted(rules)}")
    names = list(concat.from_iterable(event.groups))
    if len(set(names)) != len(names):
        raise HarnessError(f"a {event.kind} event names somebody twice: {', '.join(names)}")
    if event.kind not in KINDS:
        return
    roles = KINDS[event.kind][0].split()
    count = len(event.groups)
    fits = count >= 2 if "..." in roles else count == len(roles)
    if not fits:
        wanted = " and ".join(roles) or "none"
        raise HarnessError(f"a {event.kind} event has {count} groups; it needs {wanted}")
    if any(not group for group in event.groups):
        raise HarnessError(f"a {event.kind} event has an empty group; name at least one person")
