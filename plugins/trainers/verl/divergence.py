"""The divergence of a student from its teacher, over the whole vocabulary and in blocks of tokens.

    found = forward_kl(student, teacher, places, others, labels, temperature=0.8)
    found.kl.mean().backward()

For each token, with p the teacher's distribution and q the student's, both at the temperature T:
KL(p || q) = sum over the vocabulary of p (log p - log q), whose gradient with respect to the
student's logits is (q - p) / T (generalised knowledge distillation, Agarwal et al. 2024, at
beta = 0). No approximation by samples or by the most likely tokens; logits stay in their own type,
and float32 copies live for a block only, in the forward pass as in the backward one.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import torch
from torch.autograd.function import once_differentiable

ELEMENTS: Final = 1 << 25
"""Logits of a block: 128 MiB in float32."""


class Divergence(NamedTuple):
    """Figures of each token, all (tokens,) and float32 or wider: the divergence, which alone has a
    gradient, the log-probability of the token itself under the student, and both entropies."""

    kl: torch.Tensor
    logprob: torch.Tensor
    entropy: torch.Tensor
    teacher_entropy: torch.Tensor


def forward_kl(
    student: torch.Tensor,
    teacher: torch.Tensor,
    places: torch.Tensor,
    others: torch.Tensor,
    labels: torch.Tensor,
    temperature: float,
    elements: int = ELEMENTS,
) -> Divergence:
    """KL(teacher || student) of each token, in nats.

    :param student: logits, (rows, vocabulary); :param teacher: the same, of any number of rows.
    :param places: (tokens,) rows of ``student``; :param others: (tokens,) rows of ``teacher`` for
        the same tokens; rows that no token names take no part.
    :param labels: (tokens,) the tokens that these rows predict.
    :param elements: logits of a block, at most.
    """
    block = max(1, elements // student.shape[-1])
    return Divergence(
        *_ForwardKL.apply(student, teacher, places, others, labels, float(temperature), block)
    )


class _ForwardKL(torch.autograd.Function):
    """The gradient in closed form, so that nothing of a block is kept for the backward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        student: torch.Tensor,
        teacher: torch.Tensor,
        places: torch.Tensor,
        others: torch.Tensor,
        labels: torch.Tensor,
        temperature: float,
        block: int,
    ) -> tuple[torch.Tensor, ...]:
        ctx.save_for_backward(student, teacher, places, others)
        ctx.temperature, ctx.block = temperature, block
        found = [
            _figures(
                _log_softmax(student, own, temperature),
                _log_softmax(teacher, other, temperature),
                chosen,
            )
            for own, other, chosen in zip(
                places.split(block), others.split(block), labels.split(block), strict=True
            )
        ]
        kl, *rest = (torch.cat(parts) for parts in zip(*found, strict=True))
        ctx.mark_non_differentiable(*rest)
        return kl, *rest

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, upstream: torch.Tensor, *_: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        student, teacher, places, others = ctx.saved_tensors
        gradient = torch.zeros_like(student)
        for own, other, weight in zip(
            places.split(ctx.block), others.split(ctx.block), upstream.split(ctx.block), strict=True
        ):
            change = _log_softmax(student, own, ctx.temperature).exp_()
            change -= _log_softmax(teacher, other, ctx.temperature).exp_()
            change *= (weight / ctx.temperature).unsqueeze(-1)
            gradient.index_copy_(0, own, change.to(gradient.dtype))
        return gradient, None, None, None, None, None, None


def _log_softmax(logits: torch.Tensor, rows: torch.Tensor, temperature: float) -> torch.Tensor:
    """Log-probabilities of some rows, in float32 or wider."""
    wide = torch.promote_types(logits.dtype, torch.float32)
    return torch.log_softmax(logits.index_select(0, rows).to(wide) / temperature, dim=-1)


def _figures(q: torch.Tensor, p: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """From log-probabilities of student and teacher, (tokens, vocabulary) each."""
    weights = p.exp()
    crossed = -torch.linalg.vecdot(weights, q)
    own = -torch.linalg.vecdot(weights, p)
    entropy = -torch.linalg.vecdot(q.exp(), q)
    return crossed - own, q.gather(-1, labels.unsqueeze(-1)).squeeze(-1), entropy, own
