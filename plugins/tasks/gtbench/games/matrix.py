"""One-shot matrix games, as OpenSpiel has them: both players choose once, at the same time.

Played through `mode=policy`: each seat has one information set. The pay-offs in a prompt are read
from the engine, from the side of the seat that is asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from ..game import Game, Skin, Words
from ..position import Position, load

LETTERS = ("A", "B", "C")


class MatrixGame(Game):
    """A game of one simultaneous move. Subclasses name OpenSpiel's matrix and its actions."""

    matrix: ClassVar[str] = ""
    title: ClassVar[str] = ""
    actions: ClassVar[tuple[str, ...]] = ()
    hidden = True  # nobody sees the other's choice
    rules = (
        "{name}: you and your opponent each choose one action at the same time, once, without "
        "seeing the other's choice. What both get is told below. Your score is what you get."
    )

    def __init_subclass__(cls) -> None:
        cls.spiel = f"turn_based_simultaneous_game(game={cls.matrix}())"
        cls.form = "A move is written " + _listed(len(cls.actions))
        cls.words = {
            "plain": {"name": cls.title, **_slots(cls.actions)},
            "relabelled": {"name": "A choice", **_slots(LETTERS[: len(cls.actions)])},
        }

    def say(self, action: int, words: Words) -> str:
        return words[f"a{action}"]

    def pattern(self, words: Words) -> str:
        return "|".join(f"(?P<a{k}>{words[f'a{k}']})" for k in range(len(self.actions)))

    def canonical(self, found: re.Match[str], words: Words) -> str:
        return words[next(f"a{k}" for k in range(len(self.actions)) if found[f"a{k}"])]

    def role(self, seat: int, words: Words) -> str:
        return "You play against one opponent."

    def history(self, position: Position, seat: int, skin: Skin, opening: int) -> str:
        return "Neither choice is known to the other player."

    def view(self, position: Position, seat: int, skin: Skin) -> str:
        lines = []
        for own in range(len(self.actions)):
            for other in range(len(self.actions)):
                mine, theirs = self.payoffs(seat, own, other)
                lines.append(
                    f"If you choose {skin.say(own)} and your opponent chooses {skin.say(other)}, "
                    f"you get {mine:g} and your opponent gets {theirs:g}."
                )
        return "\n".join(lines)

    def payoffs(self, seat: int, own: int, other: int) -> tuple[float, float]:
        """What the seat and its opponent get."""
        game: Any = load(f"{self.matrix}()")
        row, column = (own, other) if seat == 0 else (other, own)
        pays = (float(game.row_utility(row, column)), float(game.col_utility(row, column)))
        return (pays[seat], pays[1 - seat])


def _listed(count: int) -> str:
    slots = [f"{{a{k}}}" for k in range(count)]
    return f"{', '.join(slots[:-1])} or {slots[-1]}."


def _slots(names: tuple[str, ...]) -> Mapping[str, str]:
    return {f"a{k}": name for k, name in enumerate(names)}


class MatrixPD(MatrixGame):
    key, matrix, title = "matrix_pd", "matrix_pd", "Prisoner's dilemma"
    actions = ("Cooperate", "Defect")
    zero_sum, top = False, 10.0


class RockPaperScissors(MatrixGame):
    key, matrix, title = "matrix_rps", "matrix_rps", "Rock, paper, scissors"
    actions = ("Rock", "Paper", "Scissors")
    zero_sum, top = True, 1.0


class MatchingPennies(MatrixGame):
    key, matrix, title = "matrix_mp", "matrix_mp", "Matching pennies"
    actions = ("Heads", "Tails")
    zero_sum, top = True, 1.0


class StagHunt(MatrixGame):
    key, matrix, title = "matrix_sh", "matrix_sh", "Stag hunt"
    actions = ("Stag", "Hare")
    zero_sum, top = False, 2.0


class BachOrStravinsky(MatrixGame):
    key, matrix, title = "matrix_bos", "matrix_bos", "Bach or Stravinsky"
    actions = ("Bach", "Stravinsky")
    zero_sum, top = False, 3.0


class Chicken(MatrixGame):
    key, matrix, title = "matrix_cd", "matrix_cd", "Chicken"
    actions = ("Dare", "Chicken")
    zero_sum, top = False, 4.0


MATRIX: tuple[type[MatrixGame], ...] = (
    MatrixPD,
    RockPaperScissors,
    MatchingPennies,
    StagHunt,
    BachOrStravinsky,
    Chicken,
)
