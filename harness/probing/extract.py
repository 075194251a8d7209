"""Extraction: every layer's pooled hidden states of a task's prompts, in one pass a prompt.

    states = extract(Source("smollm2"), items, Path("out"))

Prompts are the task's own, rendered by `harness.rendering`: with the model's chat template, or
without it (``template=False``) in the plain format of base models. Batches hold prompts of like
length and are bounded in tokens; memory holds one batch. What is done is kept, and the same call
goes on from there. With several devices each has a process of its own.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from ..model import Model
from ..progress import track
from ..registry import Registry
from ..rendering import render
from ..types import HarnessError, Json, Message, Sample
from .states import States

POOLINGS: Final = ("last", "first", "mean", "sum", "max", "weighted")
"""What a prompt's positions are pooled to; the formulas stand in docs/probing.md."""

BATCH_TOKENS: Final = 8_192
NOISE: Final = {"float32": 1e-4}
LOW_NOISE: Final = 5e-3
"""Share of a state's size below which variation counts as rounding, by type (others: `LOW_NOISE`);
bfloat16 has 8 bits. Two batches that hold a prompt differ by less than this."""


class Item(NamedTuple):
    """What is probed of a sample: its prompt, its labels, and the identity that splits respect."""

    id: str
    group: str
    messages: tuple[Message, ...]
    labels: Mapping[str, int]


@dataclass(frozen=True)
class Source:
    """A model, and how its prompts are told.

    ``random`` replaces the weights by a fresh initialisation with this seed. ``back_end`` takes
    folders and hub ids.
    """

    model: str
    options: Mapping[str, Json] = field(default_factory=dict)
    template: bool = True
    random: int | None = None
    back_end: str = "transformers"
    registry_file: Path | None = None

    def open(self, device: str = "") -> Model:
        """Load the model. Raises HarnessError for one that has no hidden states."""
        registry = Registry.load(self.registry_file)
        known = self.model.partition(":")[0] in registry.names("model")
        entry, argument = registry.for_model(
            self.model if known else f"{self.back_end}:{self.model}"
        )
        options = dict(self.options)
        if "dtype" in entry.options:
            options.setdefault("dtype", "float32")
        if device:
            options["device"] = device
        model: Model = registry.create("model", entry.name, options, argument)
        if not model.depth:
            raise HarnessError(
                f"{self.model}: the back end {entry.name} has no hidden states; give a name or "
                "checkpoint that transformers loads"
            )
        if self.random is not None:
            model.random_weights(self.random)  # type: ignore[attr-defined]
        return model


class _Untemplated:
    """A tokenizer that seems to have no chat template."""

    chat_template = None

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.eos_token_id = inner.eos_token_id

    def __call__(self, text: str, **options: Any) -> Any:
        return self.inner(text, **options)


def items_of(task: Any, samples: Sequence[Sample]) -> list[Item]:
    """The samples that have labels, as items. Raises HarnessError for a task without concepts."""
    found = [
        Item(s.id, group, tuple(task.messages(s)), labels)
        for s, group in zip(samples, groups_of(samples), strict=True)
        if (labels := dict(task.concepts(s)))
    ]
    if not found:
        raise HarnessError(f"{task.name} has no concepts to probe for")
    return found


def groups_of(samples: Sequence[Sample]) -> list[str]:
    """What must not be parted: samples that share a canonical identity or a cluster (a pair of
    stories), directly or through others, have one group.

    >>> marks = [("x", "1"), ("y", "1"), ("y", "2"), ("z", "3")]
    >>> groups_of([Sample(id=c + k, split="", data={}, canonical=c, cluster=k) for c, k in marks])
    ['x1', 'x1', 'x1', 'z3']
    """
    leader = list(range(len(samples)))

    def find(place: int) -> int:
        while leader[place] != place:
            leader[place] = place = leader[leader[place]]
        return place

    seen: dict[tuple[str, str], int] = {}
    for place, sample in enumerate(samples):
        marks = (("canonical", sample.canonical), ("cluster", sample.cluster))
        for mark in (m for m in marks if m[1]):
            first, second = sorted((find(seen.setdefault(mark, place)), find(place)))
            leader[second] = first
    return [samples[find(place)].id for place in range(len(samples))]


def prompts_of(model: Any, items: Sequence[Item], template: bool) -> list[list[int]]:
    """Token ids of the prompts. Raises HarnessError for one that the model has no room for."""
    tokenizer = model.tokenizer if template else _Untemplated(model.tokenizer)
    prompts = [render(tokenizer, item.messages, model.template) for item in items]
    longest = max(map(len, prompts))
    if model.context_length and longest > model.context_length:
        raise HarnessError(
            f"a prompt of {longest} tokens exceeds the {model.context_length} of {model.name}"
        )
    return prompts


