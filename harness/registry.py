"""The registry: which plugins exist, where they came from, and what options they take.

Entries are read from the project's ``registry.toml``, the user's ``./registry.toml`` or
``--registry FILE``, and installed packages that name themselves in the entry-point group
``harness.plugins`` (the entry point's value is an import package that has a ``registry.toml`` of
its own inside). Reading imports no plugin; a plugin is imported when its name is used. The modules
of a user's file are looked for beside it too, so a plugin can be tried before it is installed.

    [[plugin]]
    kind = "task"
    name = "echo"
    module = "my_package.echo"
    summary = "say the word"
    [plugin.options]
    words = { default = 3, help = "how many words" }

>>> Registry.load(extra=None).entry("task", "gamesolve").module
'harness_plugins.tasks.gamesolve'
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from .allowed import Allowed
from .types import HarnessError, Json

KINDS: Final = ("task", "model", "reward", "trainer", "observer")
FIELDS: Final = frozenset(
    {"kind", "name", "module", "summary", "options", "extra", "handles", "priority"}
)


@dataclass(frozen=True, slots=True)
class Option:
    """One declared option: its default (which fixes its type) and its help."""

    default: Json
    help: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One registered name. ``folder`` is where a user's file lets its modules be found too."""

    kind: str
    name: str
    module: str
    summary: str
    source: str
    options: Mapping[str, Option] = field(default_factory=dict)
    extra: str = ""
    handles: tuple[str, ...] = ()
    priority: int = 0
    folder: str = ""


