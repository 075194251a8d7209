"""Answers are read from every notation that models use, and from nothing else, in linear time."""

import random
import re
import time
from fractions import Fraction
from itertools import cycle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.parsing import classify
from harness.types import EMPTY, OK, REFUSED, TRUNCATED, UNPARSED, Reply
from harness_plugins.rewards.gamesolve import judge
from harness_plugins.tasks.gamesolve import quick
from harness_plugins.tasks.gamesolve.answers import block, correct, parse
from harness_plugins.tasks.gamesolve.items import draw_item
from harness_plugins.tasks.gamesolve.presets import plan
from harness_plugins.tasks.gamesolve.text import SCENARIOS

NASH = {"kind": "nash", "row_labels": ["A", "B", "C"], "col_labels": ["X", "Y"]}
RESPONSE = {
    "kind": "best_response",
    "row_labels": ["A", "B"],
    "col_labels": ["Left", "Right"],
    "responder": "row",
}
DIGITS = {**RESPONSE, "row_labels": ["Q1", "Q2", "Q3"]}


def nash(pure=(), mixed=(), **more):
    claims = [{"row": row.split(), "col": col.split()} for row, col in mixed]
    return {"pure": [list(cell) for cell in pure], "mixed": claims, **more}


def answer(pure, mixed="none"):
    return f"ANSWER:\nPure NE: {pure}\nMixed NE: {mixed}"


