"""GTBench: ten games of strategy, played honestly and fast.

``docs/gtbench.md`` tells what is played and what is reported. The package loads no game library
until a position is started.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from harness import hookimpl
from harness.types import Json

if TYPE_CHECKING:
    from harness.task import Task


@hookimpl
def create_task(name: str, options: Mapping[str, Json]) -> Task:
    """The hook of tasks."""
    from .task import GTBench

    return GTBench(options)


def doctor() -> Iterator[tuple[str, bool, str]]:
    """Whether the game libraries are there, in the versions whose rules the prompts tell."""
    from importlib.metadata import PackageNotFoundError, version

    for name, pinned, optional in (("open_spiel", "2.0.2", False), ("rlcard", "1.2.0", True)):
        try:
            found = version(name)
        except PackageNotFoundError:
            kind = "optional" if optional else "needed by gtbench"
            yield (name, optional, f"not installed ({kind}): pip install '{name}=={pinned}'")
            continue
        good = found == pinned
        yield (name, good, found if good else f"{found}, but the rules were checked on {pinned}")
