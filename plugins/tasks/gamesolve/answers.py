"""The answers: read from replies in the ways models really write them, and written in one way.

A reply commits to an answer in its last section that begins with ``ANSWER:`` and holds one; later
mentions of the word that hold none change nothing. Key lines (``Pure NE: ...``) without such a
section count as well; prose does not. The values keep numbers as they were written, for the reward
forgives what rounding can explain.

>>> data = {"kind": "nash", "row_labels": ["A", "B"], "col_labels": ["X", "Y"]}
>>> reply = "So ... **ANSWER:** Pure NE: none (I checked all); Mixed NE: ([1/3, 2/3], [.25, 75%])"
>>> parse(data, reply).value
{'pure': [], 'mixed': [{'row': ['1/3', '2/3'], 'col': ['0.25', '0.75']}]}
>>> print(block(data, {"pure": [[0, 1]], "mixed": []}))
ANSWER:
Pure NE: (A, Y)
Mixed NE: none
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple, TypeVar

from harness.parsing import plain, visible
from harness.types import OK, UNPARSED, Json, Parsed

from . import quick
from .board import show
from .mentions import named_actions, numbers
from .notation import pairs, profiles
from .profiles import has_pure
from .sections import first_line, is_none, key_pattern, runs, sections
from .tokens import Group, Names, clean, tree

T = TypeVar("T")

Value = dict[str, Json]
Runs = dict[str, list[list[str]]]

RUN = 64
"""Key lines of one kind in a row that are read (one equilibrium a line, say)."""

_THING = (
    r"(?:[ _-]{0,3}(?:strateg(?:y|ies)|nash|n\.?e\.?s?|equilibri(?:um|a)|profiles?|eq)(?![a-z]))"
    r"{0,4}"
    r"(?:\(s\))?(?: of the game)?(?:[ _]?[#(]?\d{1,2})?"
)
_MORE = r"(?:[ _-]{0,2}(?:actions?|strateg(?:y|ies)))?(?:\(s\))?"
_GAIN = r"(?:expected[ _-]?)?(?:value|payoff|utility)"

_EQUILIBRIA = key_pattern(pure=rf"pure{_THING}|psne", mixed=rf"mixed{_THING}|msne")
_RESPONSE = key_pattern(
    value=rf"best[ _-]?(?:response|reply)[ _-]{{0,2}}{_GAIN}|max(?:imum|imal)?[ _-]?{_GAIN}"
    r"|value|payoff",
    payoffs=r"expected[ _-]?(?:payoff|utilit|value)(?:s|y|ies)?(?:\(s\))?|payoffs|utilities",
    actions=rf"best[ _-]?(?:responses?|reply|replies|actions?){_MORE}",
)
_DOMINANCE = key_pattern(
    dominated=rf"(?:strictly[ _-]?)?dominated{_MORE}",
    dominant=rf"(?:strictly[ _-]?)?dominant{_MORE}",
)
_PAYOFF = key_pattern(value=r"(?:the[ _-]?)?(?:payoff|value|utility)")


def parse(data: Mapping[str, Json], reply_text: str) -> Parsed:
    """The committed answer of a reply: class ``ok``, or ``unparsed`` where there is none.

    Linear in the length of the text, whatever it holds.
    """
    text = visible(reply_text)
    value = quick.read(data, text)
    if value is not None:
        return Parsed(value, OK)
    names = Names.of(*(tuple(map(plain, data[key])) for key in ("row_labels", "col_labels")))
    keys, reader = _KINDS[data["kind"]]
    for section in sections(plain(text)):
        value = reader(runs(keys, section, names), data, names)
        if value is None and section.marked:
            value = _without_keys(first_line(section), data, names)
        if value is not None:
            return Parsed(value, OK)
    return Parsed(None, UNPARSED)


def _without_keys(line: str, data: Mapping[str, Json], names: Names) -> Value | None:
    """An answer section without keys: its first line, if it is nothing but an answer."""
    line = clean(line).strip()
    found = names.pattern.match(line.lstrip("([{ \"'"))
    if found is None or found.lastgroup not in ("L", "N", "R"):
        return None
    key = {"payoff": "value", "nash": "pure", "pure_equilibria": "pure"}.get(
        data["kind"], "actions"
    )
    return _KINDS[data["kind"]][1]({key: [[line]]}, data, names)


def _last(found: Runs, key: str, read: Callable[[list[str]], T | None]) -> T | None:
    """What the last run of a key that can be read says."""
    for run in reversed(found.get(key, ())):
        value = read(run[:RUN])
        if value is not None:
            return value
    return None


# Readers: what follows the keys -> the value, None where nothing is committed


class _Claims(NamedTuple):
    """Cells, pairs of strategies, and how many claims name no profile of the game."""

    cells: Sequence[tuple[int, int]] = ()
    profiles: Sequence[tuple[list[str], list[str]]] = ()
    invalid: int = 0


def _read_nash(found: Runs, data: Mapping[str, Json], names: Names) -> Value | None:
    pure = _last(found, "pure", lambda run: _merged([_pure(text, names) for text in run]))
    mixed = _last(found, "mixed", lambda run: _merged([_mixed(text, names) for text in run]))
    claims = _merged([pure, mixed])
    if claims is None:
        return None
    value: Value = {
        "pure": [list(cell) for cell in claims.cells],
        "mixed": [{"row": row, "col": col} for row, col in claims.profiles],
    }
    return value | {"invalid": claims.invalid} if claims.invalid else value


def _read_pure(found: Runs, data: Mapping[str, Json], names: Names) -> Value | None:
    return _read_nash({"pure": found.get("pure", [])}, data, names)


def _merged(parts: Sequence[_Claims | None]) -> _Claims | None:
    told = [part for part in parts if part is not None]
    if not told:
        return None
    return _Claims(
        [cell for part in told for cell in part.cells],
        [profile for part in told for profile in part.profiles],
        sum(part.invalid for part in told),
    )


def _pure(text: str, names: Names) -> _Claims | None:
    """Pairs of actions, or unit vectors, or none."""
    if is_none(text, names):
        return _Claims()
    root = tree(text, names)
    cells, invalid = pairs(root)
    return _Claims(cells, (), invalid) if cells or invalid else _vectors(root, names)


def _mixed(text: str, names: Names) -> _Claims | None:
    """Pairs of strategies, or none; pairs of actions only where no number stands."""
    if is_none(text, names):
        return _Claims()
    root = tree(text, names)
    claims = _vectors(root, names)
    if claims is None and not any(token.kind == "N" for token in root.flat()):
        cells, invalid = pairs(root)
        return _Claims(cells, (), invalid) if cells else None
    return claims


def _vectors(root: Group, names: Names) -> _Claims | None:
    claims, invalid = profiles(root, names)
    return _Claims((), claims, invalid) if claims or invalid else None


def _read_response(found: Runs, data: Mapping[str, Json], names: Names) -> Value | None:
    player = int(data["responder"] == "column")
    actions = _last(found, "actions", lambda run: _actions(run, player, names))
    if actions is None:
        return None
    value: Value = {"actions": actions}
    if data["kind"] == "best_response":
        value["payoffs"] = _last(
            found,
            "payoffs",
            lambda run: numbers(tree("\n".join(run), names), player, names) or None,
        )
    value["value"] = _number(found, names)
    return value


def _actions(run: Sequence[str], player: int, names: Names) -> list[int] | None:
    text = " ; ".join(run)
    return [] if is_none(text, names) else named_actions(tree(text, names), player, names)


def _number(found: Runs, names: Names) -> str | None:
    read = _last(found, "value", lambda run: numbers(tree(run[-1], names), None, names) or None)
    return read[0] if read else None


def _read_dominance(found: Runs, data: Mapping[str, Json], names: Names) -> Value | None:
    player = int(data["player"] == "column")
    dominated, dominant = (
        _last(found, key, lambda run: _actions(run, player, names))
        for key in ("dominated", "dominant")
    )
    if dominated is None and dominant is None:
        return None
    value: Value = {"dominated": dominated or []}
    if dominant is not None and len(dominant) <= 1:
        value["dominant"] = dominant[0] if dominant else None
    return value


def _read_payoff(found: Runs, data: Mapping[str, Json], names: Names) -> Value | None:
    number = _number(found, names)
    return None if number is None else {"value": number}


_KINDS: Mapping[
    str, tuple[re.Pattern[str], Callable[[Runs, Mapping[str, Json], Names], Value | None]]
] = {
    "nash": (_EQUILIBRIA, _read_nash),
    "pure_equilibria": (_EQUILIBRIA, _read_pure),
    "best_response": (_RESPONSE, _read_response),
    "best_response_pure": (_RESPONSE, _read_response),
    "dominance": (_DOMINANCE, _read_dominance),
    "payoff": (_PAYOFF, _read_payoff),
}


# Comparing


def canonical(value: Json) -> Json:
    """An answer in one form: exact numbers, and what is a set in order.

    >>> canonical({"actions": [1, 0], "value": "0.50"})
    {'actions': [0, 1], 'value': '1/2'}
    """
    if not isinstance(value, Mapping):
        return value
    out: Value = {}
    for key, part in value.items():
        if key in ("pure", "actions", "dominated"):
            out[key] = sorted(part or ())
        elif key == "mixed":
            claims = ([[_fraction(x) for x in c[k]] for k in ("row", "col")] for c in part or ())
            out[key] = sorted(claims)
        elif key == "payoffs":
            out[key] = None if part is None else [_fraction(x) for x in part]
        else:
            out[key] = _fraction(part) if key == "value" and part is not None else part
    return out


def _fraction(text: str) -> str:
    try:
        return str(Fraction(text))
    except (ValueError, ZeroDivisionError):
        return text


# Writing


def correct(data: Mapping[str, Json], truth: Mapping[str, Json]) -> Value:
    """The value of a right and complete answer: of each maximal Nash subset without a pure
    equilibrium its first extreme point."""
    kind = data["kind"]
    if kind in ("nash", "pure_equilibria"):
        value: Value = {"pure": [list(cell) for cell in truth["pure"]]}
        if kind == "nash":
            open_ = [s for s in truth["subsets"] if not has_pure(s)]
            value["mixed"] = [{"row": s["rows"][0], "col": s["cols"][0]} for s in open_]
        return value
    if kind in ("best_response", "best_response_pure"):
        payoffs = [show(Fraction(text)) for text in truth["payoffs"]]
        return {
            "actions": truth["best"], "payoffs": payoffs, "value": show(Fraction(truth["value"])),
        }  # fmt: skip
    return dict(truth)


def block(data: Mapping[str, Json], value: Mapping[str, Json]) -> str:
    """The answer section for a value, in the form that the prompts ask for."""
    return "\n".join(("ANSWER:", *_lines(data, value)))


def _lines(data: Mapping[str, Json], value: Mapping[str, Json]) -> Iterator[str]:
    rows, cols = data["row_labels"], data["col_labels"]
    kind = data["kind"]
    if kind in ("nash", "pure_equilibria"):
        yield f"Pure NE: {_listed([f'({rows[i]}, {cols[j]})' for i, j in value['pure']])}"
    if kind == "nash":
        claims = [f"({_vector(c['row'])}, {_vector(c['col'])})" for c in value["mixed"]]
        yield f"Mixed NE: {_listed(claims)}"
    if kind in ("best_response", "best_response_pure"):
        mine = rows if data["responder"] == "row" else cols
        yield f"Best response: {_listed([mine[i] for i in value['actions']])}"
        if kind == "best_response":
            yield f"Expected payoffs: {_vector(value['payoffs'] or ())}"
        yield f"Best response value: {value['value']}"
    if kind == "dominance":
        mine = rows if data["player"] == "row" else cols
        yield f"Dominated: {_listed([mine[i] for i in value['dominated']])}"
        yield f"Dominant: {_listed([] if value['dominant'] is None else [mine[value['dominant']]])}"
    if kind == "payoff":
        yield f"Payoff: {value['value']}"


def _listed(entries: Sequence[str]) -> str:
    return ", ".join(entries) or "none"


def _vector(numbers: Sequence[str]) -> str:
    return f"[{', '.join(numbers)}]"
