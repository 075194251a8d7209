"""Agents: ways to use a model for a decision. Each is a player that wraps a player.

* ``prompt``: the model as it is.
* ``cot``: it is asked to reason step by step.
* ``sc-cot``: several chains of thought, and a vote over the moves that they end in.
* ``tot``: several plans, a vote for one, several answers that follow it, a vote for one of those.

    agent = SelfConsistent(player, read, samples=5)
    reply = await agent.act(turn)      # the first reply that gave the winning move
    agent.said()                       # all that was said for it, as moves

An agent asks the wrapped player several times in one turn. These requests need seeds of their own,
and a request's seed is made from the turn's number and attempt: the k-th request of attempt a is
sent as attempt ``100 * a + k``.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from harness.parsing import plain, visible
from harness.player import Player
from harness.types import EMPTY, OK, UNPARSED, Message, Move, Parsed, Reply, Turn

from .answers import last_match

Read = Callable[[Turn, Reply], Parsed]
"""Reads a reply to a turn: the move and its class."""

STRIDE = 100
"""Requests that one attempt of an agent may send."""

STEPS = (
    "Reason step by step before you answer: what the position is, what each of your moves would "
    "lead to, and what your opponent could do then. Then give your answer."
)
PLAN = (
    "Do not answer yet. Write a short plan for this decision: which moves come into question, what "
    "speaks for and against each, and how you would choose."
)
CHOOSE = re.compile(
    r"(?<![A-Za-z])choice\s{0,3}[:=]?\s{0,3}[*_`\[(<]{0,3}(\d{1,6})(?![\d.]*\d)",
    re.IGNORECASE,
)


class Agent(Player):
    """A player that asks another one. ``said`` gives up what was said since it was last called."""

    def __init__(self, inner: Player, read: Read) -> None:
        self.inner = inner
        self.read = read
        self._moves: list[Move] = []

    def said(self) -> list[Move]:
        """The moves recorded since the last call, in the order in which they were asked."""
        moves, self._moves = self._moves, []
        return moves

    async def ask(self, turn: Turn, texts: Sequence[str], index: int, read: Read) -> list[Reply]:
        """Ask once for each text (added to the last message), all at once; record the answers."""
        turns = [
            replace(
                turn,
                messages=extended(turn.messages, text),
                attempt=STRIDE * turn.attempt + index + k,
            )
            for k, text in enumerate(texts)
        ]
        found = await asyncio.gather(*(self.inner.act(t) for t in turns), return_exceptions=True)
        replies: list[Reply] = []
        for t, reply in zip(turns, found, strict=True):
            if isinstance(reply, BaseException):
                raise reply
            parsed = read(turn, reply)
            self._moves.append(
                Move(t.seat, reply, parsed.value, parsed.cls, t.messages, t.number, t.attempt)
            )
            replies.append(reply)
        return replies


class ChainOfThought(Agent):
    """Asks once, for reasoning and a move."""

    async def act(self, turn: Turn) -> Reply:
        [reply] = await self.ask(turn, [STEPS], 0, self.read)
        return reply


class SelfConsistent(Agent):
    """Asks several times and returns the first reply that gave the most frequent legal move."""

    def __init__(self, inner: Player, read: Read, samples: int = 5) -> None:
        super().__init__(inner, read)
        self.samples = samples

    async def act(self, turn: Turn) -> Reply:
        replies = await self.ask(turn, [STEPS] * self.samples, 0, self.read)
        return elected(turn, replies, self.read)


class TreeOfThought(Agent):
    """Plans and answers, each chosen by votes: ``samples`` of either, ``votes`` over them."""

    def __init__(self, inner: Player, read: Read, samples: int = 3, votes: int = 3) -> None:
        super().__init__(inner, read)
        self.samples = samples
        self.votes = votes

    @staticmethod
    def requests(samples: int, votes: int = 3) -> int:
        """Requests of one decision, at most."""
        return 2 * (samples + votes)

    async def act(self, turn: Turn) -> Reply:
        plans = await self.ask(turn, [PLAN] * self.samples, 0, _as_text)
        texts = [text for reply in plans if (text := visible(reply.text))]
        ask = STEPS
        if texts:
            best = await self._vote(turn, texts, self.samples)
            ask = f"Your plan:\n{texts[best]}\n\nFollow this plan. {STEPS}"
        start = self.samples + self.votes
        replies = await self.ask(turn, [ask] * self.samples, start, self.read)
        moves = [self.read(turn, reply) for reply in replies]
        options = list(dict.fromkeys(str(p.value) for p in moves if p.cls == OK))
        if len(options) < 2:
            return elected(turn, replies, self.read)
        best = await self._vote(turn, options, start + self.samples)
        return next(
            reply
            for reply, p in zip(replies, moves, strict=True)
            if p.cls == OK and str(p.value) == options[best]
        )

    async def _vote(self, turn: Turn, options: Sequence[str], index: int) -> int:
        """The option with most votes; the first of them on a tie or without a valid vote."""
        if len(options) == 1:
            return 0
        text = ballot(options)
        replies = await self.ask(
            turn, [text] * self.votes, index, lambda _, reply: vote(reply, len(options))
        )
        counts = Counter(p.value for reply in replies if (p := vote(reply, len(options))).cls == OK)
        return min(range(len(options)), key=lambda k: (-counts[k + 1], k))


def elected(turn: Turn, replies: Sequence[Reply], read: Read) -> Reply:
    """The first reply with the most frequent legal move; without any, the first reply."""
    values = [p.value if (p := read(turn, reply)).cls == OK else None for reply in replies]
    counts = Counter(value for value in values if value is not None)
    if not counts:
        return replies[0]
    most = max(counts.values())
    return next(r for r, v in zip(replies, values, strict=True) if counts.get(v) == most)


def ballot(options: Sequence[str]) -> str:
    """The question that a vote answers."""
    listed = "\n\n".join(f"Option {k}:\n{option}" for k, option in enumerate(options, 1))
    return (
        f"Do not make a move now. Compare these options for the decision above:\n\n{listed}\n\n"
        "Say which one is best. End your reply with one line:\nCHOICE: <number of the option>"
    )


def vote(reply: Reply, options: int) -> Parsed:
    """The option that a reply votes for, counted from 1: the last ``CHOICE: number``.

    >>> vote(Reply("1 is good, 12 is better. CHOICE: 12"), 12).value
    12
    """
    found = last_match(CHOOSE, plain(visible(reply.text)))
    if found is None or not 1 <= int(found[1]) <= options:
        return Parsed(None, UNPARSED, "no valid CHOICE")
    return Parsed(int(found[1]), OK)


def extended(messages: Sequence[Message], text: str) -> tuple[Message, ...]:
    """The messages with a text added to the last one."""
    *before, last = messages
    return (*before, Message(last.role, f"{last.content}\n\n{text}"))


def _as_text(turn: Turn, reply: Reply) -> Parsed:
    return Parsed(None, OK if visible(reply.text) else EMPTY)
