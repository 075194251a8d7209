"""The viewer's pages as files: a folder that any browser opens, without a server.

    write(pages, Path("site"), limit=2000)

The same page reads its data from scripts in ``data/`` (a page opened from a folder may read nothing
else): one for each run, its list and each fifty transcripts, the leaderboards and the comparisons.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Final

import orjson

from ..progress import track
from ..store import write_atomically
from ..types import HarnessError, Json
from .catalogue import Entry
from .files import assets
from .pages import Pages
from .queries import facets
from .transcript import transcript

CHUNK: Final = 50
"""Transcripts in a file; the page counts on it."""
MOST_PAIRS: Final = 60
BOARDS: Final = ("overall", "groups", "all")


def write(pages: Pages, folder: Path, limit: int) -> int:
    """Write all pages to a new folder; returns how many files. Of each run the first ``limit``
    records are taken.

    Raises HarnessError for a folder that is not empty or cannot be written.
    """
    site = _Site(folder)
    entries = pages.catalogue.entries()
    for name, data in assets().items():
        if name == "index.html":
            data = data.replace(b'<html lang="en">', b'<html lang="en" data-site="files">')
        site.file(name, data)
    site.data("runs", pages.runs())
    for name in BOARDS:
        try:
            site.data(f"board-{name}", {**pages.board(name), "presets": BOARDS})
        except HarnessError:
            continue  # no run of these has ended
    for number, entry in enumerate(entries):
        _run(pages, site, number, entry, limit)
    _comparisons(pages, site, entries)
    return site.count


class _Site:
    """The folder that is filled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        try:
            if folder.exists() and any(folder.iterdir()):
                raise HarnessError(f"{folder} is not empty; choose another --static")
            (folder / "data").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HarnessError(f"{folder}: cannot be written: {error.strerror}") from None

    def file(self, name: str, data: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, data)
        self.count += 1

    def data(self, name: str, value: Json) -> None:
        """A script that hands its data to the page; JSON is JavaScript."""
        call = b"harnessData(%s, %s);\n" % (orjson.dumps(name), orjson.dumps(value))
        self.file(f"data/{name}.js", call)


def _run(pages: Pages, site: _Site, number: int, entry: Entry, limit: int) -> None:
    source = entry.browser.source
    source.advance(3600.0)
    places = source.order()[:limit].tolist()
    rows = [row for part in _chunks(places, 1000) for row in source.rows(part)]
    left = source.total - len(rows)
    about = {**pages.run(entry), **pages.sections(entry), "facets": facets(source.figures())}
    about["note"] = f"The first {len(rows)} of {source.total} records are here." if left else ""
    site.data(f"{number}/run", about)
    site.data(f"{number}/index", {"rows": rows})
    chunks = list(_chunks(places, CHUNK))
    for k, part in enumerate(track(chunks, f"writing {entry.key}")):
        found = [
            {"transcript": transcript(record), "beside": pages.stage.show(entry.run, record)}
            for record in source.records(part)
        ]
        site.data(f"{number}/records-{k}", found)


def _comparisons(pages: Pages, site: _Site, entries: list[Entry]) -> None:
    """Every two runs of one task that have ended, up to a number of pairs."""
    pairs = [
        (a, b)
        for a, b in combinations(range(len(entries)), 2)
        if entries[a].run.spec["task"]["name"] == entries[b].run.spec["task"]["name"]
        and entries[a].run.metrics is not None
        and entries[b].run.metrics is not None
    ]
    for a, b in track(pairs[:MOST_PAIRS], "comparing"):
        for i, j in ((a, b), (b, a)):
            try:
                found = pages.compare(entries[i].key, entries[j].key, "score")
            except HarnessError:
                continue  # no sample in common
            site.data(f"compare-{i}-{j}", {**found, "parts": ["score"]})


def _chunks(places: list[int], size: int) -> Iterator[list[int]]:
    return (places[start : start + size] for start in range(0, len(places), size))
