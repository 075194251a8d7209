"""Games of several turns as rows of an update.

A game is shown anew at each turn (rules, moves so far, position), so its turns are no growing
conversation that one sequence could hold: each turn of the model is a row of its own, and the rows
of a rollout stand together as one episode.

    kuhn_3_0   [prompt of turn 0 | reply]    loss on the reply alone: what the opponent said is
    kuhn_3_1   [prompt of turn 1 | reply]    part of a later prompt, which carries none
    kuhn_4_0   ...

A row's name is ``PROMPT_ROLLOUT_TURN``. Every row is paid the episode's score; verl compares the
scores of a prompt's episodes (not of its rows) and gives each row its episode's advantage. What
`shares` adds: with ``loss_mean=seq-mean-token-mean`` an episode counts as one sequence, however
many turns it took.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

EPISODES: Final = "seq-mean-token-mean"
"""The mean of the loss in which each sequence counts the same, as verl names it."""


def prompt_of(key: str) -> str:
    """The prompt that a row belongs to."""
    return key.rsplit("_", 2)[0]


def episode_of(key: str) -> str:
    """The rollout that a row belongs to."""
    return key.rsplit("_", 1)[0]


def episodes(rows: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[tuple[str, Any]]:
    """(prompt, tag) of each rollout, once, from (key, tag) of its rows."""
    seen: set[str] = set()
    for key, tag in rows:
        if episode_of(key) not in seen:
            seen.add(episode_of(key))
            yield prompt_of(key), tag


def shares(keys: Sequence[str], tokens: Sequence[int]) -> list[float]:
    """Each row's share of the reply tokens of its rollout; they sum to 1 over its rows.

    verl takes the mean over a row's tokens, and sums over rows. With the advantage times this share
    the sum over the rows of an episode is the mean over all its tokens, as if they were one
    sequence: the clipped loss is linear in the size of the advantage.

    >>> shares(["u_0_0", "u_0_1", "u_1_0"], [3, 1, 5])
    [0.75, 0.25, 1.0]
    """
    whole: dict[str, int] = {}
    for key, count in zip(keys, tokens, strict=True):
        whole[episode_of(key)] = whole.get(episode_of(key), 0) + count
    return [count / whole[episode_of(key)] for key, count in zip(keys, tokens, strict=True)]
