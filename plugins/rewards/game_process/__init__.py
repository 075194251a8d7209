"""The reward `gt-prm`: the steps of a solution are verified against the game, one by one.

Steps are of six kinds (parse, dominance, elimination, best response, equilibrium, arithmetic). A
question needs certain facts of some kinds: for equilibria that dominated actions are struck out,
that each column's best reply is found, that each equilibrium is verified, that indifference
equations are solved. With c_k the share of the needed facts of kind k that a solution establishes,
a the score of its answer, and

    precision = established / (established + false sentences)          (1 where both are 0)

    value = precision^2 x mean of a and the c_k

A fact is established by a true sentence that shows its grounds (the payoffs it compares). True
sentences that nothing needs are neither paid nor charged, a repetition is no second sentence, and
the payoffs of the prompt said again are no step. All arithmetic is exact. Nothing but the question
is looked at: no answer key. (A question holds the whole game, so its verifier can solve it:
docs/gamesolve-scoring.md.)

>>> from harness.types import Move
>>> data = {"kind": "best_response_pure", "row": [[3, 0], [1, 2]], "col": [[1, 1], [0, 4]],
...         "row_labels": ["Up", "Down"], "col_labels": ["X", "Y"], "format": "compact",
...         "context": "market", "responder": "row", "opponent_action": 1}
>>> text = "Against Y, Firm 1 gets 0 from Up and 2 from Down: best Down."
>>> answer = "\\n\\nANSWER:\\nBest response: Down\\nBest response value: 2"
>>> [score(data, reply).value for reply in (text + answer, text, answer, "")]
[1.0, 0.5, 0.5, 0.0]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from harness import hookimpl
from harness.parsing import visible
from harness.reward import Reward
from harness.types import Json, Outcome, Sample, Score

from ...tasks.gamesolve.answers import parse
from ..gamesolve import judge
from .claims import ELIMINATION, KINDS, PARSE
from .solution import Reading, covered, established, needed, read
from .view import View

ANSWER: Final = "answer"
TOLD: Final = 3
"""False sentences that feedback names, at most."""

__all__ = ["GameProcess", "create_reward", "score"]


class GameProcess(Reward):
    """Verified steps of solutions of matrix games."""

    name = "gt-prm"
    version = "1"
    reads_truth: ClassVar[bool] = False

    def score(self, sample: Sample, outcome: Outcome) -> Score:
        """Score the last reply."""
        return score(sample.data, outcome.moves[-1].reply.text if outcome.moves else "")

    def feedback(self, sample: Sample, outcome: Outcome) -> str:
        """What is wrong or missing in the last reply, without what would be right."""
        return feedback(sample.data, outcome.moves[-1].reply.text if outcome.moves else "")


@hookimpl
def create_reward(name: str, options: Mapping[str, Json]) -> GameProcess:
    """Make the reward; it has no options."""
    return GameProcess(options)


def score(data: Mapping[str, Json], reply: str) -> Score:
    """Score a reply to the question of a sample's data. Parts: the answer, the precision, and for
    each kind of step that the question needs the share of its facts; ``parse`` is the share of
    quoted payoffs that are right where no reading is asked for."""
    view = View.of(data)
    reading = read(reply, view) if visible(reply) else read("", view)
    findings = reading.findings
    shares = covered(view, findings)
    answer = judge(view.data, view.truth, parse(view.data, reply).value).value
    if PARSE in shares:
        # A payoff is read out rightly by whoever lists them all: it counts with its answer only.
        shares[PARSE] *= answer
    found, false = established(view, findings), len(findings.false)
    precision = found / (found + false) if found or false else 1.0
    value = precision**2 * (sum(shares.values()) + answer) / (len(shares) + 1)
    parts = {ANSWER: answer, "precision": precision, PARSE: reading.quoted or 0.0, **shares}
    raw: dict[str, Json] = {"established": found, "false": false, "true": findings.true}
    raw |= {f"false.{kind}": n for kind in KINDS if (n := findings.errors(kind))}
    return Score(min(1.0, value), parts, raw)


def feedback(data: Mapping[str, Json], reply: str) -> str:
    """Sentences of a reply that are not true of the game, and the kinds of steps that are missing;
    "" where nothing is wrong. The right values are not told."""
    view = View.of(data)
    reading: Reading = read(reply, view)
    lines = [
        f"This is not true of the game ({_NAMES[kind]}): {text}"
        for (kind, _), text in list(reading.findings.false.items())[:TOLD]
    ]
    shares = covered(view, reading.findings)
    lines += [f"Missing or without grounds: {_NAMES[k]}." for k in needed(view) if shares[k] < 1]
    answer = parse(view.data, reply).value
    if answer is None:
        lines.append("There is no answer in the form that was asked for.")
    elif judge(view.data, view.truth, answer).value < 1:
        lines.append("The answer is not right, or not complete.")
    return "\n".join(lines)


_NAMES: Final = {kind: kind.replace("_", " ") for kind in KINDS} | {
    PARSE: "reading the payoffs",
    ELIMINATION: "ruling out actions or supports",
}
