"""A new plugin as files: a package that can be installed, or a module in a checkout.

    made = package("task", "rps-memory", "two-player", Path("rps-memory"))
    made.files, made.next

What is written keeps the rules of `harness check` and passes its own test. Nothing is written when
a name is taken or a file is there already.
"""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Final

from ..registry import Registry
from ..types import HarnessError

KINDS: Final = ("task", "model", "reward", "trainer")
SHAPES: Final = ("single-turn", "multi-turn", "two-player")
NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
LONGEST: Final = 40
SUMMARIES: Final = {
    "single-turn": ("which of three actions pays most?", "1 for the right action"),
    "multi-turn": ("find a hidden number in six guesses", "1 where the number was found"),
    "two-player": ("take 1 to 3 counters in turn; the last one wins", "1 for a game won"),
}
OPTIONS: Final = {
    "single-turn": 'size = { default = 200, help = "samples of a split" }\n',
    "multi-turn": 'size = { default = 200, help = "samples" }\n',
    "two-player": 'pairs = { default = 100, help = "pairs of games with the seats swapped" }\n',
}
NEXT: Final = {
    "task": "harness run --task {name} --model random,oracle\nharness leaderboard runs",
    "model": "harness run --task {task} --model {name} --limit 20\nharness leaderboard runs",
    "reward": "harness run --task {task} --model random,oracle --limit 20 --reward {name}",
    "trainer": "harness train --method {name} --task TASK --model FOLDER --out job",
}
"""What to try once the package is installed."""

DATA_SEED: Final = 'data_seed = { default = 1, help = "seed of the data set" }'


@dataclass(frozen=True, slots=True)
class Made:
    """What was written, and the commands that come next."""

    files: tuple[Path, ...]
    next: tuple[str, ...]


def package(kind: str, name: str, shape: str, folder: Path, registry: Registry) -> Made:
    """Write an installable package into ``folder``, which must not hold anything.

    ``shape`` is one of `SHAPES` for tasks and "" for others. Raises HarnessError for names that are
    taken or cannot be used, and for a folder that is not empty.
    """
    words = _words(kind, name, shape, registry)
    module = words["package"]
    _free_module(module, folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise HarnessError(f"{folder} is there already and not empty; choose another --out")
    words |= {"module": module, "where": ""}
    readme = _fill(f"readme.{kind}", words)
    written = _write(
        {
            folder / "pyproject.toml": _fill("pyproject", words),
            folder / "README.md": readme,
            folder / module / "__init__.py": _code(kind, shape, words),
            folder / module / "registry.toml": _fill(f"{kind}.registry", words),
            folder / "tests" / f"test_{module}.py": _fill(f"test.{kind}", words),
        }
    )
    shown = folder / module / "registry.toml"
    return Made(written, (
        f"pip install -e {folder}     (or give each command --registry {shown})",
        f"harness check {name}",
        *NEXT[kind].format(name=name, task=words["task"]).splitlines(),
    ))  # fmt: skip


def here(kind: str, name: str, shape: str, checkout: Path, registry: Registry) -> Made:
    """Write a module into plugins/ of a checkout, its entry into registry.toml, and a test.

    Raises HarnessError as `package` does, and outside of a checkout.
    """
    words = _words(kind, name, shape, registry)
    module = words["package"]
    words |= {"module": f"harness_plugins.{kind}s.{module}", "where": ""}
    listed = checkout / "registry.toml"
    targets = {
        checkout / "plugins" / f"{kind}s" / f"{module}.py": _code(kind, shape, words),
        checkout / "tests" / "plugins" / f"test_{module}.py": _fill(f"test.{kind}", words),
    }
    for path in (*targets, checkout / "plugins" / f"{kind}s" / module):
        if path.exists():
            raise HarnessError(f"{path} is there already; choose another name")
    written = _write(targets)
    text = listed.read_text(encoding="utf-8")
    listed.write_text(f"{text.rstrip()}\n\n{_fill(f'{kind}.registry', words)}", encoding="utf-8")
    return Made((*written, listed), (
        f"harness check {name}",
        f"python -m pytest {checkout / 'tests' / 'plugins' / f'test_{module}.py'}",
        "python docs/generate.py",
    ))  # fmt: skip


def find_checkout(start: Path) -> Path:
    """The checkout that a folder lies in. Raises HarnessError where there is none."""
    for folder in (start, *start.parents):
        if (folder / "registry.toml").is_file() and (folder / "plugins" / "tasks").is_dir():
            return folder
    raise HarnessError(
        "--here: this folder is in no checkout of the harness (registry.toml and plugins/); go "
        "there, or leave --here away to get a package"
    )


def _words(kind: str, name: str, shape: str, registry: Registry) -> dict[str, str]:
    """What fills the templates, once names are known to be good."""
    if kind not in KINDS:
        raise HarnessError(f"there is no kind {kind!r}; there are {', '.join(KINDS)}")
    if kind == "task" and shape not in SHAPES:
        raise HarnessError(f"--kind {shape}: choose one of {', '.join(SHAPES)}")
    if not NAME.fullmatch(name) or len(name) > LONGEST:
        raise HarnessError(
            f"the name {name[: 2 * LONGEST]!r} cannot be used: at most {LONGEST} small letters, "
            "digits and single hyphens, beginning with a letter, such as rps-memory"
        )
    taken = (kind, *(("reward",) if kind == "task" else ()))
    for each in taken:
        if (each, name) in registry.entries or (each, name) in registry.left_out:
            raise HarnessError(f"there is a {each} {name!r} already; choose another name")
    title = name.replace("-", " ").capitalize()
    cls = "".join(part.capitalize() for part in name.split("-"))
    summary, reward_summary = SUMMARIES.get(shape, ("", ""))
    return {
        "kind": kind,
        "name": name,
        "package": name.replace("-", "_"),
        "title": title,
        "cls": cls,
        "reward": name,
        "reward_cls": f"{cls}Reward",
        "summary": summary,
        "reward_summary": reward_summary,
        "options": OPTIONS.get(shape, "") + DATA_SEED,
        "task": _some_task(registry),
    }


def _some_task(registry: Registry) -> str:
    """A task that a new reward's test is tried on: the last registered without an extra."""
    able = [e.name for (k, _), e in registry.entries.items() if k == "task" and not e.extra]
    return able[-1] if able else ""


def _free_module(module: str, folder: Path) -> None:
    """Raise HarnessError for a module name that Python or an installed package has."""
    if keyword.iskeyword(module) or module in sys.stdlib_module_names or _importable(module):
        raise HarnessError(
            f"the module {module!r} is there already (Python's, or an installed package's); choose "
            f"a longer name, such as {folder.name}-plugin"
        )


def _importable(module: str) -> bool:
    """Whether another module of this name would be found; a bare folder is none."""
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None


def _fill(template: str, words: Mapping[str, str]) -> str:
    text = (files(__package__) / "templates" / f"{template}.txt").read_text(encoding="utf-8")
    return Template(text).substitute(words)


def _code(kind: str, shape: str, words: Mapping[str, str]) -> str:
    return _fill(f"{shape if kind == 'task' else kind}.py", words)


def _write(targets: Mapping[Path, str]) -> tuple[Path, ...]:
    try:
        for path, text in targets.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise HarnessError(f"{path}: cannot be written: {error.strerror}") from None
    return tuple(_sorted(targets))


def _sorted(paths: Iterable[Path]) -> list[Path]:
    return sorted(paths, key=str)
