"""Which plugins may load: what the environment variable ``HARNESS_LOAD_PLUGINS`` says.

    HARNESS_LOAD_PLUGINS=built-in,package:rps-memory harness list

A word of the comma list is a name (``*`` and ``?`` allowed), ``kind:name``, ``built-in``, or
``package:NAME`` for all that one installed package brings. Without the variable everything loads;
an empty one lets nothing in.

>>> Allowed(["model:*"]).unused()
["HARNESS_LOAD_PLUGINS: 'model:*' fits nothing"]
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .registry import Entry


class Allowed:
    """The words of the variable; None where it is not set."""

    VARIABLE: Final = "HARNESS_LOAD_PLUGINS"

    def __init__(self, words: Iterable[str] | None) -> None:
        self.words = None if words is None else dict.fromkeys(words, False)

    @classmethod
    def from_environment(cls) -> Allowed:
        """As the variable says."""
        text = os.environ.get(cls.VARIABLE)
        return cls(None if text is None else [w.strip() for w in text.split(",") if w.strip()])

    def takes(self, entry: Entry) -> bool:
        """Whether an entry is let in."""
        if self.words is None:
            return True
        source = "built-in" if entry.source == "built in" else entry.source.replace(" ", ":", 1)
        texts = (entry.name, f"{entry.kind}:{entry.name}", source)
        fits = [word for word in self.words if any(fnmatchcase(text, word) for text in texts)]
        for word in fits:
            self.words[word] = True
        return bool(fits)

    def unused(self) -> list[str]:
        """A line for each word that fits nothing: a misspelt name must not pass unseen."""
        words = self.words or {}
        return [
            f"{self.VARIABLE}: {word!r} fits nothing" for word, used in words.items() if not used
        ]
