r"""What a seat is shown, and what it is told when its reply cannot be played.

A prompt is two messages. The first holds the rules and the form of an answer: it is the same for
every episode of a game, so a back end that caches prefixes reads it once. The second says who the
seat is, then the history, which only grows, and last the position, which changes.

>>> from harness_plugins.tasks.gtbench.games import skin
>>> print(*skin("kuhn_poker", "plain").system.content.splitlines()[-2:], sep="\n")
ANSWER: <move>
A move is written Pass or Bet.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from harness.parsing import visible
from harness.types import EMPTY, ILLEGAL, REFUSED, TRUNCATED, Message, Parsed, Reply

from .game import Skin
from .position import Position

ECHO = 2_000
"""Characters of a failed reply that are shown again with the feedback (its end is kept)."""


def system(skin: Skin) -> str:
    """Rules, then how to answer."""
    return (
        f"You play a game against one opponent.\n\n{skin.fill(skin.game.rules)}\n\n"
        "Play to get the highest score. You may think before you answer. End your reply with one "
        f"line that holds nothing else:\nANSWER: <move>\n{skin.fill(skin.game.form)}"
    )


def prompt(
    skin: Skin,
    position: Position,
    seat: int,
    legal: Collection[str],
    *,
    show_legal: bool = True,
    opening: int = 0,
) -> tuple[Message, ...]:
    """The messages for a seat that is to move."""
    game = skin.game
    parts = [
        game.role(seat, skin.words),
        game.history(position, seat, skin, opening),
        game.view(position, seat, skin),
    ]
    if show_legal:
        parts.append(game.legal_text(position, seat, skin, legal))
    parts.append("It is your move.")
    return (skin.system, Message("user", "\n\n".join(parts)))


def feedback(
    skin: Skin,
    messages: Sequence[Message],
    reply: Reply,
    parsed: Parsed,
    legal_text: str,
) -> tuple[Message, ...]:
    """The messages of the next attempt: the failed reply and what was wrong with it."""
    shown = visible(reply.text)[-ECHO:] or "(no answer)"
    lines = [complaint(parsed)]
    if legal_text:
        lines.append(legal_text)
    lines.append(f"{skin.fill(skin.game.form)} End your reply with one line:\nANSWER: <move>")
    return (*messages, Message("assistant", shown), Message("user", "\n".join(lines)))


def complaint(parsed: Parsed) -> str:
    """What was wrong with a reply, in one or two sentences."""
    if parsed.cls == ILLEGAL:
        return f"The move {parsed.value} is not legal in this position. Choose another one."
    if parsed.cls == TRUNCATED:
        return (
            "Your reply reached the length limit before it held an answer. Answer at once, "
            "without explanation."
        )
    if parsed.cls == EMPTY:
        return "Your reply held no answer: nothing was left after removing the reasoning."
    if parsed.cls == REFUSED:
        return (
            "You declined to move. This is a game with points only, between two programs; nothing "
            "else is at stake. Please choose a move."
        )
    if parsed.note:
        return f"Your answer could not be read: {parsed.note}."
    return "No move could be read in your reply."
