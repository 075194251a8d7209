"""Contamination: evaluation items that a checkpoint was trained on.

A checkpoint's ``training.json`` says what it was trained on; the large parts lie in files beside
it, one canonical identity or one prompt a line:

    {"method": "sft", "base": "smollm2-1f0c5b3a9d2e", "step": 200,
     "data": [{"task": "gamesolve", "split": "train", "samples": 1200,
               "canonical_file": "canonical.txt", "prompts_file": "prompts.jsonl"}],
     "parent": {...the same of the checkpoint that training started from, or absent...}}

``canonical`` and ``prompts`` may also hold short lists in place. An item counts as seen when its
canonical identity is among the training data (so rewording, reordering and rescaling do not hide
it), when its prompt is the same but for case and spacing, or when nearly all word sequences that
distinguish its prompt occur in the training prompts.

    training = load_training(run)
    found = check(run, training)        # found.canonical, found.exact, found.ngrams: sample ids
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from .board.places import Place, StoredRun, place
from .types import HarnessError, Json

NGRAM: Final = 8
"""Words in a sequence."""
OVERLAP: Final = 0.8
"""Share of an item's distinguishing sequences that must occur in training."""
BOILERPLATE: Final = 2
"""Sequences that occur in the prompts of more than so many canonical items distinguish none."""
FEWEST: Final = 5
"""Distinguishing sequences that an item must have to be judged by them."""


@dataclass(slots=True)
class Training:
    """What a checkpoint was trained on, in the form that look-ups need."""

    sources: list[str] = field(default_factory=list)
    canonical: dict[str, set[str]] = field(default_factory=dict)
    prompts: set[bytes] = field(default_factory=set)
    ngrams: set[int] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    def ids(self, task: str) -> set[str]:
        """Canonical identities of a task's items (and of data that names no task)."""
        return self.canonical.get(task, set()) | self.canonical.get("", set())


@dataclass(frozen=True, slots=True)
class Contamination:
    """Samples of a run that occur in training data, by how that was seen."""

    samples: int
    canonical: tuple[str, ...] = ()
    exact: tuple[str, ...] = ()
    ngrams: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """Every sample that was found, once."""
        return tuple(dict.fromkeys((*self.canonical, *self.exact, *self.ngrams)))


def load_training(run: StoredRun, folder: str | None = None, text: bool = True) -> Training | None:
    """The training data of a run's checkpoint; None where it names none.

    :param folder: where training.json lies, if not in the run's manifest or the checkpoint.
    :param text: read the prompts too (only canonical identities otherwise).
    :raises HarnessError: for a training.json or a file that cannot be read.
    """
    places = _places(run, folder)
    described = _described(places[:1]) if folder is not None else run.training or _described(places)
    if described is None:
        if folder is not None:
            raise HarnessError(f"{folder}: there is no training.json")
        return None
    training = Training()
    seen: Json = described
    while isinstance(seen, Mapping):
        for entry in _entries(seen, run.name):
            _read_entry(entry, places, training, text)
        seen = seen.get("parent")
    return training


def trained_on(folder: Json) -> dict[str, Json] | None:
    """What a run's manifest keeps of the ``training.json`` of the checkpoint in a folder: method,
    base, step, data and parent, files by their full names. None where there is none."""
    if not isinstance(folder, str) or not folder:
        return None
    path = Path(folder)
    for where in (path, path.parent, path.parent.parent):
        found = _described([Place(str(where))])
        if found is None:
            continue
        kept = {k: found[k] for k in ("method", "base", "step", "data", "parent") if k in found}
        entries = [dict(entry) for entry in _entries(found, str(where))]
        for entry in entries:
            for name in ("canonical_file", "prompts_file"):
                if name in entry:
                    entry[name] = str((where / str(entry[name])).absolute())
        return {**kept, "data": entries}
    return None


def _places(run: StoredRun, folder: str | None) -> list[Place]:
    found = [] if folder is None else [place(folder)]
    found.append(run.place)
    checkpoint = (run.manifest.get("model") or {}).get("folder")
    if checkpoint:
        path = Path(str(checkpoint))
        found += [Place(str(p)) for p in (path, path.parent, path.parent.parent)]
    return found


def _described(places: Sequence[Place]) -> Mapping[str, Json] | None:
    """The first training.json at these places."""
    for where in places:
        data = where.read("training.json")
        if data is not None:
            try:
                value = orjson.loads(data)
            except ValueError as error:
                raise HarnessError(f"{where.path}/training.json: not JSON: {error}") from None
            if not isinstance(value, dict):
                raise HarnessError(f"{where.path}/training.json: not a JSON object")
            return value
    return None


def _entries(described: Mapping[str, Json], name: str) -> Iterable[Mapping[str, Json]]:
    data = described.get("data") or []
    if not isinstance(data, list) or not all(isinstance(entry, dict) for entry in data):
        raise HarnessError(
            f"{name}: training.json: data must be a list of objects with task and canonical_file"
        )
    return data