THIRDS = nash(mixed=[("1/3 2/3 0", "1/2 1/2")])
TWO = nash(mixed=[("1/3 2/3 0", "1/2 1/2"), ("0 2/3 1/3", "1/4 3/4")])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (answer("(A, X), (C, Y)"), nash([(0, 0), (2, 1)])),
        (answer('("A", "X")', '"none"'), nash([(0, 0)])),
        (answer("[[A, X], [B, Y]]", "N/A"), nash([(0, 0), (1, 1)])),
        (answer("{(A,X),(B,Y)}", "\u2205"), nash([(0, 0), (1, 1)])),
        (answer("(Player 1: A, Player 2: Y)"), nash([(0, 1)])),
        (answer("(Firm 2 plays Y, Firm 1 plays A)", "-"), nash([(0, 1)])),
        (answer("(Column: Y, Row: A)"), nash([(0, 1)])),
        (answer("(A, X) (none other)"), nash([(0, 0)])),
        (answer("none other than (A, X)"), nash([(0, 0)])),
        (answer("None (no pure equilibria; (A, X) fails)", "n/a"), nash()),
        (answer("There is no pure equilibrium.", "No mixed one either"), nash()),
        (answer("(A, X): payoffs (3, 2), both best"), nash([(0, 0)])),
        (answer("A, X"), nash([(0, 0)])),
        (answer("Row plays A, Column plays X"), nash([(0, 0)])),
        (answer("1. (A, X)\n2. (B, Y)"), nash([(0, 0), (1, 1)])),
        (answer("(X, A)"), nash(invalid=1)),
        (answer("(A, Z), (B, Y)"), nash([(1, 1)], invalid=1)),
        (answer("([0, 1, 0], [0, 1])"), nash(mixed=[("0 1 0", "0 1")])),
        ("**ANSWER:**\n**Pure NE:** [(A, X)]\n**Mixed NE:** none", nash([(0, 0)])),
        ("**ANSWER**:\nPure NE: (A, X)\nMixed NE: none", nash([(0, 0)])),
        ("answer:\npure ne: (a, x)\nmixed ne: none", nash([(0, 0)])),
        ("ANSWER:\nMixed NE: none\nPure NE: (A, X)", nash([(0, 0)])),
        ("ANSWER:\nPure Nash Equilibria: (A, X)\nMixed Nash Equilibria: none", nash([(0, 0)])),
        ("ANSWER:\nPure-strategy NE(s): (A, X)\nMixed-strategy NE(s): none", nash([(0, 0)])),
        ("Final answer: Pure NE: (A, X). Mixed NE: none.", nash([(0, 0)])),
        ("ANSWER: (A, X)", nash([(0, 0)])),
        ("Pure NE: (A, X)\nMixed NE: none", nash([(0, 0)])),
        (
            "## ANSWER\n\n### Pure Nash Equilibria\n\n* (A, X)\n\n* (B, Y)\n\n### Mixed\n\nNone",
            nash([(0, 0), (1, 1)]),
        ),
        (answer("none", "(A, X)"), nash([(0, 0)])),
        (answer("none", "([1/3, 2/3, 0], [1/2, 1/2])"), THIRDS),
        (answer("none", "[[1/3, 2/3, 0], [1/2, 1/2]]"), THIRDS),
        (answer("none", "(1/3, 2/3, 0), (1/2, 1/2)"), THIRDS),
        (answer("none", "((1/3, 2/3, 0), (1/2, 1/2))"), THIRDS),
        (answer("none", "x = [1/3, 2/3, 0], y = [1/2, 1/2]"), THIRDS),
        (answer("none", "\\sigma_1 = (1/3, 2/3, 0), \\sigma_2 = (1/2, 1/2)"), THIRDS),
        (answer("none", "P(A)=1/3, P(B)=2/3, P(C)=0 / P(X)=1/2, P(Y)=1/2"), THIRDS),
        (answer("none", "p_A = 1/3, p_B = 2/3, q_X = 1/2, q_Y = 1/2"), THIRDS),
        (answer("none", "([A: 1/3, B: 2/3], [X: 1/2, Y: 1/2])"), THIRDS),
        (answer("none", "(1/3 A + 2/3 B, 1/2 X + 1/2 Y)"), THIRDS),
        (answer("none", "1/3*A + 2/3*B; 1/2*X + 1/2*Y"), THIRDS),
        (answer("none", "Column: [1/2, 1/2], Row: [1/3, 2/3, 0]"), THIRDS),
        (answer("none", "\n- Firm 1: [1/3, 2/3, 0]\n- Firm 2: [1/2, 1/2]"), THIRDS),
        (answer("none", "\nA: 1/3\nB: 2/3\nX: 1/2\nY: 1/2"), THIRDS),
        (
            answer(
                "none",
                "Firm 1 plays A with probability 1/3 and B with probability 2/3; Firm 2 plays X"
                " with probability 1/2 and Y with probability 1/2.",
            ),
            THIRDS,
        ),
        (
            answer(
                "none",
                "Row mixes A and B with probabilities 1/3 and 2/3, Column mixes X and Y with"
                " probabilities 1/2 and 1/2",
            ),
            THIRDS,
        ),
        (answer("none", "([1/3 \u2248 0.333, 2/3 (0.667), 0], [1/2 = 0.5, (1/2)])"), THIRDS),
        (answer("none", "([\u2153, \u2154, 0], [\u00bd, \u00bd])"), THIRDS),
        (
            answer(
                "none",
                "$\\left(\\left[\\frac{1}{3}, \\dfrac{2}{3}, 0\\right],"
                " [\\tfrac12, \\frac12]\\right)$",
            ),
            THIRDS,
        ),
        (answer("none", "([1/3, 2/3, 0], [1/2, 1/2])\n\nThere are none beyond these."), THIRDS),
        (answer("none", "([1/3, 2/3, 0], [1/2, 1/2]), ([0, 2/3, 1/3], [1/4, 3/4])"), TWO),
        (
            answer("none", "\n1. ([1/3, 2/3, 0], [1/2, 1/2]) with payoffs (2.5, 1.5)\n"
                   "2. ([0, 2/3, 1/3], [1/4, 3/4]), payoffs [1, 2]"),
            TWO,
        ),
        (
            "ANSWER:\nPure NE: none\nMixed NE 1: ([1/3, 2/3, 0], [1/2, 1/2])\n"
            "Mixed NE 2: ([0, 2/3, 1/3], [1/4, 3/4])",
            TWO,
        ),
        (
            answer("none", "([33.3%, 66.7 %, 0], [.5, 0.5])"),
            nash(mixed=[("0.333 0.667 0", "0.5 0.5")]),
        ),
        (
            answer("none", "(A, [1/2, 1/2]), ([1/3, 2/3, 0], Y)"),
            nash(mixed=[("1 0 0", "1/2 1/2"), ("1/3 2/3 0", "0 1")]),
        ),
        (answer("none", "([\u22121/3, 4/3, 0], [1, 0])"), nash(mixed=[("-1/3 4/3 0", "1 0")])),
        (answer("none", "([1/2, 1/2], [1/2, 1/2])"), nash(mixed=[("1/2 1/2", "1/2 1/2")])),
        (answer("none", "([row probabilities], [column probabilities])"), nash()),
        (
            '```json\n{"answer": {"pure_ne": [["A", "X"]], "mixed_ne": [{"row": {"A": 0.25,'
            ' "B": 0.75}, "column": ["1/2", "1/2"], "payoffs": [1, 2]}]}}\n```',
            nash([(0, 0)], [("0.25 0.75 0", "1/2 1/2")]),
        ),
        (
            "ANSWER:\n\\boxed{\\text{Pure NE: } (A, X); \\text{Mixed NE: none}}",
            nash([(0, 0)]),
        ),
        ("<think>ANSWER:\nPure NE: (B, X)</think>" + answer("(A, X)"), nash([(0, 0)])),
        (answer("(A, X)") + "\n\nThis is my final ANSWER: see above.", nash([(0, 0)])),
        (answer("(A, X)") + "\nANSWER:", nash([(0, 0)])),
        (answer("(A, X)", "none (the pure NE: unique)"), nash([(0, 0)])),
        (answer("(A, X)") + "\n\nNo, wait.\n\n" + answer("(B, X)"), nash([(1, 0)])),
        (answer("(A, X)") + "\nWait. Pure NE: (B, X)\nMixed NE: none", nash([(1, 0)])),
    ],
)  # fmt: skip
def test_equilibria_are_read(text, value):
    read = parse(NASH, text)
    assert (read.cls, read.value) == (OK, value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "the equilibrium is obviously (A, X)",
        "I would say that both mix equally: [1/3, 1/3, 1/3], [1/2, 1/2].",
        "ANSWER:",
        "The answer: it depends on what (A, X) pays.",
        "<think>ANSWER:\nPure NE: (A, X)\nMixed NE: none",
        "ANSWER:\nPure NE:\nMixed NE:",
    ],
)
def test_nothing_is_read_where_nothing_is_committed(text):
    assert parse(NASH, text) == parse(NASH, "")
    assert parse(NASH, text).cls == UNPARSED


