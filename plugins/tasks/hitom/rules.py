"""Hi-ToM's world: rooms, chapters, and claims that are believed by those who left before the
speaker.

On entering, a group sees together where everything in the room is; statements and moves are common
knowledge of those in the room. A claim reaches beliefs of order one and two only: those who trust
the speaker believe it and take the speaker to believe it, and the speaker takes it that everybody
who heard it does. People tend to lie, so a claim changes nothing in the speaker's own belief.

>>> claim = Event("persuade", "pear", None, (("Al",), ("Bea",), ("Cy",)), "red_box")
>>> from ..tom.oracle import Beliefs
>>> after = Beliefs([claim], RULES)
>>> [after.place("pear", chain) for chain in (("Bea",), ("Cy",), ("Al",), ("Al", "Cy"))]
['red_box', None, None, 'red_box']
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ..tom.world import RULES as COMMON
from ..tom.world import Event, Rule, Scene, View

_STEPS: Final = 6
"""Points of a claim: 0 what happened, 1 a believer, 2 a believer about the speaker, 3 the speaker,
4 the speaker about a listener, 5 nothing."""


def _persuade(event: Event, scene: Scene) -> Iterable[View]:
    """Groups: the speaker, those who trust the speaker, the other listeners."""
    (speaker,), believers, doubters = event.groups

    def steps(moves: Mapping[int, int]) -> tuple[int, ...]:
        return tuple(moves.get(point, _STEPS - 1) for point in range(_STEPS))

    sees = dict.fromkeys(believers, steps({0: 1, 3: 4}))
    sees |= dict.fromkeys(doubters, steps({3: 4}))
    sees[speaker] = steps({0: 3, 1: 2})
    yield View(event.object, (None, event.shown, event.shown, None, event.shown, None), sees)


RULES: Final[Mapping[str, Rule]] = {**COMMON, "persuade": _persuade}
"""The common rules and Hi-ToM's claims."""


@dataclass(slots=True)
class Narrator:
    """Turns what a chapter tells, line by line, into events; knows who left when.

    The waiting room between chapters is a room like any other, except that entering it begins no
    chapter.
    """

    events: list[Event] = field(default_factory=list)
    people: dict[str, None] = field(default_factory=dict)
    rooms: dict[str, str] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    room: str = ""

    def enter(self, names: tuple[str, ...], room: str) -> None:
        """A group enters a room and sees what is where; a new chapter, unless it waits."""
        self.people |= dict.fromkeys(names)
        self.events.append(Event("enter", groups=(names,), room=room))
        if room != WAITING:
            self.room, self.left = room, {}
        here = [thing for thing, where in self.rooms.items() if where == room]
        self.events += [Event("look", thing, groups=(names,)) for thing in here]

    def state(self, thing: str, place: str) -> None:
        """The storyteller says where a thing is, before those in the room."""
        self.rooms[thing] = self.room
        self.events.append(Event("inside", thing, place, room=self.room))

    def move(self, thing: str, place: str) -> None:
        """Somebody in the room moves a thing."""
        self.events.append(Event("inside", thing, place, room=self.room))

    def leave(self, name: str) -> None:
        """Somebody leaves the chapter's room."""
        self.left[name] = len(self.left) + 1
        self.events.append(Event("leave", groups=((name,),), room=self.room))

    def claim(self, speaker: str, thing: str, place: str, listener: str = "") -> None:
        """A public claim, or what one person is told; who left before the speaker believes it."""
        heard = (listener,) if listener else tuple(n for n in self.people if n != speaker)
        last = self.left.get(speaker, 0)
        trusting = tuple(n for n in heard if n not in self.left or self.left[n] < last)
        doubting = tuple(n for n in heard if n not in trusting)
        groups = ((speaker,), trusting, doubting)
        self.events.append(Event("persuade", thing, None, groups, place))


WAITING: Final = "waiting_room"
