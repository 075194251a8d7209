"""Labels for probes: six concepts, computed from the matrix and the exact equilibria.

``difficulty`` is kept for comparison with the reference study: it is close to a function of the
game's size. A concept that does not apply to a kind of question has the label -1.

>>> data = {"kind": "nash", "row": [[2, 0], [3, 1]], "col": [[2, 3], [0, 1]], "difficulty": "easy"}
>>> labels = concepts(data, {"class": "pure", "equilibria": [{}]})
>>> [CLASSES[name][label] for name, label in labels.items() if label >= 0]
['pure', 'symmetric', 'easy', 'yes', 'one']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

from harness.types import Json

from .games import Game, Matrix
from .truth import dominant

CLASSES: Mapping[str, tuple[str, ...]] = {
    "eq_type": ("pure", "mixed", "both"),
    "game_type": ("general", "zero_sum", "symmetric"),
    "difficulty": ("easy", "medium", "hard"),
    "dominance": ("no", "yes"),
    "br_direction": (*(f"action_{i}" for i in range(6)), "tied"),
    "eq_uniqueness": ("one", "multiple"),
}
"""The classes of each concept, in the order of their indices.

``eq_type``: whether the equilibria are all pure, all mixed, or some of each (a continuum counts as
having mixed ones). ``game_type``: payoffs that sum to a constant in every cell; else a game that
looks the same to both players once actions are matched; else general. ``dominance``: whether the
row player has a strictly dominant action. ``br_direction``: which action is the one best response.
``eq_uniqueness``: whether there is exactly one equilibrium.
"""


def concepts(data: Mapping[str, Json], truth: Mapping[str, Json]) -> dict[str, int]:
    """The index of the class of each concept, -1 where it does not apply."""
    game = Game.from_data(data)
    names: dict[str, str] = {
        "eq_type": truth.get("class", ""),
        "game_type": game_type(game),
        "difficulty": data.get("difficulty", ""),
        "dominance": "no" if dominant(game.row) is None else "yes",
        "br_direction": _direction(truth["best"]) if "best" in truth else "",
        "eq_uniqueness": _count(truth["equilibria"]) if "equilibria" in truth else "",
    }
    return {
        concept: classes.index(names[concept]) if names[concept] in classes else -1
        for concept, classes in CLASSES.items()
    }


def game_type(game: Game) -> str:
    """``zero_sum``, ``symmetric`` or ``general``, by the payoffs alone.

    >>> game_type(Game.of([[1, 2], [3, 4]], [[3, 2], [1, 0]]))
    'zero_sum'
    """
    sums = {
        a + b for lines in zip(game.row, game.col, strict=True) for a, b in zip(*lines, strict=True)
    }
    if len(sums) == 1:
        return "zero_sum"
    m, n = game.shape
    return "symmetric" if m == n and _symmetric(game.row, game.col) else "general"


def _symmetric(row: Matrix, col: Matrix) -> bool:
    """Whether some matching of the columns to the rows makes the column player's matrix the
    transpose of the row player's."""
    n = len(row)
    if sorted(x for line in row for x in line) != sorted(x for line in col for x in line):
        return False
    return any(
        all(row[i][order[j]] == col[j][order[i]] for i in range(n) for j in range(n))
        for order in permutations(range(n))
    )


def _direction(best: Sequence[int]) -> str:
    return f"action_{best[0]}" if len(best) == 1 else "tied"


def _count(equilibria: Sequence[Json]) -> str:
    return "one" if len(equilibria) == 1 else "multiple"
