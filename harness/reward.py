"""Rewards: functions of a sample and of what was said. One object scores, filters and pays.

The smallest reward:

    class Exact(Reward):
        name = "exact"

        def score(self, sample, outcome):
            return Score(float(outcome.moves[-1].parsed == sample.truth["answer"]))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from .types import Json, Outcome, Sample, Score


class Reward:
    """Judges outcomes. ``version`` is part of the specification of a run. ``gates`` are the parts
    that must be 1 for a reply to become training data (rejection sampling checks them in order; a
    reward without gates accepts what earns 1). ``incidental`` options are no part of the
    specification (a cache, a budget). ``reads_truth`` is False for a reward that looks at the
    question and the reply only: it may choose among replies at test time."""

    name: ClassVar[str] = ""
    version: ClassVar[str] = "1"
    deterministic: ClassVar[bool] = True
    gates: ClassVar[tuple[str, ...]] = ()
    reads_truth: ClassVar[bool] = True
    incidental: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, options: Mapping[str, Json] | None = None) -> None:
        self.options: dict[str, Json] = dict(options or {})

    def score(self, sample: Sample, outcome: Outcome) -> Score:
        """Score one outcome; the value lies in [0, 1]."""
        raise NotImplementedError(f"{type(self).__name__}.score")

    def feedback(self, sample: Sample, outcome: Outcome) -> str:
        """What is wrong with the last reply, in words for who gave it; "" where nothing is known.
        The right answer must not be told."""
        return ""

    async def score_group(self, sample: Sample, outcomes: Sequence[Outcome]) -> list[Score]:
        """Score all outcomes of one sample; judges and group rewards override this."""
        return [self.score(sample, outcome) for outcome in outcomes]

    def specification(self) -> dict[str, Json]:
        """The options that scores depend on: what a run or a job must share to be taken up."""
        return {k: v for k, v in self.options.items() if k not in self.incidental}

    def judge_figures(self) -> dict[str, float]:
        """Running totals of a judge (requests, cache hits, tokens, cost); {} without one."""
        return {}

    def close(self) -> None:
        """Release what the reward holds (a judge's connection)."""


class WeightedReward(Reward):
    """A weighted sum ``a=0.8,b=0.2``; the parts are kept as ``a`` and ``b`` beside their own."""

    name = "weighted"

    def __init__(self, parts: Sequence[tuple[float, Reward]]) -> None:
        super().__init__()
        self.members = tuple(parts)

    def score(self, sample: Sample, outcome: Outcome) -> Score:
        scores = [(w, r.name, r.score(sample, outcome)) for w, r in self.members]
        return self._combine(scores)

    async def score_group(self, sample: Sample, outcomes: Sequence[Outcome]) -> list[Score]:
        columns = [(w, r.name, await r.score_group(sample, outcomes)) for w, r in self.members]
        return [
            self._combine([(w, name, scores[i]) for w, name, scores in columns])
            for i in range(len(outcomes))
        ]

    def specification(self) -> dict[str, Json]:
        return {r.name: r.specification() for _, r in self.members}

    def judge_figures(self) -> dict[str, float]:
        return next((found for _, r in self.members if (found := r.judge_figures())), {})

    def close(self) -> None:
        for _, member in self.members:
            member.close()

    @staticmethod
    def _combine(scores: Sequence[tuple[float, str, Score]]) -> Score:
        parts: dict[str, float] = {}
        raw: dict[str, Json] = {}
        for _, name, score in scores:
            parts[name] = score.value
            parts.update({f"{name}.{k}": v for k, v in score.parts.items()})
            raw.update({f"{name}.{k}": v for k, v in score.raw.items()})
        return Score(sum(weight * score.value for weight, _, score in scores), parts, raw)
