"""Claims: what a solution states, checked against the game; and the notes a reader keeps.

A claim is true or false of the game. A true one may establish a *fact* that the solution needs; it
does so only where its grounds are shown (the payoffs that it compares, say), so a bare guess is
never paid, however often it is made.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, NamedTuple

from ...tasks.gamesolve.profiles import Numeral
from .algebra import Linear
from .view import Alive, View

PARSE: Final = "parse"
DOMINANCE: Final = "dominance"
ELIMINATION: Final = "elimination"
BEST_RESPONSE: Final = "best_response"
EQUILIBRIUM: Final = "equilibrium"
ARITHMETIC: Final = "arithmetic"
KINDS: Final = (PARSE, DOMINANCE, ELIMINATION, BEST_RESPONSE, EQUILIBRIUM, ARITHMETIC)
"""The kinds of steps."""

Fact = tuple[object, ...]


class Claim(NamedTuple):
    """One statement: its kind, whether it is true, and the fact that it establishes, or where it is
    false the one that it gets wrong (None: none that a solution needs)."""

    kind: str
    true: bool
    fact: Fact | None = None


@dataclass(slots=True)
class Notes:
    """What a reader remembers from sentence to sentence.

    ``alive`` are the actions not struck out; ``shown`` the (player, action) pairs whose dominance
    was shown, ``last`` the newest of them; ``column`` is a list of payoffs against one action that
    still waits for its best reply; ``equations``, ``alias`` and ``known`` are what linear equations
    said so far; ``right`` and ``wrong`` count the payoffs quoted.
    """

    alive: Alive
    shown: set[tuple[int, int]] = field(default_factory=set)
    last: tuple[int, int] | None = None
    player: int | None = None
    column: tuple[int, int] | None = None
    equations: list[Linear] = field(default_factory=list)
    alias: dict[str, Linear] = field(default_factory=dict)
    known: dict[str, Fraction] = field(default_factory=dict)
    right: int = 0
    wrong: int = 0

    def quoted(self, view: View, player: int, own: int, other: int, said: str) -> bool:
        """Whether a payoff is quoted rightly; counted either way."""
        good = Fraction(said) == view.payoff(player, own, other)
        self.right += good
        self.wrong += not good
        return good


@dataclass(slots=True)
class Findings:
    """All claims of a solution: the facts established, those that a false sentence is about (which
    no true one mends: saying everything is not knowing it), and the false sentences, each once."""

    facts: dict[Fact, str] = field(default_factory=dict)
    denied: set[Fact] = field(default_factory=set)
    false: dict[tuple[str, str], str] = field(default_factory=dict)
    true: int = 0

    def add(self, sentence: str, identity: str, claims: Iterable[Claim]) -> None:
        """Take in the claims of a sentence."""
        for claim in claims:
            if not claim.true:
                self.false.setdefault((claim.kind, identity), sentence)
                if claim.fact is not None:
                    self.denied.add(claim.fact)
                    self.facts.pop(claim.fact, None)
            else:
                self.true += 1
                if claim.fact is not None and claim.fact not in self.denied:
                    self.facts.setdefault(claim.fact, claim.kind)

    def errors(self, kind: str) -> int:
        """The false sentences of a kind."""
        return sum(k == kind for k, _ in self.false)


def near(said: str, exact: Fraction) -> bool:
    """Whether a number is the exact one: equal, or rounded to the two or more decimals that it
    shows.

    >>> near("0.333", Fraction(1, 3)), near("0.3", Fraction(1, 3)), near("2/3", Fraction(2, 3))
    (True, False, True)
    """
    number = Numeral.of(said)
    if abs(number.top - exact * number.bottom) == 0:
        return True
    decimals = len(said.partition(".")[2])
    return decimals >= 2 and abs(number.top - exact * number.bottom) <= number.slack
