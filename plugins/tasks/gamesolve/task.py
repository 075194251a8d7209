"""The task GameSolve: one question about one matrix game, asked once.

    task = GameSolve({"preset": "gamesolve"})
    sample = next(iter(task.samples("test")))
    task.messages(sample), task.target(sample)

Three names share it: ``gamesolve`` (in-distribution: train, validation, test), ``gamesolve-ood``
(test only) and ``gamesolve-skills``. Options: ``preset`` (another design under the same name, such
as ``reference``), ``data_seed``, ``data`` (a file in the reference study's schema instead of a
preset) and ``format`` (tell every item in one format instead of its own).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import ClassVar, Final

from harness.exhibits import Exhibit
from harness.player import PlayerFactory
from harness.task import Task
from harness.types import (
    Decoding,
    HarnessError,
    Json,
    Message,
    Metric,
    Outcome,
    Parsed,
    Record,
    Reply,
    Sample,
)

from . import data
from .presets import FORMATS, get_preset

KNOWN: Final = (
    "Known to you alone, and verified:\n\n{solution}\n\nSolve the game as if you had not been "
    "shown this: let each step follow from the payoffs, and do not say that you were told."
)
"""What a teacher is told."""


class GameSolve(Task):
    """Nash equilibria and best responses of matrix games."""

    name = "gamesolve"
    version = "1"
    reward = "gamesolve"
    verifier = "gt-prm"
    decoding: ClassVar[Decoding] = Decoding(max_tokens=1024)

    def __init__(self, options: Mapping[str, Json] | None = None) -> None:
        super().__init__(options)
        given = self.options
        preset = given.get("preset") or self.name
        get_preset(preset)
        self.format = str(given.get("format") or "")
        if self.format and self.format not in FORMATS:
            raise HarnessError(f"no format {self.format!r}; choose one of {', '.join(FORMATS)}")
        seed = given.get("data_seed", data.DATA_SEED)
        self.source = data.Source(preset, int(seed), str(given.get("data") or ""))
        self.splits = self.source.splits  # type: ignore[misc]  # they depend on the preset

    @property
    def design(self) -> str:
        """The preset whose design the samples follow; "" for a file."""
        return "" if self.source.file else self.source.preset

    def samples(self, split: str) -> Iterator[Sample]:
        """The samples of a split, or of ``all`` (the splits woven together), stratified."""
        found = data.read(self.source, split)
        return map(self._formatted, found) if self.format else found

    def _formatted(self, sample: Sample) -> Sample:
        return replace(sample, data={**sample.data, "format": self.format})

    def data_identity(self) -> str:
        """The hash of the file that ``data`` names ("" for generated data)."""
        return self.source.identity()

    def stats(self, samples: Iterable[Sample]) -> dict[str, Json]:
        """Counts by cell, stratum, split and every other factor, and the empty strata."""
        from .overview import overview

        return overview(samples, self.design)

    def verify(self, samples: Iterable[Sample]) -> Iterator[str]:
        """Check truth, splits and design independently; needs nashpy."""
        from .checks import problems

        return problems(samples, self.design)

    def messages(self, sample: Sample) -> list[Message]:
        """The prompt: what game it is, who you are, what is asked, how to answer."""
        from .text import messages

        return messages(sample.data)

    def parse(self, sample: Sample, reply: Reply) -> Parsed:
        """The last committed answer of a reply."""
        from .answers import parse

        return parse(sample.data, reply.text)

    def players(self) -> Mapping[str, PlayerFactory]:
        """Reference players: oracle, random, constants, empty."""
        from .players import players

        return players()

    def metrics(self, records: Iterable[Record]) -> list[Metric]:
        """The score by every factor of the design, its parts, and the parse rate."""
        from .metrics import metrics

        return metrics(records, self.samples)

    def target(self, sample: Sample) -> str:
        """The solution derived step by step, ending in the committed answer."""
        from .targets import target

        return target(sample.data, sample.truth)

    def privileged(self, sample: Sample) -> list[Message]:
        """The prompt with the derived solution."""
        from .text import messages

        return messages(sample.data, KNOWN.format(solution=self.target(sample)))

    def exhibits(self, sample: Sample, outcome: Outcome) -> list[Exhibit]:
        """The matrix with its equilibria, and what was claimed."""
        from .exhibits import exhibits

        answer = outcome.moves[-1].parsed if outcome.moves else None
        return exhibits(sample.data, sample.truth, answer)

    def ballot(self, sample: Sample, value: Json) -> Json:
        """The answer with exact numbers, in a fixed order."""
        from .answers import canonical

        return canonical(value)

    def concepts(self, sample: Sample) -> Mapping[str, int]:
        """Labels for probes, computed from the matrix and the exact equilibria."""
        from .concepts import concepts

        return concepts(sample.data, sample.truth)


class GameSolveOOD(GameSolve):
    """The same questions where one thing differs from training: size, numbers, format, shape."""

    name = "gamesolve-ood"


class GameSolveSkills(GameSolve):
    """The steps that solving a game is made of, one at a time."""

    name = "gamesolve-skills"
