"""What a user writes, read and checked: sums of rewards, decoding parameters.

>>> reward_terms("gamesolve=0.8,gt-prm=0.2")
[(0.8, 'gamesolve'), (0.2, 'gt-prm')]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from .types import Decoding, HarnessError, Json


def reward_terms(text: str) -> Sequence[tuple[float, str]]:
    """``a`` or ``a=0.8,b=0.2`` as (weight, name) pairs; the weights of a sum must make 1."""
    terms: list[tuple[float, str]] = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, equals, weight = part.partition("=")
        try:
            terms.append((float(weight) if equals else 1.0, name.strip()))
        except ValueError:
            raise HarnessError(f"--reward {text}: {weight!r} is no weight") from None
    if len(terms) > 1 and (
        any(w < 0 for w, _ in terms) or abs(sum(w for w, _ in terms) - 1.0) > 1e-9
    ):
        raise HarnessError(f"--reward {text}: the weights must be positive and sum to 1")
    if len(terms) == 1 and terms[0][0] != 1.0:
        raise HarnessError(f"--reward {text}: a single reward has the weight 1")
    return terms


def decoding_of(default: Decoding, changes: Mapping[str, Json]) -> Decoding:
    """The task's decoding with the user's changes. Raises HarnessError for impossible values."""
    decoding = replace(default, **changes)
    checks = (
        (decoding.temperature >= 0, "--temperature must be 0 (greedy) or more"),
        (0 < decoding.top_p <= 1, "--top-p must lie in (0, 1]"),
        (decoding.top_k >= 0, "--top-k must be 0 (off) or more"),
        (decoding.max_tokens >= 1, "--max-tokens must be at least 1"),
    )
    for holds, message in checks:
        if not holds:
            raise HarnessError(message)
    return decoding


def given_decoding(
    name: str, given: Mapping[str, Json], system: str | None, fewshot: int
) -> Decoding:
    """The decoding of replies that are there already (`Model.given`). Raises HarnessError where
    they were asked for in another way than this run says."""
    if (system, fewshot) != (given["system"], given["fewshot"]):
        raise HarnessError(
            f"{name}: its replies were asked for with --fewshot {given['fewshot']} and the system "
            f"message {given['system']!r}; give the same"
        )
    return Decoding(**{**given["decoding"], "stop": tuple(given["decoding"]["stop"])})
