"""What vLLM is given to load: a checkpoint, perhaps an adapter on it, perhaps no weights at all.

    found = checkpoint("runs/sft@200", {"lora": "", "load_format": "auto"})
    found.identity, found.context, found.weight_bytes

``load_format=dummy`` takes a folder with a configuration and a tokenizer and fills the weights with
random numbers: for measuring speed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.types import HarnessError, Json

from .adapter import read_adapter
from .checkpoint import identity, locate, weight_files


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder that vLLM can load, with what its ``config.json`` says."""

    folder: Path
    name: str
    identity: str
    config: Mapping[str, Json]
    adapter: Path | None = None
    rank: int = 0

    @property
    def text(self) -> Mapping[str, Json]:
        """The configuration of the language model (of a model that also sees, its part)."""
        inner = self.config.get("text_config")
        return inner if isinstance(inner, Mapping) else self.config

    @property
    def context(self) -> int:
        """Tokens of context; 0 where the configuration does not say."""
        return int(self.text.get("max_position_embeddings") or 0)

    @property
    def quantisation(self) -> str:
        """The method that the weights are quantised with ("" for none)."""
        method = self.config.get("quantization_config")
        return str(method.get("quant_method", "")) if isinstance(method, Mapping) else ""

    @property
    def weight_bytes(self) -> int:
        """Size of the weight files; of the parameters in bfloat16 where there are none."""
        files = weight_files(self.folder)
        return sum(f.stat().st_size for f in files) if files else 2 * self._parameters()

    @property
    def cache_bytes(self) -> int:
        """Bytes of keys and values for a token, in 16 bits (0 where the configuration is of
        another kind)."""
        t = self.text
        try:
            heads = t.get("num_key_value_heads") or t["num_attention_heads"]
            width = t.get("head_dim") or t["hidden_size"] // t["num_attention_heads"]
            return int(4 * t["num_hidden_layers"] * heads * width)
        except (KeyError, TypeError):
            return 0

    def end_tokens(self, tokenizer: Any) -> frozenset[int]:
        """All tokens that end a text, by tokenizer, configuration and generation configuration."""
        named = [tokenizer.eos_token_id, self.config.get("eos_token_id")]
        named += [self.text.get("eos_token_id")]
        named += [_json(self.folder / "generation_config.json").get("eos_token_id")]
        found: set[int] = set()
        for value in named:
            found |= set(value) if isinstance(value, list) else {value} - {None}
        return frozenset(map(int, found))

    def _parameters(self) -> int:
        """Parameters of a decoder with gated layers, for dummy weights."""
        t = self.text
        try:
            width, inner, layers = t["hidden_size"], t["intermediate_size"], t["num_hidden_layers"]
            attention = 2 * width * width + width * self.cache_bytes // (2 * layers)
            embeddings = (1 if t.get("tie_word_embeddings") else 2) * t["vocab_size"] * width
            return int(layers * (attention + 3 * width * inner) + embeddings)
        except (KeyError, TypeError):
            return 0


def checkpoint(name: str, options: Mapping[str, Json]) -> Checkpoint:
    """The checkpoint of a ``--model`` value and the options ``lora``, ``load_format`` and
    ``quantization``. Raises HarnessError for anything that cannot be loaded."""
    how = str(options.get("load_format") or "auto")
    if how == "dummy":
        folder = Path(name).expanduser()
        config = _json(folder / "config.json")
        if not config:
            raise HarnessError(f"load_format=dummy: {folder} has no config.json")
        digest = hashlib.blake2b(json.dumps(config, sort_keys=True).encode(), digest_size=6)
        return Checkpoint(folder, folder.name, f"dummy-{digest.hexdigest()}+vllm", config)
    found = locate(name)
    named = [identity(found)]
    if method := str(options.get("quantization") or ""):
        named.append(method)
    config = _json(found.folder / "config.json")
    if not (lora := str(options.get("lora") or "")):
        return Checkpoint(found.folder, found.label, "+".join([*named, "vllm"]), config)
    adapter = read_adapter(lora, found)
    label, name = f"{found.label}+{adapter.name}", "+".join([*named, adapter.identity, "vllm"])
    return Checkpoint(found.folder, label, name, config, adapter.folder, adapter.rank)


def _json(file: Path) -> dict[str, Json]:
    """A JSON object; {} where there is no file. Raises HarnessError for one that is none."""
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise HarnessError(f"{file} cannot be read: {error}") from None
    return value if isinstance(value, dict) else {}
