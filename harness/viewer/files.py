"""The page's own files: HTML, styles and scripts, as they lie in the package.

assets()["app.js"]
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final

TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


def assets() -> dict[str, bytes]:
    """The files by name, in order of their names."""
    folder = files(__package__).joinpath("assets")
    chosen = [file for file in folder.iterdir() if kind(file.name)]
    return {file.name: file.read_bytes() for file in sorted(chosen, key=lambda f: f.name)}


def kind(name: str) -> str:
    """The content type of a file; "" for one that is not handed out."""
    return TYPES.get(name.rpartition(".")[2], "")
