"""Names of actions. They say nothing about payoffs, and rows and columns never share one.

>>> rows, cols = draw_labels(Draws(3), 2, 3)
>>> len(rows), len(cols), set(rows) & set(cols)
(2, 3, set())
"""

from __future__ import annotations

from typing import Final

from .draws import Draws

LABELS: Final[dict[int, tuple[tuple[str, ...], ...]]] = {
    2: (
        ("A", "B"),
        ("X", "Y"),
        ("Up", "Down"),
        ("Left", "Right"),
        ("Open", "Shut"),
        ("North", "South"),
        ("Red", "Blue"),
        ("Early", "Late"),
    ),
    3: (
        ("A", "B", "C"),
        ("X", "Y", "Z"),
        ("Top", "Middle", "Bottom"),
        ("Left", "Centre", "Right"),
        ("Red", "Green", "Blue"),
        ("Circle", "Square", "Triangle"),
        ("Morning", "Noon", "Night"),
    ),
    4: (
        ("A", "B", "C", "D"),
        ("W", "X", "Y", "Z"),
        ("North", "East", "South", "West"),
        ("Spring", "Summer", "Autumn", "Winter"),
        ("Iron", "Copper", "Silver", "Gold"),
        ("Oak", "Pine", "Birch", "Maple"),
    ),
    5: (
        ("A", "B", "C", "D", "E"),
        ("V", "W", "X", "Y", "Z"),
        ("Mercury", "Venus", "Mars", "Jupiter", "Saturn"),
        ("Oak", "Pine", "Birch", "Maple", "Cedar"),
        ("Red", "Orange", "Green", "Blue", "Violet"),
    ),
    6: (
        ("A", "B", "C", "D", "E", "F"),
        ("U", "V", "W", "X", "Y", "Z"),
        ("Heron", "Falcon", "Raven", "Swan", "Owl", "Finch"),
        ("Iron", "Copper", "Silver", "Gold", "Zinc", "Nickel"),
        ("Basil", "Mint", "Sage", "Thyme", "Dill", "Parsley"),
    ),
}
"""The sets of action names, by the number of actions."""

CONTEXTS: Final = (
    "abstract",
    "auction",
    "defence",
    "market",
    "negotiation",
    "network",
    "politics",
    "resources",
)
"""The scenarios that a text can be set in; their wording is the text module's."""


def draw_labels(draws: Draws, m: int, n: int) -> tuple[list[str], list[str]]:
    """A set for the row player's m actions and one for the column player's n that share no name."""
    rows = draws.choice(LABELS[m])
    cols = draws.choice([names for names in LABELS[n] if not set(names) & set(rows)])
    return list(rows), list(cols)
