"""Adapters of card and dice games in which something is hidden.

>>> KuhnPoker().read("BET"), PigDice().read("roll")
('[bet]', '[roll]')
>>> LiarsDice().read("bid 3 , 4"), GameOfPureStrategy().read("q")
('[Bid: 3, 4]', '[Q]')
"""

from __future__ import annotations

import random
import re
from typing import Any

from ..adapter import Adapter

FACES = {1: "A", 11: "J", 12: "Q", 13: "K"}
"""Names of the cards that have no number; the others are called by their number."""


class KuhnPoker(Adapter):
    """Kuhn poker as TextArena plays it, which is not Kuhn poker."""

    family = "KuhnPoker-v0"
    draws = True
    reward = "1 for more chips after all rounds, 0 for as many, -1 for fewer"
    wrong = "bets and calls never reach the pot: betting is free, so this is not Kuhn poker"
    note = "seat 1 starts the odd rounds, and there are more of them"
    form = "[check], [bet], [call] or [fold]"
    pattern = r"(check|bet|call|fold)"

    def canonical(self, found: re.Match[str]) -> str:
        return f"[{found[1]}]"

    def legal(self, env: Any, seat: int) -> tuple[str, ...]:
        return tuple(f"[{move}]" for move in env.state.game_state["current_legal_action_tree"])

    def figures(self, env: Any) -> dict[str, list[int]]:
        chips = env.state.game_state["player_chips"]
        return {"chips": [chips[0], chips[1]]}


class LiarsDice(Adapter):
    """Liar's dice: raise the bid on all dice, or call the last one."""

    family = "LiarsDice-v0"
    draws = True
    reward = "1 for the last player with dice, -1 for the other"
    rules = (
        "A bid may lower neither the quantity nor the face of the bid before it. No face is wild. "
        "After a call all dice are rolled anew; the caller's opponent begins."
    )
    form = "[Bid: quantity, face] or [Call]"
    pattern = r"(call)|bid\s{0,2}:?\s{0,2}(-?\d{1,4})(?:\s{0,3},\s{0,3}|\s{1,4})(-?\d{1,4})"

    def canonical(self, found: re.Match[str]) -> str:
        return "[Call]" if found[1] else f"[Bid: {int(found[2])}, {int(found[3])}]"

    def legal(self, env: Any, seat: int) -> tuple[str, ...]:
        """The call and all bids up to the number of dice (higher ones are legal too, and lies)."""
        game = env.state.game_state
        bid, dice = game["current_bid"], sum(game["remaining_dice"].values())
        bids = [
            f"[Bid: {quantity}, {face}]"
            for quantity in range(max(1, bid["quantity"]), dice + 1)
            for face in range(max(1, bid["face_value"]), 7)
            if (quantity, face) != (bid["quantity"], bid["face_value"])
        ]
        return ("[Call]", *bids) if bid["quantity"] else tuple(bids)

    def permits(self, env: Any, seat: int, move: str) -> bool:
        bid = env.state.game_state["current_bid"]
        if move == "[Call]":
            return bool(bid["quantity"])
        quantity, face = (int(number) for number in re.findall(r"-?\d+", move))
        at = (bid["quantity"], bid["face_value"])
        return quantity >= max(1, at[0]) and max(1, at[1]) <= face <= 6 and (quantity, face) != at

    def describe(self, env: Any, seat: int) -> str:
        bid = env.state.game_state["current_bid"]
        if not bid["quantity"]:
            return "Legal moves: [Bid: quantity, face] with a quantity of 1 or more, a face 1 to 6."
        return (
            f"The bid is {bid['quantity']} of face {bid['face_value']}. Legal moves: [Call], or "
            f"[Bid: quantity, face] with a quantity of {bid['quantity']} or more and a face "
            f"{bid['face_value']} to 6, not both the same."
        )

    def figures(self, env: Any) -> dict[str, list[int]]:
        dice = env.state.game_state["remaining_dice"]
        return {"dice": [dice[0], dice[1]]}


class PigDice(Adapter):
    """Pig: roll as long as you dare, hold to bank the sum; a 1 loses it."""

    family = "PigDice-v0"
    draws = True
    late_limit = True
    note = "the turn limit is not announced by the environment; it is told here"
    form = "[roll] or [hold]"
    pattern = r"(roll|hold)"

    def canonical(self, found: re.Match[str]) -> str:
        return f"[{found[1]}]"

    def legal(self, env: Any, seat: int) -> tuple[str, ...]:
        return ("[roll]", "[hold]")

    def told(self, env: Any) -> str:
        return (
            f"Once {env.state.max_turns + 1} rolls and holds have been made by both players "
            "together, the game ends when a player's turn ends: the higher score wins, equal "
            "scores are a draw."
        )

    def figures(self, env: Any) -> dict[str, list[int]]:
        return {"points": list(env.state.game_state["scores"])}


class GameOfPureStrategy(Adapter):
    """Goofspiel: thirteen prizes, each hand of thirteen cards bids for them in secret."""

    family = "GameOfPureStrategy-v0"
    deals = True
    rules = "An ace counts 1, J 11, Q 12, K 13."
    form = "[card]"
    pattern = r"(a|j|q|k|-?\d{1,3})"

    def canonical(self, found: re.Match[str]) -> str:
        face = found[1]
        return f"[{face.upper()}]" if face.isalpha() else f"[{int(face)}]"

    def legal(self, env: Any, seat: int) -> tuple[str, ...]:
        hand = env.state.game_state["player_hands"][seat]
        return tuple(f"[{FACES.get(card, str(card))}]" for card in hand)

    def view(self, env: Any, seat: int) -> str:
        game = env.state.game_state
        other = " ".join(FACES.get(card, str(card)) for card in self._other(game, seat))
        points = game["player_scores"]
        return (
            f"Points: you {points[seat]}, opponent {points[1 - seat]}. The opponent holds {other}."
        )

    @staticmethod
    def _other(game: Any, seat: int) -> list[int]:
        """The opponent's hand as the seat knows it: a card bid in this round still counts in it."""
        pending = game["pending_bids"].get(1 - seat)
        hand = list(game["player_hands"][1 - seat])
        return sorted(hand if pending is None else [*hand, pending])

    def figures(self, env: Any) -> dict[str, list[int]]:
        points = env.state.game_state["player_scores"]
        return {"points": [points[0], points[1]]}

    def guess(self, env: Any, seat: int, rng: random.Random) -> str:
        return rng.choice(self.legal(env, seat))