def extract(
    source: Source,
    items: Sequence[Item],
    folder: Path,
    poolings: Sequence[str] = POOLINGS,
    layers: Sequence[int] | None = None,
    batch_tokens: int = BATCH_TOKENS,
    devices: Sequence[str] = (),
) -> tuple[States, dict[str, Json]]:
    """The states of all items, and what was done: identity, seconds, tokens, items done before.

    :param folder: gets a folder of its own for these settings, ``<name>-<hash>``.
    :param layers: decoder blocks from 0 (default: all).
    :param devices: one process for each (default: one, where the back end likes).
    """
    began = time.perf_counter()
    model: Any = source.open(devices[0] if devices else "")
    try:
        loaded = time.perf_counter() - began
        prompts = prompts_of(model, items, source.template)
        chosen = list(range(model.depth)) if layers is None else list(layers)
        dtype = str(model.describe().get("dtype", ""))
        spec = {
            "model": model.identity,
            "dtype": dtype,
            "prompts": hashlib.blake2b(orjson.dumps(prompts), digest_size=8).hexdigest(),
        }
        probe = model.hidden_states([prompts[0][:1]], [(0, 1)], [0], [poolings[0]])
        own = _folder(folder, source, {**spec, "poolings": poolings, "layers": chosen})
        states = States.open(own, spec, len(items), poolings, chosen, probe.shape[-1])
        before = len(states.done)
        began = time.perf_counter()
        if len(devices) > 1:
            model.close()
            model = None
            _spread(source, states, prompts, batch_tokens, devices)
        else:
            _fill(model, states, prompts, states.missing(), batch_tokens)
    finally:
        if model is not None:
            model.close()
    states.refresh()
    if left := states.missing():
        raise HarnessError(f"{own}: the states of {len(left)} items are missing")
    facts = {
        **spec,
        "folder": own.name,
        "template": source.template,
        "random": source.random,
        "done_before": before,
        "load_seconds": round(loaded, 3),
        "seconds": round(time.perf_counter() - began, 3),
        "tokens": sum(map(len, prompts)),
        "longest": max(map(len, prompts)),
        "noise": NOISE.get(dtype, LOW_NOISE),
    }
    return states, facts


def _folder(folder: Path, source: Source, spec: Mapping[str, Json]) -> Path:
    digest = hashlib.blake2b(orjson.dumps(spec, option=orjson.OPT_SORT_KEYS), digest_size=5)
    name = source.model.rstrip("/").rpartition("/")[2].replace(":", "-")
    kind = ["plain", "chat"][source.template] + ("" if source.random is None else "-random")
    return folder / "states" / f"{name}-{kind}-{digest.hexdigest()}"


def batches(lengths: Sequence[int], rows: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """The rows in batches of at most so many tokens with their padding, the longest first.

    >>> list(batches([3, 9, 4, 8], [0, 1, 2, 3], 20))
    [[1, 3], [2, 0]]
    """
    batch: list[int] = []
    for row in sorted(rows, key=lambda row: -lengths[row]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > tokens:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _fill(
    model: Any, states: States, prompts: Sequence[Sequence[int]], rows: Sequence[int], tokens: int
) -> None:
    plan = list(batches([len(p) for p in prompts], rows, tokens))
    for batch in track(plan, f"hidden states of {model.name}"):
        chosen = [prompts[row] for row in batch]
        spans = [(0, len(prompt)) for prompt in chosen]
        wall, cpu = time.perf_counter(), time.process_time()
        found = model.hidden_states(chosen, spans, states.layers, tuple(states.poolings))
        states.write(batch, found, time.perf_counter() - wall, time.process_time() - cpu)


def _spread(
    source: Source,
    states: States,
    prompts: Sequence[Sequence[int]],
    tokens: int,
    devices: Sequence[str],
) -> None:
    """One process a device; items are dealt out by length, so that all have about as much."""
    order = sorted(states.missing(), key=lambda row: -len(prompts[row]))
    context = multiprocessing.get_context("spawn")
    jobs = []
    for place, device in enumerate(devices):
        job = (source, states.folder, prompts, order[place :: len(devices)], tokens, device)
        jobs.append(context.Process(target=_work, args=job))
    for process in jobs:
        process.start()
    for process in jobs:
        process.join()
    if failed := [d for d, p in zip(devices, jobs, strict=True) if p.exitcode]:
        raise HarnessError(
            f"the extraction on {failed[0]} failed (see above); what is done is kept, the same "
            "command goes on"
        )


def _work(
    source: Source,
    folder: Path,
    prompts: Sequence[Sequence[int]],
    rows: Sequence[int],
    tokens: int,
    device: str,
) -> None:
    model = source.open(device)
    try:
        _fill(model, States.load(folder), prompts, rows, tokens)
    finally:
        model.close()


def with_random_weights(source: Source, seed: int) -> Source:
    """The control: the same architecture and prompts, weights that have learnt nothing."""
    return replace(source, random=seed)


def describe(source: Source) -> dict[str, Json]:
    """What the report says of a source."""
    return {k: v for k, v in asdict(source).items() if k != "registry_file"}
