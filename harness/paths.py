"""Where things lie on this machine: the cache for data that is built or fetched once."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir(*parts: str) -> Path:
    """A folder of the user's cache, made if needed.

    ``HARNESS_CACHE`` names the root; without it ``$XDG_CACHE_HOME/strategic-harness``, without that
    ``~/.cache/strategic-harness``.
    """
    root = os.environ.get("HARNESS_CACHE")
    if root is None:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        root = str(Path(base) / "strategic-harness")
    folder = Path(root).joinpath(*parts)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
