"""Figures of a run: every factor, the parts, the parse rate, and little memory."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from harness.types import OK, UNPARSED, Move, Outcome, Record, Reply, Sample, Score
from harness_plugins.tasks.gamesolve.metrics import Facts, metrics


def nash(k: int, stratum: str) -> Sample:
    data = {
        "kind": "nash",
        "row": [[0, 1], [1, 0]],
        "stratum": stratum,
        "format": "json",
        "category": "wide_range",
        "difficulty": "easy",
    }
    return Sample(f"n{k}", "test", data, group=f"nash/2x2/general/{stratum}", cluster=f"c{k}")


def response(k: int) -> Sample:
    data = {
        "kind": "best_response",
        "row": [[0, 1, 2]] * 3,
        "format": "story",
        "responder": "column",
        "difficulty": "medium",
    }
    return Sample(f"b{k}", "test", data, group="br/3x3/general", cluster=f"d{k}")


SAMPLES = [nash(k, "pure" if k < 20 else "continuum") for k in range(40)] + [
    response(k) for k in range(30)
]


def record(index: int, sample: Sample, value: float, cls: str = OK, **parts: float) -> Record:
    outcome = Outcome((Move(0, Reply("x"), cls=cls),), cls)
    return Record(
        index, "gamesolve", sample.id, sample.split, 0, 0, sample.group, sample.cluster, "",
        outcome, Score(value, parts),
    )  # fmt: skip


def records() -> Iterator[Record]:
    """Nash: pure ones right, continua half right; every third response unparsed, others right."""
    for k, sample in enumerate(SAMPLES):
        if sample.id.startswith("n"):
            right = sample.data["stratum"] == "pure"
            yield record(
                k, sample, 1.0 if right else 0.5, precision=1.0, recall=1.0 if right else 0.5
            )
        elif k % 3:
            yield record(k, sample, 1.0, action=1.0)
        else:
            yield record(k, sample, 0.0, UNPARSED)


@pytest.fixture(scope="module")
def found():
    figures = metrics(records(), lambda split: [s for s in SAMPLES if s.split == split])
    return {(m.name, m.group): m for m in figures}


def test_the_overall_score_comes_first(found):
    first = next(iter(found.values()))
    assert (first.name, first.group, first.n, first.clusters) == ("score", "", 70, 70)
    assert first.value == pytest.approx((20 + 10 + 20) / 70)
    assert first.low < first.value < first.high


@pytest.mark.parametrize(
    ("name", "group", "value", "n"),
    [
        ("score", "nash", 0.75, 40),
        ("score", "best_response", 2 / 3, 30),
        ("score", "2x2", 0.75, 40),
        ("score", "3x3", 2 / 3, 30),
        ("score", "pure", 1.0, 20),
        ("score", "continuum", 0.5, 20),
        ("score", "finite", 1.0, 20),
        ("score", "wide_range", 0.75, 40),
        ("score", "easy", 0.75, 40),
        ("score", "story", 2 / 3, 30),
        ("score", "column", 2 / 3, 30),
        ("parsed", "", 60 / 70, 70),
        ("parsed", "best_response", 2 / 3, 30),
        ("precision", "nash", 1.0, 40),
        ("recall", "nash", 0.75, 40),
        ("recall", "continuum", 0.5, 20),
        ("recall", "pure", 1.0, 20),
        ("action", "best_response", 1.0, 20),
    ],
)
def test_figures(found, name, group, value, n):
    metric = found[name, group]
    assert metric.value == pytest.approx(value)
    assert metric.n == n


def test_no_group_is_made_of_nothing(found):
    assert all(metric.n for metric in found.values())
    assert ("score", "mixed") not in found


def test_records_of_unknown_samples_count_overall_only():
    figures = metrics([record(0, SAMPLES[0], 1.0)], lambda split: [])
    assert [(m.name, m.group, m.n) for m in figures] == [("score", "", 1), ("parsed", "", 1)]


def test_no_records():
    (metric,) = metrics([], lambda split: [])
    assert metric.value is None


def test_records_are_not_kept():
    class Heavy(Reply):
        __slots__ = ("__weakref__",)

    alive: list[weakref.ref[Heavy]] = []
    most = 0

    def stream() -> Iterator[Record]:
        nonlocal most
        for k, one in enumerate(records()):
            reply = Heavy("x" * 1000)
            alive.append(weakref.ref(reply))
            outcome = Outcome((Move(0, reply),))
            del reply
            yield Record(
                k, one.task, one.sample, one.split, 0, 0, one.group, one.cluster, "",
                outcome, one.score,
            )  # fmt: skip
            del outcome
            most = max(most, sum(ref() is not None for ref in alive))

    metrics(stream(), lambda split: SAMPLES)
    gc.collect()
    assert len(alive) == 70
    assert most <= 3


def test_facts_of_a_sample():
    facts = Facts.of(SAMPLES[0].data)
    assert facts == ("nash", "2x2", "pure", "wide_range", "easy", "json", "")
