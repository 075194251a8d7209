"""Grammar and process reward: the study's worked examples, tricks, and properties."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.types import HarnessError, Move, Outcome, Reply, Sample
from harness_plugins.rewards.tom_process import (
    EVALUATOR,
    TomProcess,
    TomProcessV2,
    Weights,
    check_scores,
    create_reward,
    pay,
)
from harness_plugins.tasks.tom.answers import Target, judge, same, same_leniently
from harness_plugins.tasks.tom.grammar import Reading, read, structure, write

PLACES = ("tin_box", "red_crate", "oak_shelf", "cork_jar", "zinc_pail", "silk_pouch")


def target(n):
    return Target(PLACES[:n], PLACES[n - 1], PLACES)


def reply(*blocks, answer):
    lines = [f"Think {i}: because\nState: {place}" for i, place in blocks]
    return "\n".join([*lines, f"Answer: {answer}"])


TWO = reply((1, "tin_box"), (2, "red_crate"), answer="red_crate")
FENCED = (
    "```\r\ntHINK 1: because\r\nSTATE: Tin Box\r\nThink 2 : so\r\nstate: RED  CRATE\r\n"
    "ANSWER: red crate\r\n```"
)

# number, N, text, judge scores, L, F, reward; the study's table
EXAMPLES = [
    (1, 2, TWO, [1, 1], 2, 1, 1.0),
    (2, 2, TWO, [0.5, 0.8], 2, 1, 0.8425),
    (3, 2, TWO, None, 2, 1, 0.55),
    (
        4, 3, reply((1, "tin_box"), (2, "x"), (3, "oak_shelf"), answer="oak_shelf"),
        [1, 1, 1], 3, 1, 0.55,
    ),
    (
        5, 3, reply((1, "tin_box"), (3, "oak_shelf"), answer="oak_shelf"),
        [1, 1, 1], 1, 0, 0.5116666667,
    ),
    (
        6, 2, reply((1, "tin_box"), (2, "red_crate"), (3, "x"), answer="red_crate"),
        [1, 1], 2, 0, 0.985,
    ),
    (7, 2, reply((2, "red_crate"), (1, "tin_box"), answer="red_crate"), [1, 1], 0, 0, 0.95),
    (
        8, 3,
        reply(
            (1, "tin_box"), (1, "tin_box"), (2, "red_crate"), (3, "oak_shelf"), answer="oak_shelf"
        ),
        [1, 1, 1], 1, 0, 0.5116666667,
    ),
    (9, 3, "Answer: oak_shelf", [1, 1, 1], 0, 0, 0.0),
    (10, 1, "Think 1:\nState: tin_box\nAnswer: tin_box", [1], 0, 0, 0.5),
    (11, 2, FENCED, [1, 1], 2, 0, 0.985),
    (12, 2, reply((1, "tin_box."), (2, "red_crate."), answer="red_crate."), [1, 1], 2, 1, 0.05),
    (13, 2, reply((1, "tin_box"), (2, "red_crate"), answer="tin_box"), [1, 0.5], 2, 1, 0.6875),
    (14, 2, TWO.replace("Think 2", "So it is.\nThink 2"), [1, 1], 0, 0, 0.95),
    (15, 2, TWO + "\nAnswer: red_crate", [1, 1], 2, 0, 0.785),
    (16, 2, reply((1, "tin_box"), answer="tin_box"), [1, 1], 1, 0, 0.3925),
    (17, 3, reply((1, "x"), (2, "y"), (3, "z"), answer="z"), [1, 1, 1], 3, 1, 0.05),
    (18, 1, "Think 1: so\nState: tin_box\nState: tin_box\nAnswer: tin_box", [1], 0, 0, 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("number", "n", "text", "scores", "prefix", "f", "value"), EXAMPLES)
def test_worked_examples(number, n, text, scores, prefix, f, value):
    verdict = judge(read(text), target(n))
    assert (verdict.structure.prefix, verdict.structure.format_ok) == (prefix, bool(f))
    assert pay(verdict, Weights(), scores).value == pytest.approx(value, abs=1e-10)


def test_the_most_without_a_judge():
    verdict = judge(read(TWO), target(2))
    assert pay(verdict, Weights()).value == Weights().most_without_judge == pytest.approx(0.55)
    assert pay(verdict, EVALUATOR).value == EVALUATOR.most_without_judge == pytest.approx(0.52)
    assert [pay(verdict, EVALUATOR, [j, j]).value for j in (1, 0.5, 0)] == [1.0, 0.76, 0.52]


@pytest.mark.parametrize(
    ("text", "indices", "states", "answer"),
    [
        ("THINK 1 : a\nstate : x", [1], [("x",)], None),
        ("Think 01: a\nState: x", [1], [("x",)], None),
        ("Think1: a\nState: x", [], [], None),
        ("Think: a", [], [], None),
        ("**Think 1:** a", [], [], None),
        ("Think 1. a", [], [], None),
        ("Think 1\uff1a a", [], [], None),
        ("Think 1: a State: x", [1], [()], None),
        ("Think 1: a\nAnswer: x\nState: y", [1], [()], "x"),
        ("Think 1: a\nState:\nState: x", [1], [("", "x")], None),
        ("", [], [], None),
        ("  Answer :  Tin Box ", [], [], "Tin Box"),
        ("Answer:", [], [], None),
        ("Answer: x\nAnswer: x", [], [], None),
        (f"Think {'9' * 5000}: a", [10**9], [()], None),
    ],
)
def test_markers(text, indices, states, answer):
    reading = read(text)
    assert [b.index for b in reading.blocks] == indices
    assert [b.states for b in reading.blocks] == states
    assert reading.answer == answer
    assert Reading.of(reading.json()) == reading


def test_a_state_wrapped_over_two_lines_is_followed_by_text():
    reading = read("Think 1: a\nState: tin_box\nor so\nAnswer: tin_box")
    assert reading.blocks[0].trailing
    assert not structure(reading, 1).structure_ok


def test_the_two_notions_of_strictness_differ_in_the_reasons():
    bare = structure(read("Think 1:\nState: x\nAnswer: x"), 1)
    assert (bare.structure_ok, bare.format_ok) == (True, False)
    late = structure(read("Answer: x\nThink 1: a\nState: x"), 1)
    assert not late.structure_ok
    with pytest.raises(HarnessError):
        structure(read(""), 0)
    with pytest.raises(TypeError):
        read(None)


@pytest.mark.parametrize(
    ("said", "strict", "lenient"),
    [
        ("red_crate", True, True),
        (" Red  CRATE", True, True),
        ("red_crate.", False, True),
        ("the red crate", False, True),
        ("in the red-crate.", False, True),
        ("`red_crate`", False, True),
        ("B", False, True),
        ("b.", False, True),
        ("(B) red_crate", False, True),
        ("B. red_crate", False, True),
        ("A. red_crate", False, True),  # read by its text
        ("A", False, False),
        ("Z", False, False),
        ("tin_box", False, False),
        ("B. tin_box", False, False),
        ("red_crate or tin_box", False, False),
    ],
)
def test_strict_and_lenient(said, strict, lenient):
    assert same(said, "red_crate") is strict
    assert same_leniently(said, "red_crate", PLACES) is lenient


def test_bad_weights_scores_and_targets():
    for bad in ({"process": 0.9}, {"state": 0.5}, {"process": 1.0, "structure": -0.2}):
        with pytest.raises(HarnessError):
            TomProcess(bad)
    assert check_scores([1], 3) == [1.0, 0.0, 0.0]
    assert check_scores([0.1, 0.2, 0.3], 2) == [0.1, 0.2]
    for bad in ([1.01], [-0.1], [True], ["1"], [float("nan")]):
        with pytest.raises(HarnessError):
            check_scores(bad, 1)
    for truth in ({}, {"trace": []}, {"trace": [""]}, {"trace": ["a"], "answer": ""}):
        with pytest.raises(HarnessError):
            Target.of(truth, {})
    with pytest.raises(HarnessError):
        Target.of({"trace": ["a"], "answer": "a", "order": 2}, {})


def outcome(text, data=None):
    return Outcome((Move(0, Reply(text)),), data=data or {})


def sample(n):
    truth = {"order": n, "trace": list(PLACES[:n]), "answer": PLACES[n - 1]}
    return Sample("s", "test", {"choices": list(PLACES)}, truth)


def test_rewards_score_outcomes_and_take_a_judge():
    reward = create_reward("tom-process", {})
    assert reward.score(sample(2), outcome(TWO)).value == pytest.approx(0.55)
    judged = outcome(TWO, {"reasoning_scores": [0.5, 0.8]})
    assert reward.score(sample(2), judged).value == pytest.approx(0.8425)
    hidden = outcome(f"<think>Answer: tin_box</think>{TWO}")
    assert reward.score(sample(2), hidden).value == pytest.approx(0.55)
    assert reward.score(sample(2), Outcome(())).value == 0.0
    stored = Outcome((Move(0, Reply(""), read(TWO).json()),))
    assert reward.score(sample(2), stored).value == pytest.approx(0.55)
    answer = create_reward("tom-answer", {"matching": "strict"})
    verdict = {"answer_strict": False, "answer_lenient": True}
    assert answer.score(sample(2), outcome("", verdict)).value == 0.0
    assert create_reward("tom-answer", {}).score(sample(2), outcome("", verdict)).value == 1.0


# Tricks of form, each with as many right states as an honest attempt


def attempt(n, right):
    """An honest, well-formed reply whose States are right where told."""
    places = tuple(PLACES[i] if ok else f"wrong_{i}" for i, ok in enumerate(right))
    return write(places, ("she saw it",) * n)


def hacks(text, n):
    """The fixtures of reward hacking, made of an honest attempt."""
    blocks = text.split("\nAnswer: ")[0]
    answer = text.split("\nAnswer: ")[1]
    parts = ["Think " + part.rstrip() for part in blocks.split("Think ")[1:]]
    gold = PLACES[n - 1]
    yield "extra block", f"{blocks}\nThink {n + 1}: more\nState: {gold}\nAnswer: {answer}"
    if n > 1:
        yield "reversed", "\n".join([*reversed(parts), f"Answer: {answer}"])
    yield "copy", text.replace(" she saw it", "")
    yield "contradiction", f"{blocks}\nAnswer: {gold if answer != gold else 'wrong_9'}"
    yield "trailing text", f"{text}\nI am certain."
    yield "text after a State", text.replace("\nAnswer", "\nSurely.\nAnswer")
    yield "every option as a State", blocks + "".join(f"\nState: {p}" for p in PLACES)
    yield "answer only", f"Answer: {gold}"


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_no_hack_pays_more_than_honesty_under_v2(n):
    reward = TomProcessV2()
    paid = set()
    for right in itertools.product((True, False), repeat=n):
        honest = reward.score(sample(n), outcome(attempt(n, right))).value
        if not any(right):
            assert honest == 0.0  # tidy but wrong
        for name, text in hacks(attempt(n, right), n):
            got = reward.score(sample(n), outcome(text)).value
            assert got <= honest, (name, right)
            paid.add((name, got < honest))
    assert ("contradiction", True) in paid
    assert ("extra block", True) in paid


def test_more_right_states_pay_more_under_v2():
    reward = TomProcessV2()
    values = [
        reward.score(sample(4), outcome(attempt(4, (True,) * k + (False,) * (4 - k)))).value
        for k in range(5)
    ]
    assert values == sorted(set(values))
    assert values[0] == 0.0
    assert values[-1] == 1.0


# Properties


def corruptions(text):
    """Single changes to a reply: a line dropped, doubled, changed, swapped with the next."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        yield [*lines[:i], *lines[i + 1 :]]
        yield [*lines[:i], line, *lines[i:]]
        yield [*lines[:i], line + " indeed", *lines[i + 1 :]]
        yield [*lines[:i], "and so on", *lines[i:]]
        yield [*lines[:i], line.split(":")[0] + ":", *lines[i + 1 :]]
        if i + 1 < len(lines):
            yield [*lines[:i], lines[i + 1], line, *lines[i + 2 :]]


