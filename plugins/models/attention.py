"""Keys and values that grow in place, and attention that does not copy them.

What costs most in a decoding step of a small model, after the matrix products, is copying: the
library's cache is laid out anew for each token, and where several query heads share a key head
(grouped queries) keys and values are repeated for each of them. Here the cache has room to grow,
and one query token's heads are folded so that those which share a key head become the queries of
one product.

    use_grouped_attention(model)
    cache = roomy_cache(model.config)
    model(input_ids, past_key_values=cache, use_cache=True)
"""

from __future__ import annotations

from typing import Any, Final

import torch
from transformers import AttentionInterface, DynamicCache
from transformers.cache_utils import DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

NAME: Final = "sdpa_grouped"
ROOM: Final = 128
"""Tokens of room that a full cache grows by."""


class RoomyLayer(DynamicLayer):
    """One layer's keys and values, (rows, heads, tokens, width), in buffers with room at the end.

    ``keys`` and ``values`` are views of what is filled, as the library expects.
    """

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append states; returns all keys and values."""
        if not self.is_initialized:
            self._begin(key_states, value_states)
        filled = self.get_seq_length()
        total = filled + key_states.shape[-2]
        if total > self._keys.shape[-2]:
            self._keys = _larger(self._keys, filled, total + ROOM)
            self._values = _larger(self._values, filled, total + ROOM)
        self._keys[:, :, filled:total] = key_states
        self._values[:, :, filled:total] = value_states
        self.keys, self.values = self._keys[:, :, :total], self._values[:, :, :total]
        return self.keys, self.values

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Keep these rows (an index may occur several times)."""
        filled = self.get_seq_length()
        if filled == 0:
            return
        rows = beam_idx.to(self.keys.device)
        self._keys, self._values = (
            buffer.index_select(0, rows) for buffer in (self._keys, self._values)
        )
        self.keys, self.values = self._keys[:, :, :filled], self._values[:, :, :filled]

    def _begin(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.dtype, self.device = key_states.dtype, key_states.device
        self.keys = self._keys = key_states[:, :, :0]
        self.values = self._values = value_states[:, :, :0]
        self.is_initialized = True


def _larger(buffer: torch.Tensor, filled: int, room: int) -> torch.Tensor:
    """A buffer for ``room`` tokens that begins with the first ``filled`` of another."""
    rows, heads, _, width = buffer.shape
    larger = buffer.new_empty(rows, heads, room, width)
    larger[:, :, :filled] = buffer[:, :, :filled]
    return larger


def roomy_cache(config: Any) -> DynamicCache:
    """An empty cache for a model; layers of other kinds (sliding, recurrent) stay the library's."""
    cache = DynamicCache(config=config)
    cache.layers = [RoomyLayer() if type(each) is DynamicLayer else each for each in cache.layers]
    return cache


def grouped_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """`scaled_dot_product_attention` for a step of one token with grouped queries; the library's
    for everything else. Query (rows, heads, 1, width); returns (rows, 1, heads, width)."""
    rows, heads, tokens, width = query.shape
    shared = key.shape[1]
    by_head = attention_mask is not None and attention_mask.shape[1] != 1
    if tokens != 1 or shared == heads or by_head:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, is_causal, **kwargs
        )
    folded = query.reshape(rows, shared, heads // shared, width)
    out = torch.nn.functional.scaled_dot_product_attention(
        folded, key, value, attn_mask=attention_mask, scale=scaling
    )
    return out.reshape(rows, 1, heads, value.shape[-1]), None


def use_grouped_attention(model: Any) -> bool:
    """Let a model that attends through the library's sdpa use `grouped_attention`.

    False, and nothing changed, for models that have an attention of their own.
    """
    if model.config._attn_implementation != "sdpa" or not model._supports_attention_backend:
        return False
    AttentionInterface.register(NAME, grouped_attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    model.set_attn_implementation(NAME)
    return bool(model.config._attn_implementation == NAME)
