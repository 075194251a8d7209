"""``self-correct:N:MODEL``: up to N replies, each told what the verifier found in the last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from harness import hookimpl
from harness.player import Player, Seat
from harness.types import Json, Message, Reply, Turn
from harness.wrapper import Make, chosen

from .drafts import Verified, blind, read

AGAIN: Final = "Solve it once more, step by step, and end in the form that was asked for."
"""Ends what a self-correcting model is told; `UNSURE` is told where the verifier is silent."""
UNSURE: Final = "Something in this is not right, or is missing."


class SelfCorrect(Verified):
    """One reply after another, each told what the verifier found in the one before; ends when
    nothing is found or after N, and gives the one that the verifier values most."""

    def player_of(self, make: Make, seat: Seat) -> Player:
        """A player that corrects."""
        self.verifier(seat.task)
        return Correcting(self, make, seat)


class Correcting(Player):
    """Asks, verifies, and asks again with what was found."""

    def __init__(self, method: SelfCorrect, make: Make, seat: Seat) -> None:
        self.method = method
        self.seat = seat
        self.players = [make(method.draft_seat(seat, k)) for k in range(method.samples)]

    async def act(self, turn: Turn) -> Reply:
        """The best of the replies, the first of equals."""
        if turn.number:
            raise self.method.played(self.seat)
        verifier, sample = self.method.verifier(self.seat.task), blind(self.seat.sample)
        drafts: list[Reply] = []
        values: list[float] = []
        asked = turn
        for player in self.players:
            drafts.append(await player.act(asked))
            outcome = read(self.seat.task, sample, turn, drafts[-1])
            values.append(verifier.score(sample, outcome).value)
            found = verifier.feedback(sample, outcome)
            if values[-1] >= 1.0 - 1e-9:
                break
            told = f"{found or UNSURE}\n{AGAIN}"
            talk = (Message("assistant", drafts[-1].text), Message("user", told))
            asked = replace(turn, messages=(*turn.messages, *talk))
        return chosen(drafts, max(range(len(values)), key=lambda k: (values[k], -k)))


@hookimpl
def create_model(name: str, options: Mapping[str, Json]) -> SelfCorrect:
    """The method around ``N:MODEL``."""
    return SelfCorrect("self-correct", name, options)
