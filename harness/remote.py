"""Run folders on object storage: file systems behind URLs, and copies of finished runs.

    files, path = file_system("s3://bucket/runs")
    upload(Path("runs/gamesolve--base"), "s3://bucket/runs")

URLs are fsspec's. ``s3://`` works without a further package, through pyarrow's own client, where
s3fs is not installed; keys and endpoint come from the usual variables of the environment
(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL).
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from .types import HarnessError

LEFT: Final = frozenset({"lock"})
"""Files of a run folder that have no meaning elsewhere."""


def file_system(url: str) -> tuple[Any, str]:
    """The fsspec file system of a URL, and the path in it. Raises HarnessError."""
    try:
        import fsspec
    except ImportError:
        raise HarnessError(f"{url}: URLs need fsspec: pip install fsspec") from None
    if url.startswith("s3://") and find_spec("s3fs") is None:
        return _arrow_s3(), url.removeprefix("s3://").rstrip("/")
    try:
        files, path = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise HarnessError(f"{url}: {error}") from None
    return files, str(path)


def check_target(url: str) -> None:
    """Write and delete a small file there. Raises HarnessError, before anything is evaluated,
    where that does not work."""
    if "://" not in url:
        raise HarnessError(f"--sync {url}: give a URL, such as s3://bucket/runs")
    files, path = file_system(url)
    name = f"{path.rstrip('/')}/.harness-{os.getpid()}"
    try:
        files.makedirs(path, exist_ok=True)
        files.pipe_file(name, b"harness")
        files.rm_file(name)
    except Exception as error:  # each store raises its own
        raise HarnessError(f"--sync {url}: cannot be written to: {_first(error)}") from None


def upload(folder: Path, url: str) -> str:
    """Copy a run folder to ``url``/its name; the URL of the copy. What is there is replaced, the
    manifest last, so that a reader never finds a run that is half there.

    Raises HarnessError; the folder itself is not touched.
    """
    files, path = file_system(url)
    target = f"{path.rstrip('/')}/{folder.name}"
    names = sorted(
        (file for file in folder.rglob("*") if file.is_file() and file.name not in LEFT),
        key=lambda file: (file.name == "manifest.json", file),
    )
    try:
        for file in names:
            there = f"{target}/{file.relative_to(folder).as_posix()}"
            files.makedirs(there.rpartition("/")[0], exist_ok=True)
            files.put_file(str(file), there)
    except Exception as error:  # each store raises its own
        raise HarnessError(
            f"{folder} could not be copied to {url}: {_first(error)}; it is whole where it is, and "
            "the same command copies it again"
        ) from None
    return f"{url.rstrip('/')}/{folder.name}"


def _arrow_s3() -> Any:
    from fsspec.implementations.arrow import ArrowFSWrapper
    from pyarrow.fs import S3FileSystem

    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    scheme, _, host = endpoint.rpartition("://")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    return ArrowFSWrapper(
        S3FileSystem(
            endpoint_override=host or None,
            scheme=scheme or "https",
            region=region,
            allow_delayed_open=True,  # a small file is one request, not an upload in parts
        )
    )


def _first(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
