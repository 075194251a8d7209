"""Run folders wherever they lie: a folder, several, or an fsspec URL.

    for run in find_runs(["runs", "s3://bucket/runs"]):
        run.manifest, run.metrics, run.table(["sample", "value"])

A place is a run folder, or holds run folders up to two levels down.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from .. import shapes
from ..progress import track
from ..remote import file_system
from ..shapes import check
from ..store import FORMAT, MANIFEST, METRICS, RECORDS
from ..types import HarnessError, Json

if TYPE_CHECKING:
    import pyarrow as pa

DEPTH: Final = 2
SPEC: Final = (
    "task", "split", "model", "opponent", "reward", "decoding", "system", "fewshot",
    "chat_template_kwargs", "seeds", "repeats", "n",
)  # fmt: skip
TASK: Final = ("name", "version", "options", "data")
SUMMARY: Final = (
    "complete", "records", "expected", "score", "metrics", "ledger", "policies", "levels",
    "normalised", "hashes",
)  # fmt: skip
NUMBERS: Final = ("value", "low", "high", "n", "clusters")
FIGURE: Final = ("name", "group", "note", *NUMBERS)


class Place:
    """A folder on this machine."""

    def __init__(self, path: str) -> None:
        self.path = path.rstrip("/") or "/"

    @property
    def name(self) -> str:
        """The folder's own name."""
        return Path(self.path).resolve().name

    def child(self, name: str) -> Place:
        """What lies in it under this name."""
        return Place(f"{self.path}/{name}")

    def children(self) -> list[Place]:
        """The folders in it, by name."""
        try:
            return [self.child(p.name) for p in sorted(Path(self.path).iterdir()) if p.is_dir()]
        except OSError:
            return []

    def read(self, name: str) -> bytes | None:
        """A file's contents; None where there is none."""
        try:
            return (Path(self.path) / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise HarnessError(f"{self.path}/{name}: cannot be read: {error.strerror}") from None

    def open(self, name: str) -> Any:
        """A file to read from: a path or a file object."""
        return f"{self.path}/{name}"

    def has(self, name: str) -> bool:
        """Whether there is such a file."""
        return (Path(self.path) / name).is_file()


class RemotePlace(Place):
    """A folder behind an fsspec URL."""

    def __init__(self, path: str, files: Any = None) -> None:
        if files is None:
            files, path = file_system(path)
        super().__init__(path)
        self.files = files

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    def child(self, name: str) -> Place:
        return RemotePlace(f"{self.path}/{name}", self.files)

    def children(self) -> list[Place]:
        try:
            rows = self.files.ls(self.path, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        names = sorted(r["name"].rstrip("/") for r in rows if r["type"] == "directory")
        return [RemotePlace(name, self.files) for name in names]

    def read(self, name: str) -> bytes | None:
        try:
            return bytes(self.files.cat_file(f"{self.path}/{name}"))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def open(self, name: str) -> Any:
        return self.files.open(f"{self.path}/{name}", "rb")

    def has(self, name: str) -> bool:
        return bool(self.files.isfile(f"{self.path}/{name}"))


def place(path: str) -> Place:
    """A path or a URL as a place."""
    return RemotePlace(path) if "://" in path else Place(path)


@dataclass(frozen=True)
class StoredRun:
    """A run folder as it was left: the manifest, and the summary once it has ended."""

    place: Place
    manifest: dict[str, Json]
    metrics: dict[str, Json] | None

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.place.name

    @property
    def spec(self) -> dict[str, Json]:
        """The specification."""
        spec: dict[str, Json] = self.manifest["spec"]
        return spec

    @property
    def complete(self) -> bool:
        """Whether every record is there."""
        return bool(self.metrics and self.metrics["complete"])

    @property
    def finished(self) -> int:
        """Records in the summary."""
        return int(self.metrics["records"]) if self.metrics else 0

    @property
    def tries(self) -> int:
        """Records of one sample."""
        spec = self.spec
        return len(spec["seeds"]) * int(spec["repeats"]) * int(spec["n"])

    @cached_property
    def training(self) -> dict[str, Json] | None:
        """The ``training.json`` of the checkpoint, kept in the manifest or beside it."""
        kept = self.manifest.get("training") or self.manifest.get("model", {}).get("training")
        if isinstance(kept, dict):
            return kept
        data = self.place.read("training.json")
        return None if data is None else _json(data, f"{self.name}/training.json")

    def rows(self) -> int:
        """Records in ``records.parquet``, from its footer. Raises HarnessError."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return int(pq.ParquetFile(self.place.open(RECORDS)).metadata.num_rows)
        except (OSError, pa.ArrowException) as error:
            raise HarnessError(f"{self.place.path}/{RECORDS}: cannot be read: {error}") from None

    def table(self, columns: Sequence[str]) -> pa.Table:
        """Columns of ``records.parquet``. Raises HarnessError where it cannot be read."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            source = self.place.open(RECORDS)
            return pq.ParquetFile(source).read(columns=list(columns), use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise HarnessError(f"{self.name}/{RECORDS}: cannot be read: {error}") from None

    def batches(self, columns: Sequence[str], size: int = 1_000) -> Iterator[pa.RecordBatch]:
        """The same in batches, for columns that are long."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            file = pq.ParquetFile(self.place.open(RECORDS))
            yield from file.iter_batches(size, columns=list(columns), use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise HarnessError(f"{self.name}/{RECORDS}: cannot be read: {error}") from None


def find_runs(paths: Iterable[str], unreadable: list[str] | None = None) -> list[StoredRun]:
    """All runs at these places, by name; of copies of one run the one with the most records.

    :param unreadable: collects what is wrong with broken run folders found below a place, and
        these are left out; None: the first one is an error. A place that is itself a broken run
        is always an error.
    :raises HarnessError: for a place without any run, or a run that another format wrote.
    """
    best: dict[str, StoredRun] = {}
    for path in paths:
        before = len(unreadable or ())
        count = 0
        for run in track(_walk(place(path), DEPTH, unreadable), f"reading {path}"):
            count += 1
            key = f"{run.manifest['hash']} {run.manifest.get('model_name')}"
            other = best.get(key)
            if other is None or _better(run, other):
                best[key] = run
        if not count:
            broken = (unreadable or [])[before:]
            reason = broken[0] if broken else f"no run folder there (none has a {MANIFEST})"
            raise HarnessError(f"{path}: {reason}")
    return sorted(best.values(), key=lambda run: (run.name, run.manifest["hash"]))


def _better(run: StoredRun, other: StoredRun) -> bool:
    return (run.complete, run.finished) > (other.complete, other.finished)


def _walk(start: Place, depth: int, unreadable: list[str] | None) -> Iterator[StoredRun]:
    try:
        data = start.read(MANIFEST)
        manifest = {} if data is None else _json(data, f"{start.path}/{MANIFEST}")
        run = _run(start, manifest) if "spec" in manifest else None
    except HarnessError as error:
        if unreadable is None or depth == DEPTH:
            raise
        unreadable.append(str(error))
        return
    if run is not None:
        yield run
    elif depth > 0:
        for child in start.children():
            yield from _walk(child, depth - 1, unreadable)


def _run(where: Place, manifest: dict[str, Json]) -> StoredRun:
    if manifest.get("format") != FORMAT:
        raise HarnessError(
            f"{where.path}: written in format {manifest.get('format')}, this version reads "
            f"{FORMAT}; use the version that wrote it"
        )
    _need(manifest, ("hash", "spec"), f"{where.path}/{MANIFEST}")
    _need(manifest["spec"], SPEC, f"{where.path}/{MANIFEST}: spec")
    _need(manifest["spec"]["task"], TASK, f"{where.path}/{MANIFEST}: spec.task")
    data = where.read(METRICS)
    metrics = None if data is None else _json(data, f"{where.path}/{METRICS}")
    check(manifest, shapes.MANIFEST, f"{where.path}/{MANIFEST}")
    run = StoredRun(where, manifest, metrics)
    if metrics is not None:
        _need(metrics, SUMMARY, f"{where.path}/{METRICS}")
        for row in (metrics["score"], *metrics["metrics"]):
            _need(row, FIGURE, f"{where.path}/{METRICS}: metrics")
            if not all(row[k] is None or isinstance(row[k], (int, float)) for k in NUMBERS):
                raise HarnessError(f"{where.path}/{METRICS}: {row['name']}: not a number")
        check(metrics, shapes.METRICS, f"{where.path}/{METRICS}")
        if (rows := run.rows()) != metrics["records"]:
            raise HarnessError(
                f"{where.path}: {rows} records in {RECORDS}, {metrics['records']} in {METRICS}: "
                "copied in part, or stopped while it was saved; harness run --resume finishes it"
            )
    return run


def _need(value: Json, keys: Iterable[str], what: str) -> None:
    if not isinstance(value, dict):
        raise HarnessError(f"{what}: not an object")
    missing = [key for key in keys if key not in value]
    if missing:
        raise HarnessError(f"{what}: lacks {', '.join(missing)}")


def _json(data: bytes, what: str) -> dict[str, Json]:
    try:
        value = orjson.loads(data)
    except ValueError as error:
        raise HarnessError(f"{what}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise HarnessError(f"{what}: not a JSON object")
    return value