class Registry:
    """All entries, by (kind, name)."""

    def __init__(self, entries: Iterable[Entry], problems: Iterable[str] = ()) -> None:
        self.entries: dict[tuple[str, str], Entry] = {}
        self.left_out: set[tuple[str, str]] = set()
        self.problems = list(problems)
        allowed = Allowed.from_environment()
        for entry in entries:
            key = (entry.kind, entry.name)
            if not allowed.takes(entry):
                self.left_out.add(key)
                continue
            first = self.entries.get(key)
            if first is not None and _same(entry, first):
                continue  # the same file twice: an installed harness in a checkout of its own
            if first is not None:
                raise HarnessError(
                    f"two plugins register the {entry.kind} {entry.name!r}: {first.source} and "
                    f"{entry.source}; rename one of them, or choose with {Allowed.VARIABLE}"
                )
            self.entries[key] = entry
        self.problems += allowed.unused()

    @classmethod
    def load(cls, extra: Path | None = None) -> Registry:
        """Read all sources. ``extra`` is ``--registry FILE``; without it ``./registry.toml``.

        Raises HarnessError for a registry file of the user's that cannot be read; a package with a
        broken one is left out and named in ``problems``.
        """
        builtin = _builtin_file()
        entries = read_file(builtin, "built in")
        user = extra if extra is not None else Path("registry.toml")
        if extra is not None and not user.is_file():
            raise HarnessError(f"--registry {extra}: there is no such file")
        if user.is_file() and user.resolve() != builtin.resolve():
            folder = str(_import_root(user))
            entries += [replace(entry, folder=folder) for entry in read_file(user, str(user))]
        problems: list[str] = []
        for name, file in _package_files(problems):
            try:
                entries += read_file(file, f"package {name}")
            except HarnessError as error:
                problems.append(f"package {name}: {error}")
        return cls(entries, problems)

    def names(self, kind: str) -> list[str]:
        """The names of a kind, in order of registration."""
        return [name for k, name in self.entries if k == kind]

    def entry(self, kind: str, name: str) -> Entry:
        """The entry of a name. Raises HarnessError with the nearest names."""
        try:
            return self.entries[kind, name]
        except KeyError:
            if (kind, name) in self.left_out:
                raise HarnessError(
                    f"the {kind} {name!r} is left out by {Allowed.VARIABLE}; name it there too"
                ) from None
            raise HarnessError(
                f"there is no {kind} {name!r}{nearest(name, self.names(kind))}; "
                "`harness list` shows all"
            ) from None

    def options(self, entry: Entry, given: Mapping[str, Json]) -> dict[str, Json]:
        """The entry's defaults overlaid with the given values, converted to the defaults' types.

        Raises HarnessError for an unknown option (with the nearest names) or a value that does not
        convert.
        """
        values = {name: option.default for name, option in entry.options.items()}
        for name, value in given.items():
            if name not in values:
                raise HarnessError(
                    f"{entry.kind} {entry.name!r} has no option {name!r}"
                    f"{nearest(name, list(values))}"
                )
            values[name] = convert(value, values[name], f"{entry.name}: option {name}")
        return values

    def create(self, kind: str, name: str, given: Mapping[str, Json], argument: str = "") -> Any:
        """Make what a name stands for through its creating hook.

        ``argument`` replaces the name that the hook gets (``backend:NAME``).
        """
        entry = self.entry(kind, name)
        options = self.options(entry, given)
        module = load_module(entry)
        return call_creator(module, entry, argument or name, options)

    def parts(self, spec: str) -> list[tuple[str, Entry]]:
        """A ``--model`` value with its back end and, for a wrapper, those of the models in it."""
        found: list[tuple[str, Entry]] = []
        while spec:
            entry, argument = self.for_model(spec)
            found.append((spec, entry))
            spec = wrapped(entry, argument)
        return found

    def for_model(self, spec: str) -> tuple[Entry, str]:
        """The back end for a ``--model`` value, and the name that it gets.

        A registered name, ``backend:name``, a folder (or ``FOLDER@STEP``), or a hub id
        ``owner/name[@revision]``; the last two go to the plugin that handles them with the highest
        priority.
        """
        if ("model", spec) in self.entries:
            return self.entries["model", spec], spec
        prefix, colon, rest = spec.partition(":")
        if colon and ("model", prefix) in self.entries:
            return self.entries["model", prefix], rest
        looks_local = spec.startswith((".", "/", "~")) or Path(spec.split("@")[0]).exists()
        handle = "folder" if looks_local else "hub" if "/" in spec else ""
        if not handle:
            close = nearest(spec, self.names("model"))
            raise HarnessError(
                f"there is no model {spec!r}{close}; give a registered name, backend:name, a "
                "checkpoint folder or a hub id owner/name"
            )
        able = [e for (k, _), e in self.entries.items() if k == "model" and handle in e.handles]
        for entry in sorted(able, key=lambda e: -e.priority):
            usable = getattr(load_module(entry), "available", None) if len(able) > 1 else None
            if usable is None or usable():
                return entry, spec
        raise HarnessError(
            f"no installed back end takes {spec!r}; `harness doctor` says what is missing"
        )


def wrapped(entry: Entry, argument: str) -> str:
    """The model that a wrapper's argument ``N:MODEL`` is put around; "" for other entries."""
    return argument.partition(":")[2] if "model" in entry.handles else ""


