"""The short way to read a reply that ends in exactly the form that the prompts ask for.

Replies of trained models almost all do. Anything unusual gives None, and the grammar reads it.

>>> data = {"kind": "nash", "row_labels": ["A", "B"], "col_labels": ["X", "Y"]}
>>> read(data, "ANSWER:\\nPure NE: (A, X), (B, Y)\\nMixed NE: ([2/3, 1/3], [0.5, 0.5])")
{'pure': [[0, 0], [1, 1]], 'mixed': [{'row': ['2/3', '1/3'], 'col': ['0.5', '0.5']}]}
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from harness.types import Json

_NASH = re.compile(r"\s*Pure NE: (.+)\nMixed NE: (.+)")
_RESPONSE = re.compile(
    r"\s*Best response: (.+)\nExpected payoffs: \[(.+)\]\nBest response value: (\S+)"
)
_NUMBER = re.compile(r"-?\d{1,24}(?:[./]\d{1,24})?")


def read(data: Mapping[str, Json], text: str) -> dict[str, Json] | None:
    """The value of an answer at the end of a text, if it is written to the letter."""
    kind = data["kind"]
    if kind not in ("nash", "best_response") or not text.isascii():
        return None
    at = text.rfind("ANSWER:")
    if at < 0 or len(text) - at > 2_000:
        return None
    tail = text[at + 7 :]
    if "answer" in tail.lower():
        return None
    return _nash(data, tail) if kind == "nash" else _response(data, tail)


def _nash(data: Mapping[str, Json], tail: str) -> dict[str, Json] | None:
    found = _NASH.fullmatch(tail)
    if found is None:
        return None
    pure, mixed = found.groups()
    rows, cols = data["row_labels"], data["col_labels"]
    value: dict[str, Json] = {"pure": [], "mixed": []}
    try:
        if pure != "none":
            for entry in _entries(pure, "(", ")"):
                row, col = entry.split(", ")
                value["pure"].append([rows.index(row), cols.index(col)])
        if mixed != "none":
            for entry in _entries(mixed, "([", "])"):
                row, col = entry.split("], [")
                value["mixed"].append({"row": _numbers(row), "col": _numbers(col)})
    except ValueError:
        return None
    return value


def _response(data: Mapping[str, Json], tail: str) -> dict[str, Json] | None:
    found = _RESPONSE.fullmatch(tail)
    if found is None:
        return None
    mine = data["row_labels"] if data["responder"] == "row" else data["col_labels"]
    try:
        return {
            "actions": [mine.index(name) for name in found[1].split(", ")],
            "payoffs": _numbers(found[2]),
            "value": _numbers(found[3])[0],
        }
    except ValueError:
        return None


def _entries(text: str, start: str, end: str) -> list[str]:
    """The entries of ``(a), (b)`` without their brackets. Raises ValueError for another form."""
    if not (text.startswith(start) and text.endswith(end)):
        raise ValueError(text)
    return text[len(start) : -len(end)].split(f"{end}, {start}")


def _numbers(text: str) -> list[str]:
    """Written numbers, as they are. Raises ValueError where one is not plain."""
    numbers = text.split(", ")
    if not all(map(_NUMBER.fullmatch, numbers)) or "/0" in text:
        raise ValueError(text)
    return numbers
