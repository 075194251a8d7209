"""UNO for two on rlcard, by its rules: `red 7`, `blue skip`, `green wild`, `draw`.

rlcard's rules differ from the usual ones in what a drawn card does; the prompt tells rlcard's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from ..cards import CardPosition
from ..game import Game, Skin, Words
from ..position import Position

COLOURS = ("r", "g", "b", "y")
TRAITS = (*map(str, range(10)), "skip", "reverse", "draw_2", "wild", "wild_draw_4")
ACTIONS = (*(f"{colour}-{trait}" for colour in COLOURS for trait in TRAITS), "draw")
LIMIT = 500


class UnoPosition(CardPosition):
    """A position of UNO. A game that reaches the limit of moves is a draw."""

    module = "rlcard.games.uno"
    actions = ACTIONS
    limit = LIMIT
    __slots__ = ("stuck", "tops")

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.stuck = False
        self.tops = [self.top()]

    def top(self) -> str:
        """The top card. rlcard's own text of a wild card keeps the colour that it was made with."""
        return str(self.core.round.target.get_str())

    @property
    def over(self) -> bool:
        return self.stuck or super().over

    def play(self, actions: Mapping[int, int]) -> None:
        try:
            super().play(actions)
        except IndexError:
            # rlcard deals from an empty deck when nearly all cards are in hands: nothing can be
            # drawn any more, the game is a draw.
            self.stuck = True
        self.tops.append(self.top())

    def returns(self) -> tuple[float, float]:
        return (0.0, 0.0) if self.stuck else super().returns()


class Uno(Game):
    key = "uno"
    hidden = True
    turns = 7.8
    rules = (
        "{name} for two players. The deck has cards of four colours ({r}, {g}, {b}, {y}): "
        "numbers 0 to 9, skip, reverse and draw_2, and wild and wild_draw_4 cards. Each player is "
        "dealt 7 cards and one card is turned up as the top card (if it is a draw_2, player 1 "
        "takes two cards; if it is a skip or a reverse, player 2 begins; otherwise player 1 "
        "begins). In turn, a player plays one card of the top card's colour, or of the same number "
        "or kind, or a wild card, naming the colour that it then has; on a wild or wild_draw_4 top "
        "card only its colour counts. A wild_draw_4 may be played only if nothing else can be. "
        "After a skip the same player moves again. After a draw_2 or a wild_draw_4 the opponent "
        "takes two or four cards and loses its turn. A reverse has no other effect than being "
        "played. A player with no card to play must {draw}: the drawn card is played at once if it "
        "has the top card's colour (with its effect) or is any wild card (with a random colour and "
        "without the effect of drawing four); otherwise it is kept. When the deck is used up, the "
        "played cards are shuffled into it. Whoever first has no cards left wins. A win counts +1, "
        "a loss -1. A game of 500 moves, or one in which no card is left to draw, is a draw and "
        "counts 0."
    )
    form = (
        "A move is written as colour and kind of the card, as in the list of your cards, for wild "
        "cards with the colour that you choose; the other move is {draw}."
    )
    words: ClassVar = {
        "plain": {
            "name": "UNO",
            "r": "red",
            "g": "green",
            "b": "blue",
            "y": "yellow",
            "draw": "draw",
        },
        "relabelled": {
            "name": "Last leaf",
            "r": "oak",
            "g": "ash",
            "b": "elm",
            "y": "fir",
            "draw": "take",
        },
    }

    def start(self, seed: int) -> Position:
        return UnoPosition(seed)

    def say(self, action: int, words: Words) -> str:
        return words["draw"] if ACTIONS[action] == "draw" else told(ACTIONS[action], words)

    def pattern(self, words: Words) -> str:
        colours = "|".join(words[colour] for colour in COLOURS)
        traits = r"\d|skip|reverse|draw[\s_]?2|wild[\s_]?draw[\s_]?4|wild"
        return rf"(?P<draw>{words['draw']})|(?P<c>{colours})[\s-]\s?(?P<t>{traits})"

    def canonical(self, found: re.Match[str], words: Words) -> str:
        if found["draw"]:
            return words["draw"]
        trait = re.sub(r"[\s_]", "", found["t"].lower())
        for spelled in ("draw_2", "wild_draw_4"):
            if trait == spelled.replace("_", ""):
                trait = spelled
        return f"{found['c'].lower()} {trait}"

    def history(self, position: Position, seat: int, skin: Skin, opening: int) -> str:
        assert isinstance(position, UnoPosition)
        lines = [f"The first top card was {told(position.tops[0], skin.words)}."]
        for number, ((mover, action), top) in enumerate(
            zip(position.moves, position.tops[1:], strict=True), 1
        ):
            played = skin.say(action)
            if ACTIONS[action] == "draw" and top != position.tops[number - 1]:
                played += f" (and played {told(top, skin.words)})"
            lines.append(f"{number}. {'You' if mover == seat else 'Opponent'}: {played}")
        return "\n".join(lines)

    def view(self, position: Position, seat: int, skin: Skin) -> str:
        assert isinstance(position, UnoPosition)
        state = position.core.get_state(seat)
        hand = ", ".join(_held(name, skin.words) for name in state["hand"])
        return (
            f"The top card is {told(position.top(), skin.words)}. Your cards: {hand}. "
            f"Your opponent holds {state['num_cards'][1 - seat]} cards."
        )


def told(name: str, words: Words) -> str:
    """rlcard's name of a card in words.

    >>> told("r-draw_2", {"r": "red"})
    'red draw_2'
    """
    colour, _, trait = name.partition("-")
    return f"{words[colour]} {trait}"


def _held(name: str, words: Words) -> str:
    # A wild card in the hand has no colour yet, whatever rlcard stores.
    trait = name.partition("-")[2]
    return trait if trait.startswith("wild") else told(name, words)