def read_file(path: Path, source: str) -> list[Entry]:
    """The entries of one ``registry.toml``. Raises HarnessError naming file and line."""
    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise HarnessError(f"{path}: cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise HarnessError(f"{path}: not valid TOML: {error}") from None
    except RecursionError:
        raise HarnessError(f"{path}: nested too deeply") from None
    lines = [n for n, line in enumerate(text.splitlines(), 1) if line.strip() == "[[plugin]]"]
    rows = document.get("plugin", [])
    tables = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    if not tables or set(document) - {"plugin"}:
        raise HarnessError(f"{path}: holds [[plugin]] tables and nothing else")
    entries = []
    for place, row in enumerate(rows):
        where = (
            f"{path} line {lines[place]}" if place < len(lines) else f"{path}, entry {place + 1}"
        )
        entries.append(_entry(row, where, source))
    return entries


def _entry(row: Mapping[str, Any], where: str, source: str) -> Entry:
    if unknown := sorted(set(row) - FIELDS):
        raise HarnessError(f"{where}: unknown field {unknown[0]!r}{nearest(unknown[0], FIELDS)}")
    for name in ("kind", "name", "module"):
        if not isinstance(row.get(name), str) or not row[name]:
            raise HarnessError(f"{where}: the field {name!r} is missing or no text")
    if row["kind"] not in KINDS:
        raise HarnessError(f"{where}: kind {row['kind']!r} is none of {', '.join(KINDS)}")
    handles, priority = row.get("handles", []), row.get("priority", 0)
    if not isinstance(handles, list) or not all(isinstance(text, str) for text in handles):
        raise HarnessError(f"{where}: handles {handles!r}: give a list of texts")
    if type(priority) is not int:
        raise HarnessError(f"{where}: priority {priority!r} is no whole number")
    if not isinstance(row.get("options", {}), dict):
        raise HarnessError(f"{where}: options must be a table: write [plugin.options]")
    options: dict[str, Option] = {}
    for name, value in row.get("options", {}).items():
        if not isinstance(value, dict) or "default" not in value:
            raise HarnessError(f"{where}: option {name!r} needs {{ default = ..., help = ... }}")
        options[name] = Option(value["default"], str(value.get("help", "")))
    return Entry(
        kind=row["kind"],
        name=row["name"],
        module=row["module"],
        summary=str(row.get("summary", "")),
        source=source,
        options=options,
        extra=str(row.get("extra", "")),
        handles=tuple(handles),
        priority=priority,
    )


def load_module(entry: Entry) -> ModuleType:
    """Import a plugin. Raises HarnessError that names the plugin and the reason."""
    import importlib

    if entry.folder and entry.folder not in sys.path:
        sys.path.append(entry.folder)  # last: what is installed goes before what lies there
        importlib.invalidate_caches()
    try:
        return importlib.import_module(entry.module)
    except ModuleNotFoundError as error:
        raise HarnessError(
            f"the {entry.kind} {entry.name!r} ({entry.source}) needs the module {error.name!r}, "
            f"which is not installed{_advice(entry)}"
        ) from None
    except Exception as error:  # a plugin may raise anything at import; it must fail alone
        raise HarnessError(
            f"the {entry.kind} {entry.name!r} ({entry.source}, module {entry.module}) failed to "
            f"import: {type(error).__name__}: {_first_line(error)}"
        ) from error


def call_creator(module: ModuleType, entry: Entry, name: str, options: Mapping[str, Json]) -> Any:
    """Call ``create_<kind>`` of one plugin, checked against the hook's specification."""
    import pluggy

    from . import hookspecs

    manager = pluggy.PluginManager("harness")
    manager.add_hookspecs(hookspecs)
    try:
        manager.register(module)
        made = getattr(manager.hook, f"create_{entry.kind}")(name=name, options=dict(options))
    except HarnessError:
        raise
    except ModuleNotFoundError as error:
        raise HarnessError(
            f"the {entry.kind} {entry.name!r} needs the module {error.name!r}, which is not "
            f"installed{_advice(entry)}"
        ) from None
    except Exception as error:  # as above: named, and reported with its cause
        raise HarnessError(
            f"the {entry.kind} {entry.name!r} ({entry.module}) could not be made: "
            f"{type(error).__name__}: {_first_line(error)}"
        ) from error
    if made is None:
        raise HarnessError(f"{entry.module} has no @hookimpl create_{entry.kind} for {name!r}")
    return made


def convert(value: Json, default: Json, what: str) -> Json:
    """A text of the command line as the type of the default; other values must fit it.

    Lists are written ``[a,b]`` or ``a,b``, objects as JSON.

    >>> convert("[a, b]", ["x"], "games"), convert("yes", False, "legal")
    (['a', 'b'], True)
    >>> convert('{"price": 2}', {}, "model_options")
    {'price': 2}
    """
    expected = type(default).__name__
    try:
        if isinstance(default, bool):
            return value if isinstance(value, bool) else _BOOLEANS[str(value).lower()]
        if isinstance(default, list):
            return list(value) if isinstance(value, list | tuple) else _split(str(value))
        if isinstance(default, int) and not isinstance(value, float):
            return int(value)
        if isinstance(default, float):
            return float(value)
        if isinstance(default, str):
            return str(value)
        if isinstance(default, dict) and isinstance(value, str):
            value = json.loads(value) if value.strip() else {}
        if isinstance(value, type(default)):
            return value
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        pass  # the last two: 400 digits for a float, JSON of a thousand brackets
    shown = repr(value) if len(repr(value)) <= 200 else f"{repr(value)[:200]}..."
    raise HarnessError(f"{what}: {shown} is no {_TYPE_NAMES.get(expected, expected)}")


_BOOLEANS: Final = {"true": True, "1": True, "yes": True, "on": True,
                    "false": False, "0": False, "no": False, "off": False}  # fmt: skip
_TYPE_NAMES: Final = {"bool": "truth value (true or false)", "int": "whole number",
                      "float": "number", "list": "list ([a,b])", "dict": "JSON object"}  # fmt: skip


def _split(text: str) -> list[str]:
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    return [part.strip().strip("\"'") for part in text.split(",") if part.strip()]


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint for a misspelt name: `` (did you mean a, b?)``, or nothing."""
    import difflib

    close = difflib.get_close_matches(name, list(names), n=3, cutoff=0.5)
    return f" (did you mean {', '.join(close)}?)" if close else ""


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:300]


def _advice(entry: Entry) -> str:
    """How to install the extra that an entry names: of its own package, or of this one."""
    if not entry.extra:
        return ""
    package = entry.source.removeprefix("package ") if "package " in entry.source else ""
    return f"; pip install '{package or 'strategic-harness'}[{entry.extra}]'"


def _same(entry: Entry, first: Entry) -> bool:
    return replace(entry, source=first.source, folder=first.folder) == first


def _import_root(file: Path) -> Path:
    """The folder from which the modules that a registry file names can be imported: the file's own,
    or the one above the package that it lies in."""
    folder = file.resolve().parent
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        folder = folder.parent
    return folder


def _builtin_file() -> Path:
    """``registry.toml`` of a checkout, or the copy inside an installed ``harness_plugins``."""
    checkout = Path(__file__).resolve().parent.parent / "registry.toml"
    if checkout.is_file() and (checkout.parent / "plugins").is_dir():
        return checkout
    import importlib.util

    spec = importlib.util.find_spec("harness_plugins")
    if spec is not None and spec.submodule_search_locations:
        for folder in spec.submodule_search_locations:
            if (file := Path(folder) / "registry.toml").is_file():
                return file
    raise HarnessError("the built-in registry.toml is missing; reinstall strategic-harness")


def _package_files(problems: list[str]) -> list[tuple[str, Path]]:
    """``registry.toml`` of every package in the entry-point group, found without importing it."""
    from importlib.metadata import entry_points
    from importlib.util import find_spec

    files = []
    for point in sorted(entry_points(group="harness.plugins"), key=lambda p: p.name):
        top, *inner = point.value.partition(":")[0].split(".")
        try:
            spec = find_spec(top)
        except (ImportError, ValueError) as error:
            problems.append(f"package {point.name}: {error}")
            continue
        folders = list(spec.submodule_search_locations or ()) if spec is not None else []
        candidates = [Path(folder, *inner, "registry.toml") for folder in folders]
        found = next((file for file in candidates if file.is_file()), None)
        if found is None:
            problems.append(f"package {point.name}: {point.value} holds no registry.toml")
        else:
            files.append((point.name, found))
    return files
