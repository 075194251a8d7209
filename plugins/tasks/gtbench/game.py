"""A game: how it is dealt, told, answered and scored.

Each game is a subclass in `games`, made of class attributes, a grammar and a way to show a
position. Nothing here loads a game library until a position is started, so that scoring stored
outcomes needs none.

The texts are templates over a vocabulary. Every game has two: ``plain`` with the usual names, and
``relabelled`` with the same rules under other names, to tell knowledge of a game from play.

>>> from harness_plugins.tasks.gtbench.games import skin
>>> skin("kuhn_poker", "plain").read("bet"), skin("kuhn_poker", "relabelled").read("Push")
('Bet', 'Push')
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, ClassVar

from harness.types import HarnessError, Message

from .position import Position, SpielPosition, load

VARIANTS = ("plain", "relabelled")
Words = Mapping[str, str]
"""A vocabulary: slot of the templates -> word."""


class Game:
    """One game for two seats.

    ``spiel`` is OpenSpiel's name with parameters. ``hidden`` says that a seat does not see all.
    ``top`` is the largest return; in zero-sum games the smallest is ``-top``, in others 0.
    ``opening_plies`` are drawn at random before the players take over (0: chance already makes
    episodes differ). ``turns`` is how many decisions a seat has in an episode of random players,
    after the opening. ``rules`` and ``form`` (how a move is written) are templates over ``words``.
    """

    key: ClassVar[str] = ""
    spiel: ClassVar[str] = ""
    hidden: ClassVar[bool] = False
    zero_sum: ClassVar[bool] = True
    simultaneous: ClassVar[bool] = False
    top: ClassVar[float] = 1.0
    opening_plies: ClassVar[int] = 0
    turns: ClassVar[float] = 1.0
    rules: ClassVar[str] = ""
    form: ClassVar[str] = ""
    words: ClassVar[Mapping[str, Words]] = {}

    # Playing

    def start(self, seed: int) -> Position:
        """A new position whose chance events follow from ``seed``."""
        return SpielPosition(self.key, load(self.spiel), seed)

    def say(self, action: int, words: Words) -> str:
        """The canonical text of an action."""
        raise NotImplementedError

    def pattern(self, words: Words) -> str:
        """A regular expression for one move in any accepted spelling (case is ignored); each
        repetition in it is bounded."""
        raise NotImplementedError

    def canonical(self, found: re.Match[str], words: Words) -> str:
        """The canonical text of a match, whether legal or not: no value is ever changed."""
        raise NotImplementedError

    # Telling

    def role(self, seat: int, words: Words) -> str:
        """Who this seat is."""
        return f"You are player {seat + 1}; player {1 if seat else 2} is your opponent."

    def history(self, position: Position, seat: int, skin: Skin, opening: int) -> str:
        """What has been played, as far as this seat knows, oldest first."""
        lines = [
            f"{number}. {'You' if mover == seat else 'Opponent'}: {skin.say(action)}"
            for number, (mover, action) in enumerate(position.moves, 1)
        ]
        if not lines:
            return "No move has been made yet."
        note = f" (the first {opening} were drawn at random)" if opening else ""
        return f"Moves so far{note}:\n" + "\n".join(lines)

    def view(self, position: Position, seat: int, skin: Skin) -> str:
        """The position as this seat sees it, with its private information."""
        raise NotImplementedError

    def legal_text(self, position: Position, seat: int, skin: Skin, legal: Iterable[str]) -> str:
        """The legal moves in words."""
        return "Legal moves: " + "; ".join(legal)

    # Scoring

    def scale(self, position: Position) -> tuple[float, float]:
        """The most that each seat could have got in this episode."""
        return (self.top, self.top)

    def forfeit(self, position: Position, losers: Iterable[int]) -> tuple[float, float]:
        """Returns when seats give up: they get the least, the others the most there is."""
        least = -self.top if self.zero_sum else 0.0
        gone = set(losers)
        first, second = self.scale(position)
        return (least if 0 in gone else first, least if 1 in gone else second)

    def payoff(self, own: float, scale: float) -> float:
        """A return as a number in [0, 1]: the least to the most that the seat could have got."""
        if self.zero_sum:
            return (own / self.top + 1.0) / 2.0
        return own / scale if scale else 0.0


class Skin:
    """A game in one of its vocabularies, with what can be made once and kept."""

    def __init__(self, game: Game, variant: str) -> None:
        self.game = game
        self.variant = variant
        self.words = game.words[variant]
        self._said: dict[int, str] = {}

    def say(self, action: int) -> str:
        """The canonical text of an action (kept: games have few)."""
        text = self._said.get(action)
        if text is None:
            text = self._said[action] = self.game.say(action, self.words)
        return text

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Finds one move; it may not touch letters or digits on either side."""
        return re.compile(
            rf"(?<![A-Za-z0-9])(?:{self.game.pattern(self.words)})(?![A-Za-z0-9])", re.IGNORECASE
        )

    def read(self, text: str) -> str | None:
        """The canonical text of what is nothing but a move, in any spelling; None otherwise."""
        found = self.pattern.fullmatch(text)
        return None if found is None else self.canonical(found)

    def canonical(self, found: re.Match[str]) -> str:
        """The canonical text of a match of the pattern."""
        return self.game.canonical(found, self.words)

    def legal(self, position: Position, seat: int) -> dict[str, int]:
        """The legal moves of a seat: canonical text -> action."""
        return {self.say(action): action for action in position.legal(seat)}

    def act(self, position: Position, seat: int, text: str) -> None:
        """Play one move given by its canonical text. Raises HarnessError if it is not legal."""
        action = self.legal(position, seat).get(text)
        if action is None:
            raise HarnessError(f"{self.game.key}: {text!r} is not legal in this position")
        position.play({seat: action})

    def fill(self, template: str, **more: Any) -> str:
        """A template with this vocabulary's words in it."""
        return template.format_map({**self.words, **more})

    @cached_property
    def system(self) -> Message:
        """The stable part of the prompt: rules and the form of an answer."""
        from .text import system

        return Message("system", system(self))