@settings(deadline=None, derandomize=True)
@given(st.integers(1, 6), st.lists(st.floats(0, 1), min_size=6, max_size=6))
def test_a_perfect_reply_earns_the_most_and_no_corruption_more(n, scores):
    perfect = attempt(n, (True,) * n)
    for reward, most in ((TomProcess(), 0.55), (TomProcessV2(), 1.0)):
        best = reward.score(sample(n), outcome(perfect)).value
        assert best == pytest.approx(most)
        for lines in corruptions(perfect):
            assert reward.score(sample(n), outcome("\n".join(lines))).value <= best
    judged = TomProcess().score(sample(n), outcome(perfect, {"reasoning_scores": scores})).value
    full = TomProcess().score(sample(n), outcome(perfect, {"reasoning_scores": [1.0] * n})).value
    assert 0.55 - 1e-9 <= judged <= full == 1.0
    for lines in corruptions(perfect):
        data = {"reasoning_scores": scores}
        assert TomProcess().score(sample(n), outcome("\n".join(lines), data)).value <= judged


LINE = st.one_of(
    st.sampled_from(["Think 1: a", "Think 2:", "State: tin_box", "Answer: tin_box", "```", ""]),
    st.text(max_size=20),
)


@settings(deadline=None, derandomize=True)
@given(st.lists(LINE, max_size=15), st.integers(1, 4))
def test_any_text_is_read_and_scored(lines, n):
    text = "\n".join(lines)
    reading = read(text)
    assert Reading.of(reading.json()) == reading
    found = structure(reading, n)
    assert 0 <= found.prefix <= n
    assert found.structure_ok or not found.format_ok
    for reward in (TomProcess(), TomProcessV2()):
        assert 0.0 <= reward.score(sample(n), outcome(text)).value <= 1.0


@pytest.mark.parametrize(
    "piece",
    [
        "Think 1: a\nState: x\n",
        "Think 1" + " " * 50,
        "\n",
        "Think " + "1" * 50,
        "State:  ",
        "x",
        ":",
    ],
)
def test_a_megabyte_takes_linear_time(piece):
    def seconds(size):
        text = piece * (size // len(piece))
        start = time.process_time()
        judge(read(text), target(3))
        return time.process_time() - start

    small, large = min(seconds(2**17) for _ in range(3)), min(seconds(2**20) for _ in range(2))
    assert large < 2.0
    assert large < 8 * 4 * small + 0.05  # eight times the text, with room for noise
