"""Hidden states: what the decoder blocks say about a span of a prompt, pooled to one vector.

    pooled_states(model, prompts, spans, layers=[8, 17], pooling="weighted", batch_tokens=8192)

Several poolings of several layers cost one pass: they are taken as each block returns, and the
states themselves are never kept.

Layer k is the output of decoder block k, from 0; there is no embedding layer and no final norm, and
-1 is the last block. Pooling is in float32 over the positions of the span, j = 0..T-1:

    last, first        the state of position T-1, or 0
    mean, sum, max     over the positions (max: element by element)
    weighted           weights proportional to exp(2 j / (T-1)), of sum 1: the last position weighs
                       e^2 = 7.4 times the first
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import torch

from harness.types import HarnessError

from .generation import padded

POOLINGS: Final = ("last", "first", "mean", "sum", "max", "weighted")


class _Enough(Exception):
    """Raised in a hook: no deeper block is needed."""


@torch.inference_mode()
def pooled_states(
    model: Any,
    prompts: Sequence[Sequence[int]],
    spans: Sequence[tuple[int, int]],
    layers: Sequence[int],
    pooling: str | Sequence[str],
    batch_tokens: int,
) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Pooled states of the span [start, end) of each prompt, in one pass for all layers.

    The result is (prompts, layers, width) for the name of one pooling, and (prompts, poolings,
    layers, width) for a sequence of names. Batches are sorted by length and hold at most
    ``batch_tokens`` tokens with their padding. Raises HarnessError for a pooling, layer or span
    that does not exist.
    """
    poolings = [pooling] if isinstance(pooling, str) else list(pooling)
    blocks = decoder_blocks(model)
    wanted = _checked(prompts, spans, layers, poolings, len(blocks))
    shape = (len(prompts), len(poolings), len(layers), blocks_width(model))
    result = np.empty(shape, dtype=np.float32)
    for rows in _batches([len(p) for p in prompts], batch_tokens):
        ids, mask = padded([prompts[row] for row in rows], model.device, side="right")
        pool = _pooler(poolings, [spans[row] for row in rows], ids.shape[1], model.device)
        states = _run(model, blocks, set(wanted), ids, mask, pool)
        result[rows] = torch.stack([states[layer] for layer in wanted], dim=2).cpu().numpy()
    return result[:, 0] if isinstance(pooling, str) else result


