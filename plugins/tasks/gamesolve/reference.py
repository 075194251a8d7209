"""Reading files in the reference study's record schema, so that they can be evaluated and audited.

One JSON object a line. What is used: ``task`` (``nash_equilibrium`` or ``best_response``),
``payoff_matrix_row``, ``payoff_matrix_col``, ``row_labels``, ``col_labels``, ``opponent_sigma`` for
best responses, and, where present, ``id``, ``game_type``, ``context``, ``descriptions``,
``metadata.ood_category`` and ``split``. The truth is computed anew by the exact solver; the file's
own ``ground_truth`` is kept in ``data["reference_truth"]`` and compared by ``data build --verify``.
Prompts are ours: the file's descriptions only say which formats an item was told in.

Records without a ``split`` are in ``test``: such a file is there to be evaluated.

>>> record = {"task": "nash_equilibrium", "row_labels": ["A", "B"], "col_labels": ["A", "B"],
...           "payoff_matrix_row": [[1, 0], [0, 0.5]], "payoff_matrix_col": [[1, 0], [0, 2]]}
>>> sample = to_sample(record, line=1)
>>> sample.id, sample.data["row"], sample.truth["class"]
('line-1', [[1, 0], [0, '0.5']], 'both')
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import orjson

from harness.progress import track
from harness.seeds import derive
from harness.types import HarnessError, Json, Sample

from .games import Game
from .items import labelled
from .presets import FORMATS, PLAIN, PREFIXES, SPLITS
from .samplers import GAME_TYPES
from .truth import truth

MOST_ACTIONS: Final = 12
"""Larger games take the solver minutes."""
TASKS: Final = {"nash_equilibrium": "nash", "best_response": "best_response"}
_CONTEXTS: Final = (
    ("market", "market"),
    ("negotiat", "negotiation"),
    ("politic", "politics"),
    ("rout", "network"),
    ("auction", "auction"),
    ("arms", "defence"),
    ("resource", "resources"),
)
_CATEGORY_FORMATS: Final = {
    "novel_format_math": "math",
    "novel_format_json": "json",
    "novel_format_table": "markdown",
}


class _Fault(Exception):
    """What is wrong with a field."""


def read_file(path: str) -> list[Sample]:
    """All records of a file as samples. Raises HarnessError naming the line and the field."""
    samples: list[Sample] = []
    lines: dict[str, int] = {}
    with open(path, "rb") as handle:
        for number, text in track(enumerate(handle, 1), f"reading {path}"):
            if not text.strip():
                continue
            try:
                sample = to_sample(orjson.loads(text), number)
            except orjson.JSONDecodeError as error:
                raise HarnessError(f"{path}, line {number}: not JSON ({error})") from error
            except HarnessError as error:
                raise HarnessError(f"{path}, {error}") from error
            first = lines.setdefault(sample.id, number)
            if first != number:
                raise HarnessError(f"{path}, line {number}, id: the same as in line {first}")
            samples.append(sample)
    if not samples:
        raise HarnessError(f"{path}: no records in the file")
    return samples


def to_sample(record: Any, line: int) -> Sample:
    """The sample of one record. Raises HarnessError naming the line and the field."""
    field = "record"
    try:
        if not isinstance(record, dict):
            raise _Fault("must be a JSON object")
        data: dict[str, Json] = {}
        for name, key, read in _FIELDS:
            field = name
            data[key] = read(record, data)
        if data["kind"] == "best_response":
            field = "opponent_sigma"
            data |= {"responder": "row", "sigma": _sigma(record, data)}
        field = "metadata"
        category = _category(record)
        data["format"] = _format(record, data, category)
        if "ground_truth" in record:
            data["reference_truth"] = record["ground_truth"]
        field = "split"
        return _finished(record, data, category, line)
    except _Fault as fault:
        raise HarnessError(f"line {line}, {field}: {fault}") from None


def _finished(record: Mapping[str, Any], data: dict[str, Json], category: str, line: int) -> Sample:
    split = record.get("split", "test")
    if split not in SPLITS:
        raise _Fault(f"{split!r} is none of {', '.join(SPLITS)}")
    game = Game.from_data(data)
    prefix = PREFIXES.get(data["kind"], data["kind"])
    design = f"{prefix}/{game.shape[0]}x{game.shape[1]}/{category or data['game_type']}"
    identifier = str(record.get("id") or f"line-{line}")
    return labelled(Sample(identifier, split, data, truth(data)), game, design, category)


def _kind(record: Mapping[str, Any], data: Mapping[str, Json]) -> str:
    task = record.get("task")
    if task not in TASKS:
        raise _Fault(f"{task!r} is none of {', '.join(TASKS)}")
    return TASKS[task]


def _row(record: Mapping[str, Any], data: Mapping[str, Json]) -> list[list[int | str]]:
    return _matrix(record.get("payoff_matrix_row"))


def _col(record: Mapping[str, Any], data: Mapping[str, Json]) -> list[list[int | str]]:
    matrix = _matrix(record.get("payoff_matrix_col"))
    if (len(matrix), len(matrix[0])) != (len(data["row"]), len(data["row"][0])):
        raise _Fault("must have the shape of payoff_matrix_row")
    return matrix


def _matrix(value: Any) -> list[list[int | str]]:
    if not isinstance(value, list) or not value or not all(isinstance(x, list) for x in value):
        raise _Fault("must be a list of rows of numbers")
    if {len(line) for line in value} != {len(value[0])} or not value[0]:
        raise _Fault("must have rows of one length")
    if max(len(value), len(value[0])) > MOST_ACTIONS:
        raise _Fault(f"has more than {MOST_ACTIONS} actions for a player")
    return [[_number(x) for x in line] for line in value]


def _number(value: Any) -> int | str:
    """An int as it is; a float as the decimal number that the file shows."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Fault(f"{value!r} is not a number")
    return value if isinstance(value, int) else format(Decimal(repr(value)), "f")


