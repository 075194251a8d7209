"""Hostile and mangled replies: a parser must survive all of them, in linear time.

    for text in mangled(["ANSWER: B"], 100, seed=1): ...

Long replies are patterns that make careless regular expressions slow; the others are good replies
that were cut, doubled, mixed and sprinkled with odd characters. The same seed gives the same texts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from random import Random

import orjson

from ..seeds import derive
from ..types import INFRASTRUCTURE_FAULTS, Outcome, Sample
from .kit import Finding, Kit, Skip, Steps
from .table import Table, saying

PATTERNS = (
    " ", "\n", "\t ", "(", "[", "{", "<", "<think>", "</think>", "**", "|", "-", "_", "'", '"',
    "\\", "9", "9.", "1/", "0.1 ", "1,", "-1 ", "%", "\\frac{", "$", "a", "A ", "a,", "é", "\u2212",
    "\u0000", "\U0001f600", "\u202e", "ANSWER:", "ANSWER: ", "answer ", "Answer: (", "I think ",
    "no, ", "->", "<a", "x\n", '{"', "0x", "1e9", "½", "٣", "\ufeff", "ANSWER: 9", "9" * 400 + " ",
)  # fmt: skip
LENGTHS = (1_000, 8_000, 64_000)
SECONDS = 2.0
"""CPU time that the longest of `LENGTHS` may take."""

GROWTH = 24.0
"""Times that eight times the text may take (linear: 8, quadratic: 64)."""

NOTABLE = 0.2
"""CPU seconds below which growth is noise."""

BUDGET = 12.0
"""Wall seconds for mangled replies."""

ROUNDS = 600
ODD = (
    "\u0000",
    "\u200b",
    "\u202e",
    "\ufeff",
    "é",
    "½",
    "\U0001f600",
    "\r",
    "\x1b[31m",
    "\\",
    "`",
    "<",
    ">",
)


def mangled(texts: Sequence[str], count: int, seed: int) -> Iterator[str]:
    """``count`` texts made of the given ones by one to four changes."""
    rng = Random(derive("mangled", seed))
    pool = [text for text in texts if text] or ["ANSWER: 1"]
    for _ in range(count):
        text = rng.choice(pool)
        for _ in range(rng.randint(1, 4)):
            text = _change(text, rng, pool)
        yield text[:20_000]


def _change(text: str, rng: Random, pool: Sequence[str]) -> str:
    at = rng.randint(0, len(text))
    to = min(len(text), at + rng.randint(0, 12))
    match rng.randrange(9):
        case 0:
            return text[:at]
        case 1:
            return text[:at] + text[to:]
        case 2:
            return text[:to] + text[at:to] * rng.randint(1, 20) + text[to:]
        case 3:
            return text[:at] + rng.choice(ODD) + text[at:]
        case 4:
            return text[:at] + rng.choice(PATTERNS) * rng.randint(1, 40) + text[at:]
        case 5:
            return text + "\n" + rng.choice(pool)
        case 6:
            return "<think>" + text + rng.choice(("</think>", "", "</think>" + rng.choice(pool)))
        case 7:
            return text.swapcase()
        case _:
            return "".join(rng.sample(text, len(text))) if len(text) < 200 else text[::-1]


def parser(kit: Kit) -> Steps:
    """Whatever is said, a rollout ends in an outcome that is stored and scored, in linear time."""
    table = Table.of(kit)
    known = [name for name in ("oracle", "random") if name in table.task.players()]
    said = [m.reply.text for name in known for o in table.play(name)[:20] if o for m in o.moves]
    yield from islice(_slow(table), 1)
    until = time.monotonic() + BUDGET
    tried = 0
    for text in mangled(said, ROUNDS, seed=1):
        sample = table.samples[tried % len(table.samples)]
        finish = "length" if tried % 5 == 0 else "stop"
        fault = judge(table, sample, text, finish)
        tried += 1
        if fault is not None:
            yield fault
            break
        if time.monotonic() > until:
            break
    yield f"{len(PATTERNS) * len(LENGTHS)} long and {tried} mangled replies"


def _slow(table: Table) -> Iterator[Finding]:
    """Findings of long replies: what raises, and what takes more than linear time."""
    sample = table.samples[0]
    for pattern in PATTERNS:
        spent = []
        for length in LENGTHS:
            text = (pattern * (length // len(pattern) + 1))[:length]
            began = time.process_time()
            fault = judge(table, sample, text)
            spent.append(time.process_time() - began)
            if fault is not None:
                yield fault
                return
            if spent[-1] > SECONDS:
                break
        grown = len(spent) > 1 and spent[-1] > NOTABLE and spent[-1] > GROWTH * spent[-2]
        if spent[-1] > SECONDS or grown:
            yield Finding(
                f"a reply of {pattern!r} repeated to {LENGTHS[len(spent) - 1]:,} characters takes "
                f"{spent[-1]:.2f} s",
                "read in linear time: no nested repeats in regular expressions, no search from "
                "every position; harness.parsing has what is needed",
            )


def judge(table: Table, sample: Sample, text: str, finish: str = "stop") -> Finding | None:
    """Play a sample with one reply at every turn of the model; what is wrong with how it ends."""
    shown = repr(text if len(text) <= 60 else f"{text[:60]}...")
    try:
        outcome = asyncio.run(table.rollout(sample, saying(text, finish)))
        if outcome is None:
            raise Skip("the opponent cannot play this sample")
        score = asyncio.run(table.reward.score_group(sample, [outcome]))[0]
        orjson.dumps(table.record(0, outcome, score))
    except Skip:
        raise
    except Exception as error:
        return Finding(
            f"{sample.id}: the reply {shown} raises {type(error).__name__}: {str(error)[:120]}",
            "parse() and rollout() return a class for whatever is said; they never raise",
        )
    return _wrong(outcome, sample, shown, score.value)


def _wrong(outcome: Outcome, sample: Sample, shown: str, value: float) -> Finding | None:
    if outcome.cls in INFRASTRUCTURE_FAULTS:
        return Finding(
            f"{sample.id}: the reply {shown} ends as {outcome.cls}",
            "a model's fault is unparsed, illegal, truncated, empty or refused: it stays in the "
            "denominator",
        )
    if not 0.0 <= value <= 1.0:
        return Finding(
            f"{sample.id}: the reply {shown} scores {value}", "the reward's value lies in [0, 1]"
        )
    return None
