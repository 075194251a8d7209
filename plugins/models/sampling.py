"""Sampling: the next token of each row of a batch, each by its own settings and its own stream.

A row's draws are the numbers of its request's seed, one a step, turned into tokens by the inverse
of the cumulative distribution in the order of the vocabulary. So a row draws the same whatever rows
stand beside it, and equal logits give equal tokens on any device.

    sampler = Sampler([row.decoding for row in rows], [row.seed for row in rows], device)
    tokens = sampler(logits, step=0)

Temperature comes first, then top-k, then top-p over what top-k left (the order of Hugging Face and
vLLM). Tokens that tie with the last one kept are kept too: the set doesn't hang on a sort's order.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

import torch

from harness.types import Decoding

HEAD: Final = 512
"""Largest logits looked at before a full sort: enough for nearly every top-p."""


class Sampler:
    """Draws for the rows of one batch."""

    def __init__(
        self, decodings: Sequence[Decoding], seeds: Sequence[int], device: torch.device
    ) -> None:
        steps = max(d.max_tokens for d in decodings)
        self.greedy = torch.tensor([d.temperature == 0 for d in decodings], device=device)
        self.all_greedy = all(d.temperature == 0 for d in decodings)
        self.cutting = any(d.temperature and (d.top_k or d.top_p < 1) for d in decodings)
        self.temperature = torch.tensor([d.temperature or 1.0 for d in decodings], device=device)
        self.top_k = torch.tensor([d.top_k for d in decodings], device=device)
        self.top_p = torch.tensor([d.top_p for d in decodings], device=device)
        drawn = [] if self.all_greedy else [_uniforms(seed, steps) for seed in seeds]
        self.uniforms = torch.tensor(drawn, dtype=torch.float64, device=device)

    def __call__(self, logits: torch.Tensor, step: int) -> torch.Tensor:
        """Token ids (rows,) for float32 logits (rows, vocabulary) of a step."""
        best = logits.argmax(-1)
        if self.all_greedy:
            return best
        scaled = logits / self.temperature[:, None]
        if self.cutting:
            floor = cut(scaled, self.top_k, self.top_p)
            scaled = scaled.masked_fill(scaled < floor[:, None], -torch.inf)
        return torch.where(self.greedy, best, inverse_cdf(scaled, self.uniforms[:, step]))

    def select(self, rows: torch.Tensor) -> None:
        """Keep these rows."""
        self.greedy, self.temperature = self.greedy[rows], self.temperature[rows]
        self.top_k, self.top_p = self.top_k[rows], self.top_p[rows]
        if not self.all_greedy:
            self.uniforms = self.uniforms[rows]


def inverse_cdf(logits: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """The tokens at which the cumulative distributions pass the numbers (rows,) in [0, 1)."""
    mass = torch.softmax(logits, -1, dtype=torch.float64).cumsum(-1)
    total = mass[:, -1:]
    target = torch.minimum(
        uniforms[:, None] * total, torch.nextafter(total, torch.zeros_like(total))
    )
    return torch.searchsorted(mass, target, right=True)[:, 0]


def cut(logits: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """The smallest logit that each row keeps (-inf: all). ``top_k`` 0 and ``top_p`` 1 are off."""
    size = logits.shape[-1]
    width = min(size, max(HEAD, int(top_k.max())))
    head = logits.topk(width).values
    while True:
        last = head.gather(1, (top_k - 1).clamp(0, width - 1)[:, None])[:, 0]
        by_rank = torch.where(top_k > 0, last, -torch.inf)
        kept = logits.masked_fill(logits < by_rank[:, None], -torch.inf)
        share = (head.double() - kept.double().logsumexp(-1, keepdim=True)).exp()
        share = share.masked_fill(head < by_rank[:, None], 0.0)
        reached = share.cumsum(-1)
        enough = (top_p >= 1) | (reached[:, -1] >= top_p)
        if width == size or bool(enough.all()):
            break
        width = size
        head = logits.sort(descending=True).values
    place = ((reached - share) < top_p[:, None]).sum(-1) - 1
    by_mass = head.gather(1, place.clamp(0)[:, None])[:, 0]
    return torch.maximum(by_rank, torch.where(top_p < 1, by_mass, -torch.inf))


def _uniforms(seed: int, count: int) -> list[float]:
    stream = random.Random(seed)
    return [stream.random() for _ in range(count)]
