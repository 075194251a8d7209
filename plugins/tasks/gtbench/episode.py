"""An episode: one game from its deal to its returns, asking the players for their moves.

    episode = Episode(skin, sample, players, rng, conduct)
    outcome = await episode.play()

A reply without a legal move is answered with feedback, up to ``conduct.retries`` times; after that
the seat forfeits and has lost. Moves are recorded as they were said; ``Outcome.data`` holds the
course of play:

* ``line``: [seat, move or null, attempts, how] for each decision, ``how`` being ``asked``,
  ``forced`` (one legal move: played without asking) or ``random`` (put in for a forfeit);
* ``forfeits``: the seats that gave up; ``substituted``: the returns had random legal moves been
  played in their place (only with that option);
* ``chance``: the chance events, ``scale``: the most each seat could have got.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from harness import parsing
from harness.player import Player
from harness.seeds import Streams
from harness.types import ILLEGAL, OK, Json, Message, Move, Outcome, Parsed, Reply, Sample, Turn

from . import answers, text
from .agents import Agent
from .deals import opened
from .game import Skin
from .presets import Conduct
from .view import View


class Decision(NamedTuple):
    """What a seat did at its turn: its action (None: it forfeits), the replies and their class."""

    action: int | None
    move: str | None
    attempts: int
    how: str
    replies: tuple[Move, ...] = ()
    cls: str = OK


class Episode:
    """One running game."""

    def __init__(
        self,
        skin: Skin,
        sample: Sample,
        players: Sequence[Player],
        rng: Streams,
        conduct: Conduct,
    ) -> None:
        self.skin = skin
        self.sample = sample
        self.players = players
        self.rng = rng
        self.conduct = conduct
        self.opening = len(sample.data["opening"])
        self.position = opened(skin.game.key, sample.data)
        self.number = 0
        self.moves: list[Move] = []
        self.line: list[list[Json]] = []
        self.faults: dict[int, str] = {}
        self.forfeited: tuple[float, float] | None = None

    async def play(self) -> Outcome:
        """Play to the end. ProviderError passes through."""
        while not self.position.over:
            decisions = await self._decide(self.position.seats())
            losers = [seat for seat, decision in decisions.items() if decision.action is None]
            if losers and self.forfeited is None:
                self.forfeited = self.skin.game.forfeit(self.position, losers)
            if losers and not self.conduct.substitute:
                break
            self.position.play({seat: self._action(seat, d) for seat, d in decisions.items()})
            self.number += 1
        return self._outcome()

    async def _decide(self, seats: tuple[int, ...]) -> dict[int, Decision]:
        """Ask the seats that move: both at once where both move, whatever the other one says."""
        if len(seats) == 1:
            found = [await self._turn(seats[0])]
        else:
            waiting = (self._turn(seat) for seat in seats)
            found = []
            for result in await asyncio.gather(*waiting, return_exceptions=True):
                if isinstance(result, BaseException):
                    raise result
                found.append(result)
        for seat, decision in zip(seats, found, strict=True):
            self.moves.extend(decision.replies)
            self.line.append([seat, decision.move, decision.attempts, decision.how])
            if decision.action is None:
                self.faults.setdefault(seat, decision.cls)
        return dict(zip(seats, found, strict=True))

    async def _turn(self, seat: int) -> Decision:
        legal = self.skin.legal(self.position, seat)
        if len(legal) == 1 and self.conduct.play_forced:
            [(move, action)] = legal.items()
            return Decision(action, move, 0, "forced")
        player = self.players[seat]
        view = View(self.skin, self.position, seat, legal)
        messages = self._prompt(player, seat, legal)
        replies: list[Move] = []
        for attempt in range(self.conduct.retries + 1):
            turn = Turn(seat, messages, tuple(legal), None, view, self.number, attempt)
            reply, parsed = await self._ask(player, turn, replies)
            if parsed.cls == OK:
                action = legal[parsed.value]
                return Decision(action, parsed.value, attempt + 1, "asked", tuple(replies))
            if attempt < self.conduct.retries:
                messages = text.feedback(
                    self.skin, messages, reply, parsed, self._legal_text(seat, legal)
                )
        return Decision(None, None, attempt + 1, "asked", tuple(replies), parsed.cls)

    async def _ask(self, player: Player, turn: Turn, replies: list[Move]) -> tuple[Reply, Parsed]:
        """One attempt: its reply, what it was read as, and all that was said for it recorded."""
        reply = await player.act(turn)
        parsed = judge(turn, reply)
        if isinstance(player, Agent):
            replies.extend(player.said())
        else:
            replies.append(
                Move(
                    turn.seat,
                    reply,
                    parsed.value,
                    parsed.cls,
                    turn.messages,
                    turn.number,
                    turn.attempt,
                )
            )
        return reply, parsed

    def _prompt(self, player: Player, seat: int, legal: Mapping[str, int]) -> tuple[Message, ...]:
        # A search or a table reads the position: no words are made for it, none are recorded.
        if not getattr(player, "reads_messages", True):
            return ()
        return text.prompt(
            self.skin,
            self.position,
            seat,
            legal,
            show_legal=self.conduct.show_legal,
            opening=self.opening,
        )

    def _legal_text(self, seat: int, legal: Mapping[str, int]) -> str:
        if not self.conduct.show_legal:
            return ""
        return self.skin.game.legal_text(self.position, seat, self.skin, legal)

    def _action(self, seat: int, decision: Decision) -> int:
        """The action to play: for a forfeit, a random legal one."""
        if decision.action is not None:
            return decision.action
        legal = self.position.legal(seat)
        action = legal[self.rng.below(len(legal), "substitute", seat, self.number)]
        self.line.append([seat, self.skin.say(action), 0, "random"])
        return action

    def _outcome(self) -> Outcome:
        data = self.sample.data
        # After a forfeit without substitution the game was not played out.
        played = self.position.returns() if self.position.over else None
        returns = self.forfeited if self.forfeited is not None else played
        assert returns is not None
        course: dict[str, Json] = {
            "game": data["game"],
            "variant": data["variant"],
            "model_seat": data["model_seat"],
            "opening": list(data["opening"]),
            "line": self.line,
            "chance": self.position.chance(),
            "scale": list(self.skin.game.scale(self.position)),
            "forfeits": sorted(self.faults),
        }
        if self.forfeited is not None and played is not None:
            course["substituted"] = list(played)
        fault = self.faults.get(data["model_seat"], OK)
        return Outcome(tuple(self.moves), fault, returns, course)


def judge(turn: Turn, reply: Reply) -> Parsed:
    """Read a reply to a turn of this task: its move, and whether that is legal."""
    view: View = turn.state
    if reply.text in view.legal and reply.finish_reason == "stop":
        return Parsed(reply.text, OK)
    parsed = answers.read(reply.text, view.skin, reply.finish_reason)
    if parsed.cls != OK:
        return parsing.classify(reply, parsed)
    if parsed.value not in view.legal:
        return Parsed(parsed.value, ILLEGAL, parsed.note)
    return parsed
