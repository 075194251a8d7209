"""Probe heads for an auxiliary loss: linear heads on pooled prompt positions, in torch.

    heads = ProbeHeads(width=576, classes={"eq_type": 3, "dominance": 2}, layers=[17])
    pooled = pool_padded(hidden, mask, starts, ends, "mean")         # or pool_packed
    loss, figures = heads.loss({17: pooled}, labels)

A head is one linear layer for each concept and layer. The loss is the weighted mean over concepts
of their cross entropies; a label of -1 takes an item out of its concept. Sums and counts are
returned apart, so that several micro-batches or ranks can be put together exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import torch
from torch import nn

from ..types import HarnessError

POOLINGS: Final = ("last", "mean", "weighted")
"""What prompt positions can be pooled to."""


class ConceptSums(NamedTuple):
    """Sums over the items of a batch that have a label: cross entropy, right answers, items."""

    loss: torch.Tensor
    right: torch.Tensor
    count: torch.Tensor


class ProbeHeads(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """A linear head for each concept at each layer.

    :param width: of the hidden states.
    :param classes: concept -> number of classes.
    :param layers: the layers whose states are given.
    :param weights: concept -> weight in the loss (default: 1 each).
    :param seed: of the initialisation; torch's global random state is left as it was, and two
        modules with one seed are equal.

    Raises HarnessError for no concept, no layer, or a weight that is not positive.
    """

    def __init__(
        self,
        width: int,
        classes: Mapping[str, int],
        layers: Sequence[int],
        weights: Mapping[str, float] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if not classes or not layers or min(classes.values()) < 2:
            raise HarnessError("probe heads need a layer, and concepts of at least two classes")
        self.concepts = tuple(classes)
        self.layers = tuple(layers)
        self.classes = dict(classes)
        given = {name: float((weights or {}).get(name, 1.0)) for name in self.concepts}
        if any(not weight > 0 for weight in given.values()):
            raise HarnessError("the weight of a probe loss must be positive")
        self.weights = given
        self.heads = nn.ModuleDict()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            for layer in self.layers:
                for name in self.concepts:
                    self.heads[self._key(layer, name)] = nn.Linear(width, classes[name])

    @staticmethod
    def _key(layer: int, concept: str) -> str:
        return f"{layer}:{concept}".replace(".", "_")

    def logits(self, pooled: Mapping[int, torch.Tensor], concept: str) -> dict[int, torch.Tensor]:
        """Logits (items, classes) of a concept at each layer, from states (items, width)."""
        found = {}
        for layer in self.layers:
            head = self.heads[self._key(layer, concept)]
            found[layer] = head(pooled[layer].to(head.weight.dtype))
        return found

    def sums(
        self, pooled: Mapping[int, torch.Tensor], labels: Mapping[str, torch.Tensor]
    ) -> dict[str, ConceptSums]:
        """For each concept, sums over its labelled items and the layers' mean.

        :param pooled: layer -> states (items, width).
        :param labels: concept -> class indices (items,), -1 where there is none.

        Raises HarnessError for a concept without labels, and for labels beyond its classes.
        """
        found = {}
        for name in self.concepts:
            if name not in labels:
                raise HarnessError(f"the batch has no labels of the concept {name!r}")
            target = labels[name].long()
            valid = target >= 0
            if bool((target >= self.classes[name]).any()):
                raise HarnessError(
                    f"the concept {name!r} has {self.classes[name]} classes, and a label is "
                    f"{int(target.max())}"
                )
            losses, rights = [], []
            for logits in self.logits(pooled, name).values():
                each = nn.functional.cross_entropy(
                    logits.float(), target, ignore_index=-1, reduction="sum"
                )
                losses.append(each)
                rights.append(((logits.argmax(-1) == target) & valid).sum())
            found[name] = ConceptSums(
                torch.stack(losses).mean(), torch.stack(rights).float().mean(), valid.sum()
            )
        return found

    def combine(
        self, sums: Mapping[str, ConceptSums], counts: Mapping[str, float] | None = None
    ) -> torch.Tensor:
        """The loss: sum over concepts of weight x (loss / count), divided by the weights of the
        concepts that have an item. Without any it is 0, with a gradient of 0.

        ``counts`` replace the batch's own, as where a global batch is split: the parts' losses then
        add up to the loss of the whole.
        """
        # Every head has a gradient in every batch, so that ranks can add theirs up.
        total = 0.0 * torch.stack([found.loss for found in sums.values()]).sum()
        weight = 0.0
        for name, found in sums.items():
            count = float(found.count) if counts is None else float(counts[name])
            if count > 0:
                weight += self.weights[name]
                total = total + self.weights[name] * found.loss / count
        return total / weight if weight else total

    def loss(
        self, pooled: Mapping[int, torch.Tensor], labels: Mapping[str, torch.Tensor]
    ) -> tuple[torch.Tensor, dict[str, float]]:
        """The loss of a whole batch, and figures: ``probe/loss``, and of each concept that has an
        item ``probe/<concept>/{loss,accuracy,majority,count}``, where majority is the share of its
        most frequent class in the batch."""
        sums = self.sums(pooled, labels)
        total = self.combine(sums)
        figures = {"probe/loss": float(total.detach())}
        for name, found in sums.items():
            count = int(found.count)
            if count:
                valid = labels[name][labels[name] >= 0]
                figures |= {
                    f"probe/{name}/loss": float(found.loss.detach()) / count,
                    f"probe/{name}/accuracy": float(found.right) / count,
                    f"probe/{name}/majority": float(torch.bincount(valid.long()).max()) / count,
                    f"probe/{name}/count": count,
                }
        return total, figures


def position_weights(sizes: torch.Tensor, length: int, pooling: str) -> torch.Tensor:
    """Weights of the positions of prompts of these sizes, (prompts, length), float32, each of sum
    1 and 0 behind the prompt's end: all on the last; alike; or proportional to exp(2 j / (T - 1)).

    Raises HarnessError for another pooling, and for a prompt without positions.
    """
    if pooling not in POOLINGS:
        raise HarnessError(f"probe pooling {pooling!r} is none of {', '.join(POOLINGS)}")
    if bool((sizes < 1).any()):
        raise HarnessError("a prompt has no positions to pool")
    places = torch.arange(length, device=sizes.device)[None]
    inside = places < sizes[:, None]
    if pooling == "last":
        return (places == sizes[:, None] - 1).float()
    if pooling == "mean":
        return inside.float() / sizes[:, None]
    steps = 2 * places / (sizes[:, None] - 1).clamp(min=1)
    return torch.softmax(steps.float().masked_fill(~inside, -torch.inf), dim=-1)


def pool_padded(
    hidden: torch.Tensor, starts: torch.Tensor, ends: torch.Tensor, pooling: str
) -> torch.Tensor:
    """Pooled states (rows, width), float32, of a padded batch.

    :param hidden: (rows, length, width), padded on either side.
    :param starts: where each row's prompt begins, (rows,).
    :param ends: where it ends, one behind its last position, (rows,).
    """
    rows, length, width = hidden.shape
    first = torch.arange(rows, device=hidden.device) * length
    return _pooled(hidden.reshape(-1, width), first + starts, ends - starts, pooling)


def pool_packed(
    hidden: torch.Tensor, offsets: torch.Tensor, sizes: torch.Tensor, pooling: str
) -> torch.Tensor:
    """Pooled states (sequences, width), float32, of sequences that lie end to end.

    :param hidden: (positions, width), or (1, positions, width).
    :param offsets: where each sequence begins, (sequences,); it begins with its prompt.
    :param sizes: length of each prompt, (sequences,).
    """
    flat = hidden.reshape(-1, hidden.shape[-1])
    if bool((offsets + sizes > len(flat)).any()):
        raise HarnessError("a prompt reaches beyond the packed positions")
    return _pooled(flat, offsets, sizes, pooling)


def _pooled(
    flat: torch.Tensor, starts: torch.Tensor, sizes: torch.Tensor, pooling: str
) -> torch.Tensor:
    """Of sequences that begin at these rows of ``flat``; the gradient is no larger than that."""
    longest = int(sizes.max())
    places = starts[:, None] + torch.arange(longest, device=flat.device)[None]
    states = flat[places.clamp(max=len(flat) - 1)].float()
    return torch.bmm(position_weights(sizes, longest, pooling)[:, None], states)[:, 0]
