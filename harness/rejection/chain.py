"""The chain of rejection sampling in one folder: sample, score, build, each done once.

    chain = Chain(Path("runs/rft"), recipe)
    record = chain.run(registry)            # again after kill -9: goes on where it was

    runs/rft/
        chain.json          which steps are done, with the hashes of what they wrote
        sample/RUN/         the candidates, a run folder; candidates.jsonl, acceptance.json
        judge/              replies of the judge, where there is one
        accepted/           train.jsonl, train.parquet, manifest.json

A step that is done is checked by its hashes and not repeated: no model is loaded, no judge asked.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from ..api import Run, evaluate
from ..plan import RunSettings
from ..registry import Registry
from ..store import RECORDS, acquire, write_atomically
from ..training.session import difference
from ..types import HarnessError, Json
from .build import MANIFEST, ROWS, TABLE, Choice, build
from .gates import Gates
from .score import ACCEPTANCE, CANDIDATES, score_candidates

CHAIN: Final = "chain.json"
STEPS: Final = ("sample", "score", "build")
ACCEPTED_FOLDER: Final = "accepted"
JUDGE_FOLDER: Final = "judge"
COUNTED: Final = ("candidates", "accepted", "acceptance_rate", "verdicts", "prompts",
                  "prompts_with_accepted", "clusters", "clusters_complete", "parts", "reward_mean",
                  "zero_variance_groups", "all_zero_groups")  # fmt: skip
"""Figures of acceptance that the record of a chain keeps."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a chain does. ``sampling`` says how candidates are made; ``reward`` ("" is the run's)
    and its options score them, of which ``scored_by`` are those that scores depend on
    (`Reward.specification`); gates as `Gates.of` takes them; ``choice`` says what is kept, and
    ``wording`` are the task options of the prompts that are trained on."""

    sampling: RunSettings
    reward: str = ""
    reward_options: Mapping[str, Json] = field(default_factory=dict)
    scored_by: Mapping[str, Json] = field(default_factory=dict)
    gates: tuple[str, ...] | None = None
    minimum: float | None = None
    step: float | None = None
    finished: bool = True
    choice: Choice = field(default_factory=Choice)
    wording: Mapping[str, Json] = field(default_factory=dict)


class Chain:
    """The steps of one recipe below one folder."""

    def __init__(self, root: Path, recipe: Recipe, quiet: bool = False) -> None:
        self.root = root
        self.recipe = recipe
        self.quiet = quiet
        self.file = root / CHAIN

    @property
    def rows(self) -> Path:
        """The data set that the chain ends in."""
        return self.root / ACCEPTED_FOLDER / ROWS

    def open(self, resume: bool) -> None:
        """Make the folder, or take it up again.

        Raises HarnessError when another chain lies there, or this one and nobody said ``resume``.
        """
        wanted, known = identity(self.recipe), self._read()
        if known and known["recipe"] != wanted:
            raise HarnessError(
                f"{self.root} holds another job ({difference(known['recipe'], wanted)}); choose "
                "another --out"
            )
        if known and not resume:
            done = ", ".join(name for name in STEPS if name in known["steps"]) or "nothing"
            raise HarnessError(
                f"{self.root} holds this job already (done: {done}): --resume goes on with it"
            )
        if resume and not known:
            raise HarnessError(f"--resume: {self.root} holds no job")
        if (self.root / "config.json").is_file() and not known:
            raise HarnessError(f"{self.root} is a checkpoint already; choose another --out")
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self._write(wanted, known["steps"] if known else {})
        except OSError as error:
            raise HarnessError(f"{self.root}: cannot be written: {error.strerror}") from None

    def record(self) -> dict[str, Any]:
        """The steps that are done, by name: what they made, in figures and hashes."""
        known = self._read()
        return dict(known["steps"]) if known else {}

    def run(self, registry: Registry) -> dict[str, Any]:
        """Do what is left; returns the record.

        Raises HarnessError when a step fails, when no candidate is accepted, and when a file of a
        step that was done is not what it wrote.
        """
        lock = acquire(self.root)
        try:
            record = self.record()
            for number, name in enumerate(STEPS, 1):
                title = f"step {number} of 4, {name}"
                if name in record:
                    self._check(name, record[name])
                    self._tell(f"{title}: done before, {_told(record[name])}")
                    continue
                self._tell(title)
                record[name] = getattr(self, f"_{name}")(registry, record)
                self._write(identity(self.recipe), record)
                self._tell(f"{title}: {_told(record[name])}")
        finally:
            os.close(lock)
        return record

    def _read(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self.file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise HarnessError(f"{self.file}: cannot be read: {error}") from None
        return found

    def _write(self, recipe: Mapping[str, Json], steps: Mapping[str, Any]) -> None:
        text = json.dumps({"recipe": recipe, "steps": steps}, indent=2, sort_keys=True)
        write_atomically(self.file, text.encode() + b"\n")

    def _sample(self, registry: Registry, record: Mapping[str, Any]) -> dict[str, Json]:
        (made,) = (result for _, result in evaluate(self.recipe.sampling, registry, self.quiet))
        if not isinstance(made, Run):
            raise made
        if not made.complete:
            missing = made.metrics["expected"] - made.metrics["records"]
            raise HarnessError(f"{made.path}: {missing} candidates are missing; --resume goes on")
        spec = made.manifest["spec"]
        kept = ("model", "decoding", "fewshot", "seeds", "n")
        return {
            "run": str(made.path.relative_to(self.root)),
            "hash": made.manifest["hash"],
            "candidates": made.metrics["records"],
            "task_options": spec["task"]["options"],
            **{name: spec[name] for name in kept},
            "files": self._hashes([made.path / RECORDS]),
        }

    def _score(self, registry: Registry, record: Mapping[str, Any]) -> dict[str, Json]:
        r, run = self.recipe, self.root / record["sample"]["run"]
        report = asyncio.run(
            score_candidates(
                run,
                registry,
                lambda made: Gates.of(made, r.gates, r.minimum, r.step, r.finished),
                r.reward,
                r.reward_options,
            )
        )
        parts = {
            kind: {name: {k: counts[k] for k in COUNTED} for name, counts in report[kind].items()}
            for kind in ("groups", "strata")
        }
        return {
            "reward": report["reward"],
            "gates": report["gates"],
            **{name: report[name] for name in COUNTED},
            **parts,
            **({"judge": report["judge"]} if "judge" in report else {}),
            "files": self._hashes([run / CANDIDATES, run / ACCEPTANCE]),
        }

    def _build(self, registry: Registry, record: Mapping[str, Any]) -> dict[str, Json]:
        out = self.root / ACCEPTED_FOLDER
        shutil.rmtree(out, ignore_errors=True)  # what a killed attempt left there
        run = self.root / record["sample"]["run"]
        made = build([run], out, registry, self.recipe.choice, self.recipe.wording)
        kept = ("task", "choice", "accepted", "rows", "prompts", "groups")
        return {
            **{name: made[name] for name in kept},
            "files": self._hashes([out / name for name in (ROWS, TABLE, MANIFEST)]),
        }

    def _hashes(self, files: list[Path]) -> dict[str, str]:
        return {str(f.relative_to(self.root)): _sha256(f) for f in files}

    def _check(self, name: str, step: Mapping[str, Any]) -> None:
        for file, wanted in step["files"].items():
            path = self.root / file
            if not path.is_file() or _sha256(path) != wanted:
                raise HarnessError(
                    f"{path} is not what the step {name} wrote; choose another --out, or put the "
                    "file back"
                )

    def _tell(self, text: str) -> None:
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)


def identity(recipe: Recipe) -> dict[str, Json]:
    """What two commands on one folder must share, as JSON: not budgets, caches or concurrency."""
    s = recipe.sampling
    whole = {
        "task": s.tasks[0],
        "sampling": {**s.stored(), "model": s.models[0]},
        "reward": recipe.reward,
        "reward_options": dict(recipe.scored_by),
        "gates": [recipe.gates, recipe.minimum, recipe.step, recipe.finished],
        "choice": asdict(recipe.choice),
        "wording": dict(recipe.wording),
    }
    found: dict[str, Json] = json.loads(json.dumps(whole, default=str))
    return found


def _told(step: Mapping[str, Any]) -> str:
    """A step's result in one line."""
    if "rows" in step:
        return f"{step['rows']:,} rows of {step['accepted']:,} accepted replies"
    if "accepted" in step:
        failed = {k: v for k, v in step["verdicts"].items() if k != "accepted"}
        worst = sorted(failed.items(), key=lambda pair: -pair[1])[:3]
        reasons = ", ".join(f"{name} {count:,}" for name, count in worst)
        return f"{step['accepted']:,} of {step['candidates']:,} accepted ({reasons or 'all'})"
    return f"{step['candidates']:,} candidates"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
