"""The rewards bridge: rollouts of one prompt are paid by the reward plugin that also evaluates.

    scores = await pay(reward, sample, outcomes)

All rollouts of a prompt arrive together, so that rewards over groups and judges work as they are.
The value of a score is what `harness run` would store for the same outcome, to the last bit; verl
rounds it to float32 afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from harness.reward import Reward
from harness.types import OK, HarnessError, Json, Outcome, Sample, Score

HALTED: Final = "halted.txt"
"""In a job's folder: why it was stopped, as the user is told it."""

STRATA: Final = 16
"""Strata of a step that are shown one by one, at most."""

COUNTS: Final = ("groups", "candidates", "requests", "cache_hits", "retries", "failures",
                 "repaired", "prompt_tokens", "completion_tokens", "cost")  # fmt: skip
"""Running totals of a judge of which each step's share is shown."""


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
    its parts and by stratum of the data (`Task.stratum`, up to `STRATA` of them), share of groups
    whose rollouts were all paid the same (no gradient comes from them), share of replies that were
    read; where games take several turns, how many the model had."""
    strata: dict[str, list[float]] = {}
    groups: dict[str, list[float]] = {}
    parts: dict[str, list[float]] = {}
    classes: Counter[str] = Counter()
    turns: list[int] = []
    for prompt, found in tags:
        turns.append(found.get("turns", 1))
        groups.setdefault(prompt, []).append(found["score"])
        classes[found["cls"]] += 1
        strata.setdefault(found.get("stratum", ""), []).append(found["score"])
        for name, value in found["parts"].items():
            parts.setdefault(name, []).append(value)
    values = [value for group in groups.values() for value in group]
    if not values:
        return {}
    total = sum(classes.values())
    several = 1 < len(strata) <= STRATA
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
        **{f"reward/of/{n}": fmean(v) for n, v in sorted(strata.items()) if several and n},
        **({"reward/turns": fmean(turns)} if set(turns) != {1} else {}),
    }


class JudgeTotals:
    """Figures of a judge for each step, from running totals that travel in the rollouts' tags."""

    def __init__(self) -> None:
        self.before: dict[int, Mapping[str, float]] = {}

    def step(self, tags: Iterable[Mapping[str, Any]]) -> dict[str, float]:
        """The step's share of the totals of each process; {} where no judge was asked.

        ``swap_difference`` is how far two readings of a judge lie apart that saw the candidates in
        two orders, ``unjudged`` the share of groups that were paid by rules alone.
        """
        newest: dict[int, Mapping[str, float]] = {}
        for told in (tag["judge"] for tag in tags if "judge" in tag):
            if told["told"] > newest.get(told["worker"], {"told": -1})["told"]:
                newest[told["worker"]] = told
        if not newest:
            return {}

        def share(name: str) -> float:
            return sum(
                told.get(name, 0.0) - self.before.get(worker, {}).get(name, 0.0)
                for worker, told in newest.items()
            )

        found = {f"judge/{name}": share(name) for name in COUNTS}
        groups, requests, compared = share("groups"), share("requests"), share("compared")
        found["judge/total_tokens"] = share("prompt_tokens") + share("completion_tokens")
        answered = share("cache_hits") + requests
        found["judge/cache_hit_rate"] = share("cache_hits") / answered if answered else 0.0
        found["judge/unjudged"] = share("failures") / groups if groups else 0.0
        found["judge/latency_mean"] = share("seconds") / requests if requests else 0.0
        found["judge/latency_max"] = max(told.get("slowest", 0.0) for told in newest.values())
        if compared:
            found["judge/swap_difference"] = share("difference") / compared
        self.before.update(newest)
        return found


def kept_judge(options: Mapping[str, Json], folder: Path) -> dict[str, Json]:
    """A reward's options, where a judge has neither cache nor ledger with those of the job's
    folder: what a job pays for stays with it, and its budget holds over kill -9 and resume."""
    found = dict(options)
    if found.get("judge_model"):
        where = folder.absolute() / "judge"
        found["judge_cache"] = found.get("judge_cache") or str(where)
        found["judge_ledger"] = found.get("judge_ledger") or str(where / "ledger.jsonl")
    return found


def halt(folder: Path, reason: str) -> None:
    """Note why the job must stop: a budget that is spent, a judge that failed for good."""
    (folder / HALTED).write_text(reason, encoding="utf-8")


def halted(folder: Path) -> str:
    """Why the job must stop; "" while it need not."""
    try:
        return (folder / HALTED).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
