"""The rewards bridge: rollouts of one prompt are paid by the reward plugin that also evaluates.

    scores = await pay(reward, sample, outcomes)

All rollouts of a prompt arrive together, so that rewards over groups and judges work as they are.
The value of a score is what `harness run` would store for the same outcome, to the last bit; verl
rounds it to float32 afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from harness.reward import Reward
from harness.types import OK, HarnessError, Outcome, Sample, Score


async def pay(reward: Reward, sample: Sample, outcomes: Sequence[Outcome]) -> list[Score]:
    """The scores of a prompt's rollouts, in order.

    Raises HarnessError for a reward that answers with another number of scores, or with a value
    outside of [0, 1].
    """
    scores = await reward.score_group(sample, outcomes)
    if len(scores) != len(outcomes):
        raise HarnessError(
            f"the reward {reward.name!r} gave {len(scores)} scores for {len(outcomes)} rollouts"
        )
    for score in scores:
        if not 0.0 <= score.value <= 1.0:
            raise HarnessError(
                f"the reward {reward.name!r} gave {score.value} for {sample.id}; values must lie "
                "in [0, 1]"
            )
    return scores


def tag(sample: Sample, outcome: Outcome, score: Score) -> dict[str, Any]:
    """What travels with a rollout besides its tokens."""
    return {
        "score": float(score.value),
        "parts": {name: float(value) for name, value in score.parts.items()},
        "cls": outcome.cls,
        "group": sample.group,
    }


def figures(tags: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, float]:
    """Figures of a step from (prompt, tag) of its rollouts: mean and spread of the reward, means of
    its parts, share of groups whose rollouts were all paid the same (no gradient comes from them),
    share of replies that were read."""
    groups: dict[str, list[float]] = {}
    parts: dict[str, list[float]] = {}
    classes: Counter[str] = Counter()
    for prompt, found in tags:
        groups.setdefault(prompt, []).append(found["score"])
        classes[found["cls"]] += 1
        for name, value in found["parts"].items():
            parts.setdefault(name, []).append(value)
    values = [value for group in groups.values() for value in group]
    if not values:
        return {}
    total = sum(classes.values())
    return {
        "reward/mean": fmean(values),
        "reward/min": min(values),
        "reward/max": max(values),
        "reward/parsed": classes[OK] / total,
        "reward/zero_variance_groups": fmean(
            float(min(group) == max(group)) for group in groups.values()
        ),
        **{f"reward/part/{name}": fmean(found) for name, found in sorted(parts.items())},
        **{f"reward/class/{name}": count / total for name, count in sorted(classes.items())},
    }
