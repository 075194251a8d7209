"""Rows: which runs stand together under one label.

A row is a label and, where one label has runs of several protocols or models in one arena, what
tells them apart: ``smollm2 (temperature=0.7)``. Runs that differ in seeds only make one row, and
so do runs that the user gave one label (training seeds): their cells are means over runs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import orjson

from ..types import HarnessError, Json
from .arenas import Arena
from .places import StoredRun

IGNORED: Final = frozenset({"seeds", "task", "split", "opponent"})
"""Parts of a specification that do not split a row: seeds, and what makes the arena."""

Members = dict[tuple[str, str], list[StoredRun]]
"""(row, arena name) -> its runs."""


def find_rows(
    runs: Sequence[StoredRun], arenas: Mapping[str, Arena], labels: Sequence[tuple[str, str]] = ()
) -> Members:
    """The runs of each cell.

    :param labels: (label, pattern): runs whose folder or model fits the pattern get the label and
        become one row. Raises HarnessError for a pattern that fits none.
    """
    for label, pattern in labels:
        if not any(_fits(run, pattern) for run in runs):
            raise HarnessError(f"--label {label}={pattern}: no run's folder or model fits")
    cells: dict[tuple[str, str], list[tuple[StoredRun, bool]]] = {}
    for run in runs:
        given = next((label for label, pattern in labels if _fits(run, pattern)), None)
        label = given if given is not None else model_label(run)
        arena = arenas[run.manifest["hash"]].name
        cells.setdefault((label, arena), []).append((run, given is not None))
    members: Members = {}
    usual = _usual(runs, arenas)
    models = Counter(run.spec["model"] for run in runs)
    for (label, arena), found in sorted(cells.items(), key=lambda c: c[0]):
        for suffix, group in _variants(found, usual[arena], models):
            members.setdefault((label + suffix, arena), []).extend(group)
    return members


def model_label(run: StoredRun) -> str:
    """The model as tables name it: by its own label, a folder's own name, or as it was given."""
    if own := (run.manifest.get("model") or {}).get("label"):
        return str(own)
    name = str(run.manifest.get("model_name") or run.spec["model"])
    if name.startswith(("/", "./", "../", "~")) or name.count("/") > 1:
        return Path(name).name
    return name


def _fits(run: StoredRun, pattern: str) -> bool:
    names = (run.name, str(run.manifest.get("model_name")), str(run.spec["model"]))
    return any(fnmatchcase(name, pattern) for name in names)


def _usual(runs: Sequence[StoredRun], arenas: Mapping[str, Arena]) -> dict[str, dict[str, str]]:
    """The most common value of each setting in each arena."""
    seen: dict[str, dict[str, dict[str, int]]] = {}
    for run in runs:
        counts = seen.setdefault(arenas[run.manifest["hash"]].name, {})
        for key, value in settings(run).items():
            of_key = counts.setdefault(key, {})
            of_key[value] = of_key.get(value, 0) + 1
    return {
        arena: {key: max(sorted(c), key=lambda v: c[v]) for key, c in counts.items()}
        for arena, counts in seen.items()
    }


def settings(run: StoredRun) -> dict[str, str]:
    """Everything in the specification that may split a row, flat and as text."""
    flat: dict[str, str] = {}
    for key, value in run.spec.items():
        if key in IGNORED:
            continue
        if isinstance(value, dict) and key in ("decoding", "model_options"):
            flat |= {name: _text(part) for name, part in value.items()}
        elif key == "reward" and isinstance(value, dict):
            flat["reward"] = value["name"]
            flat["reward version"] = _text(value["version"])
            flat["reward options"] = _text(value["options"])
        else:
            flat[key] = _text(value)
    return flat


def _variants(
    found: Sequence[tuple[StoredRun, bool]], usual: Mapping[str, str], models: Mapping[str, int]
) -> list[tuple[str, list[StoredRun]]]:
    """The runs of a label in an arena, by protocol; the most usual one carries the plain label,
    of equally usual ones that of the model with the most runs in the table."""
    by_settings: dict[str, list[StoredRun]] = {}
    for run, given in found:
        own = settings(run)
        if given:
            del own["model"]
        by_settings.setdefault(_text(own), []).append(run)
    groups = list(by_settings.values())
    if len(groups) == 1:
        return [("", groups[0])]
    groups.sort(
        key=lambda g: (
            _distance(settings(g[0]), usual), -models[g[0].spec["model"]], -len(g), g[0].name
        )
    )  # fmt: skip
    plain = settings(groups[0][0])
    return [("", groups[0])] + [(_suffix(settings(g[0]), plain), g) for g in groups[1:]]


def _distance(own: Mapping[str, str], usual: Mapping[str, str]) -> int:
    return sum(own.get(k) != v for k, v in usual.items() if k != "model")


def _suffix(own: Mapping[str, str], plain: Mapping[str, str]) -> str:
    keys = [k for k in sorted({*own, *plain}) if own.get(k) != plain.get(k)]
    words = [f"{k}={_short(k, own.get(k, 'unset'))}" for k in keys]
    return f" ({', '.join(words)})"


def _short(key: str, value: str) -> str:
    """Model identities are shortened to the end of their hash."""
    if key == "model":
        return re.sub(r"^.*-", "", value)[:12]
    return value if len(value) <= 40 else value[:37] + "..."


def _text(value: Json) -> str:
    if isinstance(value, str):
        return value
    found: Any = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return str(found.decode())
