"""Pilots: a part of a split in whole clusters, the same whatever order the items come in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

from ..types import HarnessError, Sample

SELECTION: Final = "pilot-1"
"""Part of every rank: raise it when the ranking changes."""


def pilot(samples: Iterable[Sample], clusters: int, seed: int = 0) -> list[Sample]:
    """The samples of ``clusters`` complete clusters (pairs) of each group, in their own order.

    Clusters are ranked by SHA-256 of (seed, group, cluster). A cluster is complete when it is as
    large as the largest of its group. Raises HarnessError where a group has too few.
    """
    rows = list(samples)
    sizes: dict[str, dict[str, int]] = {}
    for sample in rows:
        found = sizes.setdefault(sample.group, {})
        cluster = sample.cluster or sample.id
        found[cluster] = found.get(cluster, 0) + 1
    chosen: set[tuple[str, str]] = set()
    for group, counts in sizes.items():
        full = max(counts.values())
        complete = sorted(
            (c for c, size in counts.items() if size == full), key=lambda c: rank(seed, group, c)
        )
        if len(complete) < clusters:
            raise HarnessError(
                f"a pilot of {clusters} clusters a group: {group or 'the data'} has "
                f"{len(complete)} complete ones"
            )
        chosen |= {(group, cluster) for cluster in complete[:clusters]}
    return [s for s in rows if (s.group, s.cluster or s.id) in chosen]


def rank(seed: int, *names: str) -> bytes:
    """A place in an order that nothing but the names and the seed decides."""
    return hashlib.sha256("\0".join((SELECTION, str(seed), *names)).encode()).digest()
