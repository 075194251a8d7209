"""Rewards for nested beliefs: every level of the reasoning counts, not the answer alone.

`tom-process` is the study's formula (docs/tom.md has it with worked examples):

    R = wp (1/N) sum s_i (a + b j_i)  +  ws (0.7 L/N + 0.3 F)  +  wa A prod s_i

s_i: State i is right; j_i: a judge's score of the reasons, 0 without a judge; L: well-formed blocks
from the start; F: the whole reply is well-formed (`format_ok`); A: the answer is right. Without a
judge a perfect reply earns wp a + ws + wa: 0.55 with the weights of training, the default, and 0.52
with the evaluator's (process 0.80, structure 0, answer 0.20).

`tom-process-v2` pays form only together with right states, so that no trick of form pays more than
an honest attempt with as many right states, and a perfect reply earns 1 without a judge.
`tom-answer` pays the answer alone.

>>> from harness_plugins.tasks.tom.grammar import read
>>> from harness_plugins.tasks.tom.answers import Target, judge
>>> text = "Think 1: seen\\nState: jar\\nThink 2: told\\nState: box\\nAnswer: box"
>>> verdict = judge(read(text), Target(("jar", "box"), "box"))
>>> pay(verdict, Weights()).value, pay(verdict, Weights(), [0.5, 0.8]).value
(0.55, 0.8425)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from harness import HarnessError, hookimpl
from harness.parsing import visible
from harness.reward import Reward
from harness.types import Json, Outcome, Sample, Score

from ..tasks.tom.answers import Target, Verdict, judge
from ..tasks.tom.grammar import Reading, read

PREFIX_SHARE: Final = 0.7
"""Of the structure's weight: what the well-formed blocks from the start earn; F earns the rest."""

REASONING: Final = "reasoning_scores"
"""Key of ``Outcome.data`` under which judge scores of a reply are looked up."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of the formula: the first three sum to 1, and so do the last two."""

    process: float = 0.75
    structure: float = 0.05
    answer: float = 0.20
    state: float = 0.40
    reasoning: float = 0.60

    def __post_init__(self) -> None:
        values = (self.process, self.structure, self.answer, self.state, self.reasoning)
        if any(not math.isfinite(v) or v < 0 for v in values):
            raise HarnessError(f"reward weights {values}: each must be a number from 0 up")
        if abs(self.process + self.structure + self.answer - 1) > 1e-9:
            raise HarnessError("the weights process, structure and answer must sum to 1")
        if abs(self.state + self.reasoning - 1) > 1e-9:
            raise HarnessError("the weights state and reasoning must sum to 1")

    @property
    def most_without_judge(self) -> float:
        """What a perfect reply earns when no judge reads it."""
        return self.process * self.state + self.structure + self.answer


EVALUATOR: Final = Weights(0.80, 0.0, 0.20)
"""The study's weights outside training: no pay for structure, at most 0.52 without a judge."""


def pay(verdict: Verdict, weights: Weights, scores: Sequence[float] | None = None) -> Score:
    """The formula of `tom-process`.

    :param scores: a judge's score for each step, in [0, 1]; a short list is padded with 0, a long
        one cut. Raises HarnessError for anything else.
    """
    n, form = verdict.order, verdict.structure
    judged = _effective(verdict, scores)
    steps = [
        s * (weights.state + weights.reasoning * j)
        for s, j in zip(verdict.states, judged, strict=True)
    ]
    progress = PREFIX_SHARE * form.prefix / n + (1 - PREFIX_SHARE) * form.format_ok
    process = weights.process * sum(steps) / n
    structure = weights.structure * progress
    answer = weights.answer * (verdict.answer and verdict.all_states)
    return Score(
        round(process + structure + answer, 10),
        {
            "process": process,
            "structure_bonus": structure,
            "answer_bonus": float(answer),
            "answer_correct": float(verdict.answer),
            "all_states_correct": float(verdict.all_states),
            "structure_ok": float(form.structure_ok),
            "format_ok": float(form.format_ok),
        },
        {
            "step_rewards": steps,
            "state_correct": list(verdict.states),
            "effective_reasoning_scores": judged,
            "reasoning_present": list(form.reasoned),
            "valid_prefix": form.prefix,
            "format_progress": progress,
        },
    )


def pay_v2(
    verdict: Verdict,
    weights: Weights,
    violation: float,
    scores: Sequence[float] | None = None,
) -> Score:
    """The formula of `tom-process-v2`.

        R = V [ wp (1/N) sum r_i (a + b j_i)  +  ws (1/N) sum r_i  +  wa A prod r_i ]

    r_i: State i is right and its block gives reasons. V is 1 for a reply that is well-formed
    (`format_ok`) and whose Answer repeats its last State, else ``violation``.
    """
    n, form = verdict.order, verdict.structure
    judged = _effective(verdict, scores)
    right = [s and r for s, r in zip(verdict.states, form.reasoned, strict=True)]
    steps = [
        r * (weights.state + weights.reasoning * j) for r, j in zip(right, judged, strict=True)
    ]
    clean = form.format_ok and verdict.consistent
    factor = 1.0 if clean else violation
    process = weights.process * sum(steps) / n
    structure = weights.structure * sum(right) / n
    answer = weights.answer * (verdict.answer and all(right))
    return Score(
        round(factor * (process + structure + answer), 10),
        {
            "process": factor * process,
            "structure_bonus": factor * structure,
            "answer_bonus": factor * answer,
            "answer_correct": float(verdict.answer),
            "all_states_correct": float(verdict.all_states),
            "clean": float(clean),
        },
        {"step_rewards": steps, "effective_reasoning_scores": judged, "valid_prefix": form.prefix},
    )


