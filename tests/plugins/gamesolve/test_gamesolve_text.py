"""Prompts state the whole game correctly in every format, in plain grammar, and stay short."""

import ast
import json
import re
from itertools import product

import pytest

from harness.types import HarnessError
from harness_plugins.tasks.gamesolve.text import (
    FORMATS,
    KINDS,
    ROLES,
    SCENARIOS,
    either,
    messages,
)

GAME = {
    "row": [[3, "-0.50", 0], [1, 2, -4]],
    "col": [[1, -7, "2.25"], [0, 4, 5]],
    "row_labels": ["Up", "Down"],
    "col_labels": ["Red", "Green", "Blue"],
    "cell": [0, 1],
    "player": "column",
    "opponent_action": 1,
}
SMALL = {
    **GAME,
    "row": [[3, -5], [1, 2]],
    "col": [[1, -4], [0, 4]],
    "col_labels": ["X", "Y"],
}
SIGMAS = {"row": ["0.2500", "0.5000", "0.2500"], "column": ["0.1000", "0.9000"]}
CASES = list(product(KINDS, FORMATS, SCENARIOS, ("row", "column")))


def prompt(kind, form, context="market", responder="row", game=GAME):
    data = {**game, "kind": kind, "format": form, "context": context, "responder": responder}
    sigma = SIGMAS[responder]
    other = game["col_labels"] if responder == "row" else game["row_labels"]
    system, user = messages({**data, "sigma": sigma[: len(other)]})
    assert (system.role, user.role) == ("system", "user")
    return user.content


@pytest.mark.parametrize("kind", KINDS)
def test_every_prompt_says_who_what_and_how(kind):
    for form, context, responder in product(FORMATS, SCENARIOS, ("row", "column")):
        text = prompt(kind, form, context, responder)
        row, col, _ = SCENARIOS[context]
        assert (
            either(GAME["row_labels"]) in text or "{Up, Down}" in text or '["Up", "Down"]' in text
        )
        for label in (*GAME["row_labels"], *GAME["col_labels"]):
            assert label in text
        assert re.search(rf"{row}'s payoff (u1 )?comes first", text, re.IGNORECASE)
        assert text.lower().count(row.lower()) >= 2
        assert text.lower().count(col.lower()) >= 2
        assert "\n\nEnd your reply in this form:\nANSWER:\n" in text


@pytest.mark.parametrize(("form", "context"), [*product(FORMATS, SCENARIOS)])
def test_a_responder_is_told_who_it_is_and_which_payoffs_are_its_own(form, context):
    for kind, (k, responder) in product(
        ("best_response", "best_response_pure"), enumerate(("row", "column"))
    ):
        text = prompt(kind, form, context, responder)
        mine = (
            f"u{k + 1} is"
            if form == "math"
            else f"the {('first', 'second')[k]} number of each pair is"
        )
        assert f"You are {SCENARIOS[context][k]}: {mine} your payoff." in text
        other = SCENARIOS[context][1 - k]
        assert f"{other[0].upper()}{other[1:]} " in text.split("You are")[1]


def test_the_opponents_strategy_is_told():
    text = prompt("best_response", "compact")
    assert (
        "Firm 2 plays Red with probability 0.2500, Green with probability 0.5000 and Blue with"
        " probability 0.2500." in text
    )
    text = prompt("best_response_pure", "compact", responder="column")
    assert "Firm 1 is sure to play Down." in text


# What each format says, read back by other means


def pairs(text):
    return re.findall(r"\((-?[\d.]+), (-?[\d.]+)\)", text)


def read_lines(text):
    rows = [pairs(line) for line in text.split("\n\nFind")[0].splitlines()]
    return [row for row in rows if row]


def read_json(text):
    found = json.loads(text[text.index("{") : text.rindex("}") + 1], parse_float=str)
    outcomes = found["outcomes"]
    assert found["actions"] == {"Firm 1": GAME["row_labels"], "Firm 2": GAME["col_labels"]}
    assert [list(row) for row in outcomes.values()] == [GAME["col_labels"]] * 2
    assert list(outcomes) == GAME["row_labels"]
    return [[tuple(map(str, cell)) for cell in row.values()] for row in outcomes.values()]