@pytest.mark.parametrize("second", ["P(A)=1/2, P(B)=1/2", "A: 1/2, B: 1/2"])
@pytest.mark.parametrize("first", ["P(A)=0.25, P(B)=0.75", "A: 0.25, B: .75", "A: 1, B: 0", "B: 1"])
def test_label_sets_that_coincide_are_told_apart_by_order(first, second):
    data = {"kind": "nash", "row_labels": ["A", "B"], "col_labels": ["A", "B"]}
    rows = {"A: 1, B: 0": ["1", "0"], "B: 1": ["0", "1"]}
    read = parse(data, answer("(A, B)", f"{first}; {second}")).value
    claim = {"row": rows.get(first, ["0.25", "0.75"]), "col": ["1/2", "1/2"]}
    assert read == {"pure": [[0, 1]], "mixed": [claim]}


def response(actions, payoffs, value):
    return {"actions": actions, "payoffs": payoffs, "value": value}


@pytest.mark.parametrize(
    ("data", "text", "value"),
    [
        (
            RESPONSE,
            "Best response action(s): [B]\nExpected payoffs: [-1.5, \u22120.25]\n"
            "Best response value: -0.25",
            response([1], ["-1.5", "-0.25"], "-0.25"),
        ),
        (
            RESPONSE,
            "Best response: a rational player picks B\nExpected payoffs: [1, 2]\nValue: 2",
            response([1], ["1", "2"], "2"),
        ),
        (
            RESPONSE,
            "Best response: A and B (tie)\nExpected payoffs: A: 25/7 \u2248 3.571, B: 25/7\n"
            "Best response value: 25/7 (about 3.571)",
            response([0, 1], ["25/7", "25/7"], "25/7"),
        ),
        (
            RESPONSE,
            "Best response: B, since A pays less\nExpected payoffs: 1.2 for A, 3.4 for B\n"
            "Best response value: 3.4.",
            response([1], ["1.2", "3.4"], "3.4"),
        ),
        (
            RESPONSE,
            "Best response: 0 A + 1 B\nExpected payoffs: (1, 2)\n"
            "Best response value: EU = 2*0.5 + 1 = 2",
            response([1], ["1", "2"], "2"),
        ),
        (
            RESPONSE,
            "Best response: b\nExpected payoffs:\n- B: 3.4\n- A: 1.2\n\nBest response value: 3.4",
            response([1], ["1.2", "3.4"], "3.4"),
        ),
        (
            RESPONSE,
            "Best response: B (payoff 3.75)\n"
            "Expected payoffs: EU(A) = 0.5*2 + 0.5*3 = 2.5, EU(B) = 3.75",
            response([1], ["2.5", "3.75"], None),
        ),
        (RESPONSE, "Best response: none", response([], None, None)),
        (RESPONSE, "Best response: Left", response([], None, None)),
        (RESPONSE, "\\boxed{B}", response([1], None, None)),
        (
            DIGITS,
            "Best response: play Q2 with probability 1\n"
            "Expected payoffs: [\n1.6169,\n-3.9420,\n1.1378]\n"
            "Best response value: 1.6169",
            response([1], ["1.6169", "-3.9420", "1.1378"], "1.6169"),
        ),
        (
            DIGITS,
            "Best response: Q2\nExpected payoffs: EU(Q1) = 0.27, EU(Q2) = 4.42, EU(Q3) = -0.02\n"
            "Best response value: EU(Q2) = 4.42",
            response([1], ["0.27", "4.42", "-0.02"], "4.42"),
        ),
        (
            DIGITS,
            '{"best_response": ["Q2"], "expected_payoffs": {"Q1": 1, "Q3": 3, "Q2": 2.5},'
            ' "best_response_value": 2.5}',
            response([1], ["1", "2.5", "3"], "2.5"),
        ),
    ],
)  # fmt: skip
def test_best_responses_are_read(data, text, value):
    assert parse(data, f"ANSWER:\n{text}").value == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Dominated: B\nDominant: A", {"dominated": [1], "dominant": 0}),
        ("Strictly dominated actions: none\nStrictly dominant action: none",
         {"dominated": [], "dominant": None}),
        ("**Dominated:** none (C comes close)\n**Dominant:** n/a",
         {"dominated": [], "dominant": None}),
        ("Dominated: B and C.\nDominant: A, because it beats B and C",
         {"dominated": [1, 2], "dominant": 0}),
        ("Dominated: B", {"dominated": [1]}),
    ],
)  # fmt: skip
def test_dominance_is_read(text, value):
    data = {"kind": "dominance", "row_labels": ["A", "B", "C"], "col_labels": ["X", "Y"]}
    assert parse({**data, "player": "row"}, f"ANSWER:\n{text}").value == value