def _effective(verdict: Verdict, scores: Sequence[float] | None) -> list[float]:
    """Judge scores of the steps that can have one: right, and with reasons."""
    given = check_scores(scores, verdict.order)
    gates = zip(verdict.states, verdict.structure.reasoned, given, strict=True)
    return [j if s and reasoned else 0.0 for s, reasoned, j in gates]


def check_scores(scores: Sequence[float] | None, order: int) -> list[float]:
    """Judge scores as N numbers; raises HarnessError for what is no list of numbers in [0, 1]."""
    if scores is None:
        return [0.0] * order
    for score in scores:
        number = isinstance(score, int | float) and not isinstance(score, bool)
        if not number or not 0 <= score <= 1:  # NaN fails the comparison too
            raise HarnessError(f"judge score {score!r}: must be a number in [0, 1]")
    return [*map(float, scores), *[0.0] * order][:order]


def reading_of(outcome: Outcome) -> Reading:
    """The reading of an outcome's last reply, as the task stored it or from the text."""
    if not outcome.moves:
        return Reading()
    move = outcome.moves[-1]
    if isinstance(move.parsed, Mapping) and "blocks" in move.parsed:
        return Reading.of(move.parsed)
    return read(visible(move.reply.text))


def _number(name: str, value: Json) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise HarnessError(f"{name}={value}: must be a number")
    return float(value)


class TomProcess(Reward):
    """The study's process reward. A judge's scores are read from ``outcome.data`` where a judge has
    put them."""

    name = "tom-process"
    gates = ("structure_ok", "all_states_correct", "answer_correct")
    defaults: ClassVar[Weights] = Weights()
    more: ClassVar[tuple[str, ...]] = ()

    def __init__(self, options: Mapping[str, Json] | None = None) -> None:
        super().__init__(options)
        fields = ("process", "structure", "answer", "state", "reasoning")
        if unknown := sorted(set(self.options) - {*fields, *self.more}):
            known = ", ".join((*fields, *self.more))
            raise HarnessError(f"{self.name} has no option {unknown[0]}; it has {known}")
        given = {f: _number(f, self.options.get(f, getattr(self.defaults, f))) for f in fields}
        self.weights = Weights(**given)

    def score(self, sample: Sample, outcome: Outcome) -> Score:
        """Score the last reply. Raises HarnessError for a sample without a trace."""
        verdict = judge(reading_of(outcome), Target.of(sample.truth, sample.data))
        return self.pay(verdict, outcome.data.get(REASONING))

    def pay(self, verdict: Verdict, scores: Sequence[float] | None = None) -> Score:
        """The formula, for a judge that has scores of its own."""
        return pay(verdict, self.weights, scores)


class TomProcessV2(TomProcess):
    """Form pays only with right states; a perfect reply earns 1 without a judge."""

    name = "tom-process-v2"
    gates = ("clean", "all_states_correct", "answer_correct")
    defaults: ClassVar[Weights] = Weights(0.70, 0.10, 0.20, 1.0, 0.0)
    more: ClassVar[tuple[str, ...]] = ("violation",)

    def __init__(self, options: Mapping[str, Json] | None = None) -> None:
        super().__init__(options)
        self.violation = _number("violation", self.options.get("violation", 0.5))
        if not 0 <= self.violation <= 1:
            raise HarnessError(f"violation={self.violation}: must lie in [0, 1]")

    def pay(self, verdict: Verdict, scores: Sequence[float] | None = None) -> Score:
        """The formula, for a judge that has scores of its own."""
        return pay_v2(verdict, self.weights, self.violation, scores)


class TomAnswer(Reward):
    """1 for the right answer, by text or by letter; the strict comparison is a part."""

    name = "tom-answer"

    def __init__(self, options: Mapping[str, Json] | None = None) -> None:
        super().__init__(options)
        self.matching = str(self.options.get("matching", "lenient"))
        if self.matching not in ("lenient", "strict"):
            raise HarnessError(f"matching={self.matching}: choose lenient or strict")

    def score(self, sample: Sample, outcome: Outcome) -> Score:
        """Score the task's own verdict on the last reply (``answer_strict``, ``answer_lenient``).
        Score the task's own verdict on the last reply (``answer_strict``, ``answer_lenient``)."""
        strict = float(bool(outcome.data.get("answer_strict")))
        lenient = float(bool(outcome.data.get("answer_lenient")))
        value = strict if self.matching == "strict" else lenient
        return Score(value, {"answer_strict": strict, "answer_lenient": lenient})


@hookimpl
def create_reward(name: str, options: Mapping[str, Json]) -> Reward:
    """Make one of the three rewards; with ``judge_model`` a judge reads the reasons."""
    if options.get("judge_model"):
        from .tom_judged import judged

        return judged(name, options)
    options = {k: v for k, v in options.items() if not k.startswith("judge_")}
    return {r.name: r for r in (TomProcess, TomProcessV2, TomAnswer)}[name](options)
