"""The process rewards with a judge: its grades of the reasons enter the formula as j_i.

    harness rft score RUN --reward tom-process --reward-set judge_model=openai:NAME

A sample's replies go to the judge as one group. Steps whose State is wrong, or that give no
reasons, earn nothing whatever a judge says, so replies without any other step are not sent. Where
the judge fails for good, the run stops, or with ``judge_failure=unjudged`` the whole group is paid
by rules alone and marked (part ``judged`` 0); nothing becomes a zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from harness.parsing import visible
from harness.registry import Registry
from harness.reward import Reward
from harness.types import HarnessError, Json, Outcome, Sample, Score

from ..tasks.tom.answers import Target, Verdict, judge
from .judge import Case, Judge, JudgeFailed, settings_of
from .tom_process import TomProcess, TomProcessV2, reading_of

INCIDENTAL: Final = frozenset(
    f"judge_{name}"
    for name in (
        "cache",
        "replay",
        "concurrency",
        "retries",
        "delay",
        "requests",
        "tokens",
        "ledger",
    )
)


class _Judged(TomProcess):
    """Asks a judge; everything else is the reward that it is mixed into."""

    deterministic = False
    incidental = INCIDENTAL

    def __init__(
        self, options: Mapping[str, Json] | None = None, registry: Registry | None = None
    ) -> None:
        given = dict(options or {})
        super().__init__({k: v for k, v in given.items() if not k.startswith("judge_")})
        self.options = given
        found = Judge.of(given, registry)
        if found is None:
            raise HarnessError("judge_model names no judge")
        self.judge = found

    def score(self, sample: Sample, outcome: Outcome) -> Score:
        """A judge is asked about groups, and not from plain code."""
        raise HarnessError(f"{self.name} with a judge scores through score_group")

    async def score_group(self, sample: Sample, outcomes: Sequence[Outcome]) -> list[Score]:
        """Score all replies to a sample. Raises HarnessError when the judge fails and
        ``judge_failure`` is stop, or a budget is spent."""
        target = Target.of(sample.truth, sample.data)
        verdicts = [judge(reading_of(outcome), target) for outcome in outcomes]
        asked = [v for v, verdict in enumerate(verdicts) if _gradable(verdict)]
        grades: dict[int, list[float]] = {}
        judged = 1.0
        if asked:
            texts = [visible(outcomes[place].moves[-1].reply.text) for place in asked]
            try:
                rows = await self.judge.scores(case(sample, outcomes[asked[0]], target), texts)
            except JudgeFailed as error:
                if self.judge.options["judge_failure"] == "stop":
                    raise HarnessError(f"{sample.id}: {error}") from None
                judged = 0.0
            else:
                grades = dict(zip(asked, rows, strict=True))
        scores = (self.pay(verdict, grades.get(v)) for v, verdict in enumerate(verdicts))
        return [Score(s.value, {**s.parts, "judged": judged}, s.raw, s.per_seat) for s in scores]

    def judge_figures(self) -> dict[str, float]:
        """Requests, cache hits, tokens, latencies."""
        return self.judge.figures()

    def specification(self) -> dict[str, Json]:
        """The options, with what of the judge's back end its replies may depend on."""
        return {**super().specification(), "judge_model_options": settings_of(self.judge.options)}

    def close(self) -> None:
        """Close the judge's connection."""
        self.judge.close()


class JudgedTomProcess(_Judged):
    """`tom-process` with a judge."""


class JudgedTomProcessV2(_Judged, TomProcessV2):
    """`tom-process-v2` with a judge."""

    name = "tom-process-v2"
    gates = TomProcessV2.gates


def judged(name: str, options: Mapping[str, Json], registry: Registry | None = None) -> Reward:
    """The judged form of a reward. Raises HarnessError where there is none."""
    made = {"tom-process": JudgedTomProcess, "tom-process-v2": JudgedTomProcessV2}.get(name)
    if made is None:
        raise HarnessError(f"{name} takes no judge; give tom-process or tom-process-v2")
    return made(options, registry)


def case(sample: Sample, outcome: Outcome, target: Target) -> Case:
    """What the judge sees: the prompt as it was asked, and the beliefs that hold, inner first."""
    question = "\n\n".join(m.content for m in outcome.moves[-1].messages if m.role != "assistant")
    chain = [str(name) for name in sample.data.get("chain", ())]
    steps = tuple(
        {
            "think_index": number,
            "belief_chain": chain[len(chain) - number :] if len(chain) >= number else [],
            "expected_state": place,
        }
        for number, place in enumerate(target.places, 1)
    )
    return Case(question, steps)


def _gradable(verdict: Verdict) -> bool:
    pairs = zip(verdict.states, verdict.structure.reasoned, strict=True)
    return any(state and reasoned for state, reasoned in pairs)