@pytest.mark.parametrize(
    "text", ["Payoff: -3.25", "-3.25", "**Payoff: \u22123.25**", "Payoff = -13/4"]
)
def test_a_payoff_is_read(text):
    data = {"kind": "payoff", "row_labels": ["A", "B"], "col_labels": ["X", "Y"], "player": "row"}
    assert Fraction(parse(data, f"ANSWER: {text}").value["value"]) == Fraction(-13, 4)


@pytest.mark.parametrize(
    ("reply", "cls"),
    [
        (Reply(""), EMPTY),
        (Reply("I'm sorry, but I can't help with that."), REFUSED),
        (Reply("First I look at", finish_reason="length"), TRUNCATED),
        (Reply("Something else."), UNPARSED),
        (Reply(answer("none")), OK),
        (Reply(answer("(A, X)"), finish_reason="length"), OK),
    ],
)
def test_the_parse_status_is_apart_from_correctness(reply, cls):
    assert classify(reply, parse(NASH, reply.text)).cls == cls


SAMPLES = [
    draw_item(item, data_seed=3)
    for preset in ("gamesolve", "gamesolve-ood", "gamesolve-skills")
    for item in plan(preset)[::23]
]
EQUILIBRIA = [s for s in SAMPLES if s.data["kind"] == "nash"]
RESPONSES = [s for s in SAMPLES if s.data["kind"] == "best_response"]


@pytest.mark.parametrize("short", [True, False])
def test_what_is_written_is_read_back(short, monkeypatch):
    if not short:
        monkeypatch.setattr(quick, "read", lambda data, text: None)
    for sample in SAMPLES:
        value = correct(sample.data, sample.truth)
        read = parse(sample.data, "Some steps.\n\n" + block(sample.data, value)).value
        asked = {key: value[key] for key in value if key in read}
        assert asked == {key: read[key] for key in asked}
        assert asked
        assert judge(sample.data, sample.truth, read).value == 1.0


# Any notation


def fraction(p, pattern):
    return pattern.format(p.numerator, p.denominator) if p.denominator > 1 else str(p)


def beside(names, ps, pattern, separator=", "):
    return separator.join(pattern.format(a, p) for a, p in zip(names, ps, strict=True))


