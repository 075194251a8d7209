"""Gates: what a reply must pass to become training data, and the first that it fails.

>>> from ..types import OK, Move, Outcome, Reply, Score
>>> outcome = Outcome((Move(0, Reply("x", finish_reason="length")),), OK)
>>> Gates(minimum=1.0).verdict(outcome, Score(1.0))
'not finished'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..reward import Reward
from ..types import OK, HarnessError, Outcome, Score

ACCEPTED: Final = "accepted"
BELOW: Final = "reward too low"
STEP_BELOW: Final = "a step too low"
UNFINISHED: Final = "not finished"
STEPS: Final = "effective_reasoning_scores"
"""Raw figure of a score that holds a judge's grade of each step."""


@dataclass(frozen=True, slots=True)
class Gates:
    """``parts`` of the score that must be 1, the least reward, the least grade of any step (None:
    steps are not looked at), and whether the reply must have ended by itself."""

    parts: tuple[str, ...] = ()
    minimum: float = 0.0
    step: float | None = None
    finished: bool = True

    @classmethod
    def of(
        cls,
        reward: Reward,
        parts: tuple[str, ...] | None = None,
        minimum: float | None = None,
        step: float | None = None,
        finished: bool = True,
    ) -> Gates:
        """The reward's own gates where none are named; a reward without any accepts what earns
        1."""
        chosen = reward.gates if parts is None else parts
        if minimum is None:
            minimum = 0.0 if chosen else 1.0
        for name, value in (("--min-reward", minimum), ("--min-step", step or 0.0)):
            if not 0.0 <= value <= 1.0:
                raise HarnessError(f"{name} {value:g}: must lie in [0, 1]")
        return cls(chosen, minimum, step, finished)

    def verdict(self, outcome: Outcome, score: Score) -> str:
        """``accepted``, or the first gate that the reply fails: its class, a part's name, the
        reward, a step, the end."""
        if outcome.cls != OK:
            return outcome.cls
        for part in self.parts:
            if part not in score.parts:
                raise HarnessError(
                    f"the gate {part!r} is no part of the reward; it has "
                    f"{', '.join(sorted(score.parts)) or 'none'}"
                )
            if score.parts[part] < 1.0:
                return part
        if score.value < self.minimum - 1e-9:
            return BELOW
        if self.step is not None:
            steps = score.raw.get(STEPS)
            if steps is None:
                raise HarnessError("--min-step: this reward grades no steps")
            if min(steps, default=0.0) < self.step - 1e-9:
                return STEP_BELOW
        last = outcome.moves[-1].reply
        if self.finished and last.finish_reason != "stop":
            return UNFINISHED
        return ACCEPTED
