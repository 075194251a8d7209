"""Seeds and random streams that depend on names, never on the order of calls.

A seed is a hash of everything that identifies its use, so item 7 is the same whether or not item 6
was ever made, on every platform and library version.

>>> derive("run", 1, "sample-3") == derive("run", 1, "sample-3")
True
>>> Streams(7).uniform("deal", 0) == Streams(7).uniform("deal", 0)
True
"""

from __future__ import annotations

import hashlib
import random


def derive(*parts: object) -> int:
    """A 63-bit seed from the text of the parts (BLAKE2b, 8 bytes; parts joined by a separator)."""
    text = "\x1f".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


class Streams:
    """Counter-based random numbers of one rollout, each named by a key.

    ``uniform`` and ``below`` hash the key (for chance events: the same key gives the same draw
    whatever was drawn before); ``stream`` gives a ``random.Random`` for longer use.
    """

    __slots__ = ("seed",)

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def uniform(self, *key: object) -> float:
        """A number in [0, 1) with 53 random bits."""
        return (derive(self.seed, *key) >> 10) / (1 << 53)

    def below(self, n: int, *key: object) -> int:
        """A whole number in [0, n). Bias below 2**-50 for n under 8,192."""
        return derive(self.seed, *key) % n

    def stream(self, *key: object) -> random.Random:
        """A generator of its own for this key."""
        return random.Random(derive(self.seed, *key))
