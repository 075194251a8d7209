"""The designs: which items a data set is made of, before any of them is drawn.

A preset is a list of cells; a cell is a kind of question, a size, a type of game and a count. A
cell's items are spread over the strata that exist for it and then over the splits, both in fixed
counts, which gives the plan: a list of `Item`, each of which is drawn on its own.

>>> items = plan("gamesolve")
>>> len(items), items[0].id
(2400, 'gamesolve-nash-2x2-general-pure-train-0')
>>> sum(item.split == "test" for item in items)
244
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.types import HarnessError

from .samplers import Payoffs, strata, why_empty

SMALL: Final = Payoffs(-5, 5)
DECIMAL: Final = Payoffs(-5, 5, places=2)
WIDE: Final = Payoffs(-50, 50)
WIDE_DECIMAL: Final = Payoffs(-50, 50, places=2)

PLAIN: Final = ("abstract", "story", "compact")
FORMATS: Final = (*PLAIN, "math", "json", "markdown")

SPLITS: Final = ("train", "validation", "test")
BUCKETS: Final = ("train",) * 8 + ("validation", "test")
"""The split of each bucket of canonical games, the same in every preset."""

EIGHTY_TEN_TEN: Final = {"train": 8, "validation": 1, "test": 1}
BALANCED: Final[Mapping[str, int]] = {"pure": 1, "mixed": 1, "continuum": 1, "both": 1}
PREFIXES: Final = {"best_response": "br"}
ROLES: Final = ("row", "column")


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a design: ``count`` questions of a ``kind`` on m x n games of a type.

    ``weights`` are the shares of the strata (empty: games as they fall, unselected); ``balanced``
    spreads the right answer evenly over the responder's actions; ``responders`` and ``formats`` are
    taken in equal shares. ``category`` names what is unusual about the cell ("" : nothing).
    """

    kind: str
    m: int
    n: int
    game_type: str
    count: int
    weights: Mapping[str, int] | None = None
    balanced: bool = True
    payoffs: Payoffs = SMALL
    formats: tuple[str, ...] = PLAIN
    responders: tuple[str, ...] = ROLES
    category: str = ""

    @property
    def name(self) -> str:
        """``kind/size/type``, or ``kind/size/category``."""
        kind = PREFIXES.get(self.kind, self.kind)
        return f"{kind}/{self.m}x{self.n}/{self.category or self.game_type}"

    def strata(self) -> dict[str, int]:
        """How many items each stratum gets ("" : unselected)."""
        if not self.weights:
            return {"": self.count}
        exist = strata(self.game_type, self.m, self.n)
        return shares(self.count, {s: w for s, w in self.weights.items() if s in exist})

    def empty(self) -> dict[str, str]:
        """The strata that were asked for and do not exist, with the reason."""
        reasons = {s: why_empty(self.game_type, self.m, self.n, s) for s in self.weights or ()}
        return {stratum: reason for stratum, reason in reasons.items() if reason}


@dataclass(frozen=True, slots=True)
class Item:
    """What an item must be: its cell, stratum and split.

    ``k`` is its number among those of the same split, ``serial`` among those of all splits.
    """

    preset: str
    cell: Cell
    stratum: str
    split: str
    k: int
    serial: int

    @property
    def id(self) -> str:
        """A stable name, ``<preset>-<cell>-<stratum>-<split>-<k>``."""
        parts = (self.preset, *self.cell.name.split("/"), self.stratum, self.split, str(self.k))
        return "-".join(part for part in parts if part)

    @property
    def key(self) -> tuple[str, ...]:
        """What the item shares with those that differ in ``k`` only."""
        return self.preset, self.cell.name, self.stratum, self.split


@dataclass(frozen=True, slots=True)
class Preset:
    """A design: its cells, and the shares of the splits."""

    cells: tuple[Cell, ...]
    splits: Mapping[str, int]


def shares(count: int, weights: Mapping[str, int]) -> dict[str, int]:
    """A count divided in proportion to weights, whole, by largest remainders (ties: the last).

    >>> shares(25, {"train": 8, "validation": 1, "test": 1})
    {'train': 20, 'validation': 2, 'test': 3}
    """
    total = sum(weights.values())
    parts = {name: divmod(count * weight, total) for name, weight in weights.items()}
    left = count - sum(whole for whole, _ in parts.values())
    order = sorted(parts, key=lambda name: parts[name][1])[len(parts) - left :]
    return {name: whole + (name in order) for name, (whole, _) in parts.items()}


def plan(name: str) -> list[Item]:
    """The items of a preset, cell by cell. Raises HarnessError for a preset that does not exist."""
    preset = get_preset(name)
    return [
        Item(name, cell, stratum, split, k, serial)
        for cell in preset.cells
        for stratum, count in cell.strata().items()
        for serial, (split, k) in enumerate(_numbered(shares(count, preset.splits)))
    ]


