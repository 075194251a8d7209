"""The audit of a data set: how far every shortcut gets, and the gold against the oracle.

Generated data is judged with further draws of the same generator, so that each order of each split
has at least `LEAST` samples; a file is judged as it is. Bounds: from order 2 up, one part in the
number of places that a story mentions, plus 5 points. At order 1 who sees what is the whole
question, so rules that read it are shown without a bound, and all others have the same bound as
above.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Final

from harness.audit import Finding, check, finding, hit
from harness.progress import track
from harness.types import Sample

from ..tom.classifier import cross_validated
from ..tom.shortcuts import BLIND, RULES, Facts
from .checks import sample_problems
from .data import Source, draw

if TYPE_CHECKING:
    from .task import CounterfactualToM

LEAST: Final = 3000
"""Samples of an order and split that an audit measures, for intervals some 2 points wide."""
MARGIN: Final = 0.05
"""Points over chance that a shortcut may reach."""
STATES: Final = "States right by giving the world in each"
CLASSIFIERS: Final = {"bag of words": False, "bag of words and positions": True}


def findings(task: CounterfactualToM, samples: Sequence[Sample]) -> Iterator[Finding]:
    """All findings about the data of a task."""
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(f"{sample.split}/{sample.group}", []).append(sample)
    if task.source.file:
        wrong = (f"{s.id}: {p}" for s in samples for p in sample_problems(s))
        yield check("gold against the oracle", wrong, len(samples))
    else:
        yield check("problems", task.verify(samples), len(samples))
    source = None if task.source.file else task.source
    names = sorted(groups)
    work = [(source, name, groups[name]) for name in names]
    # Minutes of work in independent parts: one process a core.
    with ProcessPoolExecutor(min(len(work), os.cpu_count() or 1)) as pool:
        for found in track(pool.map(_measured, work), "measuring shortcuts", len(work)):
            yield from found


def _measured(work: tuple[Source | None, str, list[Sample]]) -> list[Finding]:
    """The findings of one group, with further draws if it is generated."""
    source, group, members = work
    return list(shortcuts(group, members if source is None else _more(source, members)))


def _more(source: Source, members: list[Sample]) -> list[Sample]:
    """The members and further pairs of their kind, `LEAST` samples at least."""
    split, order = members[0].split, members[0].truth["order"]
    start = source.pairs(split)[order]
    more = range(start, max(start, LEAST // 2))
    return [*members, *(s for k in more for s in draw(source, split, order, k))]


def shortcuts(group: str, samples: Sequence[Sample]) -> Iterator[Finding]:
    """The accuracy of every rule and classifier on samples of one order."""
    facts = [Facts.of(sample.data) for sample in samples]
    gold = [str(sample.truth["answer"]) for sample in samples]
    chance = sum(1 / max(len(f.mentions), 1) for f in facts) / len(facts)
    order = len(facts[0].chain)
    for name, rule in RULES.items():
        open_ended = order == 1 and name not in BLIND
        hits = [hit(rule(f), right) for f, right in zip(facts, gold, strict=True)]
        note = "at order 1 this reads what the question asks" if open_ended else ""
        yield finding(name, group, samples, hits, None if open_ended else chance + MARGIN, note)
    clusters = [sample.cluster for sample in samples]
    for name, positions in CLASSIFIERS.items():
        hits = cross_validated(facts, gold, clusters, positions)
        yield finding(name, group, samples, hits, chance + MARGIN, "two-fold, over pairs")
    yield finding(
        STATES,
        group,
        samples,
        [_true(f, s) for f, s in zip(facts, samples, strict=True)],
        None,
        "what a process reward pays for; few people are often right",
    )


def _true(facts: Facts, sample: Sample) -> float:
    """The share of the trace's beliefs that are true."""
    world, trace = facts.place(()), sample.truth["trace"]
    return sum(place == world for place in trace) / len(trace)
