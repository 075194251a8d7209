"""probes.json, and how a trainer reads it.

    layers = layers_from("17")                      # [17]
    layers = layers_from("critical:probes.json")    # the layer that is critical for most concepts
    weights = weights_from(Path("probes.json"))     # concept -> weight of its loss

A file holds one model's probes on one task; docs/probing.md lists its fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from ..store import write_atomically
from ..types import HarnessError, Json

VERSION: Final = 1
CRITICAL: Final = "critical:"


def write(path: Path, value: Json) -> None:
    """JSON, indented, with a line feed at its end; NumPy numbers are allowed."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, orjson.dumps(value, option=options))
    except OSError as error:
        raise HarnessError(f"{path}: cannot be written: {error.strerror or error}") from None


def read(path: Path) -> dict[str, Any]:
    """A probes.json. Raises HarnessError for anything else."""
    try:
        found = orjson.loads(path.read_bytes())
        if found["version"] != VERSION or not isinstance(found["concepts"], Mapping):
            raise ValueError("not a file of this version")
    except OSError as error:
        raise HarnessError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise HarnessError(f"{path} is no probes.json of `harness probe`: {error}") from None
    return dict(found)


def layers_from(text: str, depth: int = 0, pooling: str = "") -> list[int]:
    """The layers that an option names: ``17``, ``6,17``, ``-1`` or ``critical:FILE``.

    ``critical:`` takes one layer: the one that is critical for the most decodable concepts, of
    equal ones the earliest; by the probes of this ``pooling``, or of each concept's best. Raises
    HarnessError for text that is none of these, for a file in which no concept is decodable, and
    for layers beyond ``depth`` (0: not checked).

    >>> layers_from("6, 17"), layers_from("-1", depth=30)
    ([6, 17], [29])
    """
    if text.startswith(CRITICAL):
        layers = [_critical(Path(text.removeprefix(CRITICAL)), pooling)]
    else:
        try:
            layers = [int(part) for part in text.split(",")]
        except ValueError:
            raise HarnessError(f"layers {text!r}: write 17, 6,17 or critical:probes.json") from None
    for layer in layers:
        if depth and not -depth <= layer < depth:
            raise HarnessError(f"there is no layer {layer}: the model has 0 to {depth - 1}")
    layers = [layer % depth if depth else layer for layer in layers]
    if len(set(layers)) < len(layers):
        raise HarnessError(f"layers {text!r} name a layer twice")
    return layers


def _critical(path: Path, pooling: str) -> int:
    found = read(path)
    if pooling and pooling not in found["poolings"]:
        raise HarnessError(f"{path} has no probes with pooling {pooling}")
    votes: dict[int, int] = {}
    for concept in found["concepts"].values():
        chosen = concept["poolings"][pooling] if pooling else concept
        for layer in chosen["critical_layers"] if concept["decodable"] else ():
            votes[layer] = votes.get(layer, 0) + 1
    if not votes:
        raise HarnessError(
            f"{path}: no concept is decodable beyond its controls, so no layer is critical; name "
            "layers by number"
        )
    return min(votes, key=lambda layer: (-votes[layer], layer))


def weights_from(path: Path) -> dict[str, float]:
    """The weight of each concept's loss, 1 / its accuracy, scaled so that the least is 1: what is
    harder to read weighs more. Raises HarnessError as `read` does."""
    inverse = {
        name: 1 / max(1e-6, concept["accuracy"]["value"])
        for name, concept in read(path)["concepts"].items()
    }
    least = min(inverse.values(), default=1.0)
    return {name: value / least for name, value in inverse.items()}
