"""Negotiation over three kinds of items: `Proposal: [1, 0, 2]`, `Utterance: [0, 3, 1]`, `Agree`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import lru_cache
from random import Random
from typing import Any, ClassVar, NamedTuple

from harness.seeds import Streams

from ..game import Game, Skin, Words
from ..position import Position, SpielPosition, load

KINDS, MOST, SYMBOLS, WORTH = 3, 5, 5, 10
FEWEST, LIMIT, MEAN = 4, 10, 7
POISSON = tuple(MEAN**k / math.factorial(k) for k in range(3 * LIMIT))
AGREE: int = (MOST + 1) ** KINDS
"""OpenSpiel's action for agreeing; below it are proposals, above it utterances."""


class Deal(NamedTuple):
    """What is dealt: how many proposals there may be, the pool, and each seat's value an item."""

    proposals: int
    pool: tuple[int, ...]
    values: tuple[tuple[int, ...], tuple[int, ...]]

    def worth(self, seat: int, items: Iterable[int]) -> int:
        """What items are worth to a seat."""
        return sum(a * b for a, b in zip(items, self.values[seat], strict=True))


class Negotiation(Game):
    key = "negotiation"
    spiel = "negotiation"
    hidden = True
    zero_sum = False
    top = 150.0
    turns = 6.0
    rules = (
        "{name}: two players divide a pool of three kinds of items. Both see the pool, which holds "
        "from 0 to 5 items of each kind. What an item of each kind is worth differs between the "
        "players: a whole number from 0 to 10 for each kind, drawn at random for each player, and "
        "each sees only its own; the whole pool is worth more than 0 to either. Player 1 starts; "
        "the players alternate. In a turn a player either makes a {proposal}, which says how many "
        "items of each kind it wants to keep for itself while all others go to the opponent, or "
        "accepts the opponent's last {proposal} with {agree}. After a {proposal} the same player "
        "sends three symbols from 0 to 4, its {utterance}, that the opponent sees and that have no "
        "fixed meaning; then the opponent has its turn. {agree} ends the game: the one who made "
        "the {proposal} keeps what it asked for, the other one gets the rest, and each earns what "
        "its items are worth to it. The number of {proposal}s is limited, and the limit is known "
        "to both; if there is no agreement after the last one and its {utterance}, both earn 0. "
        "Your score is what you earn."
    )
    form = (
        "A move is written {proposal}: [a, b, c] with the numbers of items that you want to keep, "
        "or {utterance}: [a, b, c] with three symbols, or {agree}."
    )
    words: ClassVar = {
        "plain": {
            "name": "Negotiation",
            "proposal": "Proposal",
            "utterance": "Utterance",
            "agree": "Agree",
            "propose": "propos(?:al|e)",
            "utter": "utter(?:ance)?",
        },
        "relabelled": {
            "name": "Harvest",
            "proposal": "Claim",
            "utterance": "Signal",
            "agree": "Settle",
            "propose": "claim",
            "utter": "signal",
        },
    }

    def start(self, seed: int) -> Position:
        return NegotiationPosition(self.key, load(self.spiel), seed)

    def say(self, action: int, words: Words) -> str:
        if action == AGREE:
            return words["agree"]
        name = words["proposal" if action < AGREE else "utterance"]
        return f"{name}: [{', '.join(map(str, numbers(action)))}]"

    def pattern(self, words: Words) -> str:
        gap = r"\s{0,2}(?:,|;|\s)\s{0,2}"
        triple = rf"(\d{{1,3}}){gap}(\d{{1,3}}){gap}(\d{{1,3}})(?!\s{{0,2}}[,;]?\s{{0,2}}\d)"
        return (
            rf"(?P<agree>(?:i\s{{1,2}})?{words['agree']})"
            rf"|(?:(?P<propose>{words['propose']})|{words['utter']})\s{{0,2}}[:=]?\s{{0,2}}"
            rf"[\[(]?\s{{0,2}}{triple}\s{{0,2}}[\])]?"
        )

    def canonical(self, found: re.Match[str], words: Words) -> str:
        if found["agree"]:
            return words["agree"]
        name = words["proposal" if found["propose"] else "utterance"]
        items = [int(text) for text in found.groups() if text and text.isdigit()]
        return f"{name}: [{', '.join(map(str, items))}]"

    def view(self, position: Position, seat: int, skin: Skin) -> str:
        deal = dealt(position)
        made = sum(action < AGREE for _, action in position.moves)
        pool = (
            f"The pool: {listed(deal.pool)}. An item is worth to you: {listed(deal.values[seat])}."
        )
        if phase_is_utterance(position):
            now = "{proposal} {k} of at most {n} was yours; now send your {utterance}."
        else:
            now = "Now comes {proposal} {k} of at most {n}."
            made += 1
        return pool + "\n" + skin.fill(now, k=made, n=deal.proposals)

    def legal_text(self, position: Position, seat: int, skin: Skin, legal: Iterable[str]) -> str:
        words = skin.words
        if phase_is_utterance(position):
            return f"Legal moves: {words['utterance']}: [a, b, c] with a, b and c from 0 to 4"
        a, b, c = dealt(position).pool
        text = (
            f"Legal moves: {words['proposal']}: [a, b, c] with a from 0 to {a}, b from 0 to {b} "
            f"and c from 0 to {c}"
        )
        return text + (f"; or {words['agree']}" if words["agree"] in set(legal) else "")

    def scale(self, position: Position) -> tuple[float, float]:
        deal = dealt(position)
        return (float(deal.worth(0, deal.pool)), float(deal.worth(1, deal.pool)))


