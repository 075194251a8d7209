"""Recipes: the settings of a training job, from a TOML file.

    top, settings = read_config(Path("configs/tiny-sft-cpu.toml"))
    options, task_options, reward_options = divide(registry, "sft", "gamesolve", settings)

``[data] order = "flat"`` and ``data.order = "flat"`` are the same; ``[task]`` and ``[reward]`` hold
a ``name`` and options. What is left are options of the trainer.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..types import HarnessError, Json

if TYPE_CHECKING:
    from ..registry import Registry

TOP: Final = ("method", "task", "model", "reward", "out", "log")
"""Settings that are options of ``harness train`` itself."""


def read_toml(path: Path) -> dict[str, Json]:
    """A TOML document. Raises HarnessError for a file that cannot be read."""
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise HarnessError(f"{path}: not valid TOML: {error}") from None
    except RecursionError:
        raise HarnessError(f"{path}: nested too deeply") from None
    except (OSError, ValueError) as error:  # ValueError: no UTF-8, or a path with a null character
        raise HarnessError(f"{path}: cannot be read: {error}") from None


def read_config(path: Path | None) -> tuple[dict[str, Json], dict[str, Json]]:
    """Settings of ``harness train`` and dotted options, from a recipe. Raises HarnessError for a
    file that cannot be read."""
    return ({}, {}) if path is None else sort_out(read_toml(path))


def sort_out(document: Mapping[str, Json]) -> tuple[dict[str, Json], dict[str, Json]]:
    """The settings of `TOP`, and all others as dotted options.

    >>> sort_out({"method": "sft", "task": {"name": "copy", "size": 3}, "steps": 2})
    ({'method': 'sft', 'task': 'copy'}, {'task.size': 3, 'steps': 2})
    """
    top: dict[str, Json] = {}
    settings: dict[str, Json] = {}
    for key, value in flat(document).items():
        if key in TOP:
            top[key] = value
        elif key in ("task.name", "reward.name"):
            top[key.partition(".")[0]] = value
        else:
            settings[key] = value
    return top, settings


def flat(document: Mapping[str, Json], prefix: str = "") -> dict[str, Json]:
    """Nested tables as dotted keys.

    >>> flat({"data": {"order": "flat"}, "steps": 3})
    {'data.order': 'flat', 'steps': 3}
    """
    found: dict[str, Json] = {}
    for key, value in document.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def divide(
    registry: Registry, method: str, task: str, settings: Mapping[str, Json]
) -> tuple[dict[str, Json], dict[str, Json], dict[str, Json]]:
    """Options of trainer, task and reward. The task's are checked here already."""
    options: dict[str, Json] = {}
    inner: dict[str, dict[str, Json]] = {"task": {}, "reward": {}}
    for key, value in settings.items():
        head, dot, rest = key.partition(".")
        if dot and head in inner:
            inner[head][rest] = value
        else:
            options[key] = value
    registry.entry("trainer", method)
    registry.options(registry.entry("task", task), inner["task"])
    return options, inner["task"], inner["reward"]
