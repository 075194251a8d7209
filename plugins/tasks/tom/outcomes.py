"""What is kept of a reply: the verdict on it as JSON, enough for all figures of a run.

>>> from harness.types import Sample
>>> sample = Sample("s", "test", {"choices": ["jar", "box"]}, {"trace": ["jar"], "answer": "jar"})
>>> kept = process_verdict(sample, {}, "Think 1: seen\\nState: jar\\nAnswer: jar")
>>> kept["answer_strict"], kept["format_ok"], kept["states"]
(True, True, [True])
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.types import OK, UNPARSED, Json, Parsed, Sample

from .answers import Target, judge, plain, same, same_leniently
from .grammar import Reading, read


def parse_process(text: str) -> Parsed:
    """A reply in the grammar; it counts as parsed when it has a block or an answer."""
    reading = read(text)
    return Parsed(reading.json(), OK if reading.blocks or reading.answers else UNPARSED)


def process_verdict(
    sample: Sample, shortcuts: Mapping[str, str | None], reply: str | Reading
) -> dict[str, Json]:
    """The verdict on a reply to a question with a trace.

    :param shortcuts: what shortcut rules answer; those that are wrong show who copies them.
    """
    reading = read(reply) if isinstance(reply, str) else reply
    target = Target.of(sample.truth, sample.data)
    verdict = judge(reading, target)
    said = reading.answer
    found: dict[str, Json] = {
        "side": sample.data.get("side", ""),
        "answered": verdict.answered,
        "said": None if said is None else plain(said, target.choices),
        "answer_strict": verdict.answer,
        "answer_lenient": verdict.answer_lenient,
        "states": list(verdict.states),
        "states_lenient": list(verdict.states_lenient),
        "consistent": verdict.consistent,
        "structure_ok": verdict.structure.structure_ok,
        "format_ok": verdict.structure.format_ok,
    }
    found["copied"] = {
        name: said is not None and same_leniently(said, place, target.choices)
        for name, place in shortcuts.items()
        if place is not None and not same(place, target.answer)
    }
    return found
