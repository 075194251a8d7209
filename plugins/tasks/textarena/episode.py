"""An episode: one game from its start to its rewards, asking the players for their moves.

    outcome = await Episode(sample, players, conduct).play()

A reply without a legal move is answered with feedback, up to ``conduct.retries`` times; then the
seat forfeits and has lost: it gets the least, every other seat the most there is. The environment
never sees a reply, only the canonical token of a legal move. ``Outcome.returns`` are the
environment's rewards as they are; ``Outcome.data`` holds the course of play:

* ``line``: [seat, move or null, attempts, how] for each turn, ``how`` being ``asked``, ``forced``
  (played without asking), ``opening`` (drawn at random) or ``talk``;
* ``ended``: ``finished``, ``forfeit`` or ``step_limit`` (no result: every seat gets the least);
* ``forfeits``: the seats that gave up; ``reason``: the environment's word on its end;
* ``figures``: points, chips, gains of the last position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness import parsing
from harness.player import Player
from harness.seeds import Streams
from harness.types import ILLEGAL, OK, Json, Message, Move, Outcome, Parsed, Reply, Sample, Turn

from . import answers, text
from .adapter import Adapter
from .adapters import adapter
from .session import Session


@dataclass(frozen=True, slots=True)
class Conduct:
    """How episodes are held.

    ``retries``: tries after a failed one; ``show_legal``: whether legal moves are listed;
    ``play_forced``: whether a single legal move is played without asking; ``openings``: random
    moves before the players take over; ``repair``: whether known faults of environments are mended;
    ``steps``: turns after which an episode is broken off; ``seconds``: processor time of the
    environment; ``say``: characters of a message to other players.
    """

    retries: int = 1
    show_legal: bool = True
    play_forced: bool = True
    openings: int = 0
    repair: bool = True
    steps: int = 400
    seconds: float = 60.0
    say: int = 500


@dataclass(frozen=True, slots=True)
class View:
    """What a reference player is given as ``Turn.state``: the adapter and the environment."""

    session: Session
    seat: int

    @property
    def adapter(self) -> Adapter:
        """The environment's adapter."""
        return self.session.adapter


