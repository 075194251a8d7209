"""Adapters of repeated games with simultaneous choices.

The environments ask one seat after the other and keep the first choice to themselves until the
second is made.

>>> RockPaperScissors().read("R"), PrisonersDilemma().read("defect"), TwoThirds().read("07.50")
('[rock]', '[Defect]', '[7.5]')
"""

from __future__ import annotations

import random
import re
from fractions import Fraction
from typing import Any

from ..adapter import Adapter

SHORT = {"r": "rock", "p": "paper", "s": "scissors", "h": "heads", "t": "tails"}
"""Abbreviations that the environments tell the players of."""


class PrisonersDilemma(Adapter):
    """Iterated prisoner's dilemma with talk before each decision.

    The environment takes every decision without ``[Defect]`` in it for cooperation, an empty reply
    too, and knows no invalid move; here such a reply is a fault of the player, and counted.
    """

    family = "IteratedPrisonersDilemma-v0"
    talks = True
    board = False
    oracle = True
    reward = "1 for the higher total of points, 0 for equal totals, -1 for the lower"
    note = "always defecting never loses; mutual cooperation is a draw: read the points too"
    rules = "Who has more points in the end wins; equal points are a draw."
    form = "[Cooperate] or [Defect]"
    pattern = r"(cooperate|defect)"

    def canonical(self, found: re.Match[str]) -> str:
        return f"[{found[1].capitalize()}]"

    def legal(self, env: Any, seat: int) -> tuple[str, ...]:
        return ("[Cooperate]", "[Defect]")

    def talking(self, env: Any) -> bool:
        return bool(env.state.game_state["phase"] == "conversation")

    def view(self, env: Any, seat: int) -> str:
        game = env.state.game_state
        phase = "talk" if self.talking(env) else "decision"
        points = game["scores"]
        return (
            f"Round {game['round']} of {game['num_rounds']}, {phase}. Points: you {points[seat]}, "
            f"opponent {points[1 - seat]}."
        )

    def best(self, env: Any, seat: int, rng: random.Random) -> str:
        return "[Defect]"

    def figures(self, env: Any) -> dict[str, list[int]]:
        points = env.state.game_state["scores"]
        return {"points": [points[0], points[1]]}


class RockPaperScissors(Adapter):
    """Rock, paper, scissors over several rounds."""

    family = "IteratedRockPaperScissors-v0"
    form = "[rock], [paper] or [scissors]"
    pattern = r"(rock|paper|scissors|[rps])"

    def canonical(self, found: re.Match[str]) -> str:
        return f"[{SHORT.get(found[1], found[1])}]"

    def legal(self, env: Any, seat: int) -> tuple[str, ...]:
        return ("[rock]", "[paper]", "[scissors]")

    def view(self, env: Any, seat: int) -> str:
        return _rounds(env, seat)

    def figures(self, env: Any) -> dict[str, list[int]]:
        return _points(env)


class MatchingPennies(Adapter):
    """Matching pennies over several rounds: seat 0 wants equal sides, seat 1 different ones."""

    family = "IteratedMatchingPennies-v0"
    form = "[heads] or [tails]"
    pattern = r"(heads|tails|[ht])"

    def canonical(self, found: re.Match[str]) -> str:
        return f"[{SHORT.get(found[1], found[1])}]"

    def legal(self, env: Any, seat: int) -> tuple[str, ...]:
        return ("[heads]", "[tails]")

    def view(self, env: Any, seat: int) -> str:
        return _rounds(env, seat)

    def figures(self, env: Any) -> dict[str, list[int]]:
        return _points(env)


