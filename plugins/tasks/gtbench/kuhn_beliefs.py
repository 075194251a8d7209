"""Kuhn poker against an opponent with known habits: exact beliefs, predictions and best moves.

    course = (1, 2, 0, 1)                  # Queen against King; we passed, the opponent bet
    normal(posterior(course, "honest"))    # [0.0, 0.0, 1.0]: it must hold the King

A course is chance events and moves in OpenSpiel's numbers, from the deal to a decision; what the
opponent was dealt in it is not used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .games.kuhn import BET, KuhnPoker
from .policy import replayed

GAME = KuhnPoker.key
Weighted = list[tuple[float, Any]]
"""States of OpenSpiel with weights."""
HABITS: Mapping[str, tuple[float, float, float]] = {
    "random": (0.5, 0.5, 0.5),
    "honest": (0.0, 0.0, 1.0),
    "bluffer": (1.0, 0.0, 1.0),
    "cautious": (0.0, 0.25, 0.75),
}
"""How often the opponent bets (or calls) with the lowest, the middle and the highest card."""


def posterior(course: Sequence[int], habit: str) -> list[float]:
    """The chance of each card of the opponent and of its moves so far, up to a factor, (3,)."""
    seat = int(replayed(GAME, course).state.current_player())
    found = []
    for card in range(3):
        if card == course[seat]:
            found.append(0.0)
            continue
        odds, position = 1.0, replayed(GAME, redealt(course, seat, card)[:2])
        for action in course[2:]:
            if position.state.current_player() != seat:
                odds *= _rate(habit, card, action)
            position.state.apply_action(action)
        found.append(odds)
    return found


def redealt(course: Sequence[int], seat: int, card: int) -> list[int]:
    """The same course with another card of the opponent."""
    again = list(course)
    again[1 - seat] = card
    return again


def normal(odds: Sequence[float]) -> list[float]:
    """Chances that add up to 1."""
    return [value / sum(odds) for value in odds]


def answered(course: Sequence[int]) -> list[int]:
    """The own moves that the opponent answers."""
    position = replayed(GAME, course)
    legal = position.state.legal_actions()
    return [int(a) for a in legal if not position.state.child(a).is_terminal()]


def predicted(course: Sequence[int], own: int, habit: str, belief: Sequence[float]) -> list[float]:
    """The chances of the opponent's moves after an own one, given a belief about its card."""
    bets = sum(b * rate for b, rate in zip(belief, HABITS[habit], strict=True))
    return [1.0 - bets, bets]


def optimal(course: Sequence[int], habit: str, belief: Sequence[float]) -> set[int]:
    """The best moves given a belief about the opponent's card and its habits."""
    seat = int(replayed(GAME, course).state.current_player())
    states: Weighted = []
    for card in range(3):
        if card != course[seat] and belief[card] > 0.0:
            states.append((belief[card], replayed(GAME, redealt(course, seat, card)).state))
    if not states:
        return set()
    worth = {
        int(a): expected([(w, s.child(a)) for w, s in states], seat, habit)
        for a in states[0][1].legal_actions()
    }
    most = max(worth.values())
    return {a for a, value in worth.items() if value > most - 1e-9}


def expected(states: Weighted, seat: int, habit: str) -> float:
    """What a seat gets from here with best play, given weighted states that it cannot tell apart
    but by the opponent's further moves."""
    total, waiting = 0.0, dict[str, Weighted]()
    open_ = list(states)
    while open_:
        weight, state = open_.pop()
        if state.is_terminal():
            total += weight * state.returns()[seat]
        elif state.current_player() == seat:
            waiting.setdefault(state.information_state_string(seat), []).append((weight, state))
        else:
            card = int(state.history()[1 - seat])
            for action in state.legal_actions():
                share = weight * _rate(habit, card, int(action))
                if share > 0.0:
                    open_.append((share, state.child(action)))
    for same in waiting.values():
        total += max(
            expected([(w, s.child(a)) for w, s in same], seat, habit)
            for a in same[0][1].legal_actions()
        )
    return total


def judged(
    course: tuple[int, ...],
    habit: str,
    action: int | None,
    belief: Sequence[float] | None,
    predictions: Mapping[str, Sequence[float] | None],
) -> dict[str, float]:
    """The figures of one information set."""
    right = normal(posterior(course, habit))
    said = [belief is not None, action is not None, *(p is not None for p in predictions.values())]
    found = {
        "answered": sum(said) / len(said),
        "action.optimal": float(action in optimal(course, habit, right)),
    }
    errors, gaps = [], []
    for own, stated in predictions.items():
        if stated is not None:
            errors.append(distance(stated, predicted(course, int(own), habit, right)))
            if belief is not None:
                gaps.append(distance(stated, predicted(course, int(own), habit, belief)))
    if errors:
        found["prediction.error"] = sum(errors) / len(errors)
    if gaps:
        found["incoherence"] = sum(gaps) / len(gaps)
    if belief is not None:
        found["belief.error"] = distance(belief, right)
        if action is not None:
            found["action.consistent"] = float(action in optimal(course, habit, belief))
    return found


def distance(first: Sequence[float], second: Sequence[float]) -> float:
    """Total variation distance."""
    return sum(abs(a - b) for a, b in zip(first, second, strict=True)) / 2.0


def _rate(habit: str, card: int, action: int) -> float:
    rate = HABITS[habit][card]
    return rate if action == BET else 1.0 - rate
