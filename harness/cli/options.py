"""Options that several verbs share, and how their values are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from ..types import HarnessError, Json

F = TypeVar("F", bound=Callable[..., Any])


def registry_option(function: F) -> F:
    """``--registry FILE``."""
    return click.option(
        "--registry",
        "registry_file",
        type=click.Path(path_type=Path),
        help="A registry.toml of your own (default: ./registry.toml, if there is one).",
    )(function)


def json_option(function: F) -> F:
    """``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")(
        function
    )


def quiet_option(function: F) -> F:
    """``--quiet``."""
    return click.option("--quiet", is_flag=True, help="No progress and no remarks.")(function)


def set_option(function: F) -> F:
    """``--set key=value``, repeatable."""
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="A task option; TASK.KEY=VALUE reaches one task only. Repeatable.",
    )(function)


def replicas_option(function: F) -> F:
    """``--replicas N``."""
    return click.option(
        "--replicas",
        type=int,
        default=0,
        metavar="N",
        help="Copies of the model on Ray, over GPUs or cores (RAY_ADDRESS: of a cluster).",
    )(function)


def names(text: str) -> tuple[str, ...]:
    """A comma list; raises HarnessError when it is empty or has a name twice.

    >>> names("a, b")
    ('a', 'b')
    """
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise HarnessError(f"{text!r} names nothing")
    if len(set(found)) != len(found):
        raise HarnessError(f"{text!r} has a name twice")
    return found


def pairs(settings: Iterable[str], option: str = "--set") -> dict[str, Json]:
    """``key=value`` texts as a mapping.

    >>> pairs(["a=1", "b=[x,y]"])
    {'a': '1', 'b': '[x,y]'}
    """
    found: dict[str, Json] = {}
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise HarnessError(f"{option} {text}: write KEY=VALUE")
        found[key.strip()] = value.strip()
    return found
