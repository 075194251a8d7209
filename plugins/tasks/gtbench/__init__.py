"""GTBench: ten games of strategy, played honestly and fast.

``docs/gtbench.md`` tells what is played and what is reported. The package loads no game library
until a position is started.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

from harness import hookimpl
from harness.types import HarnessError, Json

if TYPE_CHECKING:
    from harness.task import Task

MODES: Final = {
    "match": ("task", "GTBench"),
    "policy": ("policy", "PolicyTask"),
    "belief": ("belief", "BeliefTask"),
}
"""The module and class of each value of the option ``mode``."""


@hookimpl
def create_task(name: str, options: Mapping[str, Json]) -> Task:
    """The hook of tasks: ``mode`` names one of `MODES`."""
    mode = str(options.get("mode") or "match")
    if mode not in MODES:
        raise HarnessError(f"mode={mode!r} is unknown; choose from {', '.join(MODES)}")
    module, kind = MODES[mode]
    made: type[Task] = getattr(import_module(f".{module}", __name__), kind)
    return made(options)


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
