"""Which samples are asked, and which are shown: worked examples stand before a prompt, with the
task's own answers.

>>> from .types import Sample
>>> class Words(Task):
...     def samples(self, split):
...         return (Sample(w, split, {}, group=w[0]) for w in ("a1", "b1", "a2", "a3"))
...     def messages(self, sample):
...         return [Message("user", sample.id)]
...     def target(self, sample):
...         return sample.id.upper()
>>> shots = worked_examples(Words(), 1, groups=("a",))
>>> [m.content for m in shots.messages]
['a1', 'A1']
>>> [s.id for s in asked(Words(), "train", groups=("a",), shots=shots)]
['a2', 'a3']
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from .task import Task
from .types import HarnessError, Message, Sample


@dataclass(frozen=True, slots=True)
class Shots:
    """The examples as messages, and the clusters that they come from: a prompt of these would
    stand beside its own answer, or beside that of its twin."""

    messages: tuple[Message, ...] = ()
    clusters: frozenset[str] = frozenset()


def worked_examples(task: Task, count: int, groups: tuple[str, ...] = ()) -> Shots:
    """The first ``count`` samples of the train split (of groups that begin so) with their targets.

    Raises HarnessError for a task without targets.
    """
    if not count:
        return Shots()
    messages: list[Message] = []
    clusters: set[str] = set()
    for sample in islice(_of(task, "train", groups), count):
        target = task.target(sample)
        if target is None:
            raise HarnessError(f"--fewshot: {task.name} has no worked answers to show")
        messages += [m for m in task.messages(sample) if m.role != "system"]
        messages.append(Message("assistant", target))
        clusters.add(sample.cluster or sample.id)
    return Shots(tuple(messages), frozenset(clusters))


def asked(
    task: Task,
    split: str,
    groups: tuple[str, ...] = (),
    pilot: int = 0,
    limit: int | None = None,
    shots: Shots | None = None,
) -> Iterator[Sample]:
    """The samples of a split (of groups that begin so), or of its pilot, up to the limit; without
    those whose answers the worked examples tell, and without the rest of their clusters."""
    shown = shots.clusters if shots is not None else frozenset()
    found: Iterable[Sample] = _of(task, split, groups)
    if shown:
        found = (s for s in found if s.split != "train" or (s.cluster or s.id) not in shown)
    if pilot:
        from .rejection.pilot import pilot as whole_clusters

        found = whole_clusters(found, pilot)
    return islice(iter(found), limit)


def _of(task: Task, split: str, groups: tuple[str, ...]) -> Iterator[Sample]:
    return (s for s in task.samples(split) if not groups or s.group.startswith(groups))
