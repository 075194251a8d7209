"""Data sets on disk: drawn once, kept in the user's cache, read line by line.

A `Source` says what the samples are: a preset with a data seed, or a file in the reference study's
schema. Its samples are kept as one JSONL file a split, in the order that `harness.task.stratified`
gives, under a name that holds a hash of everything they depend on; reading takes no memory to speak
of. ``all`` merges the splits so that each prefix holds them in proportion.

>>> source = Source(preset="gamesolve-skills")
>>> next(iter(read(source, "test"))).split                      # doctest: +SKIP
'test'
"""

from __future__ import annotations

import hashlib
import heapq
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import orjson

from harness.paths import cache_dir
from harness.task import stratified
from harness.types import HarnessError, Sample

from .items import GENERATOR, draw_item
from .presets import SPLITS, get_preset, plan
from .workers import spread

DATA_SEED: Final = 1
"""The data seed of the published sets."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where samples come from: a preset and a data seed, or a file (which then counts alone)."""

    preset: str
    data_seed: int = DATA_SEED
    file: str = ""

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that it has."""
        return SPLITS if self.file else tuple(get_preset(self.preset).splits)

    def identity(self) -> str:
        """The SHA-256 of the file ("" for generated data).

        Raises HarnessError for a file that cannot be read.
        """
        if not self.file:
            return ""
        try:
            with open(self.file, "rb") as handle:
                return hashlib.file_digest(handle, "sha256").hexdigest()
        except OSError as error:
            raise HarnessError(f"cannot read data file {self.file}: {error.strerror}") from error

    def path(self, split: str) -> Path:
        """Where a split lies in the cache, whether or not it has been made yet."""
        parts = (GENERATOR, self.preset, self.data_seed, self.identity())
        digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()
        name = "file" if self.file else self.preset
        return cache_dir("gamesolve") / f"{name}-{digest}-{split}.jsonl"


def draw(preset: str, data_seed: int) -> list[Sample]:
    """All samples of a preset in the order of its plan, drawn on all cores."""
    work = partial(draw_item, data_seed=data_seed)
    return spread(work, plan(preset), f"drawing {preset}")


def read(source: Source, split: str) -> Iterator[Sample]:
    """The samples of a split, or of ``all``, in stratified order; made first if need be.

    Raises HarnessError for a split that the source lacks, or a file that cannot be read.
    """
    if split == "all":
        return _merged(source)
    if split not in source.splits:
        have = ", ".join(source.splits)
        raise HarnessError(f"no split {split!r} here; choose one of {have}, all")
    return _lines(_made(source, split))


def _merged(source: Source) -> Iterator[Sample]:
    """The splits woven together, each evenly over the whole; ordinals are those in the whole."""
    streams = [_placed(_made(source, split), place) for place, split in enumerate(source.splits)]
    for ordinal, (_, _, sample) in enumerate(heapq.merge(*streams, key=lambda row: row[:2])):
        yield replace(sample, ordinal=ordinal)


def _placed(path: Path, place: int) -> Iterator[tuple[float, int, Sample]]:
    with path.open("rb") as handle:
        size = sum(1 for _ in handle)
    for k, sample in enumerate(_lines(path)):
        yield (2 * k + 1) / (2 * size), place, sample


def _lines(path: Path) -> Iterator[Sample]:
    with path.open("rb") as handle:
        for line in handle:
            yield Sample(**orjson.loads(line))


def _made(source: Source, split: str) -> Path:
    path = source.path(split)
    if not path.exists():
        _make(source)
    return path


def _make(source: Source) -> None:
    """Make all splits of a source. Safe against others doing the same: all write the same bytes."""
    if source.file:
        from .reference import read_file

        samples = read_file(source.file)
    else:
        samples = draw(source.preset, source.data_seed)
    for split in source.splits:
        chosen = (sample for sample in samples if sample.split == split)
        _write(source.path(split), stratified(chosen))


def _write(path: Path, samples: Iterable[Sample]) -> None:
    """Write JSONL beside its place and move it there, so that no reader meets half a file."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            for sample in samples:
                file.write(orjson.dumps(asdict(sample), option=orjson.OPT_APPEND_NEWLINE))
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
