"""Arenas: what runs must share to stand in one column, and how columns are named.

An arena is a task with its options, data, split and opponent. Its name is the task's, or that of a
preset named after the task (``gamesolve-ood``); split, opponent and options are added only where
the table has several arenas that they tell apart.

>>> Column.parse("Nash=gamesolve:score[nash]")
Column(title='Nash', task='gamesolve', metric='score', group='nash')
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

import orjson

from ..types import HarnessError
from .places import StoredRun

ID: Final = "ID"
OOD: Final = "OOD"
EXTERNAL: Final = "external"

PRESETS: Final[Mapping[str, tuple[str, ...]]] = {
    "overall": ("*:score",),
    "all": ("*:*[*]",),
    "groups": ("*:score[*]",),
    "gamesolve": (
        "All=gamesolve:score",
        "Nash=gamesolve:score[nash]",
        "BR=gamesolve:score[best_response]",
        "Easy=gamesolve:score[easy]",
        "Medium=gamesolve:score[medium]",
        "Hard=gamesolve:score[hard]",
    ),
    "gamesolve-ood": (
        "All=gamesolve-ood:score",
        "Nash=gamesolve-ood:score[nash]",
        "BR=gamesolve-ood:score[best_response]",
        "Asymmetric=gamesolve-ood:score[asymmetric]",
        "Combined hard=gamesolve-ood:score[combined_hard]",
        "Large matrix=gamesolve-ood:score[large_matrix]",
        "Non-integer=gamesolve-ood:score[non_integer]",
        "JSON=gamesolve-ood:score[novel_format_json]",
        "Math=gamesolve-ood:score[novel_format_math]",
        "Table=gamesolve-ood:score[novel_format_table]",
        "Wide range=gamesolve-ood:score[wide_range]",
        "*=gamesolve-ood:score[?x?]",
    ),
    "gtbench": ("Return=gtbench:return", "NRA=gtbench:nra", "*=gtbench:return[*]"),
    "gtbench-reference": (
        "Average=gtbench:legacy.score",
        "Completion=gtbench:legacy.completion",
        "NRA=gtbench:legacy.nra",
        "*=gtbench:legacy.score[*]",
    ),
    "textarena": ("Average=textarena:average", "*=textarena:score[*]"),
    "tom": (
        "counterfactual-tom:*",
        "counterfactual-tom:score[*]",
        "hitom*:score",
        "hitom*:score[*]",
    ),
}
"""Named lists of columns: ``--columns gamesolve`` is the reference study's table. Columns of a
preset that no run has are left out."""


@dataclass(frozen=True, slots=True)
class Arena:
    """A task as it was set: options, data, split, opponent."""

    name: str
    task: str
    split: str
    opponent: str
    domain: str = ""

    @property
    def family(self) -> str:
        """What ID and OOD arenas of one kind share: the task without ``ood``."""
        return _family(self.task)


class Column(NamedTuple):
    """A figure of an arena: a metric, of all records or of a group. Patterns may hold * and ?."""

    title: str
    task: str
    metric: str
    group: str

    @classmethod
    def parse(cls, text: str) -> Column:
        """Read ``TITLE=task:metric[group]``; title, metric (score) and group may be left out.

        Raises HarnessError for anything else.
        """
        found = re.fullmatch(
            r"(?:([^=]*)=)?([^:\[\]]+)(?::([^:\[\]]+))?(?:\[(.*)\])?", text.strip()
        )
        if found is None:
            raise HarnessError(f"--columns {text}: write task:metric[group], as in tom:score[2]")
        title, task, metric, group = (part.strip() if part else "" for part in found.groups())
        return cls(title, task, metric or "score", group)

    @property
    def key(self) -> str:
        """The column in words: ``task:metric[group]``."""
        return f"{self.task}:{self.metric}" + (f"[{self.group}]" if self.group else "")


class Wanted(NamedTuple):
    """What stands in ``--columns``: the columns of a text, of which at least one must exist."""

    text: str
    columns: tuple[Column, ...]


def parse_columns(texts: Iterable[str]) -> list[Wanted]:
    """Columns and presets, in order.

    >>> [c.key for wanted in parse_columns(["overall", "tom:score[1]"]) for c in wanted.columns]
    ['*:score', 'tom:score[1]']
    """
    return [
        Wanted(text, tuple(Column.parse(part) for part in PRESETS.get(text, (text,))))
        for text in texts
    ]


def split_columns(text: str) -> list[str]:
    """A comma list whose commas inside brackets do not split.

    >>> split_columns("a:score[x,y], b")
    ['a:score[x,y]', 'b']
    """
    return [p.strip() for p in re.split(r",(?![^\[]*\])", text) if p.strip()]


def expand(asked: Sequence[Wanted], known: Sequence[Column]) -> list[Column]:
    """The columns that exist, for patterns; in the order of the patterns, then of the known.

    Raises HarnessError for a text that names nothing.
    """
    found: dict[str, Column] = {}
    for text, columns in asked:
        hits = [hit for column in columns for hit in _hits(column, known)]
        if not hits:
            raise HarnessError(
                f"--columns {text}: no run has it; `--columns all` shows what there is"
            )
        for hit in hits:
            found.setdefault(hit.key, hit)
    return list(found.values())


def _hits(wanted: Column, known: Sequence[Column]) -> list[Column]:
    """The known columns of a pattern, with its title ("*": the group's name).

    A plain task's name stands for all of its arenas where none is called just so (``gtbench`` for
    ``gtbench vs random``).
    """
    exact = [c for c in known if _fits(c.task, wanted.task)]
    pool = exact or [c for c in known if _fits(re.split("[@ ]", c.task)[0], wanted.task)]
    hits = [c for c in pool if _fits(c.metric, wanted.metric) and _fits(c.group, wanted.group)]
    if not wanted.title:
        return hits
    if wanted.title == "*":
        hits = [c for c in hits if c.group]
        alone = len({c.task for c in hits}) == 1
        return [c._replace(title=c.group if alone else f"{c.group}, {c.task}") for c in hits]
    if len(hits) == 1:
        return [hits[0]._replace(title=wanted.title)]
    return [c._replace(title=f"{wanted.title}, {c.key}") for c in hits]


def _fits(text: str, pattern: str) -> bool:
    return text == pattern or fnmatchcase(text, pattern)


def find_arenas(runs: Sequence[StoredRun], domains: Mapping[str, str]) -> dict[str, Arena]:
    """The arena of each run, by the run's hash.

    :param domains: arena name or pattern -> domain, where the user names it. By default what is
        called ood is OOD, its counterpart ID, and in a table with both the rest is external.
    """
    facts = {run.manifest["hash"]: _facts(run) for run in runs}
    names = _names(list(facts.values()))
    arenas = {}
    families = {_family(f["task"]) for f in facts.values() if "ood" in names[_key(f)].lower()}
    for identity, fact in facts.items():
        name = names[_key(fact)]
        domain = next((d for p, d in domains.items() if fnmatchcase(name, p)), None)
        if domain is None and families:
            inside = ID if _family(fact["task"]) in families else EXTERNAL
            domain = OOD if "ood" in name.lower() else inside
        opponent = fact["opponent"]
        arenas[identity] = Arena(name, fact["task"], fact["split"], opponent, domain or "")
    return arenas


def _family(task: str) -> str:
    """The task without ``ood``.

    >>> _family("gamesolve-ood"), _family("hitom")
    ('gamesolve', 'hitom')
    """
    return re.sub(r"[-_ ]?ood\b", "", task, flags=re.IGNORECASE)


def _facts(run: StoredRun) -> dict[str, str]:
    """Everything that tells arenas apart, as text; the most telling first."""
    spec = run.spec
    task = spec["task"]
    opponent = (run.metrics or {}).get("opponent") or spec["opponent"] or ""
    facts = {
        "task": task["name"],
        "preset": str(task["options"].get("preset", "")),
        "split": spec["split"],
        "opponent": str(opponent).removeprefix("player:"),
        "version": str(task["version"]),
        "data": str(task["data"]),
    }
    options = {k: v for k, v in task["options"].items() if k != "preset"}
    return facts | {name: _text(value) for name, value in sorted(options.items())}


def _names(facts: Sequence[dict[str, str]]) -> dict[str, str]:
    """A short name for each distinct arena."""
    unique = {_key(fact): fact for fact in facts}
    names: dict[str, str] = {}
    for key, fact in sorted(unique.items()):
        family = [f for f in unique.values() if f["task"] == fact["task"]]
        own = fact["preset"].startswith(fact["task"])
        name = fact["preset"] if own else fact["task"]
        if fact["split"] != "test":
            name += f"@{fact['split']}"
        peers = [f for f in family if (f["preset"] == fact["preset"] or not own)]
        for part in fact:
            if part in ("task", "split") or (part == "preset" and own):
                continue
            if len({f.get(part, "") for f in peers}) > 1:
                name += _suffix(part, fact[part])
        names[key] = name
    return names


def _suffix(part: str, value: str) -> str:
    if part == "opponent":
        return f" vs {value}" if value else ""
    return f" {part}={value}" if value else ""


def _key(fact: Mapping[str, str]) -> str:
    return _text(dict(fact))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
