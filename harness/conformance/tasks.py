"""Checks of a task's data: ids, splits, seeds, prompts, who sits where.

Every figure of a table rests on samples that are the same tomorrow, on another machine, and
whatever else was asked for.
"""

from __future__ import annotations

import hashlib
import os
import random
import time
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Any

import orjson

from ..task import Task
from ..types import HarnessError, Message, Sample
from .common import own_options, probe
from .kit import Finding, Kit, Skip, Steps, named

PATIENCE = 20.0
"""Seconds after which a split is looked at no further."""

ROLES = ("system", "user", "assistant")
CONTEXT = 8192
"""Tokens that a prompt may take with its reply, where no model is named."""

LETTERS = 3
"""Letters of a token, at the least: a cautious guess where no tokenizer is at hand."""

DIGEST = """
import json, sys
from pathlib import Path
from harness.registry import Registry
from harness.conformance.tasks import digest, head
asked = json.loads(sys.argv[1])
registry = Registry.load(Path(asked["registry"]) if asked["registry"] else None)
task = registry.create("task", asked["name"], asked["options"])
print(json.dumps(digest(task, head(task, asked["split"], asked["limit"]))))
"""


def head(task: Task, split: str, limit: int) -> list[Sample]:
    """The first samples of a split, as many as come within `PATIENCE`."""
    found: list[Sample] = []
    until = time.monotonic() + PATIENCE
    for sample in islice(iter(task.samples(split)), limit):
        found.append(sample)
        if time.monotonic() > until:
            break
    return found


def main_split(task: Task) -> str:
    """The split that runs evaluate."""
    return "test" if "test" in task.splits else task.splits[0]


def samples_of(kit: Kit) -> list[Sample]:
    """The samples that checks look at."""

    def make() -> list[Sample]:
        return head(kit.made(), main_split(kit.made()), kit.limit)

    samples: list[Sample] = kit.once("samples", make)
    if not samples:
        raise Skip("the split has no samples")
    return samples


def first_prompt(task: Task, sample: Sample) -> list[Message]:
    """The first prompt; [] for a task whose prompts only a rollout knows."""
    return task.messages(sample) if type(task).messages is not Task.messages else []


def digest(task: Task, samples: Iterable[Sample]) -> str:
    """A hash of samples and prompts, as they would be stored."""
    found = hashlib.sha256()
    for sample in samples:
        found.update(orjson.dumps(sample, option=orjson.OPT_SORT_KEYS))
        found.update(orjson.dumps(first_prompt(task, sample)))
    return found.hexdigest()


def names(kit: Kit) -> Steps:
    """The task answers to the name under which runs find it again, and has its options."""
    task, entry = kit.made(), kit.entry
    if task.name != entry.name:
        yield Finding(
            f"the task calls itself {task.name!r}, the registry {entry.name!r}",
            "make them equal: `harness score` finds the task of a run by its name",
        )
    if (fault := own_options(kit)) is not None:
        yield fault
    if not task.reward:
        yield Finding("the task names no reward", 'set reward = "NAME" on the class')
    elif ("reward", task.reward) not in kit.registry.entries:
        yield Finding(
            f"its reward {task.reward!r} is not registered", "add an entry of kind reward for it"
        )
    if not task.version:
        yield Finding("the task has no version", 'set version = "1" on the class')
    yield f"version {task.version}, reward {task.reward}, splits {', '.join(task.splits)}"


def ids(kit: Kit) -> Steps:
    """Ids are there once each, and the same again: twice here, and in another process."""
    task, samples = kit.made(), samples_of(kit)
    split = main_split(task)
    seen = Counter(sample.id for sample in samples)
    if twice := [name for name, count in seen.items() if count > 1]:
        yield Finding(f"ids that come twice: {named(twice)}", "number the samples, or hash them")
    if odd := [s.id for s in samples if not s.id or not s.id.isprintable()]:
        yield Finding(
            f"ids that are empty or cannot be printed: {odd[:3]!r}", "use letters and digits"
        )
    here = digest(task, samples)
    if digest(task, head(kit.make(), split, len(samples))) != here:
        yield Finding(
            "the samples or prompts differ when they are made a second time",
            "draw from harness.seeds.derive(name, item), never from a generator that goes on",
        )
    other = "8" if os.environ.get("PYTHONHASHSEED") == "7" else "7"
    there = probe(kit, DIGEST, {"split": split, "limit": len(samples)}, hash_seed=other)
    if there != here:
        yield Finding(
            "the samples or prompts differ in another process",
            "do not iterate over sets or use hash(): their order depends on the process; sort, "
            "and use harness.seeds.derive",
        )
    yield f"{len(samples)} samples, the same in another process"


def data(kit: Kit) -> Steps:
    """What a sample holds is JSON and comes back from a file as it was."""
    samples = samples_of(kit)
    for field in ("data", "truth"):
        for sample in samples:
            value = getattr(sample, field)
            try:
                same = orjson.loads(orjson.dumps(value)) == value
            except TypeError as error:
                yield Finding(
                    f"{sample.id}: {field} is not JSON: {error}",
                    'hold texts, numbers, lists and dicts with text keys; exact numbers as "2/3"',
                )
                break
            if not same:
                yield Finding(
                    f"{sample.id}: {field} comes back changed from JSON",
                    "use lists for tuples, texts for keys, texts for fractions",
                )
                break
    texts = ("id", "split", "group", "cluster", "canonical")
    if wrong := [f for f in texts if any(not isinstance(getattr(s, f), str) for s in samples)]:
        yield Finding(f"fields that are no text: {', '.join(wrong)}", "make them str")
    groups, clusters = {s.group for s in samples}, {s.cluster or s.id for s in samples}
    yield f"{len(groups)} groups, {len(clusters)} clusters"


