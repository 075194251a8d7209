"""What this machine has: versions, optional parts, GPU, memory, disk, cache, plugins.

    for row in findings():
        print(row.subject, row.ok, row.advice)

Nothing heavy is imported for it: versions come from the packages' metadata, the GPU from its
driver's own tool. A row that is not in order says what to do; optional parts that are not there are
in order, and `missing_extras` names them.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib import metadata, util
from pathlib import Path
from typing import Final, NamedTuple

from .registry import Registry, load_module
from .types import HarnessError

PACKAGE: Final = "strategic-harness"
PYTHON: Final = ((3, 11), (3, 13))
"""The versions of Python that the tests run on."""

GIB: Final = 2**30
ROOM: Final = 2.0
"""GiB of disk and of memory below which runs of models fail sooner or later."""


class Finding(NamedTuple):
    """One row: what was looked at, whether it is in order, what to do or what was found."""

    subject: str
    ok: bool
    advice: str


def findings(registry_file: Path | None = None) -> Iterator[Finding]:
    """All rows, in the order in which one would look."""
    yield _python()
    yield Finding("system", True, f"{platform.system()} {platform.release()}, {platform.machine()}")
    yield from _own_package()
    yield from _required()
    yield from _extras()
    yield from _gpu()
    yield from _memory()
    yield from _places()
    yield from _plugins(registry_file)


def _python() -> Finding:
    version = tuple(int(part) for part in platform.python_version_tuple()[:2])
    low, high = PYTHON
    text = platform.python_version()
    if version < low:
        return Finding("Python", False, f"{text}: install {low[0]}.{low[1]} or later")
    new = "" if version <= high else f": newer than the tested {high[0]}.{high[1]}"
    return Finding("Python", True, text + new)


def _own_package() -> Iterator[Finding]:
    """The version, and whether the names ``harness`` and ``harness_plugins`` lead to this one."""
    try:
        yield Finding(PACKAGE, True, metadata.version(PACKAGE))
    except metadata.PackageNotFoundError:
        yield Finding(PACKAGE, False, "not installed: pip install -e . in the checkout")
    here = Path(__file__).resolve().parent
    owners = metadata.packages_distributions()
    for name in ("harness", "harness_plugins"):
        others = sorted({d for d in owners.get(name, ()) if d != PACKAGE})
        if others:
            yield Finding(
                f"import {name}",
                False,
                f"{', '.join(others)} brings a package of this name too: pip uninstall {others[0]}",
            )
    spec = util.find_spec("harness_plugins")
    places = [Path(p).resolve() for p in spec.submodule_search_locations or ()] if spec else []
    ours = {here.parent / "plugins", here.parent / "harness_plugins"}
    if not places:
        yield Finding("built-in plugins", False, f"not importable: reinstall {PACKAGE}")
    elif not ours & set(places):
        yield Finding(
            "built-in plugins",
            False,
            f"harness_plugins is {places[0]}, which is not ours ({here.parent}): take it off the "
            "path, or rename it",
        )
    else:
        yield Finding("built-in plugins", True, str(next(p for p in places if p in ours)))


def requirements() -> list[tuple[str, str, str]]:
    """(name, versions, extra) of everything that the package asks for; extra "" is always needed.

    Markers other than the extra are evaluated where the package ``packaging`` is there.
    """
    try:
        lines = metadata.requires(PACKAGE) or []
    except metadata.PackageNotFoundError:
        return []
    found = []
    for line in lines:
        text, _, marker = line.partition(";")
        name = re.match(r"\s*([A-Za-z0-9._-]+)", text)
        extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)['\"]", marker)
        if name is None or not _applies(marker, extra[1] if extra else ""):
            continue
        versions = re.sub(r"^\s*[A-Za-z0-9._-]+(\[[^]]*\])?", "", text).strip(" ()")
        found.append((name[1], versions, extra[1] if extra else ""))
    return found


def _applies(marker: str, extra: str) -> bool:
    if not marker.strip():
        return True
    try:
        from packaging.markers import Marker
    except ModuleNotFoundError:
        return True
    return bool(Marker(marker.strip()).evaluate({"extra": extra}))


def _lacks(name: str, versions: str) -> str:
    """What is wrong with an installed package; "" where nothing is."""
    try:
        there = metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
    try:
        from packaging.specifiers import SpecifierSet
    except ModuleNotFoundError:
        return ""
    fits = SpecifierSet(versions).contains(there, prereleases=True)
    return "" if fits else f"{there} is there, {versions} is needed"


def _required() -> Iterator[Finding]:
    """Every package that is always needed."""
    wrong = False
    for name, versions, extra in requirements():
        if extra:
            continue
        if lack := _lacks(name, versions):
            wrong = True
            yield Finding(name, False, f"{lack}: pip install '{name}{versions}'")
        elif name in ("torch", "transformers", "numpy", "pyarrow"):
            yield Finding(name, True, metadata.version(name))
    if not wrong:
        yield Finding("required packages", True, "all there")


def missing_extras() -> dict[str, list[str]]:
    """Extras (but ``dev``) of which something is missing -> what is, with its versions."""
    missing: dict[str, list[str]] = {}
    for name, versions, extra in requirements():
        if extra in ("", "dev") or name == PACKAGE:
            continue
        missing.setdefault(extra, [])
        if _lacks(name, versions):
            missing[extra].append(f"{name}{versions}")
    return missing


def _extras() -> Iterator[Finding]:
    """The optional parts: there, or how to get them."""
    for extra, lacking in missing_extras().items():
        if lacking:
            what = f"no {', '.join(lacking)} (optional)"
            yield Finding(f"part {extra}", True, f"{what}: pip install '{PACKAGE}[{extra}]'")
        else:
            yield Finding(f"part {extra}", True, "installed")


def _gpu() -> Iterator[Finding]:
    """Driver, cards, and whether the installed torch can use them."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        found = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
    except FileNotFoundError:
        yield Finding("GPU", True, "none: models run on the CPU")
        return
    except (OSError, subprocess.SubprocessError) as error:
        last = (getattr(error, "stdout", "") or str(error)).strip().splitlines()[:1]
        yield Finding(
            "GPU",
            False,
            f"nvidia-smi fails ({' '.join(last)}): repair the NVIDIA driver; models run on the CPU",
        )
        return
    cards = [line.strip() for line in found.stdout.splitlines() if line.strip()]
    yield Finding("GPU", True, "; ".join(cards) or "none that the driver knows")
    try:
        torch = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return
    if cards and torch.endswith("+cpu"):
        yield Finding(
            "torch on the GPU",
            False,
            f"torch {torch} is built for CPUs: pip install torch from an index for CUDA, in the "
            "version that constraints-gpu.txt names",
        )


