"""Audits of data: what a sample gives away, and what is wrong with a data set.

A finding is a figure with an interval and a bound. A shortcut is a rule that answers without doing
the task (the last place named, the longest line); it fails when the upper end of its interval
exceeds the bound, so too few samples can't pass for a clean set. A check counts what must not
occur at all.

A task that has more to say than the default defines

    def audit(self, samples):
        rules = {"last option": lambda sample: sample.data["choices"][-1]}
        yield from measure(samples, rules, bound=lambda name, group: 1 / 15 + 0.05)

>>> Finding("last option", "order-2", 0.09, 0.07, 0.11, bound=0.12, n=2000).failed
False
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from .stats import mean_metric
from .task import Task
from .types import HarnessError, Json, Sample

Rule = Callable[[Sample], "str | Mapping[str, float] | None"]
"""A shortcut: the answer it gives, a probability for each answer, or None for no answer."""

NAMED: Final = 5
"""Examples that a finding names."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One figure of an audit.

    ``name`` says what was measured, ``group`` in which part of the data, ``value`` with the 95 %
    interval from ``low`` to ``high``; ``bound`` is the most that is allowed (None: shown only);
    ``n`` counts samples; ``items`` are all offenders of a check.
    """

    name: str
    group: str = ""
    value: float = 0.0
    low: float | None = None
    high: float | None = None
    bound: float | None = None
    n: int = 0
    note: str = ""
    items: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether the bound is exceeded by the upper end of the interval."""
        reached = self.value if self.high is None else self.high
        return self.bound is not None and reached > self.bound

    def json(self) -> dict[str, Json]:
        """The finding as JSON, with its verdict."""
        return {**asdict(self), "failed": self.failed}


def audit(task: Task, samples: Sequence[Sample] | None = None) -> list[Finding]:
    """All findings about a task's data (default: all splits): the task's own (or, where it has no
    audit, what its ``verify`` objects to), and those of every data set (`duplicates`).

    Raises HarnessError for a task without samples.
    """
    chosen = list(task.samples("all")) if samples is None else list(samples)
    if not chosen:
        raise HarnessError(f"{task.name} has no samples to audit")
    own = getattr(task, "audit", None)
    if own is None:
        return [check("problems", task.verify(chosen), len(chosen)), *duplicates(chosen)]
    return [*own(chosen), *duplicates(chosen)]


def duplicates(samples: Sequence[Sample]) -> Iterator[Finding]:
    """Checks of any data set: ids twice, items twice in a split, items in more than one split."""
    ids = Counter(sample.id for sample in samples)
    yield check("double ids", (i for i, n in ids.items() if n > 1), len(samples))
    splits: dict[str, list[str]] = {}
    for sample in samples:
        splits.setdefault(sample.canonical or sample.id, []).append(sample.split)
    twice = (item for item, found in splits.items() if len(set(found)) < len(found))
    yield check("items twice in a split", twice, len(samples))
    shared = (item for item, found in splits.items() if len(set(found)) > 1)
    yield check("items in more than one split", shared, len(samples))


def check(name: str, offenders: Iterable[str], n: int, group: str = "") -> Finding:
    """A count of what must not occur, with the first offenders named."""
    found = list(offenders)
    shown = ", ".join(found[:NAMED]) + (", ..." if len(found) > NAMED else "")
    return Finding(name, group, float(len(found)), bound=0.0, n=n, note=shown, items=tuple(found))


def measure(
    samples: Sequence[Sample],
    rules: Mapping[str, Rule],
    bound: Callable[[str, Sequence[Sample]], float | None],
    answer: Callable[[Sample], str] = lambda sample: str(sample.truth["answer"]),
) -> Iterator[Finding]:
    """The accuracy of shortcut rules in each group of samples, clustered.

    :param bound: from a rule's name and the samples of a group to the most that is allowed.
    :param answer: the gold answer of a sample.
    """
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.group, []).append(sample)
    for group, members in sorted(groups.items()):
        gold = [answer(sample) for sample in members]
        for name, rule in rules.items():
            hits = [hit(rule(s), right) for s, right in zip(members, gold, strict=True)]
            yield finding(name, group, members, hits, bound(name, members))


def finding(
    name: str,
    group: str,
    samples: Sequence[Sample],
    hits: Sequence[float],
    bound: float | None,
    note: str = "",
) -> Finding:
    """One rule's accuracy in one group, from its hits (one a sample, in [0, 1])."""
    clusters = [sample.cluster or sample.id for sample in samples]
    metric = mean_metric(name, hits, clusters, group)
    value = metric.value or 0.0
    return Finding(name, group, value, metric.low, metric.high, bound, len(samples), note)


def hit(said: str | Mapping[str, float] | None, gold: str) -> float:
    """How far a rule's answer is right: 0 or 1, or the probability that it gives the gold.

    >>> hit("jar", "jar"), hit({"jar": 0.25}, "jar"), hit(None, "jar")
    (1.0, 0.25, 0.0)
    """
    if isinstance(said, Mapping):
        return float(said.get(gold, 0.0))
    return float(said == gold)
