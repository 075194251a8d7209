"""What each registered environment does on this machine: plays it in a process of its own.

    for row in classify_all(timeout=25):
        print(row.name, row.cls, row.reason)

Each id is made, reset and played a few times: by random legal moves where it has an adapter, else
by tokens found in its own messages. The processes are forked from one that has loaded the library,
so that a child costs milliseconds; none of them can reach the network or sees an API key. One that
uses more processor time than the limit is ended by the system, one that sleeps through several
times as long by its parent: on a busy machine the classes are the same.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import random
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection, wait
from typing import Any, Final, NamedTuple

RUNS: Final = "runs"
NEEDS_DATA: Final = "needs data"
NEEDS_KEY: Final = "needs a key"
NEEDS_PACKAGE: Final = "needs a package"
SYNTAX_ERROR: Final = "syntax error"
CRASHES: Final = "crashes"
NEVER_ENDS: Final = "never ends"
TIMEOUT: Final = "time limit"

CLASSES: Final = (
    RUNS,
    NEEDS_DATA,
    NEEDS_KEY,
    NEEDS_PACKAGE,
    SYNTAX_ERROR,
    CRASHES,
    NEVER_ENDS,
    TIMEOUT,
)
"""The classes, in the order of tables."""

EPISODES: Final = 2
MOST_STEPS: Final = 600
"""Steps of an episode after which it counts as never ending."""

PATIENCE: Final = 4
"""A child is ended when this many limits have passed, whatever it has used."""

_KEY = re.compile(r"api[_ -]?key|openrouter|credentials|OPENAI", re.IGNORECASE)
_TOKEN = re.compile(r"\[[^\[\]\n]{1,60}\]")
_MODULE = re.compile(r"No module named '([^']{1,80})'")
_PATH = re.compile(r"\S{0,300}site-packages/")
_SECRETS = re.compile(r"(?:_KEY|_TOKEN|_SECRET)$")


class Row(NamedTuple):
    """What was found of one id. ``adapter`` says whether the harness has one (``wrong`` why its
    results don't count, if they don't); ``players`` is the number that it was played with,
    ``seconds`` the processor time; ``variant_of`` names the id that it is under other wrappers
    ("": none)."""

    name: str
    cls: str
    players: int
    seconds: float
    adapter: bool
    wrong: str
    reason: str
    variant_of: str = ""


def classify_all(
    timeout: float = 25.0,
    progress: Callable[[int, int], None] | None = None,
    names: Iterable[str] | None = None,
    jobs: int | None = None,
) -> list[Row]:
    """Classify all registered ids (or those named), in the library's order.

    :param timeout: seconds of processor time for one environment (rounded up to whole ones).
    :param progress: called with (done, all) after each.
    :param jobs: processes at a time (default: one a core, four at most).
    """
    from .library import registered

    chosen = list(registered()) if names is None else list(names)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["textarena", __name__])
    limit = jobs or min(4, os.cpu_count() or 1)
    waiting = list(reversed(chosen))
    running: dict[Connection, _Child] = {}
    found: dict[str, Row] = {}
    while waiting or running:
        while waiting and len(running) < limit:
            child = _Child(context, waiting.pop(), timeout)
            running[child.end] = child
        for end in _ready(running, timeout * PATIENCE):
            child = running.pop(end)
            found[child.name] = child.result(timeout)
            if progress is not None:
                progress(len(found), len(chosen))
    return [found[name] for name in chosen]


def counts(rows: Iterable[Row]) -> dict[str, int]:
    """How many ids fell into each class, in the order of `CLASSES`."""
    found = [row.cls for row in rows]
    return {cls: found.count(cls) for cls in CLASSES if cls in found}


class _Child:
    """One process and the pipe that it answers through."""

    def __init__(self, context: Any, name: str, timeout: float) -> None:
        self.name = name
        self.started = time.monotonic()
        self.end, far = context.Pipe(duplex=False)
        self.process = context.Process(target=_serve, args=(name, far, timeout), daemon=True)
        self.process.start()
        far.close()

    def result(self, timeout: float) -> Row:
        """Its answer, or what its silence means; the process is gone afterwards."""
        try:
            row: Row = self.end.recv() if self.end.poll() else self._late(timeout)
        except EOFError:
            self.process.join()
            if self.process.exitcode == -signal.SIGXCPU:
                row = self._late(timeout)
            else:
                row = _row(self.name, CRASHES, 0, 0.0, f"exit code {self.process.exitcode}")
        finally:
            self.process.kill()
            self.process.join()
            self.end.close()
        return row

    def _late(self, timeout: float) -> Row:
        return _row(self.name, TIMEOUT, 0, timeout, f"not done after {timeout:.0f} s")


def _ready(running: dict[Connection, _Child], timeout: float) -> list[Connection]:
    """The pipes of children that have answered, ended or overrun; waits for the first."""
    oldest = min(child.started for child in running.values())
    left = max(0.0, oldest + timeout - time.monotonic())
    ready = wait(list(running), left)
    now = time.monotonic()
    late = [end for end, child in running.items() if now - child.started >= timeout]
    return list(dict.fromkeys([*ready, *late]))  # type: ignore[list-item]


def _serve(name: str, answer: Connection, timeout: float) -> None:
    """In the child: classify, with standard output and the network closed."""
    import resource
    import socket

    limit = math.ceil(timeout)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))

    def closed(*_: Any, **__: Any) -> None:
        raise OSError("the network is closed while environments are classified")

    socket.socket.connect = closed  # type: ignore[method-assign]
    socket.getaddrinfo = closed  # type: ignore[assignment]
    for key in [key for key in os.environ if _SECRETS.search(key)]:
        del os.environ[key]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    cls, players, reason = classify(name)
    answer.send(_row(name, cls, players, time.process_time(), reason))
    answer.close()


def _row(name: str, cls: str, players: int, seconds: float, reason: str) -> Row:
    from .adapters import adapter

    base = bare(name)
    made = adapter(base)
    same = "" if base == name else base
    return Row(name, cls, players, round(seconds, 3), made.listed, made.wrong, reason, same)


def bare(name: str) -> str:
    """The id without the ending that names its wrappers.

    >>> bare("Nim-v0-large-train")
    'Nim-v0-large'
    """
    return name.removesuffix("-raw").removesuffix("-train")


def classify(name: str, episodes: int = EPISODES) -> tuple[str, int, str]:
    """Play an environment with its own wrappers, in this process: class, players and reason."""
    from .library import load

    library = load()
    players = 0
    try:
        library.make(name)
    except Exception as error:  # any: what a foreign environment raises is what is classified
        cls, reason = _explain(error, "make")
        return cls, 0, reason
    try:
        players = _players(library, name)
        for seed in range(episodes):
            steps = _play(library, name, players, seed)
            if steps >= MOST_STEPS:
                return NEVER_ENDS, players, f"random play was not over after {steps} steps"
    except Exception as error:  # as above
        cls, reason = _explain(error, "play" if players else "reset")
        return cls, players, reason
    return RUNS, players, ""


def _players(library: Any, name: str) -> int:
    """The first of 2, 1, 3, ... players that it accepts; raises what it raised for two if none."""
    first: Exception | None = None
    for count in (2, 1, 3, 4, 5, 6, 7, 8):
        try:
            library.make(name).reset(num_players=count, seed=0)
        except Exception as error:  # as above
            first = first if first is not None and count > 1 else error
            continue
        return count
    assert first is not None
    raise first


def _play(library: Any, name: str, players: int, seed: int) -> int:
    """One episode; the number of steps that it took (MOST_STEPS: it did not end)."""
    from .adapters import adapter

    made, rng = adapter(bare(name)), random.Random(f"play {seed}")
    env = library.make(name)
    env.reset(num_players=players, seed=seed)
    inner = env
    while hasattr(inner, "env"):
        inner = inner.env
    for step in range(1, MOST_STEPS + 1):
        seat, told = env.get_observation()
        if made.listed:
            action = "Hello." if made.talking(inner) else made.forced(inner, seat)
            action = action or made.guess(inner, seat, rng)
        else:
            action = _from_messages(told, rng)
        done, _ = env.step(action)
        if done:
            rewards, _ = env.close()
            if rewards is None:
                raise RuntimeError("ended without rewards")
            if not all(isinstance(reward, (int, float)) for reward in rewards.values()):
                raise RuntimeError("ended with rewards that are no numbers")
            return step
    return MOST_STEPS


def _from_messages(told: Any, rng: random.Random) -> str:
    """A token in brackets out of the last message that holds any; the listed ones stand last."""
    messages = [told] if isinstance(told, str) else [message for _, message, *_ in told or ()]
    for message in reversed(messages):
        tokens = _TOKEN.findall(str(message)[-4000:])
        if tokens:
            return str(rng.choice(tokens[-12:]))
    return f"[{rng.randint(0, 9)}]"


def _explain(error: Exception, stage: str) -> tuple[str, str]:
    """The class of an exception, and a line that says what happened where."""
    text = _PATH.sub("", " ".join(str(error).replace("*", " ").split()))
    reason = f"{stage}: {type(error).__name__}: {text[:160]}"
    if isinstance(error, SyntaxError):
        python = ".".join(map(str, sys.version_info[:2]))
        place = _PATH.sub("", error.filename or "")
        return SYNTAX_ERROR, f"{place}, line {error.lineno}: {error.msg} (Python {python})"
    if _KEY.search(text):
        return NEEDS_KEY, reason
    missing = _MODULE.search(text) if isinstance(error, ImportError) else None
    if missing is not None and not missing[1].startswith("textarena"):
        return NEEDS_PACKAGE, reason
    if isinstance(error, FileNotFoundError) or "network is closed" in text:
        return NEEDS_DATA, reason
    if isinstance(error, LookupError) and text.startswith("Resource"):
        return NEEDS_DATA, reason
    return CRASHES, reason