def random_weights(model: Any, seed: int) -> None:
    """Replace the weights by those of a fresh initialisation of the same architecture.

    The global random state is left as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fresh = type(model)(model.config)
    model.load_state_dict(fresh.state_dict())


@contextmanager
def steered(
    model: Any, layer: int, direction: Any, strength: float, ablate: bool = False
) -> Iterator[None]:
    """Within it, the output h of one decoder block is changed at every position.

    With u the direction at length 1: ``h + strength x u``, or where ``ablate`` h without its part
    along u, ``h - (h . u) u`` (Arditi et al., Refusal in Language Models Is Mediated by a Single
    Direction, 2024, equation 4, at one block).

    :param direction: (width,) numbers, not all zero.
    """
    blocks = decoder_blocks(model)
    _check_layers([layer], len(blocks))
    unit = torch.as_tensor(np.asarray(direction), dtype=torch.float32, device=model.device)
    if unit.shape != (blocks_width(model),) or not float(unit.norm()) > 0:
        raise HarnessError(f"a direction has {blocks_width(model)} numbers, not all zero")
    unit = unit / unit.norm()

    def change(module: torch.nn.Module, inputs: Any, output: Any) -> Any:
        hidden = output[0] if isinstance(output, tuple) else output
        states = hidden.float()
        push = -(states @ unit)[..., None] if ablate else strength
        states = (states + push * unit).to(hidden.dtype)
        return (states, *output[1:]) if isinstance(output, tuple) else states

    handle = blocks[layer % len(blocks)].register_forward_hook(change)
    try:
        yield
    finally:
        handle.remove()


def decoder_blocks(model: Any) -> Sequence[torch.nn.Module]:
    """The decoder blocks in order: the longest list of modules with one entry for each layer."""
    depth = model.config.get_text_config().num_hidden_layers
    for module in model.base_model.modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) == depth:
            return list(module)
    raise HarnessError(f"{type(model).__name__}: its decoder blocks were not found")


def blocks_width(model: Any) -> int:
    """The width of the hidden states."""
    return int(model.config.get_text_config().hidden_size)


def _checked(
    prompts: Sequence[Sequence[int]],
    spans: Sequence[tuple[int, int]],
    layers: Sequence[int],
    poolings: Sequence[str],
    depth: int,
) -> list[int]:
    """The layers counted from 0."""
    if unknown := [name for name in poolings if name not in POOLINGS]:
        raise HarnessError(f"pooling {unknown[0]!r} is none of {', '.join(POOLINGS)}")
    if not poolings or not layers:
        missing = "layer" if poolings else "pooling"
        raise HarnessError(f"hidden states need at least one {missing}")
    _check_layers(layers, depth)
    if len(spans) != len(prompts):
        raise HarnessError(f"{len(prompts)} prompts have {len(spans)} spans")
    for prompt, (start, end) in zip(prompts, spans, strict=True):
        if not 0 <= start < end <= len(prompt):
            raise HarnessError(f"the span {start}:{end} lies outside a prompt of {len(prompt)}")
    return [layer % depth for layer in layers]


def _check_layers(layers: Sequence[int], depth: int) -> None:
    if wrong := [layer for layer in layers if not -depth <= layer < depth]:
        raise HarnessError(f"there is no layer {wrong[0]}: the model has 0 to {depth - 1}")


def _batches(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > batch_tokens:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _pooler(
    poolings: Sequence[str],
    spans: Sequence[tuple[int, int]],
    length: int,
    device: torch.device,
) -> Callable[[torch.Tensor], torch.Tensor]:
    """A function from states (rows, length, width) to pooled ones (rows, poolings, width)."""
    weights = torch.zeros(len(spans), len(poolings), length, dtype=torch.float32)
    outside = torch.ones(len(spans), length, 1, dtype=torch.bool)
    for row, (start, end) in enumerate(spans):
        outside[row, start:end] = False
        for place, pooling in enumerate(poolings):
            if pooling != "max":
                weights[row, place, start:end] = _weights(pooling, end - start)
    weights, outside = weights.to(device), outside.to(device)
    greatest = [place for place, pooling in enumerate(poolings) if pooling == "max"]

    def pool(states: torch.Tensor) -> torch.Tensor:
        states = states.float()
        pooled = torch.bmm(weights, states)
        if greatest:
            pooled[:, greatest] = states.masked_fill(outside, -torch.inf).amax(1)[:, None]
        return pooled

    return pool


def _weights(pooling: str, size: int) -> torch.Tensor:
    if pooling in ("last", "first"):
        weights = torch.zeros(size)
        weights[-1 if pooling == "last" else 0] = 1
        return weights
    if pooling == "weighted":
        return torch.softmax(2 * torch.arange(size) / max(1, size - 1), dim=0)
    return torch.full((size,), 1 / size if pooling == "mean" else 1.0)


def _run(
    model: Any,
    blocks: Sequence[torch.nn.Module],
    wanted: set[int],
    ids: torch.Tensor,
    mask: torch.Tensor,
    pool: Callable[[torch.Tensor], torch.Tensor],
) -> dict[int, torch.Tensor]:
    """One forward pass as deep as needed; the pooled states of each wanted layer."""
    states: dict[int, torch.Tensor] = {}
    deepest = max(wanted)

    def keep(layer: int) -> Callable[..., None]:
        def hook(module: torch.nn.Module, inputs: Any, output: Any) -> None:
            # A block returns a tensor, or a tuple that begins with it in older versions.
            hidden = output[0] if isinstance(output, tuple) else output
            states[layer] = pool(hidden)
            if layer == deepest:
                raise _Enough

        return hook

    handles = [blocks[layer].register_forward_hook(keep(layer)) for layer in wanted]
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    try:
        model.base_model(
            input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False
        )
    except _Enough:
        pass
    finally:
        for handle in handles:
            handle.remove()
    return states