class TwoThirds(Adapter):
    """Guess two thirds of the average, two players: the lower guess always wins the round."""

    family = "IteratedTwoThirdsAverage-v0"
    oracle = True
    note = "with two players 0 is dominant: the target is always nearer to the lower guess"
    form = "[number]"
    pattern = r"(-?\d{1,6}(?:\.\d{0,6})?)"

    def canonical(self, found: re.Match[str]) -> str:
        return f"[{_decimal(Fraction(found[1].rstrip('.')))}]"

    def legal(self, env: Any, seat: int) -> None:
        return None

    def permits(self, env: Any, seat: int, move: str) -> bool:
        return bool(env.min_guess <= float(move[1:-1]) <= env.max_guess)

    def describe(self, env: Any, seat: int) -> str:
        return f"Legal moves: any number from {env.min_guess:g} to {env.max_guess:g} in brackets."

    def guess(self, env: Any, seat: int, rng: random.Random) -> str:
        return f"[{rng.randint(int(env.min_guess), int(env.max_guess))}]"

    def best(self, env: Any, seat: int, rng: random.Random) -> str:
        return f"[{env.min_guess:g}]"

    def view(self, env: Any, seat: int) -> str:
        return _rounds(env, seat)

    def figures(self, env: Any) -> dict[str, list[int]]:
        return _points(env)


class Blotto(Adapter):
    """Colonel Blotto: units on fields, the majority of fields wins a round."""

    family = "ColonelBlotto-v0"
    rules = "Who has won more rounds in the end wins. Fields that you leave out get 0 units."
    form = "[A<units> B<units> ...]"
    pattern = r"[a-z]\s{0,2}:?\s{0,2}-?\d{1,5}(?:[\s,]{1,3}[a-z]\s{0,2}:?\s{0,2}-?\d{1,5}){0,25}"

    def read(self, inner: str) -> str | None:
        token = super().read(inner)
        names = re.findall(r"[A-Z]", token or "")
        return token if len(names) == len(set(names)) else None

    def canonical(self, found: re.Match[str]) -> str:
        parts = re.findall(r"([a-z])\s{0,2}:?\s{0,2}(-?\d{1,5})", found[0])
        return "[" + " ".join(f"{name.upper()}{int(units)}" for name, units in parts) + "]"

    def legal(self, env: Any, seat: int) -> None:
        return None

    def permits(self, env: Any, seat: int, move: str) -> bool:
        parts = re.findall(r"([A-Z])(-?\d+)", move)
        units = [int(number) for _, number in parts]
        return (
            all(name in env.field_names for name, _ in parts)
            and min(units) >= 0
            and sum(units) == env.num_total_units
        )

    def describe(self, env: Any, seat: int) -> str:
        return (
            f"Legal moves: whole numbers of units, 0 or more, on the fields "
            f"{', '.join(env.field_names)}, {env.num_total_units} in all, written like "
            f"{self.spread(env, [1.0] * len(env.field_names))}."
        )

    def guess(self, env: Any, seat: int, rng: random.Random) -> str:
        """Uniform over all divisions of the units (bars between stars)."""
        fields, units = len(env.field_names), env.num_total_units
        bars = sorted(rng.sample(range(units + fields - 1), fields - 1))
        edges = [-1, *bars, units + fields - 1]
        shares = [edges[i + 1] - edges[i] - 1 for i in range(fields)]
        return self._token(env, shares)

    def spread(self, env: Any, weights: list[float]) -> str:
        """The units divided in proportion; what is left over goes to the last field."""
        total = sum(weights)
        shares = [int(env.num_total_units * weight / total) for weight in weights]
        shares[-1] += env.num_total_units - sum(shares)
        return self._token(env, shares)

    @staticmethod
    def _token(env: Any, shares: list[int]) -> str:
        return "[" + " ".join(f"{n}{u}" for n, u in zip(env.field_names, shares, strict=True)) + "]"

    def figures(self, env: Any) -> dict[str, list[int]]:
        points = env.state.game_state["scores"]
        return {"points": [points[0], points[1]]}


def _points(env: Any) -> dict[str, list[int]]:
    points = env.state.game_state["points"]
    return {"points": [points[0], points[1]]}


def _rounds(env: Any, seat: int) -> str:
    game = env.state.game_state
    points = game["points"]
    return (
        f"Round {game['round']} of {env.num_rounds}. Rounds won: you {points[seat]}, opponent "
        f"{points[1 - seat]}."
    )


def _decimal(value: Fraction) -> str:
    """A decimal without trailing zeros, exact for up to six places."""
    text = f"{value.numerator * 10**6 // value.denominator / 10**6:.6f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
