"""A pair of stories: the same but for who saw one event, so that the answer changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from harness.types import Sample

from ..tom.oracle import Beliefs
from ..tom.world import Event
from .published import canonical

SIDES: Final = ("observed", "hidden")
"""The side on which the critical event reaches the question's chain of beliefs, and the other."""


@dataclass(frozen=True, slots=True)
class Side:
    """One story, with the events that are its meaning."""

    story: str
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two stories and their one question.

    ``critical`` numbers the part of the story that differs, and ``swap`` names the two people who
    change roles in it.
    """

    chain: tuple[str, ...]
    object: str
    agents: tuple[str, ...]
    question: str
    choices: tuple[str, ...]
    critical: int
    swap: tuple[str, str]
    sides: dict[str, Side] = field(default_factory=dict)

    def samples(self, name: str, split: str, ordinal: int) -> list[Sample]:
        """Both sides as samples, the observed one first; the oracle gives the truth."""
        return [
            self._sample(side, f"{name}-{side}", name, split, ordinal + k)
            for k, side in enumerate(SIDES)
        ]

    def _sample(self, side: str, name: str, cluster: str, split: str, ordinal: int) -> Sample:
        told = self.sides[side]
        trace = Beliefs(told.events).trace(self.object, self.chain)
        return Sample(
            id=name,
            split=split,
            data={
                "story": told.story,
                "question": self.question,
                "chain": list(self.chain),
                "object": self.object,
                "choices": list(self.choices),
                "side": side,
                "agents": list(self.agents),
                "critical": self.critical,
                "swap": list(self.swap),
                "events": [event.json() for event in told.events],
            },
            truth={
                "order": len(self.chain),
                "trace": [step.place for step in trace],
                "answer": trace[-1].place,
            },
            group=f"order-{len(self.chain)}",
            cluster=cluster,
            canonical=canonical(told.story, self.question),
            ordinal=ordinal,
        )
