"""What a seat is shown, and what it is told when its reply can't be played.

A prompt is two messages. The first holds how to answer and the environment's own rules, the same
for all turns of a seat, so that a back end that caches prefixes reads it once. The second holds
what has happened, which only grows, then the board and the legal moves, which change.

What the environment sends is passed on, with three exceptions: an opponent's actions are told by
the game, never quoted from the reply; of boards only the last one is shown; and what players say
to each other stands in quotation marks on one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from harness.types import EMPTY, ILLEGAL, REFUSED, TRUNCATED, Message, Parsed, Reply

from .adapter import Adapter
from .answers import clean
from .session import GAME, Session

ECHO: Final = 2_000
"""Characters of a failed reply that are shown again with the feedback (its end is kept)."""

HOW: Final = (
    "You play a text game. You may think before you answer; your thoughts stay private. End your "
    "reply with your move in square brackets on a line of its own, in the form\n{form}"
)
TALK: Final = (
    "\nTo tell the other player something, write it on a line that begins with SAY: and holds no "
    "move. When it is your turn to talk, only that is wanted."
)


def system(session: Session, seat: int) -> Message:
    """How to answer, and the rules as the environment tells them, with what it leaves out."""
    adapter = session.adapter
    rules = [e.text for e in session.events[seat] if e.kind == "PROMPT"]
    how = HOW.format(form=adapter.form)
    if adapter.talks and adapter.listed:
        how += TALK
    more = adapter.told(session.env)
    return Message("system", "\n\n".join([how, *rules, *([more] if more else [])]))


def prompt(session: Session, show_legal: bool = True) -> tuple[Message, ...]:
    """The messages for the seat that moves now."""
    return view(session, session.seat, show_legal, to_move=True)


def view(
    session: Session, seat: int, show_legal: bool = True, to_move: bool = False
) -> tuple[Message, ...]:
    """The messages for a seat, which need not be the one that moves."""
    adapter, env = session.adapter, session.env
    parts = []
    history = _history(session, seat)
    if history:
        parts.append("What has happened:\n" + "\n".join(history))
    boards = [e.text for e in session.events[seat] if e.kind == "GAME_BOARD"]
    if adapter.board and boards and not any(boards[-1] in line for line in history):
        parts.append(boards[-1])
    own = adapter.view(env, seat)
    if own:
        parts.append(own)
    if to_move:
        parts.append(_request(adapter, env, seat, show_legal))
    return system(session, seat), Message("user", "\n\n".join(parts) or "The game begins.")


def _request(adapter: Adapter, env: Any, seat: int, show_legal: bool) -> str:
    if adapter.talking(env):
        return "It is your turn to talk: what do you say to the other player?"
    legal = legal_text(adapter, env, seat) if show_legal else ""
    ask = f"It is your move. Which one do you play? Reply with it in the form\n{adapter.form}"
    return f"{legal}\n{ask}" if legal else ask


def legal_text(adapter: Adapter, env: Any, seat: int) -> str:
    """The legal moves in words."""
    return adapter.describe(env, seat)


def _history(session: Session, seat: int) -> list[str]:
    adapter = session.adapter
    lines = []
    for event in session.events[seat]:
        if event.kind == "PROMPT" or (event.kind == "GAME_BOARD" and adapter.listed):
            continue
        if event.kind != "PLAYER_ACTION":
            lines.append(f"- {event.text}")
        elif event.sender == seat:
            lines.append(f"- You: {event.text}")
        elif event.sender != GAME:
            lines.append(quote(event.sender, event.text))
    return lines


def quote(sender: int, said: str) -> str:
    """What another player said, on one line."""
    inner = said.replace('"', "'")
    return f'- Player {sender} says: "{inner}"'


def feedback(
    session: Session, messages: Sequence[Message], reply: Reply, parsed: Parsed, show_legal: bool
) -> tuple[Message, ...]:
    """The messages of the next attempt: the failed reply and what was wrong with it."""
    adapter = session.adapter
    shown = clean(reply.text)[-ECHO:] or "(no answer)"
    lines = [complaint(parsed)]
    if show_legal and (legal := legal_text(adapter, session.env, session.seat)):
        lines.append(legal)
    lines.append(f"End your reply with a line in the form\n{adapter.form}")
    return (*messages, Message("assistant", shown), Message("user", "\n".join(lines)))


def complaint(parsed: Parsed) -> str:
    """What was wrong with a reply, in one or two sentences."""
    if parsed.cls == ILLEGAL:
        return f"The move {parsed.value} is not legal now. Choose another one."
    if parsed.cls == TRUNCATED:
        return (
            "Your reply reached the length limit before it held a move. Give the move at once, "
            "without explanation."
        )
    if parsed.cls == EMPTY:
        return "Your reply held no move: nothing was left after removing the reasoning."
    if parsed.cls == REFUSED:
        return (
            "You declined to move. This is a game between two programs, and nothing but points is "
            "at stake. Please choose a move."
        )
    return f"Your move could not be read: {parsed.note or 'there is none'}."
