"""Token lengths before training: what is too long is an error, or leaves by a declared filter.

    audit = Lengths.of("prompt", ids_and_counts, limit=1024)
    print(audit.line())      # prompt tokens: 1,922 items, p50 301, p95 612, p99 744, max 803, ...

Nothing is ever cut: a prompt without its end asks another question.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ..types import HarnessError, Json

POLICIES: Final = ("error", "filter")
SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Lengths:
    """Counts of one kind of text: ``limit`` tokens at most (0: none), ``offenders`` are longer."""

    what: str
    count: int
    p50: int
    p95: int
    p99: int
    longest: int
    limit: int
    offenders: tuple[str, ...]

    @classmethod
    def of(cls, what: str, counts: Iterable[tuple[str, int]], limit: int = 0) -> Lengths:
        """From (id, tokens) pairs. Percentiles are the smallest length that covers the share."""
        rows = list(counts)
        lengths = sorted(n for _, n in rows) or [0]
        p50, p95, p99 = (lengths[-(-share * len(lengths) // 100) - 1] for share in (50, 95, 99))
        over = tuple(name for name, n in rows if limit and n > limit)
        return cls(what, len(rows), p50, p95, p99, lengths[-1], limit, over)

    def line(self) -> str:
        """One line for the user."""
        text = (
            f"{self.what} tokens: {self.count:,} items, p50 {self.p50:,}, p95 {self.p95:,}, "
            f"p99 {self.p99:,}, max {self.longest:,}"
        )
        if self.limit:
            text += f", limit {self.limit:,}, {len(self.offenders)} over it"
        return text

    def json(self) -> dict[str, Json]:
        """For training.json."""
        return {
            "count": self.count,
            "p50": self.p50,
            "p95": self.p95,
            "p99": self.p99,
            "max": self.longest,
            "limit": self.limit,
            "offenders": len(self.offenders),
        }


def overlong(audits: Mapping[str, Lengths], policy: str) -> frozenset[str]:
    """Ids that leave by the filter; empty when all fit.

    Raises HarnessError under the policy ``error`` when an item is too long.
    """
    if policy not in POLICIES:
        raise HarnessError(f"data.overlong {policy!r}: choose error or filter")
    for audit in audits.values():
        if audit.offenders and policy == "error":
            some = ", ".join(audit.offenders[:SHOWN])
            raise HarnessError(
                f"{len(audit.offenders)} of {audit.count} items have more than {audit.limit} "
                f"{audit.what} tokens (at most {audit.longest}; {some}); raise the limit, or let "
                "them go with data.overlong=filter"
            )
    return frozenset(name for audit in audits.values() for name in audit.offenders)
