"""``best-of:N:MODEL``: the draft that a verifier values most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness import hookimpl
from harness.player import Seat
from harness.task import Task
from harness.types import Json, Outcome

from .drafts import Picking, Verified, blind


class BestOf(Verified, Picking):
    """The draft that the verifier values most, the first of equals."""

    def ready(self, task: Task) -> None:
        """Needs a verifier."""
        self.verifier(task)

    def pick(self, seat: Seat, outcomes: Sequence[Outcome]) -> int:
        """Only the question and the drafts are looked at."""
        verifier, sample = self.verifier(seat.task), blind(seat.sample)
        values = [verifier.score(sample, outcome).value for outcome in outcomes]
        return max(range(len(values)), key=lambda k: (values[k], -k))


@hookimpl
def create_model(name: str, options: Mapping[str, Json]) -> BestOf:
    """The method around ``N:MODEL``."""
    return BestOf("best-of", name, options)
