"""Cells: one training with its tests each, and where they keep their files.

    runs/sweeps/NAME/
        sweep.json, events.jsonl           the resolved cells; one event a line
        ablation_summary.json, trajectories.*
        cells/CELL/cell.json               what the cell is
                   train.toml              the recipe of its training, for `harness train --config`
                   state.json, log-N.txt   how attempt N went
                   result.json             the chosen step and the figures, once all is done
        models/CELL/                       the training job; its steps are models (models/CELL@40)
        test/                              run folders of all cells: `harness leaderboard` takes it
"""  # fmt: skip

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from ..store import spec_hash
from ..types import HarnessError, Json

FREE: Final = ("gpus", "nodes", "processes", "save_every", "keep")
"""Settings that a resumed training may change."""

LIVES: Final = ("running", "stopped", "failed", "done")


@dataclass(frozen=True, slots=True)
class Test:
    """One `harness run` of a trained model: a task, its options, the other options of the verb."""

    task: str
    options: Mapping[str, Json] = field(default_factory=dict)
    model_options: Mapping[str, Json] = field(default_factory=dict)
    arguments: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cell:
    """One training and its tests.

    ``condition`` is what is compared, among the cells of the same ``panel`` (a point of the grid,
    where conditions are listed too); ``place`` is the condition's value on the trend's axis, if it
    has one. ``train`` holds method, task, model, reward and dotted options of training.
    """

    name: str
    condition: str
    panel: str
    seed: int
    place: float | None
    train: Mapping[str, Json]
    tests: tuple[Test, ...]
    checkpoint: str = "best"

    @property
    def train_hash(self) -> str:
        """The identity of the training."""
        return spec_hash({k: v for k, v in self.train.items() if k not in FREE})

    @property
    def test_hash(self) -> str:
        """The identity of what is done with the trained model."""
        return spec_hash({"checkpoint": self.checkpoint, "tests": [asdict(t) for t in self.tests]})

    def described(self) -> dict[str, Json]:
        """As ``cell.json`` holds it."""
        return {**asdict(self), "train_hash": self.train_hash, "test_hash": self.test_hash}

    @classmethod
    def of(cls, described: Mapping[str, Json]) -> Cell:
        """The inverse of `described`."""
        known = {k: v for k, v in described.items() if not k.endswith("_hash")}
        return cls(**{**known, "tests": tuple(Test(**t) for t in known["tests"])})


@dataclass(frozen=True, slots=True)
class Places:
    """The paths of one cell below the folder of a sweep."""

    root: Path
    name: str

    @property
    def folder(self) -> Path:
        """What belongs to the cell itself."""
        return self.root / "cells" / self.name

    @property
    def model(self) -> Path:
        """Its training job."""
        return self.root / "models" / self.name

    @property
    def tests(self) -> Path:
        """The run folders of all cells."""
        return self.root / "test"

    def read(self, file: str) -> dict[str, Json]:
        """A JSON file of the cell's own folder; {} where there is none that can be read."""
        try:
            value: dict[str, Json] = json.loads((self.folder / file).read_text())
        except (OSError, ValueError):
            return {}
        return value

    def result(self, cell: Cell) -> dict[str, Json]:
        """The cell's result; {} while it has none, or that of other settings."""
        found = self.read("result.json")
        wanted = (cell.train_hash, cell.test_hash)
        return found if (found.get("train_hash"), found.get("test_hash")) == wanted else {}


def check_unchanged(places: Places, cell: Cell) -> None:
    """Raise HarnessError when the cell was trained with other settings."""
    old = places.read("cell.json")
    if not old or old.get("train_hash") == cell.train_hash:
        return
    before, now = old.get("train", {}), cell.train
    keys = [k for k in {**before, **now} if k not in FREE and before.get(k) != now.get(k)]
    changed = "; ".join(f"{k}: {before.get(k)!r}, now {now.get(k)!r}" for k in keys[:2])
    raise HarnessError(
        f"{places.folder} holds the cell with other settings ({changed}); choose another --out, or "
        f"remove it and {places.model}"
    )


def slug(text: str) -> str:
    """A text as part of a folder's name; ``@`` would read as a step of a model.

    >>> slug("probe@6, 0.1")
    'probe-6,-0.1'
    """
    return re.sub(r"[^A-Za-z0-9._=,+-]+", "-", text).strip("-.") or "cell"


def recipe_text(train: Mapping[str, Json]) -> str:
    """Settings of training as a TOML recipe.

    >>> print(recipe_text({"method": "grpo", "data.groups": ["payoff"], "steps": 4}), end="")
    "method" = "grpo"
    "data.groups" = ["payoff"]
    "steps" = 4
    """
    return "".join(f"{_toml(key)} = {_toml(value)}\n" for key, value in train.items())


def _toml(value: Json) -> str:
    """JSON is TOML but for DEL, which TOML wants escaped, and for null and objects, which settings
    do not hold."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("\x7f", "\\u007f")
