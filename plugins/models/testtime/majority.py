"""``majority:N:MODEL``: self-consistency, a vote over parsed answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import orjson

from harness import hookimpl
from harness.player import Seat
from harness.types import OK, Json, Outcome

from .drafts import Picking, blind


class Majority(Picking):
    """Self-consistency (Wang et al., ICLR 2023): the first draft with the most frequent parsed
    answer; the first of all where none could be read."""

    def pick(self, seat: Seat, outcomes: Sequence[Outcome]) -> int:
        """Votes are `Task.ballot` of the parsed answers."""
        task, sample = seat.task, blind(seat.sample)
        votes = [
            orjson.dumps(task.ballot(sample, o.moves[0].parsed), option=orjson.OPT_SORT_KEYS)
            if o.cls == OK
            else None
            for o in outcomes
        ]
        counts = Counter(vote for vote in votes if vote is not None)
        return max(range(len(votes)), key=lambda k: (counts.get(votes[k], 0), -k))  # type: ignore[arg-type]


@hookimpl
def create_model(name: str, options: Mapping[str, Json]) -> Majority:
    """The method around ``N:MODEL``."""
    return Majority("majority", name, options)
