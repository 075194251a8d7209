"""Where the logits of a reply lie: after its own prompt, and after another prompt that it also
follows.

Row i of a batch is a prompt of P tokens and a reply of R: the logits at P - 1, ..., P + R - 2
predict the reply. `reply_places` says which positions a model must give logits for, and which rows
of the flattened logits belong to the replies, token by token in the order of the batch; so logits
after prompts of other lengths line up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import torch

COLUMN: Final = "teacher_prompts"
"""The column of a batch that holds the other prompts: the teacher's."""

FIGURE: Final = "teacher_kl"
"""The figure of each token of a reply, and its mean."""


class Places(NamedTuple):
    """Positions to compute logits at, (kept,), and the rows of the flattened logits that predict
    the replies, (reply tokens,)."""

    keep: torch.Tensor
    rows: torch.Tensor


def reply_places(prompts: Sequence[int], replies: Sequence[int], packed: bool) -> Places:
    """The places of all replies.

    :param prompts: tokens of each prompt; :param replies: of each reply.
    :param packed: rows lie one after the other in a single sequence; else each begins at the left
        of its own, and the logits of the kept positions are computed for all of them.
    """
    if packed:
        starts = torch.tensor([0, *(p + r for p, r in zip(prompts, replies, strict=True))])
        keep = torch.cat([
            torch.arange(start + p - 1, start + p + r - 1)
            for start, p, r in zip(starts.cumsum(0).tolist(), prompts, replies, strict=False)
        ])  # fmt: skip
        return Places(keep, torch.arange(len(keep)))
    first = min(prompts) - 1
    last = max(p + r for p, r in zip(prompts, replies, strict=True)) - 1
    width = last - first
    rows = [
        torch.arange(p - 1 - first, p + r - 1 - first) + width * row
        for row, (p, r) in enumerate(zip(prompts, replies, strict=True))
    ]
    return Places(torch.arange(first, last), torch.cat(rows))


def joined(prompts: torch.Tensor, replies: torch.Tensor) -> torch.Tensor:
    """Each prompt with its reply, as a jagged tensor. Both are jagged, (batch, any)."""
    rows = zip(prompts.unbind(), replies.unbind(), strict=True)
    return torch.nested.as_nested_tensor([torch.cat(row) for row in rows], layout=torch.jagged)


def counted(rows: torch.Tensor) -> torch.Tensor:
    """Positions 0, 1, 2, ... of each row of a jagged tensor, as a jagged tensor."""
    lengths = rows.offsets().diff().tolist()
    counts = [torch.arange(n, device=rows.device) for n in lengths]
    return torch.nested.as_nested_tensor(counts, layout=torch.jagged)
