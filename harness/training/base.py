"""The checkpoint that training starts from: where it lies, and whether it can be trained.

    base = base_checkpoint(registry, "runs/sft@200")
    base.folder, base.identity, base.tokenizer()

A model back end that can say where the weights of a name lie has a function
``checkpoint_folder(name)``; any of them will do, as training reads the folder itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..rendering import has_template
from ..types import HarnessError, Json


class Located(NamedTuple):
    """A checkpoint's folder, the short name that tables show, and the hash of its weights."""

    folder: Path
    label: str
    weights: str


@dataclass(frozen=True, slots=True)
class Base:
    """What training starts from."""

    spec: str
    folder: Path
    label: str
    weights: str

    @property
    def identity(self) -> str:
        """As runs name it: label and 12 digits of the weights' hash."""
        return f"{self.label}-{self.weights[:12]}"

    def tokenizer(self) -> Any:
        """Its tokenizer. Raises HarnessError when it cannot be read."""
        from transformers import AutoTokenizer

        try:
            return AutoTokenizer.from_pretrained(
                self.folder, local_files_only=True, trust_remote_code=False
            )
        except (OSError, ValueError, ImportError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
            raise HarnessError(f"{self.folder}: the tokenizer cannot be read: {reason}") from None

    def config(self) -> dict[str, Json]:
        """Its config.json."""
        value: dict[str, Json] = json.loads((self.folder / "config.json").read_text())
        return value

    def tied(self) -> bool:
        """Whether its output layer is its embedding."""
        config = self.config()
        text = config.get("text_config") or config
        return bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", False)))

    def context(self) -> int:
        """Tokens of context (0: not said)."""
        config = self.config()
        text = config.get("text_config") or config
        return int(text.get("max_position_embeddings") or 0)


def base_checkpoint(registry: Any, spec: str) -> Base:
    """The checkpoint of a ``--model`` value.

    Raises HarnessError for a model that has no weights on this machine (a server, a scripted one),
    and for a folder that is no checkpoint.
    """
    from ..registry import load_module

    entry, argument = registry.for_model(spec)
    others = [e for (kind, _), e in registry.entries.items() if kind == "model" and e.handles]
    for candidate in (entry, *(others if entry.handles else ())):
        try:
            module = load_module(candidate)
        except HarnessError:
            if candidate is entry and not entry.handles:
                raise
            continue
        if (find := getattr(module, "checkpoint_folder", None)) is not None:
            found = Located(*find(argument))
            return Base(spec, found.folder.absolute(), found.label, found.weights)
    raise HarnessError(
        f"{spec} cannot be trained: it is no checkpoint; give a folder, FOLDER@STEP or a hub id"
    )


def require_template(base: Base, tokenizer: Any) -> None:
    """Raise HarnessError for a base without chat template: its replies would have no fixed end."""
    if not has_template(tokenizer):
        raise HarnessError(
            f"{base.folder} has no chat template, so prompts and replies have no fixed form; "
            "add a chat_template.jinja to the folder (that of its instruct sibling, say)"
        )
