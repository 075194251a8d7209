"""Figures of a run over questions about beliefs, from the verdicts that the outcomes keep.

Each figure is a column of numbers, one a record (or one a pair), with the pair as the cluster; the
name says what is counted and the group in which part: an order, a step, a side, a shortcut.

>>> columns = Columns()
>>> columns.add("answer", "order-2", 1.0, "pair-1")
>>> [(m.name, m.group, m.value) for m in columns.metrics()]
[('answer', 'order-2', 1.0)]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from harness.stats import mean_metric
from harness.types import OK, Json, Metric, Record

NOTES: Final = {
    "answer": "strict: case and underscores are forgiven, nothing else",
    "answer_lenient": "also by letter, with an article or a full stop",
    "structure_ok": "exactly the blocks 1..N, one State each, one Answer; reasons not asked for",
    "format_ok": "structure_ok, and every block gives reasons",
    "pair_answer": "both sides of a pair right",
    "intervention_sensitivity": "both sides answered, and differently",
    "shortcut_copy": "of the replies where the shortcut is wrong, those that give its answer",
    "consistent": "the Answer repeats the last State",
    "states_lenient": "as answer_lenient",
    "intermediate_states": "States before the last, in questions of order 2 and more",
}


class Columns:
    """Columns by (name, group), in the order of their first use."""

    def __init__(self) -> None:
        self.columns: dict[tuple[str, str], tuple[list[float], list[str]]] = {}

    def add(self, name: str, group: str, value: float, cluster: str) -> None:
        """Note one figure."""
        values, clusters = self.columns.setdefault((name, group), ([], []))
        values.append(value)
        clusters.append(cluster)

    def metrics(self) -> list[Metric]:
        """All figures with their intervals."""
        return [
            mean_metric(name, values, clusters, group, NOTES.get(name, ""))
            for (name, group), (values, clusters) in self.columns.items()
        ]


class Pairs:
    """Both sides of pairs as they come in: per (pair, seed, repeat) the answers so far."""

    def __init__(self) -> None:
        self.waiting: dict[tuple[str, int, int], tuple[str, bool, Json]] = {}

    def add(self, record: Record) -> tuple[float, float] | None:
        """(both right, both answered and differently) once both sides are there."""
        kept = record.outcome.data
        key = (record.cluster, record.seed, record.repeat)
        mine = (str(kept.get("side", "")), bool(kept["answer_strict"]), kept.get("said"))
        other = self.waiting.pop(key, None)
        if other is None or other[0] == mine[0]:
            self.waiting[key] = mine
            return None
        answered = other[2] is not None and mine[2] is not None
        return float(other[1] and mine[1]), float(answered and other[2] != mine[2])


def process_metrics(records: Iterable[Record]) -> list[Metric]:
    """All figures of a run over pairs with process replies; the score first."""
    columns, pairs = Columns(), Pairs()
    names: dict[str, str] = {}
    for record in records:
        cluster = names.setdefault(record.cluster, record.cluster)
        for name, group, value in _record(record):
            columns.add(name, group, value, cluster)
        if record.outcome.data.get("side") and (both := pairs.add(record)):
            for group in ("", record.group):
                columns.add("pair_answer", group, both[0], cluster)
                columns.add("intervention_sensitivity", group, both[1], cluster)
    return _ordered(columns)


def _record(record: Record) -> Iterator[tuple[str, str, float]]:
    kept = record.outcome.data
    if "states" not in kept:  # an engine or provider fault: nothing was said
        yield "score", "", record.score.value
        return
    states = [float(s) for s in kept["states"]]
    side = str(kept.get("side", ""))
    plain: Mapping[str, float] = {
        "score": record.score.value,
        "answer": float(kept["answer_strict"]),
        "answer_lenient": float(kept["answer_lenient"]),
        "structure_ok": float(kept["structure_ok"]),
        "format_ok": float(kept["format_ok"]),
        "states": sum(states) / len(states),
        "states_lenient": sum(kept["states_lenient"]) / len(states),
        "all_states": float(all(states)),
    }
    for name, value in plain.items():
        for group in dict.fromkeys(("", record.group, side)):
            yield name, group, value
    yield "parsed", "", float(record.outcome.cls == OK)
    yield "consistent", "", float(kept["consistent"])
    for step, state in enumerate(states, start=1):
        yield "state", f"step-{step}", state
    if len(states) > 1:
        yield "intermediate_states", "", sum(states[:-1]) / (len(states) - 1)
    for name, copied in kept.get("copied", {}).items():
        yield "shortcut_copy", name, float(copied)


_FIRST: Final = (
    "score", "answer", "answer_lenient", "pair_answer", "intervention_sensitivity", "states",
    "states_lenient", "all_states", "structure_ok", "format_ok", "parsed", "consistent",
    "intermediate_states",
)  # fmt: skip


def _ordered(columns: Columns) -> list[Metric]:
    """Overall figures first, then the groups of each."""
    found = columns.metrics()
    place = {name: i for i, name in enumerate(_FIRST)}
    return sorted(found, key=lambda m: (m.group != "", place.get(m.name, len(place)), m.name))


def answer_metrics(records: Iterable[Record]) -> list[Metric]:
    """Figures of a run where only the answer counts: by order and by every tag of the sample."""
    columns = Columns()
    for record in records:
        kept = record.outcome.data
        columns.add("score", "", record.score.value, record.cluster)
        columns.add("score", record.group, record.score.value, record.cluster)
        if "answer_strict" not in kept:
            continue
        for name, field in (("answer", "answer_strict"), ("answer_lenient", "answer_lenient")):
            for group in ("", record.group, *kept.get("tags", ())):
                columns.add(name, group, float(kept[field]), record.cluster)
        columns.add("parsed", "", float(record.outcome.cls == OK), record.cluster)
    found = columns.metrics()
    return sorted(found, key=lambda m: (m.group != "", m.name != "score", m.name, m.group))