def read_math(text):
    matrices = [
        ast.literal_eval(re.sub(r"(-?[\d.]+)", r"'\1'", line.partition(" = ")[2]))
        for line in text.splitlines()
        if line.startswith(("u1 = ", "u2 = "))
    ]
    return [list(zip(*lines, strict=True)) for lines in zip(*matrices, strict=True)]


@pytest.mark.parametrize("form", FORMATS)
def test_the_payoffs_are_told_exactly(form):
    read = {"json": read_json, "math": read_math}.get(form, read_lines)
    shown = read(prompt("nash", form))
    told = zip(GAME["row"], GAME["col"], strict=True)
    assert shown == [[(str(a), str(b)) for a, b in zip(*lines, strict=True)] for lines in told]


@pytest.mark.parametrize("form", ["abstract", "story", "markdown", "compact"])
def test_cells_stand_with_their_labels(form):
    lines = [line for line in prompt("nash", form).splitlines() if pairs(line)]
    assert [re.match(r"\W*(\w+)", line)[1] for line in lines] == GAME["row_labels"]
    if form == "compact":
        for line in lines:
            assert re.findall(r"against (\w+) \(", line) == GAME["col_labels"]
    else:
        text = prompt("nash", form).splitlines()
        header = text[text.index(lines[0]) - (2 if form == "markdown" else 1)]
        assert re.findall(r"\w+", header) == GAME["col_labels"]


# Grammar and size


@pytest.mark.parametrize(("kind", "form"), [*product(KINDS, FORMATS)])
def test_sentences_are_sentences(kind, form):
    for context, responder in product(SCENARIOS, ("row", "column")):
        text = prompt(kind, form, context, responder)
        prose = [
            line
            for line in text.split("\n\nEnd your reply")[0].splitlines()
            if len(line.split()) > 5
            and not pairs(line)
            and not line.startswith((" ", "|", "u1 =", "u2 ="))
        ]
        assert prose
        for line in prose:
            assert line[0].isupper() or line.startswith("#"), line
            assert line.endswith((".", "?", ":")) or line.startswith("#"), line
            assert "  " not in line
            assert not re.search(r"\b(\w+) \1\b", line), line
            assert not re.search(r"[.?] [a-z]", line), line
            assert "the the" not in line
            assert " a a" not in line


@pytest.mark.parametrize(("kind", "form"), [*product(KINDS, FORMATS)])
def test_prompts_of_small_games_are_short(kind, form):
    """Under 450 tokens at 2x2, counted as a tokenizer of small models does it at its worst: each
    digit and mark on its own, words in pieces of at most six letters."""
    for context, responder in product(SCENARIOS, ("row", "column")):
        text = prompt(kind, form, context, responder, game=SMALL)
        pieces = re.findall(r" ?[A-Za-z]{1,6}|\d|\n| |[^\w\s]", text)
        assert len(pieces) < 450


def test_prompts_are_stable_and_different():
    seen = {prompt(*case) for case in CASES}
    assert seen == {prompt(*case) for case in CASES}
    responders = {"best_response", "best_response_pure"}
    asked = {(k, f, c, r if k in responders else "") for k, f, c, r in CASES}
    assert len(seen) == len(asked)


def test_roles_are_names_without_an_article():
    assert set(ROLES) == set(SCENARIOS)
    for row, col in ROLES.values():
        assert row != col
        assert row[0].isupper()
        assert not row.startswith("The ")


@pytest.mark.parametrize("key", ["kind", "format", "context"])
def test_unknown_choices_are_errors(key):
    data = {**GAME, "kind": "nash", "format": "json", "context": "market", key: "opera"}
    with pytest.raises(HarnessError, match=f"no {key} 'opera'; choose one of "):
        messages(data)