def _read_entry(
    entry: Mapping[str, Json], places: Sequence[Place], training: Training, text: bool
) -> None:
    task = str(entry.get("task", ""))
    training.sources.append(f"{task or 'data'} {entry.get('split', '')}".strip())
    ids = training.canonical.setdefault(task, set())
    ids.update(str(name) for name in entry.get("canonical") or ())
    if "canonical_file" in entry:
        data = _file(entry["canonical_file"], places, training)
        ids.update(line.strip() for line in data.decode().splitlines() if line.strip())
    if not text:
        return
    for prompt in entry.get("prompts") or ():
        _add_prompt(prompt, training)
    if "prompts_file" in entry:
        for number, line in enumerate(_file(entry["prompts_file"], places, training).splitlines()):
            try:
                _add_prompt(orjson.loads(line), training)
            except ValueError:
                where = f"{entry['prompts_file']} line {number + 1}"
                raise HarnessError(f"{where}: neither a text nor an object as JSON") from None


def _file(name: Json, places: Sequence[Place], training: Training) -> bytes:
    path = Path(str(name))
    for where in places:
        if path.is_absolute():
            where = Place(str(path.parent))
        if (data := where.read(path.name if path.is_absolute() else str(name))) is not None:
            return data
    training.problems.append(f"training data file {name} was not found")
    return b""


def _add_prompt(row: Json, training: Training) -> None:
    """A text, or an object with ``text`` or ``messages``."""
    if isinstance(row, Mapping):
        if "messages" in row:
            row = prompt_text(row["messages"])
        row = row.get("text", "") if isinstance(row, Mapping) else row
    words = normal_words(str(row))
    training.prompts.add(_digest(words))
    training.ngrams.update(_ngrams(words))


def prompt_text(messages: Iterable[Mapping[str, Json]]) -> str:
    """The user's messages as one text: system messages are common to all items."""
    return "\n".join(str(m["content"]) for m in messages if m["role"] == "user")


def normal_words(text: str) -> list[str]:
    """Words and numbers in lower case; spacing and punctuation gone, signs and fractions kept.

    >>> normal_words("Payoffs:  (-1, 2/3)  A.")
    ['payoffs', '-1', '2/3', 'a']
    """
    return re.findall(r"-?\d+(?:[./]\d+)*|\w+", text.lower())


def _digest(words: Sequence[str]) -> bytes:
    return hashlib.blake2b(" ".join(words).encode(), digest_size=12).digest()


def _ngrams(words: Sequence[str]) -> Iterator[int]:
    """64-bit hashes of the word sequences, the same in every process."""
    for start in range(len(words) - NGRAM + 1):
        text = " ".join(words[start : start + NGRAM])
        yield int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def canonical_hits(run: StoredRun, training: Training) -> Contamination:
    """Samples whose canonical identity was trained on. Reads two columns of the records."""
    ids = training.ids(str(run.spec["task"]["name"]))
    table = run.table(["sample", "canonical"])
    rows: Any = zip(*(table.column(i).to_pylist() for i in range(2)), strict=True)
    identity = {sample: canonical or sample for sample, canonical in rows}
    return Contamination(len(identity), tuple(s for s, c in identity.items() if c in ids))


def check(run: StoredRun, training: Training) -> Contamination:
    """Samples that were trained on, by canonical identity, exact prompt and word sequences."""
    found = canonical_hits(run, training)
    if not training.prompts:
        return found
    exact: list[str] = []
    grams: dict[str, tuple[str, frozenset[int]]] = {}
    for sample, canonical, text in _prompts(run):
        words = normal_words(text)
        if _digest(words) in training.prompts:
            exact.append(sample)
        grams[sample] = (canonical, frozenset(_ngrams(words)))
    return Contamination(found.samples, found.canonical, tuple(exact), _similar(grams, training))


def _prompts(run: StoredRun) -> Iterator[tuple[str, str, str]]:
    """(sample, canonical, text of the first prompt), each sample once."""
    seen = set()
    for batch in run.batches(["sample", "canonical", "moves.list.element.messages"]):
        rows: Any = zip(*(batch.column(i).to_pylist() for i in range(3)), strict=True)
        for sample, canonical, moves in rows:
            if sample not in seen and moves:
                seen.add(sample)
                yield sample, canonical or sample, prompt_text(moves[0]["messages"])


def _similar(
    grams: Mapping[str, tuple[str, frozenset[int]]], training: Training
) -> tuple[str, ...]:
    """Samples of whose distinguishing sequences most occur in training."""
    owners: Counter[int] = Counter()
    counted: set[str] = set()
    for canonical, found in grams.values():
        if canonical not in counted:
            counted.add(canonical)
            owners.update(found)
    similar = []
    for sample, (_, found) in grams.items():
        own = [gram for gram in found if owners[gram] <= BOILERPLATE]
        if len(own) >= FEWEST and sum(g in training.ngrams for g in own) >= OVERLAP * len(own):
            similar.append(sample)
    return tuple(similar)
