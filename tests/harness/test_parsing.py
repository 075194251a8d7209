"""The parsing helpers against known readings, and in linear time on garbage."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.parsing import after_last, classify, number, numbers, plain, visible
from harness.types import Parsed, Reply


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-3", -3),
        ("\u22121/3", Fraction(-1, 3)),
        ("2 / 4", Fraction(1, 2)),
        (".5", Fraction(1, 2)),
        ("0.25", Fraction(1, 4)),
        ("25%", Fraction(1, 4)),
        ("12.5 %", Fraction(1, 8)),
        (r"33\%", Fraction(33, 100)),
        ("1e-2", Fraction(1, 100)),
        (r"\frac{1}{3}", Fraction(1, 3)),
        (r"-\dfrac{2}{5}", Fraction(-2, 5)),
        (r"$\frac{1}{2}$", Fraction(1, 2)),
        ("\uff13", 3),
        ("5.", 5),
        ("1/0", None),
        ("1/3/4", None),
        ("one", None),
        ("", None),
        ("1 2", None),
        ("0." + "3" * 30, Fraction("0." + "3" * 30)),
        ("1e400", None),
    ],
)
def test_number_reads_one_number(text, value):
    assert number(text) == value


def test_numbers_reads_all_in_order():
    text = r"[1/3, .5, 20%], then \frac{2}{3} and -4"
    assert numbers(text) == [
        Fraction(1, 3), Fraction(1, 2), Fraction(1, 5), Fraction(2, 3), Fraction(-4)
    ]  # fmt: skip


@given(st.fractions(max_denominator=10**6))
def test_number_inverts_how_fractions_are_written(value):
    assert number(f"{value.numerator}/{value.denominator}") == value


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-999, max_value=999))
def test_number_reads_decimals_exactly(value):
    assert number(f"{value:.4f}") == Fraction(value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<think>no</think>yes", "yes"),
        ("yes<think>cut off", "yes"),
        ("still thinking</think> yes", "yes"),
        ("<think>a<think>b</think>c</think>yes", "yes"),
        ("<THINKING>a</THINKING>yes", "yes"),
        ("a < b and b > c", "a < b and b > c"),
        ("<think>only", ""),
        ("  plain  ", "plain"),
        ("one<think>x</think> two", "one two"),
    ],
)
def test_visible_leaves_out_reasoning(text, shown):
    assert visible(text) == shown


@given(st.text())
@settings(derandomize=True)
def test_visible_never_shows_what_is_inside(text):
    inside = text.replace("<", "").replace(">", "")
    assert visible(f"<think>{inside}</think>42") == "42"


def test_after_last_takes_the_last():
    assert after_last("ANSWER: 1 answer: 2", "Answer:") == " 2"
    assert after_last("nothing", "answer:") is None


def test_plain_turns_look_alikes_into_ascii():
    assert plain("\u201cA\u201d \u2192 \u22121\u00a0\uff08x\uff09") == '"A" -> -1 (x)'


@pytest.mark.parametrize(
    ("reply", "cls"),
    [
        (Reply(""), "empty"),
        (Reply("   \n"), "empty"),
        (Reply("", finish_reason="length"), "truncated"),
        (Reply("let me see", finish_reason="length"), "truncated"),
        (Reply("<think>hm</think>"), "empty"),
        (Reply("I'm sorry, I can't help with that."), "refused"),
        (Reply("I cannot answer this."), "refused"),
        (Reply("the weather is fine"), "unparsed"),
    ],
)
def test_classify_names_the_fault(reply, cls):
    assert classify(reply, Parsed()).cls == cls


def test_classify_keeps_a_committed_answer():
    cut = Reply("ANSWER: 3 and then", finish_reason="length")
    assert classify(cut, Parsed(3, "ok")).cls == "ok"


GARBAGE = {
    "blanks": " " * 1_000_000,
    "digits": "1" * 1_000_000,
    "signs": "- " * 500_000,
    "slashes": "1/" * 500_000,
    "tags": "<think>" * 140_000,
    "closings": "</think>" * 120_000,
    "angles": "< " * 500_000,
    "frac": "\\frac{1}" * 120_000,
    "dots": "1." * 500_000,
    "percent": "1 %" * 330_000,
    "markers": "answer:" * 140_000,
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_a_megabyte_of_garbage_takes_linear_time(kind):
    text = GARBAGE[kind]
    started = time.process_time()
    visible(text)
    numbers(text)
    after_last(text, "answer:")
    number(text)
    classify(Reply(text), Parsed())
    assert time.process_time() - started < 6.0
