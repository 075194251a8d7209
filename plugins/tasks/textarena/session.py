"""A session: one episode of an environment, with the random numbers that belong to it.

TextArena seeds and uses the process's one global generator. Episodes that run in turns would draw
each other's numbers, so a session keeps a state of its own and swaps it in around everything the
environment does; nothing is awaited inside, and the state is put back after errors too.

    session = Session("PigDice-v0-50", seed=7, adapter=adapter("PigDice-v0-50"))
    while not session.done:
        session.step("[roll]" if session.seat == 0 else "[hold]")
    print(session.rewards())

The session hands the environment finished tokens only. What each seat may see is collected in
``events``, from which `text` makes the prompt.
"""

from __future__ import annotations

import io
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, Final, NamedTuple

from . import library
from .adapter import Adapter

GAME: Final = -1
"""The sender of the environment's own messages."""


class Event(NamedTuple):
    """One message of the environment to a seat: who sent it, its kind (PROMPT, GAME_BOARD,
    GAME_MESSAGE, GAME_ACTION_DESCRIPTION, GAME_ADMIN or PLAYER_ACTION) and its text."""

    sender: int
    kind: str
    text: str


class Session:
    """A running episode.

    ``seconds`` bounds the processor time that the environment may take over the whole episode:
    what exceeds it is a fault of the environment (RuntimeError), never a result.
    """

    def __init__(
        self,
        name: str,
        seed: int,
        adapter: Adapter,
        repair: bool = True,
        seconds: float = 60.0,
    ) -> None:
        self.name = name
        self.adapter = adapter
        self.repair = repair
        self.seconds = seconds
        self.spent = 0.0
        self.done = False
        self._state = random.Random(seed).getstate()
        # Some environments without an adapter draw from numpy's global generator.
        self._numpy = None if adapter.listed else _numpy()
        self._arrays: Any = None
        with self._own_chance(), _foreign(0 if adapter.listed else seconds):
            self._start(seed)
            self._drain()

    def _start(self, seed: int) -> None:
        seats = self.adapter.seats or library.seats(self.name)
        self.events: list[list[Event]] = [[] for _ in range(seats)]
        self.env = library.make(self.name)
        if self._numpy is not None:
            self._numpy.random.seed(seed % 2**32)
        self.adapter.reset(self.env, seats, seed)
        state = self.env.state
        if self.adapter.listed:
            # Every action that reaches the environment is legal, so a complaint is a fault of the
            # adapter: it must end the episode at once, where `step` sees it.
            state.error_allowance = 0
        if self.repair and self.adapter.late_limit:
            # The limit is tested before the turn is counted: as shipped, one turn too many.
            state.max_turns -= 1

    @property
    def seat(self) -> int:
        """The seat that moves now."""
        return int(self.env.state.current_player_id)

    @property
    def seats(self) -> int:
        """The number of seats."""
        return len(self.events)

    def step(self, action: str, talk: bool = False) -> None:
        """Play one token (or, while players ``talk``, one message) for the seat that moves now.

        Raises RuntimeError if the environment rejects what the adapter holds to be legal.
        """
        seat = self.seat
        with self._own_chance(), _foreign(0 if self.adapter.listed else self.seconds):
            done, _ = self.env.step(action)
            self.adapter.after(self.env, seat, action, self.repair)
            self.done = bool(done or self.env.state.done)
            self._drain(talk)
        if self.adapter.listed and self.gave_up(seat):
            raise RuntimeError(
                f"{self.name} rejected {action!r}, which its adapter holds to be legal: "
                f"{self.env.state.game_info[seat].get('reason')}"
            )

    def tell(self, seat: int, said: str) -> None:
        """Let the other seats hear what one says; the environment takes no part in it."""
        for other, events in enumerate(self.events):
            if other != seat:
                events.append(Event(seat, "PLAYER_ACTION", said))

    def rejected(self, seat: int) -> bool:
        """Whether the environment's last word to a seat is that its move was invalid (for those
        without an adapter; others never see one)."""
        told = [e.kind for e in self.events[seat] if e.kind != "GAME_BOARD"]
        return self.gave_up(seat) or told[-1:] == ["GAME_ADMIN"]

    def gave_up(self, seat: int) -> bool:
        """Whether the environment ended the seat's game for invalid moves."""
        return bool(self.env.state.game_info.get(seat, {}).get("invalid_move"))

    def rewards(self) -> tuple[float, ...]:
        """What each seat got. Raises RuntimeError before the end, and for an environment that ends
        without setting rewards."""
        if not self.done:
            raise RuntimeError(f"{self.name}: rewards are read from finished episodes only")
        given, _ = self.env.close()
        if given is None:
            raise RuntimeError(f"{self.name} ended without rewards")
        try:
            return tuple(float(given.get(seat, 0.0)) for seat in range(self.seats))
        except ValueError:
            raise RuntimeError(f"{self.name} ended with rewards that are no numbers") from None

    def reason(self) -> str:
        """Why the episode ended, in the environment's words."""
        return str(self.env.state.game_info[0].get("reason") or "")

    def _drain(self, talk: bool = False) -> None:
        """Collect what the environment has told each seat so far. What it quotes of other seats is
        kept if it is talk; moves are told by the game."""
        waiting = self.env.state.observations
        for seat, events in enumerate(self.events):
            if seat == self.env.state.current_player_id:
                _, told = self.env.get_observation()
            else:
                told, waiting[seat] = waiting.get(seat, []), []
            for message in told or ():
                event = _event(*message)
                quoted = event.kind == "PLAYER_ACTION" and event.sender not in (seat, GAME)
                if talk or not quoted or not self.adapter.listed:
                    events.append(event)

    @contextmanager
    def _own_chance(self) -> Iterator[None]:
        numpy = self._numpy
        saved = random.getstate()
        arrays = numpy.random.get_state() if numpy else None
        random.setstate(self._state)
        if numpy and self._arrays is not None:
            numpy.random.set_state(self._arrays)
        started = time.thread_time()
        try:
            yield
        finally:
            self.spent += time.thread_time() - started
            self._state = random.getstate()
            random.setstate(saved)
            if numpy:
                self._arrays = numpy.random.get_state()
                numpy.random.set_state(arrays)
        if self.spent > self.seconds:
            raise RuntimeError(
                f"{self.name}: the environment has used {self.spent:.0f} s of processor time in "
                f"one episode (limit {self.seconds:.0f})"
            )


def _numpy() -> Any:
    """The module numpy, if it is installed."""
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def _event(sender: Any, message: Any, kind: Any) -> Event:
    """An event of a message. Some environments without an adapter swap its parts."""
    if not isinstance(message, str):
        sender, message, kind = message, str(kind), "GAME_MESSAGE"
    return Event(int(sender), getattr(kind, "name", str(kind)), message.strip())


@contextmanager
def _foreign(seconds: float) -> Iterator[None]:
    """For environments without an adapter: what they print goes nowhere, and what takes longer than
    ``seconds`` is interrupted, where signals can (in the main thread). 0: does nothing."""
    if not seconds:
        yield
        return
    with redirect_stdout(io.StringIO()):
        if threading.current_thread() is threading.main_thread():
            with _alarm(seconds):
                yield
        else:
            yield


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Raise RuntimeError in the main thread after ``seconds``."""

    def ring(*_: Any) -> None:
        raise RuntimeError(f"the environment did not answer within {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
