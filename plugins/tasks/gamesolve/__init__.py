"""GameSolve: find the Nash equilibria of a matrix game, or the best response to a strategy.

One question about one game, with an exact truth: all extreme equilibria in fractions, the maximal
Nash subsets that they span, the flags. The names are ``gamesolve``, ``gamesolve-ood`` and
``gamesolve-skills``; docs/gamesolve.md has the design.

One sample, as drawn:

>>> from harness_plugins.tasks.gamesolve.items import draw_item
>>> from harness_plugins.tasks.gamesolve.presets import plan
>>> wanted = "gamesolve-nash-2x2-general-both-test-1"
>>> sample = draw_item(next(item for item in plan("gamesolve") if item.id == wanted), data_seed=1)
>>> sample.data["row"], sample.data["col"]
([[2, -1], [-5, 4]], [[5, -3], [-1, 1]])
>>> sample.data["row_labels"], sample.data["col_labels"], sample.data["format"]
(['Left', 'Right'], ['A', 'B'], 'abstract')

Its answer is two pure equilibria and a mixed one, which a reply gives as

    ANSWER:
    Pure NE: (Left, A), (Right, B)
    Mixed NE: ([1/5, 4/5], [5/12, 7/12])

>>> sample.truth["pure"], sample.truth["class"]
([[0, 0], [1, 1]], 'both')
>>> sample.truth["equilibria"][2]
{'row': ['1/5', '4/5'], 'col': ['5/12', '7/12'], 'payoffs': ['1/4', '1/5']}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from harness import hookimpl

if TYPE_CHECKING:
    from harness.types import Json

    from .task import GameSolve


@hookimpl
def create_task(name: str, options: Mapping[str, Json]) -> GameSolve:
    """Make the task. Raises HarnessError for a preset, format or name that does not exist."""
    from harness.types import HarnessError

    from .task import GameSolve, GameSolveOOD, GameSolveSkills

    tasks = {task.name: task for task in (GameSolve, GameSolveOOD, GameSolveSkills)}
    if name not in tasks:
        raise HarnessError(f"no task {name!r} in gamesolve; it has {', '.join(tasks)}")
    return tasks[name](options)