class Episode:
    """One running episode."""

    def __init__(self, sample: Sample, players: Sequence[Player], conduct: Conduct) -> None:
        data = sample.data
        self.sample = sample
        self.players = players
        self.conduct = conduct
        self.adapter = adapter(data["env"])
        self.session = opened(sample, conduct)
        self.number = 0
        self.moves: list[Move] = []
        self.line: list[list[Json]] = []
        self.forfeit: tuple[int, str] | None = None

    async def play(self) -> Outcome:
        """Play to the end. ProviderError passes through; faults of the environment raise
        RuntimeError."""
        self._open()
        while not self.session.done and self.number < self.conduct.steps:
            if self.adapter.talking(self.session.env):
                await self._talk()
            elif not await self._decide():
                break
            self.number += 1
        return self._outcome()

    def _open(self) -> None:
        if not self.adapter.openings:
            return
        chance = Streams(self.sample.data["seed"])
        for ply in range(self.conduct.openings):
            seat = self.session.seat
            move = self.adapter.guess(self.session.env, seat, chance.stream("opening", ply))
            self.line.append([seat, move, 0, "opening"])
            self.session.step(move)

    async def _talk(self) -> None:
        """A turn at which any text is legal: silence is counted, and no forfeit."""
        seat = self.session.seat
        reply, turn = await self._ask(seat, 0, self._prompt(seat))
        said = answers.say(reply.text, everything=True, limit=self.conduct.say)
        verdict = Parsed(said, OK) if said else parsing.classify(reply, Parsed())
        self._record(turn, reply, verdict)
        self.line.append([seat, said, 1, "talk"])
        self.session.step(said or "(says nothing)", talk=True)

    async def _decide(self) -> bool:
        """A turn that needs a move; False if the seat forfeits."""
        seat = self.session.seat
        forced = self._forced(seat)
        if forced:
            self.line.append([seat, forced, 0, "forced"])
            self.session.step(forced)
            return True
        messages = self._prompt(seat)
        for attempt in range(self.conduct.retries + 1):
            reply, turn = await self._ask(seat, attempt, messages)
            parsed = self._judge(seat, reply, messages)
            self._record(turn, reply, parsed)
            if parsed.cls == OK:
                self.line.append([seat, parsed.value, attempt + 1, "asked"])
                self._play(seat, reply, parsed.value)
                return True
            if attempt < self.conduct.retries:
                messages = text.feedback(
                    self.session, messages, reply, parsed, self.conduct.show_legal
                )
        self.line.append([seat, None, self.conduct.retries + 1, "asked"])
        self.forfeit = (seat, parsed.cls)
        return False

    def _play(self, seat: int, reply: Reply, move: str) -> None:
        """Step, and pass on what was said aloud (in games with talk)."""
        said = ""
        if self.adapter.talks and self.adapter.listed:
            said = answers.say(reply.text, everything=False, limit=self.conduct.say)
        if said:
            self.session.tell(seat, said)
        self.session.step(move)
        if not self.adapter.listed and self.session.rejected(seat):
            self.moves[-1] = replace(self.moves[-1], cls=ILLEGAL)

    def _forced(self, seat: int) -> str:
        env = self.session.env
        forced = self.adapter.forced(env, seat)
        if forced or not self.conduct.play_forced:
            return forced
        legal = self.adapter.legal(env, seat)
        return legal[0] if legal is not None and len(legal) == 1 else ""

    def _judge(self, seat: int, reply: Reply, messages: tuple[Message, ...]) -> Parsed:
        parsed = answers.bare(reply.text, self.adapter)
        if parsed is None:
            echoes = answers.prompt_lines(messages)
            parsed = answers.read(reply.text, self.adapter, reply.finish_reason, echoes, seat)
        if parsed.cls != OK:
            return parsing.classify(reply, parsed)
        if not self.adapter.permits(self.session.env, seat, parsed.value):
            return Parsed(parsed.value, ILLEGAL)
        return parsed

    def _prompt(self, seat: int) -> tuple[Message, ...]:
        # Players of the task read the position: no words are made for them, none are recorded.
        if not getattr(self.players[seat], "reads_messages", True):
            return ()
        return text.prompt(self.session, self.conduct.show_legal)

    async def _ask(
        self, seat: int, attempt: int, messages: tuple[Message, ...]
    ) -> tuple[Reply, Turn]:
        legal = None
        if not self.adapter.talking(self.session.env):
            legal = self.adapter.legal(self.session.env, seat)
        state = View(self.session, seat)
        turn = Turn(seat, messages, legal, None, state, self.number, attempt)
        return await self.players[seat].act(turn), turn

    def _record(self, turn: Turn, reply: Reply, parsed: Parsed) -> None:
        move = Move(
            turn.seat, reply, parsed.value, parsed.cls, turn.messages, turn.number, turn.attempt
        )
        self.moves.append(move)

    def _outcome(self) -> Outcome:
        model = self.sample.data["model_seat"]
        if self.session.seats == 1 and self.session.gave_up(0):
            # Without an adapter: some environments pay for the way made up to an invalid move.
            self.forfeit = (0, ILLEGAL)
        ended = "forfeit" if self.forfeit else "finished" if self.session.done else "step_limit"
        returns = self._returns(ended)
        fault = self.forfeit[1] if self.forfeit and self.forfeit[0] == model else OK
        if not self.adapter.listed and self.session.gave_up(model):
            fault = ILLEGAL
        data = {
            "line": self.line,
            "ended": ended,
            "forfeits": [self.forfeit[0]] if self.forfeit else [],
            "reason": self.session.reason() if ended == "finished" else "",
            "figures": dict(self.adapter.figures(self.session.env)),
        }
        return Outcome(tuple(self.moves), fault, returns, data)

    def _returns(self, ended: str) -> tuple[float, ...]:
        if ended == "finished":
            return self.session.rewards()
        low, high = self.adapter.lowest, self.adapter.highest
        loser = self.forfeit[0] if self.forfeit else None
        seats = range(self.session.seats)
        return tuple(low if loser in (None, seat) else high for seat in seats)


def opened(sample: Sample, conduct: Conduct) -> Session:
    """The session of a sample at its start."""
    name = sample.data["env"]
    return Session(name, sample.data["seed"], adapter(name), conduct.repair, conduct.seconds)
