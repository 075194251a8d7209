"""The judge: a model that grades reasoning steps, for rewards that ask for one.

    judge = Judge.of({"judge_model": "openai:NAME", "judge_preset": "deepseek"})
    scores = await judge.scores(Case(question, steps), [reply, other_reply])

All candidates of a prompt go into one request. Candidate texts are quoted as data; the reply must
keep to a schema; what was paid for is cached; budgets stop the run before they are exceeded; and a
judge that fails is never a zero: the run stops, or the group is marked as unjudged.
`docs/rft.md` has the protocol and the options.
"""

from __future__ import annotations

from .judge import Judge, JudgeFailed, JudgeStats, settings_of
from .protocol import Case

__all__ = ["Case", "Judge", "JudgeFailed", "JudgeStats", "settings_of"]
