"""The task: one question about nested beliefs after one story, asked once.

    task = CounterfactualToM({"preset": "strict"})
    sample = next(iter(task.samples("test")))
    task.messages(sample), task.target(sample)

Options: ``preset`` (``strict`` or ``reference``), ``data_seed``, ``ood_order`` (4, 5 or 6),
``style`` of the prompt, and ``data`` (a file in the published compact schema instead of a
preset).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from harness.audit import Finding
from harness.exhibits import Exhibit
from harness.parsing import visible
from harness.player import Player, PlayerFactory
from harness.seeds import Streams
from harness.task import Task
from harness.types import (
    Decoding,
    HarnessError,
    Json,
    Message,
    Metric,
    Outcome,
    Parsed,
    Record,
    Reply,
    Sample,
)

from ..tom.figures import process_metrics
from ..tom.grammar import Reading
from ..tom.outcomes import parse_process, process_verdict
from ..tom.players import players
from ..tom.shortcuts import RULES, Facts
from ..tom.timeline import exhibits, stated
from . import data
from .prompts import STYLES, prompt
from .targets import plainly, target
from .teacher import known

COPIED: Final = (
    "world",
    "last place named",
    "place 1 from the start",
    "belief of the outer person",
    "belief of the inner person",
    "belief of the chain reversed",
    "last joint move",
)
"""Shortcuts whose copying a run reports."""


class CounterfactualToM(Task):
    """Who thinks that who thinks where the object is, in pairs of stories that differ in who saw
    one thing."""

    name = "counterfactual-tom"
    version = "1"
    reward = "tom-process-v2"
    decoding: ClassVar[Decoding] = Decoding(max_tokens=512)

    def __init__(self, options: Mapping[str, Json] | None = None) -> None:
        super().__init__(options)
        given = self.options
        self.style = str(given.get("style") or STYLES[0])
        if self.style not in STYLES:
            raise HarnessError(f"style={self.style}: choose {' or '.join(STYLES)}")
        self.source = data.Source(
            str(given.get("preset") or "strict"),
            int(given.get("data_seed", data.DATA_SEED)),
            int(given.get("ood_order", 4)),
            str(given.get("data") or ""),
        )
        self.splits = self.source.splits  # type: ignore[misc]  # they depend on the preset

    def samples(self, split: str) -> Iterator[Sample]:
        """The samples of a split, or of ``all``, stratified by order."""
        return data.read(self.source, split)

    def stratum(self, sample: Sample) -> str:
        """Order and side of the pair: ``order-2/hidden``."""
        side = sample.data["side"]
        return f"{sample.group}/{side}" if side else sample.group

    def data_identity(self) -> str:
        """The hash of the file that ``data`` names ("" for generated data)."""
        return self.source.identity()

    def stats(self, samples: Iterable[Sample]) -> dict[str, Json]:
        """Counts by split, order and side, letters of the answers, kinds of events, words."""
        counts: dict[str, Counter[str]] = {
            name: Counter() for name in ("rows", "letters", "events")
        }
        words = [0, 0]
        for sample in samples:
            place = sample.data["choices"].index(sample.truth["answer"])
            counts["rows"][f"{sample.split}/{sample.group}/{sample.data['side']}"] += 1
            counts["letters"][chr(65 + place)] += 1
            counts["events"].update(event["kind"] for event in sample.data["events"])
            words = [words[0] + len(sample.data["story"].split()), words[1] + 1]
        found: dict[str, Json] = {k: dict(sorted(v.items())) for k, v in counts.items()}
        return {**found, "words_of_a_story": round(words[0] / max(words[1], 1), 1)}

    def verify(self, samples: Iterable[Sample]) -> Iterator[str]:
        """Check truth, pairs and held-out words by other means than those that drew them."""
        from .checks import problems

        return problems(samples, "" if self.source.file else self.source.preset)

    def audit(self, samples: Sequence[Sample]) -> Iterator[Finding]:
        """Measure every shortcut; for ``harness data audit``."""
        from .leaks import findings

        return findings(self, samples)

    def messages(self, sample: Sample) -> list[Message]:
        """Story, question, choices, and how to answer."""
        return [Message("user", prompt(sample.data, self.style))]

    def parse(self, sample: Sample, reply: Reply) -> Parsed:
        """The reply's Think, State and Answer lines."""
        return parse_process(visible(reply.text))

    async def rollout(self, sample: Sample, players: Sequence[Player], rng: Streams) -> Outcome:
        """Ask once; the outcome keeps the verdict."""
        outcome = await super().rollout(sample, players, rng)
        parsed = outcome.moves[-1].parsed
        reading = Reading.of(parsed) if parsed else Reading()
        facts = Facts.of(sample.data)
        shortcuts = {name: str(said) for name in COPIED if (said := RULES[name](facts))}
        return replace(outcome, data=process_verdict(sample, shortcuts, reading))

    def players(self) -> Mapping[str, PlayerFactory]:
        """Oracle, random, constant, empty, and every shortcut rule by name."""
        return players(self.target, _everywhere, lambda sample: Facts.of(sample.data))

    def metrics(self, records: Iterable[Record]) -> list[Metric]:
        """Score, answers, pairs, steps, strictness and copying, with pairs as clusters."""
        return process_metrics(records)

    def target(self, sample: Sample) -> str:
        """The beliefs from the inside out, each with the sentence that it comes from."""
        return target(sample.data, sample.truth)

    def privileged(self, sample: Sample) -> list[Message]:
        """The prompt with the answer and the events that it rests on."""
        return [Message("user", prompt(sample.data, self.style, known(sample.data, sample.truth)))]

    def exhibits(self, sample: Sample, outcome: Outcome) -> list[Exhibit]:
        """The story as a timeline of who knows what, and the beliefs asked for."""
        states, answer = stated(outcome.moves[-1].parsed if outcome.moves else None)
        return exhibits(Facts.of(sample.data), sample.truth, states, answer)

    def ballot(self, sample: Sample, value: Json) -> Json:
        """The answer and the States, whatever the reasons."""
        reading = Reading.of(value)
        return [reading.answer, [list(block.states) for block in reading.blocks]]

    def concepts(self, sample: Sample) -> Mapping[str, int]:
        """Labels for probes: order (from 0), side, and whether the last belief is the truth."""
        facts = Facts.of(sample.data)
        return {
            "order": len(facts.chain) - 1,
            "side": int(sample.data["side"] == "observed") if sample.data["side"] else -1,
            "true_belief": int(facts.place(()) == sample.truth["answer"]),
        }


def _everywhere(sample: Sample, place: str) -> str:
    return plainly((place,) * len(sample.data["chain"]))
