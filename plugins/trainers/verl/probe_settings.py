"""The probe loss as data: which heads read what, resolved before a job begins.

    probe = Probe.of(session)       # from the options probe.*
    probe.write(session)            # data/probe.json, and data/probe.parquet with held-out items
    probe.labels(task, sample)      # [0, -1, 2]: one label for each concept, -1: not applicable

The loss of a step is the policy's (or SFT's) loss + ``coef`` x the weighted mean over concepts of
the heads' cross entropies. Heads read the pooled prompt positions of the output of decoder blocks
(Alain and Bengio, Understanding intermediate layers using linear classifier probes, 2016, as an
auxiliary loss). Paths and texts are resolved into numbers here, so that the record of a job says
which layers and weights it had, whatever becomes of the file that they came from.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from harness.probing.results import CRITICAL, layers_from, weights_from
from harness.types import HarnessError, Json, Sample

if TYPE_CHECKING:
    from harness.task import Task
    from harness.training.data import Item
    from harness.training.session import Session

POOLINGS: Final = ("last", "mean", "weighted")
FOLDER: Final = "probe"
"""Where in a job's folder the trained heads lie. Beside model.safetensors they would be taken for
weights of the model."""

FILES: Final = ("probe_heads.safetensors", "probe_heads.json")


@dataclass(frozen=True, slots=True)
class Probe:
    """Linear heads on the prompt positions of some layers of a model.

    ``classes`` gives each concept's number of classes, ``weights`` its weight in the loss;
    ``width`` and ``depth`` are the model's; ``learning_rate`` is that of the heads' own optimiser.
    """

    layers: tuple[int, ...]
    pooling: str
    coef: float
    learning_rate: float
    seed: int
    width: int
    depth: int
    classes: Mapping[str, int]
    weights: Mapping[str, float]

    COLUMN: ClassVar[str] = "probe_labels"
    """Of the rows: int64, one label for each concept in order."""

    @classmethod
    def of(cls, session: Session) -> Probe:
        """What the options ``probe.*`` say of this job's task and model; they are replaced by what
        they resolve to.

        Raises HarnessError for a task without concepts, and for options that make no sense.
        """
        option = dict(session.job.options)
        config = session.base.config()
        text = config.get("text_config") or config
        depth, width = int(text["num_hidden_layers"]), int(text["hidden_size"])
        pooling, coef = str(option["probe.pooling"]), float(option["probe.coef"])
        rate = float(option["probe.learning_rate"])
        if pooling not in POOLINGS:
            raise HarnessError(f"probe.pooling {pooling!r}: {', '.join(POOLINGS)}")
        if coef < 0 or rate <= 0:
            raise HarnessError(
                f"probe.coef {coef} must not be negative, probe.learning_rate {rate} be positive"
            )
        asked = str(option["probe.layers"])
        if not asked:
            raise HarnessError(
                "probe.layers is missing: name a layer (17), several (6,17), or "
                "critical:probes.json of `harness probe`"
            )
        layers = layers_from(asked, depth, pooling if asked.startswith(CRITICAL) else "")
        classes = classes_of(session, [str(name) for name in option["probe.concepts"]])
        weights = weights_of(str(option["probe.weights"]), asked, classes)
        option |= {
            "probe.layers": ",".join(map(str, layers)),
            "probe.weights": ",".join(f"{name}={value!r}" for name, value in weights.items()),
            "probe.concepts": list(classes),
        }
        session.job = replace(session.job, options=option)
        seed = int(option["seed"])
        return cls(tuple(layers), pooling, coef, rate, seed, width, depth, classes, weights)

    @classmethod
    def read(cls, path: Path) -> Probe:
        """As `write` wrote it."""
        found: dict[str, Any] = json.loads(path.read_text())
        return cls(**{**found, "layers": tuple(found["layers"])})

    def json(self) -> dict[str, Json]:
        """As in ``data/probe.json``."""
        return {**asdict(self), "layers": list(self.layers)}

    def labels(self, task: Task, sample: Sample) -> list[int]:
        """The class of each concept in order, -1 where it does not apply."""
        found = task.concepts(sample)
        return [int(found.get(name, -1)) for name in self.classes]

    def write(self, session: Session) -> None:
        """The description, and the validation prompts that the heads are measured on."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        from harness.training.session import write_json

        path = description(session.out)
        write_json(path, self.json())
        rows = list(self._held_out(session))
        schema = pa.schema(
            {"id": pa.string(), "ids": pa.list_(pa.int64()), "labels": pa.list_(pa.int64())}
        )
        table = pa.Table.from_pylist(rows, schema)
        pq.write_table(table, path.with_suffix(".parquet"), compression="zstd")

    def _held_out(self, session: Session) -> list[dict[str, Json]]:
        from harness.rendering import render

        room = int(session.job.options["max_prompt"])
        rows: list[dict[str, Json]] = []
        for item in session.validation:
            ids = list(render(session.tokenizer, item.messages)) if item.messages else []
            if 0 < len(ids) <= room:
                labels = self.labels(session.task, item.sample)
                rows.append({"id": item.sample.id, "ids": ids, "labels": labels})
        return rows