NUMBERS = {
    "fraction": str,
    "spaced": lambda p: fraction(p, "{} / {}"),
    "latex": lambda p: fraction(p, r"\frac{{{}}}{{{}}}"),
    "decimal": lambda p: f"{float(p):.4f}",
    "dotted": lambda p: re.sub(r"^(-?)0\.", r"\1.", f"{float(p):.6f}"),
    "percent": lambda p: f"{float(100 * p):.3f}%",
    "both": lambda p: f"{p} \u2248 {float(p):.3f}" if p.denominator > 1 else str(p),
}
VECTORS = {
    "square": lambda names, ps: f"[{', '.join(ps)}]",
    "round": lambda names, ps: f"({', '.join(ps)})",
    "labels": lambda names, ps: f"[{beside(names, ps, '{}: {}')}]",
    "quoted": lambda names, ps: f"{{{beside(names, ps, chr(34) + '{}' + chr(34) + ': {}')}}}",
    "P": lambda names, ps: beside(names, ps, "P({}) = {}"),
    "sum": lambda names, ps: beside(names, ps, "{1} {0}", " + "),
    "prose": lambda names, ps: beside(names, ps, "{} with probability {}", " and "),
}
PROFILES = {
    "pair": lambda roles, x, y: f"({x}, {y})",
    "square": lambda roles, x, y: f"[{x}, {y}]",
    "roles": lambda roles, x, y: f"{roles[0]}: {x}; {roles[1]}: {y}",
    "swapped": lambda roles, x, y: f"Column player: {y}; row player: {x}",
    "json": lambda roles, x, y: f'{{"row": {x}, "col": {y}}}',
}
CELLS = {
    "round": lambda roles, a, b: f"({a}, {b})",
    "square": lambda roles, a, b: f"[{a}, {b}]",
    "quoted": lambda roles, a, b: f'("{a}", "{b}")',
    "roles": lambda roles, a, b: f"({roles[0]}: {a}, {roles[1]}: {b})",
    "bold": lambda roles, a, b: f"**({a}, {b})**",
}
FRAMES = {
    "plain": "ANSWER:\nPure NE: {pure}\nMixed NE: {mixed}",
    "bold": "**ANSWER:**\n**Pure NE:** {pure}\n**Mixed NE:** {mixed}\n\nThat is all there is.",
    "headers": "# Answer\n\n## Pure Nash equilibria\n\n{pure}\n\n## Mixed equilibria\n\n{mixed}",
    "reversed": "ANSWER: Mixed NE: {mixed}\nPure NE: {pure}\nANSWER: see above",
    "thinking": "<think>Pure NE: none</think>\nPure NE: {pure}\nMixed NE: {mixed}",
}


@st.composite
def notations(draw):
    """A sample with equilibria, and a right answer in some notation."""
    sample = draw(st.sampled_from(EQUILIBRIA))
    data = sample.data
    value = correct(data, sample.truth)
    scenario = SCENARIOS[data["context"]]
    number = NUMBERS[draw(st.sampled_from(sorted(NUMBERS)))]
    vector = VECTORS[draw(st.sampled_from(sorted(VECTORS)))]
    profile = PROFILES[draw(st.sampled_from(sorted(PROFILES)))]
    cell = CELLS[draw(st.sampled_from(sorted(CELLS)))]
    separator = draw(st.sampled_from([", ", "\n", "\n- ", "; "]))

    def written(side, names):
        return vector(data[names], [number(Fraction(p)) for p in side])

    pure = [
        cell(scenario[:2], data["row_labels"][i], data["col_labels"][j]) for i, j in value["pure"]
    ]
    mixed = [
        profile(scenario[:2], written(c["row"], "row_labels"), written(c["col"], "col_labels"))
        for c in value["mixed"]
    ]
    pure, mixed = draw(st.permutations(pure)), draw(st.permutations(mixed))
    start = separator.strip() and ("\n- " if "-" in separator else "")
    frame = FRAMES[draw(st.sampled_from(sorted(FRAMES)))]
    text = frame.format(
        pure=start + separator.join(pure) if pure else "none",
        mixed=start + separator.join(mixed) if mixed else "None",
    )
    return sample, text


