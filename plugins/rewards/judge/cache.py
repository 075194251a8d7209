"""The judge's cache: what was paid for once is never paid for again.

A key is the SHA-256 of everything that the reply depends on (version of the rubric, identity of the
judge, decoding, the whole request), so the same question gets the same grades wherever it stands in
a batch. Only replies that kept to the schema are stored; a file is written whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from harness.store import write_atomically
from harness.types import Decoding, HarnessError, Json, Message

from .protocol import RUBRIC_VERSION


class Cache:
    """Replies below a folder, or none where ``folder`` is None."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise HarnessError(f"judge_cache {folder}: {error.strerror}") from None

    @staticmethod
    def key(
        identity: str,
        settings: Mapping[str, Json],
        decoding: Decoding,
        messages: Sequence[Message],
    ) -> str:
        """64 hexadecimal digits."""
        whole = {
            "rubric": RUBRIC_VERSION,
            "judge": identity,
            "settings": settings,
            "decoding": asdict(decoding),
            "messages": [asdict(message) for message in messages],
        }
        text = json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def get(self, key: str) -> str | None:
        """A stored reply; a file that cannot be read counts as none."""
        if self.folder is None:
            return None
        try:
            stored = json.loads(self._file(key).read_text(encoding="utf-8"))
            return str(stored["reply"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, key: str, reply: str) -> None:
        """Store a reply. Raises HarnessError when the disk is full."""
        if self.folder is not None:
            file = self._file(key)
            file.parent.mkdir(exist_ok=True)
            text = json.dumps({"reply": reply, "rubric": RUBRIC_VERSION}, ensure_ascii=False)
            write_atomically(file, text.encode())

    def remember(self, name: str, settings: Mapping[str, Json], identity: str) -> None:
        """Note who answers to a name, so that a replay needs neither weights nor server."""
        if self.folder is not None:
            known = self._judges() | {_called(name, settings): identity}
            text = json.dumps(known, indent=1, sort_keys=True)
            write_atomically(self.folder / "judges.json", text.encode())

    def judge(self, name: str, settings: Mapping[str, Json]) -> str | None:
        """The identity that `remember` noted last."""
        return self._judges().get(_called(name, settings))

    def _judges(self) -> dict[str, str]:
        assert self.folder is not None
        try:
            return dict(json.loads((self.folder / "judges.json").read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return {}

    def _file(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / key[:2] / f"{key}.json"


def _called(name: str, settings: Mapping[str, Json]) -> str:
    return f"{name} {json.dumps(settings, sort_keys=True)}"