def _numbered(sizes: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    return ((split, k) for split, size in sizes.items() for k in range(size))


def get_preset(name: str) -> Preset:
    """A preset by name. Raises HarnessError for one that does not exist."""
    if name not in PRESETS:
        raise HarnessError(f"no preset {name!r}; choose one of {', '.join(PRESETS)}")
    return PRESETS[name]


_STUDY: Final = (
    ("nash", 2, 2, "general", 400),
    ("nash", 2, 2, "zero_sum", 150),
    ("nash", 2, 2, "symmetric", 100),
    ("nash", 3, 3, "general", 200),
    ("nash", 3, 3, "zero_sum", 100),
    ("nash", 3, 3, "symmetric", 80),
    ("nash", 4, 4, "general", 100),
    ("nash", 2, 3, "general", 120),
    ("nash", 3, 2, "general", 100),
    ("best_response", 2, 2, "general", 300),
    ("best_response", 2, 2, "zero_sum", 100),
    ("best_response", 3, 3, "general", 200),
    ("best_response", 3, 3, "zero_sum", 80),
    ("best_response", 4, 4, "general", 150),
    ("best_response", 2, 3, "general", 120),
    ("best_response", 3, 2, "general", 100),
)
"""The cells of the reference study's in-distribution set."""


def _balanced(rows: Sequence[tuple[str, int, int, str, int]]) -> tuple[Cell, ...]:
    return tuple(
        Cell(kind, m, n, game_type, count, weights=BALANCED if kind == "nash" else None)
        for kind, m, n, game_type, count in rows
    )


def _unselected(rows: Sequence[tuple[str, int, int, str, int]]) -> tuple[Cell, ...]:
    return tuple(
        Cell(kind, m, n, game_type, count, balanced=False, responders=("row",))
        for kind, m, n, game_type, count in rows
    )


_TABLE: Final = ("math", "json", "markdown")
_OOD: Final[tuple[tuple[str, Payoffs, tuple[str, ...], str, str], ...]] = (
    # category, payoffs, formats, sizes of nash and counts, sizes of best responses and counts
    ("large_matrix", SMALL, PLAIN, "5x5:40 6x6:30", "5x5:40 6x6:30"),
    ("non_integer", DECIMAL, PLAIN, "2x2:30 3x3:30", "2x2:30 3x3:30"),
    ("wide_range", WIDE, PLAIN, "2x2:30 3x3:30", "2x2:30 3x3:30"),
    ("novel_format_math", SMALL, ("math",), "2x2:15 3x3:15", "2x2:15 3x3:15"),
    ("novel_format_json", SMALL, ("json",), "2x2:15 3x3:15", "2x2:15 3x3:15"),
    ("novel_format_table", SMALL, ("markdown",), "2x2:15 3x3:15", "2x2:15 3x3:15"),
    ("asymmetric", SMALL, PLAIN, "4x2:25 2x5:25 3x5:25", "4x2:25 2x5:25 5x3:25"),
    ("combined_hard", WIDE_DECIMAL, _TABLE, "5x5:20 6x6:15", "5x5:20 6x6:15"),
)
"""One thing is moved at a time (but in the last row); classes are as balanced as in training."""


def _ood() -> tuple[Cell, ...]:
    return tuple(
        Cell(
            kind,
            *_size(entry),
            weights=BALANCED if kind == "nash" else None,
            payoffs=payoffs,
            formats=formats,
            category=category,
        )
        for category, payoffs, formats, nash, response in _OOD
        for kind, entries in (("nash", nash), ("best_response", response))
        for entry in entries.split()
    )


def _size(entry: str) -> tuple[int, int, str, int]:
    shape, count = entry.split(":")
    m, n = shape.split("x")
    return int(m), int(n), "general", int(count)


_ONE_PURE: Final[Mapping[str, int]] = {"pure": 2, "mixed": 1, "both": 1}
_SKILLS: Final[tuple[tuple[str, str], ...]] = (
    ("payoff", "general: 2x2:40 3x3:40 4x4:40 2x4:40 4x3:40"),
    ("dominance", "general: 2x2:40 3x3:40 4x4:30 2x3:30 4x2:30; zero_sum: 3x3:30"),
    ("best_response_pure", "general: 2x2:40 3x3:40 4x4:40 2x4:40; symmetric: 3x3:40"),
    ("best_response", "general: 2x2:40 3x3:40 4x4:40 3x2:40 2x4:40"),
    ("pure_equilibria", "general: 2x2:40 3x3:40 4x4:40; dominance: 3x3:40; coordination: 4x4:40"),
    (
        "nash",
        "general: 2x2:40 2x3:40; zero_sum: 2x2:30; symmetric: 3x3:40;"
        " dominance: 3x3:20; coordination: 3x3:30",
    ),
)


def _skill_weights(kind: str, game_type: str) -> Mapping[str, int] | None:
    if kind not in ("nash", "pure_equilibria"):
        return None
    if game_type == "coordination":
        return {"both": 1}
    return BALANCED if kind == "nash" else _ONE_PURE


def _skills() -> tuple[Cell, ...]:
    return tuple(
        Cell(kind, m, n, game_type, count, weights=_skill_weights(kind, game_type))
        for kind, text in _SKILLS
        for game_type, entries in (part.strip().split(": ") for part in text.split(";"))
        for m, n, _, count in map(_size, entries.split())
    )


PRESETS: Final[dict[str, Preset]] = {
    "gamesolve": Preset(_balanced(_STUDY), EIGHTY_TEN_TEN),
    "gamesolve-ood": Preset(_ood(), {"test": 1}),
    "gamesolve-skills": Preset(_skills(), EIGHTY_TEN_TEN),
    "reference": Preset(_unselected(_STUDY), EIGHTY_TEN_TEN),
}
