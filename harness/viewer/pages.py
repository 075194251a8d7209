"""What a browser asks for, as JSON: the same for the server and for files.

    pages = Pages(Catalogue(["runs"]), Stage(Registry.load()))
    pages.answer("runs/gamesolve--oracle--0a1b2c3d4e/records", {"sort": "value"})

An address that names nothing raises LookupError; a question that makes no sense, HarnessError.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..types import HarnessError, Json
from .catalogue import Catalogue, Entry
from .figures import board, compared
from .queries import Query, facets, keep, number, whole
from .stage import Stage
from .transcript import transcript

PAGE: Final = 50
MOST_ROWS: Final = 200
MOST_FLIPS: Final = 500

Given = Mapping[str, str]


class Pages:
    """Answers addresses. ``observers`` add sections to runs (the hook ``report_section``)."""

    def __init__(self, catalogue: Catalogue, stage: Stage, observers: Any = None) -> None:
        self.catalogue = catalogue
        self.stage = stage
        self.observers = observers
        self._made: OrderedDict[str, Json] = OrderedDict()

    def answer(self, path: str, given: Given) -> dict[str, Json]:
        """The JSON of an address below ``api/``."""
        parts = path.split("/")
        if parts == ["runs"]:
            return self.runs()
        if parts == ["board"]:
            return self.board(given.get("columns") or "overall")
        if parts[0] == "compare" and len(parts) == 3:
            return self.compare(parts[1], parts[2], given.get("metric") or "score")
        if parts[0] == "pair" and len(parts) == 3:
            return self.pair(parts[1], parts[2], given.get("sample", ""))
        if parts[0] == "runs" and len(parts) > 1:
            entry = self.catalogue.entry(parts[1])
            return self._of_run(entry, parts[2:], given)
        raise LookupError(path)

    def _of_run(self, entry: Entry, parts: list[str], given: Given) -> dict[str, Json]:
        simple: dict[str, Callable[[], dict[str, Json]]] = {
            "": lambda: self.run(entry),
            "facets": lambda: facets(entry.browser.source.figures()),
            "records": lambda: self.records(entry, given),
            "sections": lambda: self.sections(entry),
        }
        name = "/".join(parts)
        if name in simple:
            return simple[name]()
        if parts[0] == "records" and (index := number(parts[1])) is not None:
            if parts[2:] == ["exhibits"]:
                return self.exhibits(entry, index)
            if not parts[2:]:
                return self.record(entry, index, given)
        raise LookupError(name)

    def runs(self) -> dict[str, Json]:
        """All runs, one line each."""
        entries = self.catalogue.entries()
        return {"runs": [e.about() for e in entries], "problems": self.catalogue.problems}

    def run(self, entry: Entry) -> dict[str, Json]:
        """One run: its line, specification, summary, and the faults that were given up on."""
        about = entry.about()
        live = entry.journal is not None
        source = entry.browser.source
        return {
            **about,
            "manifest": entry.run.manifest,
            "metrics": None if live else entry.run.metrics,
            "faults": getattr(source, "faults", []),
            "problem": getattr(source, "problem", ""),
            "observers": sorted(self.observers.managers) if self.observers else [],
        }

    def records(self, entry: Entry, given: Given) -> dict[str, Json]:
        """A page of records."""
        offset = whole(given, "offset", 0, 10**12)
        count = whole(given, "count", PAGE, MOST_ROWS)
        return entry.browser.page(Query.of(given), offset, count)

    def record(self, entry: Entry, index: int, given: Given) -> dict[str, Json]:
        """A transcript, and its neighbours in the list that it was opened from."""
        place = self._place(entry, index)
        found = transcript(entry.browser.source.records([place])[0])
        return {**found, "around": entry.browser.around(Query.of(given), place)}

    def exhibits(self, entry: Entry, index: int) -> dict[str, Json]:
        """What the task shows beside a transcript."""
        place = self._place(entry, index)
        return self.stage.show(entry.run, entry.browser.source.records([place])[0])

    def sections(self, entry: Entry) -> dict[str, Json]:
        """What the named observers add to a run's report (Markdown)."""
        from pathlib import Path

        from ..store import RunFolder

        found = []
        managers = self.observers.managers if self.observers else {}
        for name, manager in managers.items():
            try:
                folder = RunFolder.read(Path(entry.run.place.path))
                texts = manager.hook.report_section(run=folder)
                folder.close()
            except Exception as error:  # an observer never takes a page away
                texts = [f"failed: {type(error).__name__}: {error}"]
            found += [{"name": name, "text": str(text)} for text in texts if text]
        return {"sections": found}

    def board(self, columns: str) -> dict[str, Json]:
        """The leaderboard of all runs that have ended."""
        entries = self.catalogue.entries()

        def make() -> Json:
            return board(self.catalogue.paths, [entry.run for entry in entries], columns)

        found: dict[str, Json] = self._once(f"board {columns}", entries, make)
        return found

    def compare(self, first: str, second: str, metric: str) -> dict[str, Json]:
        """Two runs on their common samples, with the largest flips."""
        one, other = self.catalogue.entry(first), self.catalogue.entry(second)
        for entry in (one, other):
            if entry.run.metrics is None:
                raise HarnessError(f"{entry.run.name} has not ended yet: compare it when it has")

        def make() -> Json:
            found = compared(one.run, other.run, metric, MOST_FLIPS)
            return {**found, "parts": _parts(one), "keys": [first, second]}

        made: dict[str, Json] = self._once(f"compare {metric}", [one, other], make)
        return made

    def pair(self, first: str, second: str, sample: str) -> dict[str, Json]:
        """The records of one sample in two runs, by their indices."""
        found = []
        for key in (first, second):
            source = self.catalogue.entry(key).browser.source
            source.advance(1.0)
            places = source.find(sample)
            found.append([row["index"] for row in source.rows(places[:MOST_ROWS])])
        if not any(found):
            raise LookupError(sample)
        return {"sample": sample, "keys": [first, second], "indices": found}

    def _place(self, entry: Entry, index: int) -> int:
        source = entry.browser.source
        source.advance(1.0)
        place = source.place(index)
        if place is None:
            raise LookupError(f"no record {index} in {entry.key}")
        return place

    def _once(self, what: str, entries: list[Entry], make: Callable[[], Json]) -> Json:
        """Made again only when one of the runs has changed."""
        key = f"{what} {[_version(entry) for entry in entries]}"
        if key not in self._made:
            keep(self._made, key, make())
        return self._made[key]


def _version(entry: Entry) -> tuple[str, int, Json]:
    """Differs when a run has been extended or made again."""
    metrics = entry.run.metrics
    return entry.key, entry.run.finished, metrics and (metrics["score"], metrics["ledger"])


def _parts(entry: Entry) -> list[str]:
    """The parts of the score that a run's first record has: what can be compared besides it."""
    source = entry.browser.source
    parts = source.records([0])[0].score.parts if source.total else {}
    return ["score", "parsed", *parts]
