"""The tasks ``hitom`` and ``hitom-ood``: one question after a story of rooms, chapters and lies.

    task = HiToM({"data": "Hi-ToM_data.json"})       # the official file, or
    task = HiToM()                                   # stories of our own, orders 0 to 4
    task = HiToMOOD()                                # orders 5 and 6

Options: ``data`` (the official file or the id of a data set on the hub), ``labels`` (CoTP or VP),
``agree`` (only tasks whose two labels agree), ``data_seed``, ``form`` and ``style`` of the prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from harness.audit import Finding, check, finding, hit
from harness.exhibits import Exhibit
from harness.parsing import visible
from harness.player import Player, PlayerFactory
from harness.progress import track
from harness.seeds import Streams
from harness.task import Task
from harness.types import (
    OK,
    UNPARSED,
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

from ..counterfactual_tom.data import woven
from ..counterfactual_tom.published import identity
from ..tom.answers import same, same_leniently
from ..tom.figures import answer_metrics
from ..tom.players import players
from ..tom.shortcuts import RULES as SHORTCUTS
from ..tom.shortcuts import Facts
from ..tom.timeline import exhibits
from . import checks
from .generator import COUNTS, OOD_COUNT, OOD_ORDERS, ORDERS, draw, kinds
from .reader import locate, read_file, read_story
from .rules import RULES
from .text import FORMS, STYLES, prompt, said

DATA_SEED = 2026


class HiToM(Task):
    """Where does A think that B thinks ... the object is, orders 0 to 4."""

    name = "hitom"
    version = "1"
    reward = "tom-answer"
    decoding: ClassVar[Decoding] = Decoding(max_tokens=1024)
    orders: ClassVar[tuple[int, ...]] = ORDERS
    counts: ClassVar[Mapping[str, int]] = COUNTS

    def __init__(self, options: Mapping[str, Json] | None = None) -> None:
        super().__init__(options)
        given = self.options
        self.form = str(given.get("form") or FORMS[0])
        self.style = str(given.get("style") or STYLES[0])
        for name, value, allowed in (("form", self.form, FORMS), ("style", self.style, STYLES)):
            if value not in allowed:
                raise HarnessError(f"{name}={value}: choose {' or '.join(allowed)}")
        self.seed = int(given.get("data_seed", DATA_SEED))
        self.labels = str(given.get("labels") or "CoTP")
        self.agree = bool(given.get("agree", False))
        self.file = locate(str(given["data"])) if given.get("data") else None
        self.splits = ("test",) if self.file else tuple(self.counts)  # type: ignore[misc]

    def samples(self, split: str) -> Iterator[Sample]:
        """The samples of a split, or of ``all``, stratified by order, deception and length."""
        if split not in (*self.splits, "all"):
            raise HarnessError(
                f"no split {split!r} here; choose one of {', '.join(self.splits)}, all"
            )
        if self.file:
            found = read_file(self.file, self.labels)
            if self.agree:
                found = [s for s in found if s.truth["labels_agree"]]
            return woven(found, _cell)
        chosen = self.splits if split == "all" else (split,)
        drawn = (sample for name in chosen for sample in self._drawn(name))
        return woven(drawn, _cell)

    def _drawn(self, split: str) -> Iterator[Sample]:
        cells = [(kind, k) for kind in kinds(split, self.orders) for k in range(self.counts[split])]
        for kind, number in track(cells, f"drawing {self.name} {split}"):
            yield draw(self.seed, kind, number)

    def data_identity(self) -> str:
        """The hash of the official file ("" for generated data)."""
        return identity(self.file) if self.file else ""

    def verify(self, samples: Iterable[Sample]) -> Iterator[str]:
        """Generated truth against a table of all beliefs; labels of a file against the oracle."""
        if not self.file:
            return checks.problems(samples)
        return (
            f"{s.id}: the label is {s.truth['answer']}, the oracle's answer {s.truth['oracle']}"
            for s in samples
            if s.truth["answer"] != s.truth["oracle"]
        )

    def audit(self, samples: Sequence[Sample]) -> Iterator[Finding]:
        """Labels that differ between styles or from the oracle (a file), else wrong truths; and how
        far shortcuts get, without a bound: these stories are not made to keep them out."""
        yield check("problems", self.verify(samples), len(samples))
        if self.file:
            differ = [s.id for s in samples if not s.truth["labels_agree"]]
            yield check("labels of the two styles differ", differ, len(samples))
        groups: dict[str, list[Sample]] = {}
        for sample in samples:
            groups.setdefault(sample.group, []).append(sample)
        for group, members in sorted(groups.items()):
            facts = [facts_of(sample) for sample in members]
            for name, rule in SHORTCUTS.items():
                pairs = zip(facts, members, strict=True)
                hits = [hit(rule(f), s.truth["answer"]) for f, s in pairs]
                yield finding(name, group, members, hits, None)

    def messages(self, sample: Sample) -> list[Message]:
        """Story, question, choices, assumptions, and how to answer."""
        return [Message("user", prompt(sample.data, self.form, self.style))]

    def parse(self, sample: Sample, reply: Reply) -> Parsed:
        """The last Answer line, or a reply that is nothing but an answer."""
        answer = said(visible(reply.text))
        return Parsed(answer, OK if answer else UNPARSED)

    async def rollout(self, sample: Sample, players: Sequence[Player], rng: Streams) -> Outcome:
        """Ask once; the outcome keeps whether the answer is right, strictly and leniently."""
        outcome = await super().rollout(sample, players, rng)
        answer, gold = outcome.moves[-1].parsed, sample.truth["answer"]
        choices = sample.data["choices"] if self.form == "choice" else ()
        kept: dict[str, Json] = {
            "answer_strict": answer is not None and same(answer, gold),
            "answer_lenient": answer is not None and same_leniently(answer, gold, choices),
            "tags": _tags(sample),
        }
        return replace(outcome, data=kept)

    def players(self) -> Mapping[str, PlayerFactory]:
        """Oracle, random, constant, empty, and every shortcut rule by name."""
        return players(_right, lambda sample, place: f"Answer: {place}", facts_of)

    def metrics(self, records: Iterable[Record]) -> list[Metric]:
        """Score and answers by order, deception, length, and agreement of the labels."""
        return answer_metrics(records)

    def target(self, sample: Sample) -> str:
        """The beliefs from the inside out, and the answer."""
        data, truth = sample.data, sample.truth
        chain, trace = data["chain"], truth["trace"]
        lines = []
        if trace and trace[-1] == truth["answer"]:
            lines = [
                f"{' thinks '.join(chain[len(chain) - k :])} thinks the {data['object']} is in the "
                f"{place}."
                for k, place in enumerate(trace, start=1)
            ]
        return "\n".join([*lines, f"Answer: {truth['answer']}"])

    def exhibits(self, sample: Sample, outcome: Outcome) -> list[Exhibit]:
        """The story as a timeline of who knows what, and the beliefs asked for."""
        answer = outcome.moves[-1].parsed if outcome.moves else None
        return exhibits(facts_of(sample), sample.truth, (), answer)

    def concepts(self, sample: Sample) -> Mapping[str, int]:
        """Labels for probes: order, deception, and whether the asked belief is the truth."""
        world = facts_of(sample).place(())
        return {
            "order": sample.truth["order"],
            "deception": int(sample.data["deception"]),
            "true_belief": int(world == sample.truth["answer"]),
        }


class HiToMOOD(HiToM):
    """The same questions above the training range: orders 5 and 6, with six and seven people."""

    name = "hitom-ood"
    orders = OOD_ORDERS
    counts: ClassVar[Mapping[str, int]] = {"test": OOD_COUNT}


def facts_of(sample: Sample) -> Facts:
    """What the shortcut rules see: the story is read from its English."""
    data = sample.data
    events = tuple(read_story(data["story"]))
    chain, choices = tuple(data["chain"]), tuple(data["choices"])
    return Facts(data["story"], chain, data["object"], choices, events, RULES)


def _cell(sample: Sample) -> str:
    return f"{sample.split}/{sample.data['deception']}/{sample.data['length']}"


def _right(sample: Sample) -> str:
    return f"Answer: {sample.truth['answer']}"


def _tags(sample: Sample) -> list[str]:
    tags = [
        "deception" if sample.data["deception"] else "no-deception",
        f"length-{sample.data['length']}",
    ]
    if "labels_agree" in sample.truth:
        tags.append("labels-agree" if sample.truth["labels_agree"] else "labels-differ")
    return tags
