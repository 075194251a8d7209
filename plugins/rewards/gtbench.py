"""The reward of games: what the model's seat got, from the least (0) to the most (1) it could.

In zero-sum games that is the normalised return (r_own - r_other) / (u_max - u_min), moved from
[-1, 1] to [0, 1]; in the others the own return over the most that the seat could have got in that
episode. A forfeit gets 0. Winning is a part, not the value: in an auction the winner may have paid
too much.

    reward.score(sample, outcome).parts["win"]
"""

from __future__ import annotations

from collections.abc import Mapping

from harness import hookimpl
from harness.reward import Reward
from harness.types import Json, Outcome, Sample, Score

from ..tasks.gtbench.course import Course


class GTBenchReward(Reward):
    """Pays the normalised return. Parts: ``win``, ``draw``, ``loss``, ``forfeit``,
    ``first_legal`` (share of decisions whose first reply was a legal move); raw: ``own`` and
    ``other``, the returns, whose sums make the NRA."""

    name = "gtbench"
    version = "1"

    def score(self, sample: Sample, outcome: Outcome) -> Score:
        if "worth" in outcome.data:  # one decision, not an episode
            return Score(outcome.data["worth"], {"forfeit": float(outcome.data["action"] is None)})
        course = Course.of(outcome)
        return Score(
            course.payoff,
            parts={
                "win": float(course.result > 0),
                "draw": float(course.result == 0),
                "loss": float(course.result < 0),
                "forfeit": float(course.forfeited),
                "first_legal": course.first_legal,
            },
            raw={"own": course.own, "other": course.other, "decisions": course.decisions},
            per_seat=(course.payoffs[0], course.payoffs[1]),
        )


@hookimpl
def create_reward(name: str, options: Mapping[str, Json]) -> Reward:
    """The hook of rewards."""
    return GTBenchReward(options)
