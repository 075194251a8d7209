"""The reward `textarena`: what the model's seat got, as a number in [0, 1].

Games of two players pay 1 for a win, 1/2 for a draw, 0 for a loss, whether on the board or by
forfeit; games of one player pay the environment's own reward, cut to [0, 1]. An episode that was
broken off pays nothing. ``raw`` holds the environment's rewards as they are, and its points.

>>> from harness.types import Outcome, Sample
>>> sample = Sample("x", "test", {"env": "Nim-v0", "model_seat": 1})
>>> TextArenaReward().score(sample, Outcome((), returns=(-1.0, 1.0))).value
1.0
"""

from __future__ import annotations

from collections.abc import Mapping

from harness import hookimpl
from harness.reward import Reward
from harness.types import Json, Outcome, Sample, Score

from ..tasks.textarena.adapters import adapter


class TextArenaReward(Reward):
    """The payoff of the model's seat."""

    name = "textarena"

    def score(self, sample: Sample, outcome: Outcome) -> Score:
        """Score one episode; needs no library."""
        made = adapter(sample.data["env"])
        seat = sample.data["model_seat"]
        ended = outcome.data.get("ended", "finished")
        if ended == "finished":
            values = made.values(outcome.returns)
        else:
            losers = outcome.data.get("forfeits") or range(len(outcome.returns))
            values = tuple(float(s not in losers) for s in range(len(outcome.returns)))
        raw = {"returns": list(outcome.returns), **outcome.data.get("figures", {})}
        parts = {"solved": float(values[seat] >= 1.0)} if len(values) == 1 else {}
        return Score(values[seat], parts, raw, values if len(values) > 1 else ())


@hookimpl
def create_reward(name: str, options: Mapping[str, Json]) -> TextArenaReward:
    """Make the reward; it has no options."""
    return TextArenaReward(options)
