"""The data sets: how many pairs of which order a split has, drawn once and kept in the user's
cache.

Pair k of an order and a split depends on the data seed and these names alone, so a split can be
drawn on beyond its end (the audit does) without changing what it holds.

>>> source = Source("strict")
>>> sum(source.pairs("train").values()) * 2, source.pairs("ood")
(3200, {4: 300})
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import orjson

from harness.paths import cache_dir
from harness.progress import track
from harness.seeds import derive
from harness.task import stratified
from harness.types import HarnessError, Sample

from .published import identity, read_rows

GENERATOR: Final = "3"
"""Version of the generated stories; part of the names in the cache."""
DATA_SEED: Final = 2026
OOD_ORDERS: Final = (4, 5, 6)
_TRAINING: Final = {
    "train": {1: 400, 2: 752, 3: 448},
    "validation": {1: 50, 2: 100, 3: 50},
}
PRESETS: Final[Mapping[str, Mapping[str, Mapping[int, int]]]] = {
    "strict": {**_TRAINING, "test": {1: 75, 2: 150, 3: 75}, "ood": {4: 300}},
    "reference": {**_TRAINING, "ood": {4: 300}},
}
"""Pairs by split and order. The study had no test split of the orders that it trained on."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where samples come from: a preset with a data seed, or a file (which then counts alone)."""

    preset: str
    data_seed: int = DATA_SEED
    ood_order: int = 4
    file: str = ""

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise HarnessError(f"preset={self.preset}: choose {' or '.join(PRESETS)}")
        if self.ood_order not in OOD_ORDERS:
            raise HarnessError(f"ood_order={self.ood_order}: choose 4, 5 or 6")
        if self.preset == "reference" and self.ood_order != 4:
            raise HarnessError("the preset reference has five people a story: ood_order must be 4")

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that it has."""
        return tuple(PRESETS["strict" if self.file else self.preset])

    def pairs(self, split: str) -> dict[int, int]:
        """Pairs by order in a split."""
        found = dict(PRESETS[self.preset][split])
        return {self.ood_order: sum(found.values())} if split == "ood" else found

    def identity(self) -> str:
        """SHA-256 of the file ("" for generated data)."""
        return identity(Path(self.file)) if self.file else ""

    def path(self, split: str) -> Path:
        """Where a generated split lies in the cache, made or not."""
        order = self.ood_order if split == "ood" else 0
        parts = (GENERATOR, self.preset, self.data_seed, split, order)
        digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()
        return cache_dir("counterfactual-tom") / f"{self.preset}-{split}-{digest}.jsonl"


def draw(source: Source, split: str, order: int, number: int) -> list[Sample]:
    """Both samples of one pair."""
    from . import reference, strict

    make = strict.make_pair if source.preset == "strict" else reference.make_pair
    rng = random.Random(derive(GENERATOR, source.preset, source.data_seed, split, order, number))
    name = f"ctom-{source.preset}-{split}-o{order}-{number:04d}"
    return make(order, split, rng).samples(name, split, 2 * number)


def read(source: Source, split: str) -> Iterator[Sample]:
    """The samples of a split, or of ``all`` (the splits woven together), stratified by order.

    Raises HarnessError for a split that does not exist or a file that cannot be read.
    """
    if split not in (*source.splits, "all"):
        raise HarnessError(
            f"no split {split!r} here; choose one of {', '.join(source.splits)}, all"
        )
    if source.file:
        rows = (s for s in read_rows(Path(source.file)) if split in ("all", s.split))
        return woven(rows) if split == "all" else stratified(rows)
    if split == "all":
        return woven(s for name in source.splits for s in _lines(_made(source, name)))
    return _lines(_made(source, split))


def woven(
    samples: Iterable[Sample], key: Callable[[Sample], str] = lambda sample: sample.split
) -> Iterator[Sample]:
    """Samples of several kinds in one order, each prefix with kinds and groups in proportion."""
    marked = [replace(s, group=f"{key(s)}\x1f{s.group}") for s in samples]
    return (replace(s, group=s.group.split("\x1f")[1]) for s in stratified(marked))


def _lines(path: Path) -> Iterator[Sample]:
    with path.open("rb") as handle:
        for line in handle:
            yield Sample(**orjson.loads(line))


def _made(source: Source, split: str) -> Path:
    """The file of a generated split. Safe against others making it: all write the same bytes."""
    path = source.path(split)
    if not path.exists():
        plan = [(order, k) for order, n in source.pairs(split).items() for k in range(n)]
        title = f"drawing {source.preset} {split}"
        pairs = (draw(source, split, order, k) for order, k in track(plan, title))
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with draft.open("wb") as file:
                for sample in stratified(s for pair in pairs for s in pair):
                    file.write(orjson.dumps(asdict(sample), option=orjson.OPT_APPEND_NEWLINE))
            os.replace(draft, path)
        finally:
            draft.unlink(missing_ok=True)
    return path