class NegotiationPosition(SpielPosition):
    """A position whose deal is drawn here and not by OpenSpiel.

    OpenSpiel deals in one opaque event, from a C++ generator that differs between platforms, and
    now and then gives a seat six values, the first three 0. The distributions are its own: numbers
    and values uniform, the limit of proposals Poisson with mean 7 within 4 to 10; deals in which
    everything is worth 0 to a seat are drawn again.
    """

    __slots__ = ("deal",)

    def __init__(self, key: str, game: Any, seed: int) -> None:
        Position.__init__(self, seed)
        self.key = key
        self.streams = Streams(seed)
        self.rolls = []
        self.deal = draw_deal(Streams(seed).stream(key))
        self.state = state_of(game, self.deal)

    def copy(self) -> NegotiationPosition:
        twin = super().copy()
        assert isinstance(twin, NegotiationPosition)
        twin.deal = self.deal
        return twin

    def chance(self) -> list[int]:
        deal = self.deal
        return [deal.proposals, *deal.pool, *deal.values[0], *deal.values[1]]

    def with_values(self, seat: int, values: tuple[int, ...]) -> NegotiationPosition:
        """The same course of play, had ``seat`` been dealt other values."""
        twin = self.copy()
        kept = list(self.deal.values)
        kept[seat] = values
        twin.deal = self.deal._replace(values=(kept[0], kept[1]))
        twin.state = state_of(self.state.get_game(), twin.deal)
        for _, action in self.moves:
            twin.state.apply_action(action)
        return twin


def draw_deal(rng: Random) -> Deal:
    """A random deal; each seat values something in it."""
    proposals = 0
    while not FEWEST <= proposals <= LIMIT:
        proposals = rng.choices(range(3 * LIMIT), POISSON)[0]
    pool: tuple[int, ...] = (0,) * KINDS
    while not any(pool):
        pool = tuple(rng.randrange(MOST + 1) for _ in range(KINDS))
    values = []
    for _ in range(2):
        row = (0,) * KINDS
        while not any(a * b for a, b in zip(pool, row, strict=True)):
            row = tuple(rng.randrange(WORTH + 1) for _ in range(KINDS))
        values.append(row)
    return Deal(proposals, pool, (values[0], values[1]))


def state_of(game: Any, deal: Deal) -> Any:
    """OpenSpiel's state after a deal, through its serialisation: limit, pool, values, the event."""
    rows = (deal.pool, *deal.values)
    lines = [str(deal.proposals), *(" ".join(map(str, row)) for row in rows), "0"]
    return game.deserialize_state("\n".join(lines))


def dealt(position: Position) -> Deal:
    """The deal of a position."""
    assert isinstance(position, NegotiationPosition)
    return position.deal


def phase_is_utterance(position: Position) -> bool:
    """Whether the mover has proposed and now sends its utterance."""
    return bool(position.moves) and position.moves[-1][1] < AGREE


def last_offer(position: Position, seat: int) -> tuple[int, ...] | None:
    """What ``seat`` would get by agreeing now; None if there is nothing to agree to."""
    for mover, action in reversed(position.moves):
        if action < AGREE:
            if mover == seat:
                return None
            pool = dealt(position).pool
            return tuple(all_ - kept for all_, kept in zip(pool, numbers(action), strict=True))
    return None


@lru_cache(maxsize=1024)
def numbers(action: int) -> tuple[int, ...]:
    """The three numbers of a proposal or an utterance.

    >>> numbers(37), numbers(AGREE + 1)
    ((1, 0, 1), (0, 0, 0))
    """
    base, rest = (MOST + 1, action) if action < AGREE else (SYMBOLS, action - AGREE - 1)
    return (rest // base // base, rest // base % base, rest % base)


def listed(items: tuple[int, ...]) -> str:
    """Numbers as moves write them."""
    return "[" + ", ".join(map(str, items)) + "]"
