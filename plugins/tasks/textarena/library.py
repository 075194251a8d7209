"""The TextArena library: found when it is first needed, never at import.

Environments are made without their wrappers. The stock wrappers show a player's raw reply to the
opponent, keep the transcript of an earlier episode when an object is used again, and put brackets
around whatever has none; the session does all of that itself, and differently.

>>> env = make("TicTacToe-v0")
>>> env.reset(num_players=2, seed=1)
>>> env.state.current_player_id
0
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from functools import lru_cache
from typing import Any, Final

from harness.types import HarnessError

PINNED: Final = "0.7.4"
"""The version whose environments the adapters were checked against."""

WRAPPED: Final = ("-raw", "-train")
"""Endings of ids that name the same environment under other wrappers."""

CALLS: Final = (1, 2, 3, 4, 5, 6, 7, 8)
"""Numbers of players that are tried on an environment without an adapter, two first."""

_RESOURCE: Final = re.compile(r"Resource '?(\w{1,60})'? not found")


@lru_cache(maxsize=1)
def load() -> Any:
    """The package ``textarena``. Raises HarnessError if it is missing."""
    try:
        import textarena
    except ImportError:
        raise HarnessError(
            f"textarena is missing: pip install 'strategic-harness[games]' (or textarena=={PINNED})"
        ) from None
    return textarena


def version() -> str:
    """The installed version ("" if the package is missing)."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("textarena")
    except PackageNotFoundError:
        return ""


def registered() -> dict[str, Any]:
    """All registered ids with their specifications, in the library's order."""
    load()
    from textarena.envs.registration import ENV_REGISTRY

    return dict(ENV_REGISTRY)


def base_ids() -> list[str]:
    """The registered ids without those that differ by their wrappers only."""
    return [name for name in registered() if not name.endswith(WRAPPED)]


def make(name: str) -> Any:
    """A new environment without wrappers. Raises HarnessError for a name that is not registered,
    or one that cannot be made here (with the reason)."""
    library, known = load(), registered()
    if name not in known:
        raise HarnessError(f"textarena {version()} has no environment {name!r}{_near(name)}")
    raw = f"{name}-raw"
    try:
        with _no_download():
            env = library.make(raw if raw in known else name)
    except SyntaxError as error:
        raise HarnessError(f"{name}: its file does not parse on this Python: {error}") from None
    except (LookupError, OSError, ImportError, ValueError) as error:
        reason = " ".join(str(error).replace("*", " ").split())
        missing = _RESOURCE.match(reason)
        if missing:
            reason = f"it needs word lists: python -m nltk.downloader {missing[1]}"
        raise HarnessError(
            f"{name} cannot be made here: {type(error).__name__}: {reason[:200]} (harness doctor "
            "--games classifies all environments)"
        ) from None
    while hasattr(env, "env"):
        env = env.env
    return env


@contextmanager
def _no_download() -> Iterator[None]:
    """Nothing is downloaded unasked: many environments call NLTK's downloader as they are made."""
    try:
        import nltk
    except ImportError:
        yield
        return
    asked = nltk.download
    nltk.download = lambda *_, **__: False
    try:
        yield
    finally:
        nltk.download = asked


def _near(name: str) -> str:
    """The registered names that are most like one, for an error message; case does not count."""
    import difflib

    names = {known.lower(): known for known in base_ids()}
    near = difflib.get_close_matches(name.lower(), names, 3, 0.5)
    return f"; near it: {', '.join(names[one] for one in near)}" if near else ""


@lru_cache(maxsize=256)
def seats(name: str) -> int:
    """How many players an environment takes: the first of two, one, three, ... that it accepts.

    Raises HarnessError if it accepts none.
    """
    import random

    saved = random.getstate()
    try:
        for count in sorted(CALLS, key=lambda n: (n != 2, n)):
            env = make(name)
            try:
                with redirect_stdout(io.StringIO()):
                    env.reset(num_players=count, seed=0)
            except Exception:  # whatever a foreign reset raises for a wrong number of players
                continue
            return count
    finally:
        random.setstate(saved)
    raise HarnessError(f"{name} accepts no number of players from 1 to {max(CALLS)}")