def splits(kit: Kit) -> Steps:
    """Each split holds its own samples, ``all`` holds them all, and no item is in two splits."""
    task = kit.made()
    where: dict[str, str] = {}
    counts = {}
    for split in task.splits:
        members = head(task, split, kit.limit)
        counts[split] = len(members)
        if foreign := [s.id for s in members if s.split != split]:
            yield Finding(
                f"samples({split!r}) yields samples of another split: {named(foreign)}",
                "set Sample.split to the split that was asked for",
            )
        for sample in members:
            key = sample.canonical or sample.id
            if where.setdefault(key, split) != split:
                yield Finding(
                    f"{sample.id} of {split} is also in {where[key]} (canonical {key[:60]!r})",
                    "give every item to one split by derive(canonical) % len(splits)",
                )
                break
    if not any(True for _ in islice(iter(task.samples("all")), 1)):
        yield Finding("samples('all') yields nothing", "yield the samples of every split")
    try:
        found = next(iter(task.samples("no such split")), None)
    except HarnessError:
        found = None
    except Exception as error:
        yield Finding(
            f"samples of an unknown split raises {type(error).__name__}",
            "raise HarnessError that says which splits there are",
        )
    if found is not None:
        yield Finding(
            "samples of an unknown split yields samples",
            "raise HarnessError for a split that is not in splits",
        )
    yield ", ".join(f"{name} {count}" for name, count in counts.items()) + " looked at"


def seeds(kit: Kit) -> Steps:
    """Nothing depends on the generators that Python shares, or on what was made before."""
    split, samples = main_split(kit.made()), samples_of(kit)
    some = samples[: max(1, len(samples) // 3)]
    digests = []
    for state in (1, 2):
        random.seed(state)
        before = random.getstate()
        fresh = kit.make()
        digests.append(digest(fresh, head(fresh, split, len(some))))
        if random.getstate() != before:
            yield Finding(
                "making samples draws from (or seeds) Python's shared random generator",
                "use harness.seeds.Streams or random.Random(derive(...)) of your own",
            )
            break
    if len(set(digests)) > 1:
        yield Finding(
            "the samples follow Python's shared random generator",
            "use harness.seeds.Streams or random.Random(derive(...)) of your own",
        )
    task = kit.make()
    onward = [orjson.dumps(first_prompt(task, s)) for s in some]
    backward = [orjson.dumps(first_prompt(task, s)) for s in reversed(some)]
    if onward != backward[::-1]:
        yield Finding(
            "a prompt depends on which prompts were made before it",
            "make messages() a function of the sample alone",
        )
    yield "items stand alone"


def prompt_fault(messages: list[Message]) -> str:
    """What is wrong with a prompt; "" where nothing is."""
    if not messages or not all(isinstance(m, Message) for m in messages):
        return "messages() returns no list of messages"
    if any(m.role not in ROLES or not m.content.strip() for m in messages):
        return "a message is empty or has a role other than system, user, assistant"
    if messages[-1].role != "user":
        return "the prompt does not end with the user's message"
    if any(" object at 0x" in m.content for m in messages):
        return "the prompt shows a Python object's address"
    return ""


def counter(kit: Kit) -> tuple[Any, int]:
    """How tokens are counted, and how many there may be: as the named model does, or a guess."""
    if kit.model:
        entry, argument = kit.registry.for_model(kit.model)
        model = kit.once("model", lambda: kit.registry.create("model", entry.name, {}, argument))
        if model.count_tokens([Message("user", "a")]) is not None:
            return model.count_tokens, model.context_length or CONTEXT
    return (lambda messages: sum(len(m.content) for m in messages) // LETTERS), CONTEXT


def lineup(kit: Kit) -> Steps:
    """Every sample seats the model; games seat an opponent, and the model in every seat."""
    task, samples = kit.made(), samples_of(kit)
    taken: Counter[int] = Counter()
    for sample in samples:
        who = task.lineup(sample)
        if set(who) - {"model", "opponent"} or who.count("model") != 1:
            yield Finding(
                f"{sample.id}: lineup is {who!r}",
                'one seat is "model", the others "opponent"',
            )
            return
        taken[who.index("model")] += 1
    if task.seats > 1:
        # Some libraries have games for one player beside games for two.
        most = max(len(task.lineup(sample)) for sample in samples)
        if most != task.seats:
            yield Finding(
                f"seats is {task.seats}, the line-ups have at most {most}", "make them equal"
            )
        if missing := [seat for seat in range(most) if not taken[seat]]:
            yield Finding(
                f"the model never sits in seat {missing[0]}",
                "make samples in pairs with the seats swapped, and let the pair be their cluster",
            )
    elif len(taken) > 1 or any(len(task.lineup(s)) > 1 for s in samples):
        yield Finding("the line-up has several seats, but seats is 1", "set seats on the class")
    players = task.players()
    if task.seats > 1 and task.default_opponent not in players:
        yield Finding(
            f"the default opponent {task.default_opponent!r} is none of the task's players",
            "name one of players() as default_opponent",
        )
    if missing_level := [name for name in task.level_players if name not in players]:
        yield Finding(
            f"no player {', '.join(missing_level)}: tables show no floor or ceiling",
            "add it to players(), or take it out of level_players",
        )
    yield f"seats of the model: {', '.join(f'{s}: {n}' for s, n in sorted(taken.items()))}"
