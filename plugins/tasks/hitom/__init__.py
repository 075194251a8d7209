"""Hi-ToM: nested beliefs after stories of rooms, chapters and lies.

``hitom`` reads the official file (``--set data=FILE``) or draws stories of the same kind, orders
0 to 4; ``hitom-ood`` draws orders 5 and 6. docs/tom.md has the rules. One sample:

>>> from harness_plugins.tasks.hitom.generator import Kind, draw
>>> sample = draw(seed=2026, kind=Kind("test", False, 1, 1), number=0)
>>> sample.id
'hitom-test-plain-l1-o1-000'
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from harness import hookimpl

if TYPE_CHECKING:
    from harness.types import Json

    from .task import HiToM


@hookimpl
def create_task(name: str, options: Mapping[str, Json]) -> HiToM:
    """Make the task. Raises HarnessError for an option or name that does not exist."""
    from harness.types import HarnessError

    from .task import HiToM, HiToMOOD

    tasks = {task.name: task for task in (HiToM, HiToMOOD)}
    if name not in tasks:
        raise HarnessError(f"no task {name!r} in hitom; it has {', '.join(tasks)}")
    return tasks[name](options)
