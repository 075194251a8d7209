"""The grammar of replies: Think, State and Answer lines, read in one pass.

    Think 1: Ana saw the stamp go into the tin box.
    State: tin_box
    Answer: tin_box

A line is a marker only if the whole line matches, in any case; blank lines count nowhere. All
functions take linear time.

>>> reading = read("Think 1: she saw it\\nState: tin_box\\nAnswer: tin_box")
>>> reading.answer, structure(reading, 1).format_ok
('tin_box', True)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from harness.types import HarnessError, Json

_THINK = re.compile(r"think\s+([0-9]+)\s*:(.*)", re.IGNORECASE | re.DOTALL)
_VALUE = re.compile(r"(state|answer)\s*:(.*)", re.IGNORECASE | re.DOTALL)
_LONGEST = 200
"""Characters of a value that are kept: no place has a name that long."""


@dataclass(frozen=True, slots=True)
class Block:
    """One Think block: its number, whether it reasons, its State values, and whether text follows
    the State."""

    index: int
    reasoning: bool
    states: tuple[str, ...]
    trailing: bool

    @property
    def state(self) -> str | None:
        """The value, if there is exactly one State line and it is not empty."""
        return self.states[0] if len(self.states) == 1 and self.states[0] else None


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reply says, before anybody asks whether it is right.

    ``orphans`` counts State lines outside a block, ``stray`` other text outside a block or after a
    State; ``late`` is true when a Think line follows an Answer line.
    """

    blocks: tuple[Block, ...] = ()
    answers: tuple[str, ...] = ()
    orphans: int = 0
    stray: int = 0
    late: bool = False

    @property
    def answer(self) -> str | None:
        """The value, if there is exactly one Answer line and it is not empty."""
        return self.answers[0] if len(self.answers) == 1 and self.answers[0] else None

    def json(self) -> dict[str, Json]:
        """The reading as JSON."""
        rows = [[b.index, b.reasoning, list(b.states), b.trailing] for b in self.blocks]
        return {
            "blocks": rows,
            "answers": list(self.answers),
            "orphans": self.orphans,
            "stray": self.stray,
            "late": self.late,
        }

    @staticmethod
    def of(value: Mapping[str, Json]) -> Reading:
        """Read what `json` wrote."""
        blocks = tuple(Block(i, r, tuple(s), t) for i, r, s, t in value["blocks"])
        answers = tuple(value["answers"])
        return Reading(blocks, answers, value["orphans"], value["stray"], value["late"])


class _Scanner:
    """The state of one pass over the lines."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.answers: list[str] = []
        self.orphans = self.stray = 0
        self.late = False
        self.open = False
        self.index = 0
        self.reasoning = self.trailing = False
        self.states: list[str] = []

    def think(self, number: str, inline: str) -> None:
        self.close()
        self.late = self.late or bool(self.answers)
        self.open, self.index = True, int(number[-9:]) if len(number) < 10 else 10**9
        self.reasoning, self.trailing, self.states = bool(inline.strip()), False, []

    def state(self, value: str) -> None:
        if self.open:
            self.states.append(value)
        else:
            self.orphans += 1

    def answer(self, value: str) -> None:
        self.close()
        self.answers.append(value)

    def text(self) -> None:
        if self.open and not self.states:
            self.reasoning = True
            return
        self.stray += 1
        self.trailing = self.trailing or self.open

    def close(self) -> None:
        if self.open:
            block = Block(self.index, self.reasoning, tuple(self.states), self.trailing)
            self.blocks.append(block)
        self.open = False


def read(text: str) -> Reading:
    """Read a reply. Raises TypeError for anything but a string."""
    if not isinstance(text, str):
        raise TypeError(f"a reply is a string, not {type(text).__name__}")
    scanner = _Scanner()
    for raw in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = raw.strip()
        if not line:
            continue
        if found := _THINK.fullmatch(line):
            scanner.think(found[1], found[2])
        elif found := _VALUE.fullmatch(line):
            value = found[2].strip()[:_LONGEST]
            (scanner.state if found[1].lower() == "state" else scanner.answer)(value)
        else:
            scanner.text()
    scanner.close()
    s = scanner
    return Reading(tuple(s.blocks), tuple(s.answers), s.orphans, s.stray, s.late)


@dataclass(frozen=True, slots=True)
class Structure:
    """How well-formed a reading is for a question of order N.

    ``structure_ok`` is the first notion of strictness: exactly the blocks 1..N in order, one State
    each, one Answer, and nothing else; reasons are not asked for. ``format_ok`` is the second, and
    what the reward pays: `structure_ok`, and every block also gives reasons. ``prefix`` counts the
    well-formed blocks from the start, in the order of the text.
    """

    structure_ok: bool
    format_ok: bool
    prefix: int
    missing: int
    duplicate: int
    extra: int
    reasoned: tuple[bool, ...]


def structure(reading: Reading, order: int) -> Structure:
    """Check a reading against the order of its question. Raises HarnessError below order 1."""
    if isinstance(order, bool) or not isinstance(order, int) or order < 1:
        raise HarnessError(f"order {order!r}: Think blocks need an order of at least 1")
    counts = Counter(block.index for block in reading.blocks)
    by_index = {block.index: block for block in reading.blocks}
    wanted = range(1, order + 1)
    prefix = _prefix(reading, order)
    ok = (
        [block.index for block in reading.blocks] == list(wanted)
        and all(block.state is not None for block in reading.blocks)
        and reading.answer is not None
        and not (reading.orphans or reading.stray or reading.late)
    )
    return Structure(
        structure_ok=ok,
        format_ok=ok and prefix == order,
        prefix=prefix,
        missing=sum(counts[i] == 0 for i in wanted),
        duplicate=sum(counts[i] > 1 for i in wanted),
        extra=sum(count for i, count in counts.items() if i not in wanted),
        reasoned=tuple(counts[i] == 1 and by_index[i].reasoning for i in wanted),
    )


def _prefix(reading: Reading, order: int) -> int:
    for place, block in enumerate(reading.blocks[:order]):
        whole = block.reasoning and block.state is not None and not block.trailing
        if block.index != place + 1 or not whole:
            return place
    return min(order, len(reading.blocks))


def write(places: tuple[str, ...], reasons: tuple[str, ...]) -> str:
    """A reply in the grammar: one block for each place, the last place as the answer."""
    blocks = [
        f"Think {i}: {why}\nState: {place}"
        for i, (place, why) in enumerate(zip(places, reasons, strict=True), start=1)
    ]
    return "\n".join([*blocks, f"Answer: {places[-1]}"])
