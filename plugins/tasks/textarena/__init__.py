"""TextArena: real environments, with correct information, own seeds and honest scores.

``docs/textarena.md`` tells what is played and what is reported. The package loads the library when
an episode is started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from harness import hookimpl
from harness.types import Json

if TYPE_CHECKING:
    from harness.task import Task

    from .classify import Row


@hookimpl
def create_task(name: str, options: Mapping[str, Json]) -> Task:
    """Make the task. Raises HarnessError for options that make no sense."""
    from .task import TextArena

    return TextArena(options)


def doctor() -> Iterator[tuple[str, bool, str]]:
    """Whether the library is there, in the version that the adapters were checked against."""
    from .library import PINNED, version

    found = version()
    if not found:
        advice = "pip install 'strategic-harness[games]'"
        yield ("textarena", True, f"not installed (optional): {advice}")
    elif found != PINNED:
        yield ("textarena", False, f"{found}, but the adapters are for {PINNED}")
    else:
        yield ("textarena", True, found)


def doctor_games(
    timeout: float = 25.0, progress: Callable[[int, int], None] | None = None
) -> list[Row]:
    """Classify every registered environment, each in a process of its own (minutes).

    ``timeout`` is in seconds for one environment; ``progress`` is called with (done, all).
    """
    from .classify import classify_all

    return classify_all(timeout, progress)