def _row_labels(record: Mapping[str, Any], data: Mapping[str, Json]) -> list[str]:
    return _labels(record.get("row_labels"), len(data["row"]))


def _col_labels(record: Mapping[str, Any], data: Mapping[str, Json]) -> list[str]:
    return _labels(record.get("col_labels"), len(data["row"][0]))


def _labels(value: Any, count: int) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(x, str) and x.strip() for x in value):
        raise _Fault("must be a list of names")
    if len(value) != count or len({x.casefold() for x in value}) != count:
        raise _Fault(f"must hold {count} different names, one for each action")
    return value


def _game_type(record: Mapping[str, Any], data: Mapping[str, Json]) -> str:
    game_type = record.get("game_type", "general")
    if game_type not in GAME_TYPES:
        raise _Fault(f"{game_type!r} is none of {', '.join(GAME_TYPES)}")
    return str(game_type)


def _context(record: Mapping[str, Any], data: Mapping[str, Json]) -> str:
    """Our scenario that is nearest to the record's."""
    name = str(record.get("context", "")).casefold()
    return next((ours for part, ours in _CONTEXTS if part in name), "abstract")


def _sigma(record: Mapping[str, Any], data: Mapping[str, Json]) -> list[str]:
    """The opponent's strategy as the file shows it; the study's rounding may leave it at 0.9999."""
    value = record.get("opponent_sigma")
    count = len(data["row"][0])
    if not isinstance(value, list) or len(value) != count:
        raise _Fault(f"must be a list of {count} probabilities, one for each column action")
    numbers = [Decimal(str(_number(p))) for p in value]
    if min(numbers) < 0 or abs(sum(numbers, Decimal(-1))) > Decimal("0.01"):
        raise _Fault("must be probabilities that sum to 1")
    return [format(p, "f") for p in numbers]


def _category(record: Mapping[str, Any]) -> str:
    metadata = record.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise _Fault("must be an object")
    return str(metadata.get("ood_category", ""))


def _format(record: Mapping[str, Any], data: Mapping[str, Json], category: str) -> str:
    """The format the item was told in: what its category implies, else one of its descriptions,
    chosen by a hash of the game."""
    if category in _CATEGORY_FORMATS:
        return _CATEGORY_FORMATS[category]
    if category == "combined_hard":
        return "math" if len(data["row"]) <= 5 else "json"
    described = record.get("descriptions")
    names = [name for name in FORMATS if isinstance(described, dict) and name in described] or PLAIN
    return names[derive(data["row"], data["col"]) % len(names)]


_FIELDS: Final = (
    ("task", "kind", _kind),
    ("payoff_matrix_row", "row", _row),
    ("payoff_matrix_col", "col", _col),
    ("row_labels", "row_labels", _row_labels),
    ("col_labels", "col_labels", _col_labels),
    ("context", "context", _context),
    ("game_type", "game_type", _game_type),
)
