"""The reward `gamesolve-legacy`: the formula of the reference study, for comparison only.

It parses replies by its own rules and compares them with listed equilibria; `gamesolve` is what
should be trained on and reported (docs/gamesolve-scoring.md has what both pay for constants).

    equilibria     0.5 F + 0.3 K + 0.2 M    F1 of pure pairs, class, closeness of one mixed profile
    best response  0.5 A + 0.3 E + 0.2 V    overlap of actions, errors of payoffs and value by 10

>>> truth = {"equilibria": [{"sigma_row": [1.0, 0.0], "sigma_col": [1.0, 0.0], "is_pure": True}],
...          "equilibrium_class": "pure"}
>>> legacy_score("nash_equilibrium", "no idea", truth, ["A", "B"], ["X", "Y"])
0.2
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from harness import HarnessError, hookimpl
from harness.reward import Reward
from harness.types import Json, Outcome, Sample, Score

_MARK = "ANSWER:"
_DECIMAL = re.compile(r"-?\d+(?:\.\d+)?")
_ACTIONS = re.compile(r"best response action\s*+\(?s?\)?\s*+:(.*)", re.IGNORECASE)
_PAYOFFS = re.compile(r"expected payoffs?\s*:(.*)", re.IGNORECASE)
_VALUE = re.compile(r"best response value\s*:(.*)", re.IGNORECASE)
_OUR_ACTIONS = re.compile(r"(best response)(\s*:)", re.IGNORECASE)


class GameSolveLegacyReward(Reward):
    """The reference study's formula."""

    name = "gamesolve-legacy"

    def score(self, sample: Sample, outcome: Outcome) -> Score:
        """Score the raw text of the last move.

        The key line ``Best response:`` of our prompts is read as the study's ``Best response
        action(s):``. Raises HarnessError for kinds of questions that the study does not have.
        """
        text = outcome.moves[-1].reply.text if outcome.moves else ""
        data = sample.data
        if data["kind"] == "nash":
            labels = data["row_labels"], data["col_labels"]
            return Score(legacy_score("nash_equilibrium", text, _listed(sample.truth), *labels))
        if data["kind"] == "best_response":
            mine = data["row_labels"] if data["responder"] == "row" else data["col_labels"]
            text = _OUR_ACTIONS.sub(r"\1 actions\2", text)
            return Score(legacy_score("best_response", text, _numbers(sample.truth), mine, ()))
        raise HarnessError(
            f"gamesolve-legacy has no formula for the kind {data['kind']!r}: use --reward gamesolve"
        )


@hookimpl
def create_reward(name: str, options: Mapping[str, Json]) -> GameSolveLegacyReward:
    """Make the reward; it has no options."""
    return GameSolveLegacyReward(options)


def legacy_score(
    task: str,
    response: str,
    ground_truth: Mapping[str, Json],
    row_labels: Sequence[str],
    col_labels: Sequence[str],
) -> float:
    """What the reference study's scorer pays, in [0, 1].

    :param task: ``nash_equilibrium``; anything else is scored as a best response.
    :param ground_truth: as the study lists it: ``equilibria`` (``sigma_row``, ``sigma_col``,
        ``is_pure``) and ``equilibrium_class``, or ``expected_payoffs``, ``best_response_actions``
        and ``best_response_value``.
    :param row_labels: the row actions; for a best response those of the responder.
    """
    if not response.strip():
        return 0.0
    at = response.upper().rfind(_MARK)
    block = response if at < 0 else response[at + len(_MARK) :]
    if task == "nash_equilibrium":
        return _nash(block, ground_truth, row_labels, col_labels)
    return _best_response(block, ground_truth, row_labels)


def _nash(block: str, truth: Mapping[str, Json], rows: Sequence[str], cols: Sequence[str]) -> float:
    pairs = _pairs(block, rows, cols)
    profile = _profile(block)
    pure = {_cell(e) for e in truth["equilibria"] if e["is_pure"]}
    mixed = [e for e in truth["equilibria"] if not e["is_pure"]]
    hits = len(pairs & pure)
    if pure:
        pure_score = 2 * hits / (len(pairs) + len(pure)) if hits else 0.0
    else:
        pure_score = float(not pairs)
    kind = _kind(truth["equilibrium_class"], bool(pairs), profile is not None)
    if mixed and profile is not None:
        distance = min([_distance(profile, e) for e in mixed])
        mixed_score = max(0.0, 1.0 - distance)
    else:
        mixed_score = float(not mixed and profile is None)
    return 0.5 * pure_score + 0.3 * kind + 0.2 * mixed_score