@settings(max_examples=600, deadline=None, derandomize=True)
@given(notations())
def test_a_right_answer_scores_1_in_any_notation(case):
    sample, text = case
    read = parse(sample.data, text)
    assert judge(sample.data, sample.truth, read.value).value == 1.0, (text, read)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.sampled_from(RESPONSES),
    st.sampled_from(sorted(set(NUMBERS) - {"percent"})),
    st.sampled_from(["list", "labels", "EU", "lines", "after"]),
    st.sampled_from(
        ["{}", "[{}]", "**{}**", '"{}"', "play {} with probability 1", "{}, as it pays most"]
    ),
)
def test_a_right_best_response_scores_1_in_any_notation(sample, number, listing, naming):
    data, truth = sample.data, sample.truth
    mine = data["row_labels"] if data["responder"] == "row" else data["col_labels"]
    numbers = [NUMBERS[number](Fraction(p)) for p in truth["payoffs"]]
    pairs = list(zip(mine, numbers, strict=True))
    payoffs = {
        "list": f"[{', '.join(numbers)}]",
        "labels": ", ".join(f"{a}: {p}" for a, p in pairs),
        "EU": ", ".join(f"EU({a}) = 1*2 - 3 = {p}" for a, p in reversed(pairs)),
        "lines": "\n" + "\n".join(f"- {a}: {p}" for a, p in pairs),
        "after": ", ".join(f"{p} for {a}" for a, p in pairs),
    }[listing]
    value = NUMBERS[number](Fraction(truth["value"]))
    text = (
        f"ANSWER:\nBest response: {naming.format(mine[truth['best'][0]])}\n"
        f"Expected payoffs: {payoffs}\nBest response value: {value}"
    )
    read = parse(data, text)
    assert judge(data, truth, read.value).value == pytest.approx(1.0), (text, read, truth)


# Garbage

UNITS = [
    "ANSWER: ", "ANSWER:\n", "[", "(", "{", "}", ")", "7", " ", "\n", "\t", "1/", "/", "\\",
    "\\frac{1}{2", "\\boxed{", "\\text{", "*", "_", '"', '{"a":', "Pure NE: ", "Mixed NE: (",
    "Pure NE:\n", "Pure NE: A\n", "Best response: A\n", "Expected payoffs: [1, ", "A ", "(A, X), ",
    "Best response value: 1 = ", "([1/3, 2/3, 0], [1/2, 1/2]), ", "-", "=", "\u2248", ".", ".5",
    "1e5", "%", "none ", "pure strategy nash ", "# ", "- ", "_{", "Dominated: A\n", "Payoff: ",
    "Pure NE: (A, X)\nMixed NE: none\n", "a", "a_", ":", "maximum ", "final answer", "\u2212",
    "\u00e9",    "<think>", "</think>",
]  # fmt: skip
KINDS = [
    {**NASH, "responder": "row", "player": "row", "kind": kind}
    for kind in ("nash", "best_response", "dominance", "payoff")
]
SIZE = 1_000_000


def garbage():
    """(text, kinds to try it on): every unit a megabyte long, and mixtures of all."""
    for unit in UNITS:
        yield unit * (SIZE // len(unit)), KINDS[:1]
        yield unit * (SIZE // 16 // len(unit)), KINDS[1:]
    mixed = random.Random(5)
    for units in (UNITS, UNITS[:-2]):
        yield "".join(mixed.choice(units) for _ in range(SIZE // 8)), KINDS


def test_a_megabyte_of_anything_takes_linear_time():
    """A quadratic step takes minutes here; a linear one well under a second each."""
    slowest = 0.0
    heads = cycle(("", "ANSWER:\nPure NE: (A, X)\nBest response: ", "ANSWER:\nMixed NE: "))
    for text, kinds in garbage():
        for data in kinds:
            started = time.process_time()
            parse(data, next(heads) + text)
            slowest = max(slowest, time.process_time() - started)
    assert slowest < 4.0


def test_reading_and_scoring_fit_the_time_budget(monkeypatch):
    """Prompt, parse and reward together: 0.2 ms of CPU for a small game in the reply's form."""
    from harness_plugins.tasks.gamesolve.text import messages

    small = [s for s in SAMPLES if len(s.data["row"]) * len(s.data["row"][0]) <= 9]
    replies = [block(s.data, correct(s.data, s.truth)) for s in small]
    best = 1.0
    for _ in range(5):
        started = time.process_time()
        for sample, reply in zip(small, replies, strict=True):
            messages(sample.data)
            judge(sample.data, sample.truth, parse(sample.data, reply).value)
        best = min(best, (time.process_time() - started) / len(small))
    assert best <= 200e-6


@pytest.mark.parametrize("text", ["1/21e99", "\u00bd1e2", "1/2e9 %"])
def test_a_fraction_with_an_exponent_is_no_number(text):
    data = {"kind": "payoff", "row_labels": ["A", "B"], "col_labels": ["X", "Y"]}
    assert parse(data, f"ANSWER:\nPayoff: {text}").cls in ("ok", "unparsed")