def _memory() -> Iterator[Finding]:
    """Memory that is free, and in all; containers may get less than the machine has."""
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        total = page * os.sysconf("SC_PHYS_PAGES") / GIB
        free = page * os.sysconf("SC_AVPHYS_PAGES") / GIB
    except (ValueError, OSError):
        yield Finding("memory", True, "cannot be told here")
        return
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024 / GIB
    except OSError:
        pass
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            total = min(total, int(Path(limit).read_text()) / GIB)
        except (OSError, ValueError):
            continue
    text = f"{min(free, total):.1f} of {total:.1f} GiB free, {os.cpu_count()} processors"
    small = total < ROOM
    yield Finding("memory", not small, text + (": too little for torch and a model" * small))


def _places() -> Iterator[Finding]:
    """Where things are written: cache and working folder, with the room there."""
    from .paths import cache_dir

    try:
        folder = cache_dir()
    except OSError as error:
        reason = error.strerror or error
        yield Finding("cache", False, f"{reason}: set HARNESS_CACHE to a folder you can write")
    else:
        yield _room("cache", folder, "set HARNESS_CACHE to a folder with more room")
    yield _room("disk", Path.cwd(), "run in a folder with more room, or give --out")


def _room(subject: str, folder: Path, advice: str) -> Finding:
    try:
        free = shutil.disk_usage(folder).free / GIB
    except OSError as error:
        return Finding(subject, False, f"{folder}: {error.strerror or error}: {advice}")
    if not os.access(folder, os.W_OK):
        return Finding(subject, False, f"{folder} cannot be written: {advice}")
    text = f"{folder}, {free:.0f} GiB free"
    return Finding(subject, free > ROOM, text if free > ROOM else f"{text}: {advice}")


def _plugins(registry_file: Path | None) -> Iterator[Finding]:
    """The registry, each plugin's import, and what plugins say of themselves."""
    try:
        registry = Registry.load(registry_file)
    except HarnessError as error:
        yield Finding("registry", False, str(error))
        return
    for problem in registry.problems:
        yield Finding("registry", False, problem)
    if registry.left_out:
        count = len(registry.left_out)
        yield Finding("registry", True, f"HARNESS_LOAD_PLUGINS leaves out {count} plugins")
    told: set[str] = set()
    for entry in registry.entries.values():
        subject = f"{entry.kind} {entry.name}"
        try:
            module = load_module(entry)
        except HarnessError as error:
            yield Finding(subject, bool(entry.extra), str(error))
            continue
        yield Finding(subject, True, entry.module)
        if entry.module not in told:
            told.add(entry.module)
            yield from _own_words(subject, module)


def _own_words(subject: str, module: object) -> Iterator[Finding]:
    """What a plugin's ``doctor()`` yields; one that fails is a finding, and the others go on."""
    try:
        for row in getattr(module, "doctor", tuple)():
            yield Finding(*row)
    except Exception as error:  # a plugin's own check must not take the doctor down
        yield Finding(
            subject, False, f"its doctor() raises {type(error).__name__}: {error}: tell its authors"
        )