def _pairs(block: str, rows: Sequence[str], cols: Sequence[str]) -> set[tuple[int, int]]:
    section = re.search(r"pure\s*ne\s*:(.*?)(?:mixed\s*ne|\Z)", block, re.IGNORECASE | re.DOTALL)
    if section is None or "none" in section[1].lower():
        return set()
    return {
        (i, j)
        for i, row in enumerate(rows)
        for j, col in enumerate(cols)
        if re.search(rf"\({re.escape(row)}\s*,\s*{re.escape(col)}\)", section[1], re.IGNORECASE)
    }


def _profile(block: str) -> tuple[list[float], list[float]] | None:
    """The first two bracketed vectors that sum to about 1, as one mixed profile."""
    section = re.search(r"mixed\s*ne\s*:(.*)", block, re.IGNORECASE | re.DOTALL)
    if section is None or "none" in section[1].lower():
        return None
    vectors = [
        [float(number) for number in _DECIMAL.findall(run)] for run in _bracketed(section[1])
    ]
    kept = [vector for vector in vectors if vector and abs(sum(vector) - 1.0) <= 0.05]
    return (kept[0], kept[1]) if len(kept) >= 2 else None


def _bracketed(text: str) -> Iterator[str]:
    """What stands between each ``[`` and the next ``]``, in linear time."""
    for run in text.split("]")[:-1]:
        _, bracket, inside = run.partition("[")
        if bracket:
            yield inside


def _kind(kind: str, pure: bool, mixed: bool) -> float:
    if kind == "both":
        return 1.0 if pure and mixed else 0.5 if pure or mixed else 0.0
    return float((pure, mixed) == {"pure": (True, False), "mixed": (False, True)}.get(kind))


def _distance(profile: tuple[list[float], list[float]], listed: Mapping[str, Json]) -> float:
    """The summed absolute difference of both vectors; 2 where the shapes differ."""
    row, col = listed["sigma_row"], listed["sigma_col"]
    if (len(profile[0]), len(profile[1])) != (len(row), len(col)):
        return 2.0
    pairs = zip((*profile[0], *profile[1]), (*row, *col), strict=True)
    return float(sum(abs(p - q) for p, q in pairs))


def _cell(listed: Mapping[str, Json]) -> tuple[int, int]:
    row, col = listed["sigma_row"], listed["sigma_col"]
    return row.index(max(row)), col.index(max(col))


def _best_response(block: str, truth: Mapping[str, Json], labels: Sequence[str]) -> float:
    best = set(truth["best_response_actions"])
    named = _named(block, labels)
    actions = len(named & best) / max(len(best), len(named)) if named else 0.0
    found = _PAYOFFS.search(block)
    predicted = [float(x) for x in _DECIMAL.findall(found[1])] if found else []
    exact = truth["expected_payoffs"]
    payoffs = 0.0
    if predicted and len(predicted) == len(exact):
        errors = [abs(p - q) for p, q in zip(predicted, exact, strict=True)]
        payoffs = max(0.0, 1.0 - sum(errors) / len(errors) / 10.0)
    found = _VALUE.search(block)
    first = _DECIMAL.search(found[1]) if found else None
    value = 0.0
    if first is not None:
        value = max(0.0, 1.0 - abs(float(first[0]) - truth["best_response_value"]) / 10.0)
    return 0.5 * actions + 0.3 * payoffs + 0.2 * value


def _named(block: str, labels: Sequence[str]) -> set[int]:
    found = _ACTIONS.search(block)
    if found is None:
        return set()
    return {
        i
        for i, label in enumerate(labels)
        if re.search(rf"(?<![a-z]){re.escape(label)}(?![a-z])", found[1], re.IGNORECASE)
    }


# The study's ground truth from ours


def _listed(truth: Mapping[str, Json]) -> dict[str, Json]:
    """All extreme equilibria in floats of six decimals (the study lists only some of them)."""
    listed = []
    for equilibrium in truth["equilibria"]:
        row, col = _floats(equilibrium["row"]), _floats(equilibrium["col"])
        pure = max(row) == max(col) == 1.0
        listed.append({"sigma_row": row, "sigma_col": col, "is_pure": pure})
    pures = {entry["is_pure"] for entry in listed}
    kind = "both" if len(pures) == 2 else "pure" if True in pures else "mixed"
    return {"equilibria": listed, "equilibrium_class": kind}


def _numbers(truth: Mapping[str, Json]) -> dict[str, Json]:
    return {
        "expected_payoffs": _floats(truth["payoffs"]),
        "best_response_actions": truth["best"],
        "best_response_value": _floats([truth["value"]])[0],
    }


def _floats(texts: Sequence[str]) -> list[float]:
    return [round(float(Fraction(text)), 6) for text in texts]
