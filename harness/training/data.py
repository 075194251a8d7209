"""Training items: the train split of a task, and nothing of any other split.

    items = training_items(task, Selection(order="skill-first"))
    items[0].messages, items[0].sample.canonical

Prompts come from the task's own prompt function, so training sees what evaluation asks. An item
whose canonical identity also occurs in another split is refused, however it is worded. The order
is a curriculum:

* ``flat``: the task's stratified order, shuffled anew in each epoch;
* ``skill-first``: one skill after the other, the one with the shortest solutions first;
* ``size-first``: small items first, all skills within a size;
* ``interleaved``: the skills in turns, each growing in size.

A group such as ``nash/2x2/general`` names skill and size; a task without such groups has one skill,
and its items keep their order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Final

from ..task import Task
from ..types import HarnessError, Message, Sample

ORDERS: Final = ("flat", "skill-first", "size-first", "interleaved")
TRAIN: Final = "train"
NAMED: Final = 3
"""Items that an error message names."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which items: the split, how many of its stratified order (0: all), the curriculum, the order
    of skills where the lengths of their solutions shall not decide, and the groups (by the
    beginning of their names; none: all)."""

    split: str = TRAIN
    limit: int = 0
    order: str = "flat"
    skills: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Item:
    """One training item: the sample, its prompt, and the reply that SFT aims at (None: none)."""

    sample: Sample
    messages: tuple[Message, ...]
    target: str | None

    @property
    def identity(self) -> str:
        """What leak checks compare."""
        return self.sample.canonical or self.sample.id


def training_items(task: Task, selection: Selection | None = None) -> list[Item]:
    """The items that a model may be trained on, in the order of the curriculum.

    Raises HarnessError for another split than ``train``, for items that occur in another split by
    their canonical identity, for an order that does not exist, and for a task without first prompts
    or without items.
    """
    selection = selection or Selection()
    if selection.split != TRAIN:
        raise HarnessError(
            f"the split {selection.split!r} of {task.name} is not for training; only 'train' is"
        )
    if selection.order not in ORDERS:
        raise HarnessError(f"data.order {selection.order!r}: choose one of {', '.join(ORDERS)}")
    samples = _samples(task, TRAIN, selection.limit, selection.groups)
    refuse_leaks(task, samples)
    return ordered([_item(task, s) for s in samples], selection)


def file_items(task: Task, path: Path) -> list[Item]:
    """The rows of a data set of accepted replies (`harness rft build`), in the order of the file.

    Raises HarnessError for rows that are none, of samples that the train split does not have, or
    whose canonical identity occurs in another split.
    """
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        named = {row["sample"] for row in rows}
        asked = [[Message(m["role"], m["content"]) for m in row["messages"]] for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HarnessError(
            f"data.file {path}: no rows of `harness rft build` ({type(error).__name__}: {error})"
        ) from None
    samples = {s.id: s for s in task.samples(TRAIN) if s.id in named}
    if missing := named - set(samples):
        raise HarnessError(
            f"data.file {path}: {task.name} has no train sample {min(missing)!r}; give the task "
            "options that the rows were sampled with"
        )
    if not rows or any(len(m) < 2 or m[-1].role != "assistant" for m in asked):
        raise HarnessError(f"data.file {path}: each row needs a prompt and an assistant's reply")
    refuse_leaks(task, samples.values())
    return [
        Item(samples[row["sample"]], tuple(messages[:-1]), messages[-1].content)
        for row, messages in zip(rows, asked, strict=True)
    ]


def validation_items(task: Task, limit: int = 0, groups: tuple[str, ...] = ()) -> list[Item]:
    """The first ``limit`` items of the validation split (0: all), in its stratified order.

    They choose checkpoints and are never trained on. Raises HarnessError for a task that has none.
    """
    return [_item(task, s) for s in _samples(task, "validation", limit, groups)]


def refuse_leaks(task: Task, samples: Iterable[Sample]) -> None:
    """Raise HarnessError when one of the samples belongs to another split, or occurs in one by its
    canonical identity."""
    wanted = {s.canonical or s.id: s for s in samples}
    if foreign := [s.id for s in wanted.values() if s.split != TRAIN]:
        raise HarnessError(
            f"{task.name}: {_named(foreign)} of the split {wanted_split(wanted, foreign[0])!r} "
            "cannot be training data; only items of 'train' can"
        )
    others = (split for split in task.splits if split != TRAIN)
    leaks = [
        f"{wanted[key].id} is {s.id} of {s.split}"
        for split in others
        for s in task.samples(split)
        if (key := s.canonical or s.id) in wanted
    ]
    if leaks:
        raise HarnessError(
            f"{task.name}: {len(leaks)} training items occur in another split by canonical "
            f"identity ({_named(leaks)}); evaluation on them would measure memory"
        )


def wanted_split(wanted: dict[str, Sample], name: str) -> str:
    """The split of the sample with this id."""
    return next(s.split for s in wanted.values() if s.id == name)


def ordered(items: list[Item], selection: Selection) -> list[Item]:
    """The items in the order of the curriculum; equal ones keep their place."""
    if selection.order == "flat":
        return items
    ranks = _skill_ranks(items, selection.skills)
    if selection.order == "skill-first":
        return sorted(items, key=lambda i: (ranks[skill(i.sample)], size(i.sample)))
    if selection.order == "size-first":
        return sorted(items, key=lambda i: (size(i.sample), ranks[skill(i.sample)]))
    by_skill: dict[str, list[Item]] = {name: [] for name in sorted(ranks, key=ranks.__getitem__)}
    for item in sorted(items, key=lambda i: size(i.sample)):
        by_skill[skill(item.sample)].append(item)
    # Each skill's k-th of n items stands at (k + 1/2) / n, so that all skills end together.
    placed = [
        ((2 * k + 1) / (2 * len(members)), ranks[name], item)
        for name, members in by_skill.items()
        for k, item in enumerate(members)
    ]
    return [item for _, _, item in sorted(placed, key=lambda p: p[:2])]


def skill(sample: Sample) -> str:
    """The skill that a sample trains: the first part of its group.

    >>> skill(Sample("a", "train", {}, group="nash/2x3/general"))
    'nash'
    """
    return sample.group.partition("/")[0]


def size(sample: Sample) -> int:
    """Cells of the matrix that the group names (0: it names none).

    >>> size(Sample("a", "train", {}, group="nash/2x3/general"))
    6
    """
    found = re.search(r"(?:^|/)(\d+)x(\d+)(?:/|$)", sample.group)
    return int(found[1]) * int(found[2]) if found else 0


def _skill_ranks(items: Sequence[Item], named: Sequence[str]) -> dict[str, int]:
    """The place of each skill: as named, else by the mean length of its solutions (prompts where
    there are none), shortest first."""
    lengths: dict[str, list[int]] = {}
    for item in items:
        text = item.target or item.messages[-1].content
        lengths.setdefault(skill(item.sample), []).append(len(text))
    if named:
        if set(named) != set(lengths):
            raise HarnessError(
                f"data.skills: {', '.join(named)}, but the items have {', '.join(sorted(lengths))}"
            )
        return {name: place for place, name in enumerate(named)}
    by_length = sorted(lengths, key=lambda name: (fmean(lengths[name]), name))
    return {name: place for place, name in enumerate(by_length)}


def _samples(task: Task, split: str, limit: int, groups: tuple[str, ...]) -> list[Sample]:
    if split not in task.splits:
        raise HarnessError(f"{task.name} has no split {split!r}; it has {', '.join(task.splits)}")
    if limit < 0:
        raise HarnessError(f"a limit of {limit} items makes no sense; 0 is all")
    wanted = (s for s in task.samples(split) if not groups or s.group.startswith(groups))
    found = list(islice(wanted, limit or None))
    if not found:
        of = f" of the groups {', '.join(groups)}" if groups else ""
        raise HarnessError(f"{task.name}: the split {split!r} has no samples{of}")
    return found


def _item(task: Task, sample: Sample) -> Item:
    if type(task).messages is Task.messages:
        return Item(sample, (), task.target(sample))
    return Item(sample, tuple(task.messages(sample)), task.target(sample))


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