def description(out: Path) -> Path:
    """Where a job's probe is described."""
    return out / "data" / "probe.json"


def classes_of(session: Session, asked: Sequence[str]) -> dict[str, int]:
    """The number of classes of each concept of the task, or of those that are asked for.

    A concept that has one class in all training items teaches nothing and is left out. Raises
    HarnessError for a task without concepts, and for names that it does not have.
    """
    train, other = _counts(session, session.items), _counts(session, session.validation)
    if not train:
        raise HarnessError(
            f"{session.task.name} has no concepts to probe; train on it with grpo or sft"
        )
    if unknown := [name for name in asked if name not in train]:
        raise HarnessError(
            f"probe.concepts: {session.task.name} has no {unknown[0]!r}; it has "
            f"{', '.join(sorted(train))}"
        )
    constant = [name for name in asked if len(train[name]) < 2]
    if constant:
        raise HarnessError(f"probe.concepts: {constant[0]} has one class in all training items")
    found = {
        name: max(train[name] | other.get(name, set())) + 1
        for name in asked or train
        if len(train[name]) > 1
    }
    if not found:
        raise HarnessError(f"no concept of {session.task.name} has two classes in these items")
    return found


def weights_of(text: str, layers: str, classes: Mapping[str, int]) -> dict[str, float]:
    """The weight of each concept: ``a=1.5,b=1``, those of a probes.json (1 / accuracy, the least
    being 1), by default of the one that ``critical:`` names; 1 where nothing else is said.

    >>> weights_of("b=2", "17", {"a": 2, "b": 3})
    {'a': 1.0, 'b': 2.0}
    """
    given: dict[str, float] = {}
    if text and "=" not in text:
        given = weights_from(Path(text))
    elif text:
        for part in text.split(","):
            name, _, value = part.partition("=")
            try:
                given[name.strip()] = float(value)
            except ValueError:
                raise HarnessError(
                    f"probe.weights {text!r}: write a=1.5,b=1, or name a probes.json"
                ) from None
            if name.strip() not in classes or not given[name.strip()] > 0:
                raise HarnessError(
                    f"probe.weights {part!r}: concepts are {', '.join(classes)}, weights positive"
                )
    elif layers.startswith(CRITICAL):
        given = weights_from(Path(layers.removeprefix(CRITICAL)))
    return {name: given.get(name, 1.0) for name in classes}


def export(step: Path, out: Path) -> None:
    """Copy the heads of a saved step into ``out/probe``."""
    for inner in ("actor", ""):
        if (step / inner / FILES[0]).is_file():
            (out / FOLDER).mkdir(parents=True, exist_ok=True)
            for name in FILES:
                shutil.copy(step / inner / name, out / FOLDER / name)
            return
    raise HarnessError(f"{step} holds no probe heads")


def nested(figures: dict[str, float]) -> dict[str, Any]:
    """Figures of held-out items as in ``val.jsonl``.

    >>> nested({"probe/loss": 0.7, "probe/coin/accuracy": 0.9, "probe/coin/majority": 0.5})
    {'probe': {'loss': 0.7, 'coin': {'accuracy': 0.9, 'majority': 0.5}}}
    """
    found: dict[str, Any] = {}
    for name, value in figures.items():
        place = found
        *outer, last = name.split("/")
        for part in outer:
            place = place.setdefault(part, {})
        place[last] = value
    return found


def _counts(session: Session, items: Sequence[Item]) -> dict[str, set[int]]:
    """The classes of each concept that occur."""
    found: dict[str, set[int]] = {}
    for item in items:
        for name, value in session.task.concepts(item.sample).items():
            classes = found.setdefault(name, set())
            if value >= 0:
                classes.add(int(value))
    return found
