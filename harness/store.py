"""The run folder: what was asked for, what came back, and the figures of it.

    runs/gamesolve--smollm2--3f9c0a1b2c/
        manifest.json     the specification, its hash, versions, hardware
        journal.jsonl     records as they finish (see `harness.journal`)
        records.parquet   the same in the order of the samples, without times
        metrics.json      the summary

The folder's name carries the hash of the specification, so the same specification resumes and
another one never mixes in. ``records.parquet`` and ``metrics.json`` depend on the records only:
byte-identical however often the run was interrupted and at any concurrency.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import orjson

from . import shapes
from .journal import Journal
from .shapes import check
from .types import HarnessError, Json, Record

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
JOURNAL: Final = "journal.jsonl"
RECORDS: Final = "records.parquet"
METRICS: Final = "metrics.json"


def spec_hash(spec: Mapping[str, Json]) -> str:
    """The identity of a specification: 12 hexadecimal digits of SHA-256 over its sorted JSON."""
    data = orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(data).hexdigest()[:12]


class RunFolder:
    """One run on disk. ``open`` starts or resumes it, ``read`` looks at it."""

    def __init__(self, path: Path, manifest: dict[str, Json], journal: Journal) -> None:
        self.path = path
        self.manifest = manifest
        self.journal = journal
        self._lock = -1

    @classmethod
    def open(
        cls,
        root: Path,
        spec: Mapping[str, Json],
        label: str,
        details: Mapping[str, Json],
        expect: Path | None = None,
    ) -> RunFolder:
        """The folder of this specification below ``root``, locked, made if it is new.

        ``expect`` is the folder of ``--resume``: it must be this specification's. Raises
        HarnessError when it cannot be written, another run holds it, or a newer version wrote it.
        """
        identity = spec_hash(spec)
        path = expect if expect is not None else root / f"{_slug(label)}--{identity[:10]}"
        try:
            path.mkdir(parents=True, exist_ok=True)
            lock = acquire(path)
        except OSError as error:
            raise HarnessError(
                f"{path}: cannot be written: {error.strerror}; choose another --out"
            ) from None
        try:
            manifest = _existing(path, identity)
            if manifest is None:
                manifest = {"format": FORMAT, "hash": identity, "label": label, "spec": dict(spec)}
                manifest |= _plain(details)
                write_atomically(path / MANIFEST, _pretty(manifest))
            folder = cls(path, manifest, Journal(path / JOURNAL))
        except BaseException:
            os.close(lock)
            raise
        folder._lock = lock
        return folder

    @classmethod
    def read(cls, path: Path) -> RunFolder:
        """A run that exists, for reading. Raises HarnessError where there is none."""
        manifest = read_manifest(path)
        return cls(path, manifest, Journal(path / JOURNAL, write=False))

    def records(self) -> Iterator[Record]:
        """The finished records, in order."""
        return self.journal.records()

    def update_manifest(self, **changes: Json) -> None:
        """Change fields outside the specification (limit, command) and save."""
        self.manifest.update(changes)
        write_atomically(self.path / MANIFEST, _pretty(self.manifest))

    def finish(self, summary: Mapping[str, Json]) -> None:
        """Write ``records.parquet`` and ``metrics.json`` from the journal."""
        write_records(self.path)
        write_atomically(self.path / METRICS, _pretty(summary))

    def metrics(self) -> dict[str, Json] | None:
        """The saved summary; None before the run has ended once. Raises HarnessError for another
        thing than a summary."""
        file = self.path / METRICS
        try:
            found = orjson.loads(file.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise HarnessError(f"{file}: cannot be read: {error}") from None
        check(found, shapes.METRICS, str(file))
        return dict(found)

    def close(self) -> None:
        """Release the folder."""
        self.journal.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def read_manifest(path: Path) -> dict[str, Json]:
    """The manifest of a run folder. Raises HarnessError where there is none, or a newer format."""
    file = path / MANIFEST
    try:
        manifest = orjson.loads(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise HarnessError(f"{path}: no run folder (it has no {MANIFEST})") from None
    except (OSError, ValueError) as error:
        raise HarnessError(f"{file}: cannot be read: {error}") from None
    if not isinstance(manifest, dict):
        raise HarnessError(f"{file}: not a JSON object")
    if manifest.get("format") != FORMAT:
        raise HarnessError(
            f"{path}: written in format {manifest.get('format')}, this version reads {FORMAT}; "
            "use the version that wrote it"
        )
    check(manifest, shapes.MANIFEST, str(file))
    return manifest


def read_records(path: Path) -> Iterator[Record]:
    """The finished records of a run folder, in order."""
    folder = RunFolder.read(path)
    try:
        yield from folder.records()
    finally:
        folder.close()


def write_records(path: Path) -> None:
    """Write ``records.parquet`` of a run folder from its journal, in a process of its own.

    Arrow takes more memory than all the rest of a run; the process gives it back at once. Raises
    HarnessError when the file cannot be written.
    """
    import subprocess
    import sys

    package = str(Path(__file__).resolve().parent.parent)
    search = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH", ""))))
    done = subprocess.run(
        [sys.executable, "-m", "harness.tables", str(path)],
        env={**os.environ, "PYTHONPATH": search},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["it was killed"])[-1]
        raise HarnessError(
            f"{path / RECORDS}: cannot be written: {reason}; the journal is safe: make room and "
            "give the same command again"
        )


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file as a whole: readers see the old or the new one. Raises HarnessError."""
    part = path.with_name(path.name + ".part")
    try:
        with open(part, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        with suppress(OSError):  # what lies in the way may be no file
            part.unlink()
        raise HarnessError(f"{path}: cannot be written: {error.strerror}") from None


def _plain(value: Mapping[str, Json]) -> dict[str, Json]:
    """As it will be read back."""
    return dict(orjson.loads(orjson.dumps(value)))


def _existing(path: Path, identity: str) -> dict[str, Json] | None:
    if not (path / MANIFEST).exists():
        return None
    manifest = read_manifest(path)
    if manifest["hash"] != identity:
        raise HarnessError(
            f"{path} holds another specification ({manifest['hash']}, this is {identity}): change "
            "nothing but --limit and --concurrency when resuming, or leave out --resume"
        )
    return manifest


def acquire(path: Path) -> int:
    """Lock a folder for this process; the descriptor holds the lock. Raises HarnessError when
    another process has it."""
    import fcntl

    lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(lock, 20).decode(errors="replace").strip()
        os.close(lock)
        raise HarnessError(
            f"{path}: another run (process {holder or 'unknown'}) is writing here; wait for it, or "
            "choose another --out"
        ) from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    return lock


def _pretty(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"


def _slug(label: str) -> str:
    return re.sub(r"[^A-Za-z0-9._=-]+", "-", label).strip("-.")[:80] or "run"
