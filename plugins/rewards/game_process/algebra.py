"""Exact linear algebra as solutions write it: ``4 t - 5 (1 - t) = -3 t``, ``0.25 * (-3) + 1/2``.

An expression is linear in its unknowns: a product may hold one factor with unknowns at most, and a
divisor none. Unknowns are ``t``, ``p(A)`` and the like; what is no expression gives None.

>>> side = parse("4 t - 5 (1 - t)")
>>> side.value({"t": Fraction(1, 2)})
Fraction(-1, 2)
>>> parse("0.5 * (-3) + 1/4").constant, parse("three")
(Fraction(-5, 4), None)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Final, NamedTuple

LONGEST: Final = 400
"""Characters of an expression that are read at most."""

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>\d{1,24}(?:\.\d{1,24})?|\.\d{1,24})"
    r"|(?P<name>[pq]\s?\([^()=+*/]{1,40}\)|[A-Za-z](?![A-Za-z]))|(?P<sign>[-+*/()]))"
)


class Linear(NamedTuple):
    """``constant`` plus ``terms`` (unknown -> coefficient); ``steps`` counts the operations."""

    constant: Fraction
    terms: Mapping[str, Fraction]
    steps: int = 0

    def value(self, values: Mapping[str, Fraction]) -> Fraction | None:
        """The value at a point; None where an unknown has none."""
        if any(name not in values for name in self.terms):
            return None
        return self.constant + sum((c * values[n] for n, c in self.terms.items()), Fraction(0))

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """The sum of both, the other times a factor."""
        terms = dict(self.terms)
        for name, size in other.terms.items():
            terms[name] = terms.get(name, Fraction(0)) + factor * size
        left = {name: size for name, size in terms.items() if size}
        return Linear(self.constant + factor * other.constant, left, self.steps + other.steps + 1)

    def times(self, factor: Fraction, steps: int) -> Linear:
        """This times a number."""
        terms = {name: factor * size for name, size in self.terms.items() if factor}
        return Linear(factor * self.constant, terms, steps)


def parse(text: str) -> Linear | None:
    """Read an expression; None for anything else."""
    if len(text) > LONGEST:
        return None
    tokens: list[tuple[str, str]] = []
    place, text = 0, text.strip()
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            return None
        place = found.end()
        tokens.append((str(found.lastgroup), "".join(found[str(found.lastgroup)].split())))
    reader = _Reader(tokens)
    try:
        value = reader.sum()
    except (_NotLinear, ZeroDivisionError, RecursionError):
        return None
    return value if reader.ended else None


class _NotLinear(Exception):
    """What was read is no linear expression."""


class _Reader:
    """Recursive descent over tokens: sum, product, factor."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.tokens = tokens
        self.place = 0

    @property
    def ended(self) -> bool:
        return self.place == len(self.tokens)

    def sum(self) -> Linear:
        value = self._product(self._sign())
        while (sign := self._peek()) in ("+", "-"):
            self.place += 1
            factor = 1 if sign == "+" else -1
            value = value.plus(self._product(self._sign()), factor)
        return value

    def _sign(self) -> int:
        sign = 1
        while self._peek() in ("+", "-"):
            sign = -sign if self._peek() == "-" else sign
            self.place += 1
        return sign

    def _product(self, sign: int) -> Linear:
        value = self._factor()
        while True:
            operator = self._peek()
            if operator in ("*", "/"):
                self.place += 1
                value = _multiply(value, self._factor(signed=True), operator)
            elif operator is not None and (operator == "(" or self._kind() != "sign"):
                value = _multiply(value, self._factor(), "*")
            else:
                return value.times(Fraction(sign), value.steps)

    def _factor(self, signed: bool = False) -> Linear:
        sign = self._sign() if signed else 1
        if self.ended:
            raise _NotLinear
        kind, text = self.tokens[self.place]
        self.place += 1
        if kind == "number":
            return Linear(Fraction(text) * sign, {})
        if kind == "name":
            return Linear(Fraction(0), {text: Fraction(sign)})
        if text != "(":
            raise _NotLinear
        inner = self.sum()
        if self._peek() != ")":
            raise _NotLinear
        self.place += 1
        return inner.times(Fraction(sign), inner.steps)

    def _peek(self) -> str | None:
        return None if self.ended else self.tokens[self.place][1]

    def _kind(self) -> str:
        return self.tokens[self.place][0]


def _multiply(one: Linear, other: Linear, operator: str) -> Linear:
    steps = one.steps + other.steps + 1
    if operator == "/":
        if other.terms:
            raise _NotLinear
        return one.times(1 / other.constant, steps)
    if one.terms and other.terms:
        raise _NotLinear
    if other.terms:
        one, other = other, one
    return one.times(other.constant, steps)
