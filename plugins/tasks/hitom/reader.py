"""The official Hi-ToM file: its stories read from the English, its two sets of labels side by side.

The file holds each task twice, once per prompting style (CoTP and VP), and for 138 of 600 tasks the
two styles' files give different answers. Every sample says so (``labels_agree``) and keeps both;
the chosen label is CoTP's unless told.

>>> story = "1 Al and Bea entered the hall.\\n2 The pear is in the red_box."
>>> [event.kind for event in read_story(story)]
['enter', 'inside']
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import orjson

from harness.types import HarnessError, Json, Sample

from ..counterfactual_tom.published import canonical, identity
from ..tom.oracle import Beliefs
from ..tom.question import parse, parse_options
from ..tom.world import Event
from .rules import RULES, Narrator

STYLES: Final = ("CoTP", "VP")

FILE: Final = "Hi-ToM_data.json"
"""The official file's name, on the hub too."""
_HUB = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
_NUMBER = re.compile(r"^\d+\s+")
_LINES: Final[tuple[tuple[re.Pattern[str], Callable[[Narrator, re.Match[str]], None]], ...]] = (
    (re.compile(r"(.+) entered the (\w+)\."), lambda n, m: n.enter(_names(m[1]), m[2])),
    (re.compile(r"The (.+) is in the (\w+)\."), lambda n, m: n.state(m[1], m[2])),
    (re.compile(r"(\w+) moved the (.+) to the (\w+)\."), lambda n, m: n.move(m[2], m[3])),
    (re.compile(r"(\w+) exited the (\w+)\."), lambda n, m: n.leave(m[1])),
    (
        re.compile(r"(\w+) publicly claimed that (?:the )?(.+) is in the (\w+)\."),
        lambda n, m: n.claim(m[1], m[2], m[3]),
    ),
    (
        re.compile(r"(\w+) privately told (\w+) that (?:the )?(.+) is in the (\w+)\."),
        lambda n, m: n.claim(m[1], m[3], m[4], m[2]),
    ),
)
"""Every line that matters; any other line changes nothing."""


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in re.split(r", | and ", text) if name)


def read_story(story: str) -> list[Event]:
    """The events of a story; lines that change nobody's belief are passed over."""
    narrator = Narrator()
    for raw in story.splitlines():
        line = _NUMBER.sub("", raw.strip())
        for pattern, tell in _LINES:
            if found := pattern.fullmatch(line):
                tell(narrator, found)
                break
    return narrator.events


def locate(data: str) -> Path:
    """The file that ``data`` names: a path, or the id of a data set on the hub (``owner/name``),
    which is downloaded. Raises HarnessError when there is neither."""
    path = Path(data)
    if path.exists() or not _HUB.fullmatch(data):
        return path
    try:
        from huggingface_hub import hf_hub_download

        return Path(hf_hub_download(data, FILE, repo_type="dataset"))
    except (ImportError, OSError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise HarnessError(f"data={data}: no such file, nor on the hub ({reason})") from None


def read_file(path: Path, labels: str = "CoTP") -> list[Sample]:
    """The 600 tasks of the official file, in its order, with the labels of one style.

    Raises HarnessError when the file is no Hi-ToM file or the style does not exist.
    """
    if labels not in STYLES:
        raise HarnessError(f"labels={labels}: choose {' or '.join(STYLES)}")
    identity(path)
    try:
        rows = orjson.loads(path.read_bytes())["data"]
        tasks = _by_task(rows)
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        raise HarnessError(f"{path}: not the official Hi-ToM_data.json") from None
    return [
        _sample(row, other, number) for number, (row, other) in enumerate(_pairs(tasks, labels))
    ]


def _by_task(
    rows: list[Mapping[str, Json]],
) -> dict[tuple[Json, ...], dict[str, Mapping[str, Json]]]:
    """Rows by task: the k-th of its kind in one style goes with the k-th in the other."""
    counts: dict[tuple[Json, ...], int] = {}
    tasks: dict[tuple[Json, ...], dict[str, Mapping[str, Json]]] = {}
    for row in rows:
        kind = (row["deception"], row["story_length"], row["question_order"])
        place = counts.setdefault((row["prompting_type"], *kind), 0)
        counts[row["prompting_type"], *kind] += 1
        tasks.setdefault((*kind, place), {})[row["prompting_type"]] = row
    return tasks


def _pairs(
    tasks: Mapping[tuple[Json, ...], dict[str, Mapping[str, Json]]], labels: str
) -> Iterator[tuple[Mapping[str, Json], Mapping[str, Json] | None]]:
    other = STYLES[1 - STYLES.index(labels)]
    for styles in tasks.values():
        if labels in styles:
            yield styles[labels], styles.get(other)


def _sample(row: Mapping[str, Json], other: Mapping[str, Json] | None, ordinal: int) -> Sample:
    question = parse(row["question"])
    story = "\n".join(line for line in row["story"].splitlines() if _NUMBER.match(line))
    order, tell = row["question_order"], bool(row["deception"])
    beliefs = Beliefs(read_story(story), RULES)
    suffixes = [question.chain[i:] for i in range(order - 1, -1, -1)]
    return Sample(
        id=f"hitom-{row['sample_id']:04d}",
        split="test",
        data={
            "story": story,
            "question": row["question"],
            "chain": list(question.chain),
            "object": question.object,
            "choices": list(parse_options(row["choices"])),
            "deception": tell,
            "length": row["story_length"],
        },
        truth={
            "order": order,
            "answer": row["answer"],
            "other_label": None if other is None else other["answer"],
            "labels_agree": other is None or other["answer"] == row["answer"],
            "oracle": beliefs.place(question.object, question.chain),
            "trace": [beliefs.place(question.object, chain) for chain in suffixes],
        },
        group=f"order-{order}",
        cluster=f"{tell}-{row['story_length']}-{canonical(story, '')}",
        canonical=canonical(story, row["question"]),
        ordinal=ordinal,
    )
