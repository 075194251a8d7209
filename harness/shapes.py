"""Shapes of the JSON in a run folder: what comes from others is checked once, where it is read.

    check(manifest, MANIFEST, f"{path}/manifest.json")

A shape is a type (or several), a list of one shape for each entry, or a dict of shapes: a key that
ends in ``!`` must be there, the others may be absent. Keys that no shape names are left alone.

>>> check({"n": 3, "seeds": [1, "x"]}, {"n!": int, "seeds": [int]}, "manifest.json")
Traceback (most recent call last):
harness.types.HarnessError: manifest.json: seeds[1]: 'x' is of the wrong type
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import NoneType
from typing import Any, Final

from .types import HarnessError, Json

Shape = Any
"""A type, a tuple of types, ``[shape]``, or ``{key: shape}``."""

LARGEST: Final = 2**62
"""No whole number of a run is larger; what is would end in an overflow somewhere."""

_NUMBER: Final = (int, float)
_TEXT: Final = (str, NoneType)

FIGURE: Final[Shape] = {
    "name!": str, "group!": str, "note!": str, "value!": (*_NUMBER, NoneType),
    "low!": (*_NUMBER, NoneType), "high!": (*_NUMBER, NoneType), "n!": int, "clusters!": int,
}  # fmt: skip
METRICS: Final[Shape] = {
    "complete!": bool, "records!": int, "expected!": int, "score!": FIGURE, "metrics!": [FIGURE],
    "ledger!": {"records!": {"*": int}, "moves!": {"*": int}},
    "policies!": {"as_played!": FIGURE, "given_valid!": FIGURE},
    "levels!": {"*": _NUMBER}, "normalised!": (*_NUMBER, NoneType), "hashes!": {"*": _TEXT},
    "usage!": {"prompt_tokens!": int, "completion_tokens!": int, "cut_off!": int},
    "task!": str, "model!": str, "opponent!": _TEXT, "split!": str, "reward!": str,
    "columns": [str],
}  # fmt: skip
MANIFEST: Final[Shape] = {
    "hash!": str, "label": str, "model_name": str, "expected": int, "limit": (int, NoneType),
    "model": dict, "training": (dict, NoneType),
    "spec!": {
        "task": {"name": str, "version": str, "options": dict, "data": _TEXT},
        "split": str, "model": str, "opponent": _TEXT, "reward": (dict, list),
        "decoding": {
            "temperature": _NUMBER, "top_p": _NUMBER, "top_k": int, "max_tokens": int,
            "stop": [str],
        },
        "system": _TEXT, "fewshot": int, "chat_template_kwargs": dict, "model_options": dict,
        "seeds": [int], "repeats": int, "n": int, "harness": str,
    },
    "settings": {
        "decoding": {
            "temperature": _NUMBER, "top_p": _NUMBER, "top_k": int, "max_tokens": int,
            "stop": [str],
        },
        "fewshot": int, "groups": [str], "limit": (int, NoneType), "model_options": dict, "n": int,
        "opponent": str, "opponent_options": dict, "options": dict, "pilot": int, "repeats": int,
        "reward": str, "reward_options": dict, "seeds": [int], "split": str, "system": _TEXT,
        "template_kwargs": dict,
    },
}  # fmt: skip


def check(value: Json, shape: Shape, what: str, place: str = "") -> None:
    """Raise HarnessError where a value has another shape, with its place in the file."""
    if isinstance(shape, dict):
        _check_dict(value, shape, what, place)
    elif isinstance(shape, list):
        if not isinstance(value, list):
            raise _wrong(value, what, place)
        for number, entry in enumerate(value):
            check(entry, shape[0], what, f"{place}[{number}]")
    elif not _fits(value, shape if isinstance(shape, tuple) else (shape,)):
        raise _wrong(value, what, place)


def _check_dict(value: Json, shape: Mapping[str, Shape], what: str, place: str) -> None:
    if not isinstance(value, dict):
        raise _wrong(value, what, place)
    prefix = f"{place}." if place else ""
    for key, inner in shape.items():
        name = key.rstrip("!")
        if key == "*":
            for other, entry in value.items():
                check(entry, inner, what, prefix + other)
        elif name in value:
            check(value[name], inner, what, prefix + name)
        elif key != name:
            raise HarnessError(f"{what}: lacks {prefix}{name}: damaged; copy it again")


def _fits(value: Json, types: tuple[type, ...]) -> bool:
    if isinstance(value, bool):
        return bool in types
    if not isinstance(value, types):
        return False
    if isinstance(value, int):
        return abs(value) < LARGEST
    return not isinstance(value, float) or math.isfinite(value)


def _wrong(value: Json, what: str, place: str) -> HarnessError:
    shown = repr(value) if len(repr(value)) <= 40 else f"{repr(value)[:40]}..."
    return HarnessError(f"{what}: {place or 'all of it'}: {shown} is of the wrong type")
