"""An adapter: what the harness must know of an environment to play it honestly.

For each listed environment it gives the legal moves from the game's state, the one canonical token
of a move, what a seat may see beyond the environment's messages, and what the rewards mean.
The smallest one:

    class Nim(Adapter):
        family = "Nim-v0"
        pattern = r"(-?\\d{1,4})\\s{1,4}(-?\\d{1,4})"

        def canonical(self, found):
            return f"[{int(found[1])} {int(found[2])}]"

        def legal(self, env, seat):
            piles = env.state.game_state["piles"]
            return tuple(f"[{i} {q}]" for i, n in enumerate(piles) for q in range(1, n + 1))

An adapter holds no state of an episode; ``env`` is the running environment without wrappers. No
adapter imports the library, so scores can be read where it is not installed.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from harness.parsing import plain
from harness.types import Json


class Adapter:
    """How one family of environments is played.

    ``family`` is the id that all its variants begin with. ``lowest`` and ``highest`` bound the
    environment's rewards. ``wrong`` says why its results must not enter an average ("": sound);
    ``note`` what a reader should know. ``late_limit``: as shipped it plays one turn more than its
    limit (``late_told``: than it announces). ``deals``: its start is random; ``draws``: it
    draws random numbers during play.
    ``openings``: its first moves may be drawn at random, for there is no chance in it. ``talks``:
    players speak to each other. ``board``: its last board is shown. ``form`` tells how a move is
    written, without favouring one. ``pattern`` matches what stands between the brackets of a move,
    lower case, plain characters. ``oracle``: best play is computed.
    """

    family: ClassVar[str] = ""
    listed: ClassVar[bool] = True
    seats: ClassVar[int] = 2
    lowest: ClassVar[float] = -1.0
    highest: ClassVar[float] = 1.0
    reward: ClassVar[str] = "1 for a win, 0 for a draw, -1 for a loss"
    wrong: ClassVar[str] = ""
    note: ClassVar[str] = ""
    late_limit: ClassVar[bool] = False
    late_told: ClassVar[bool] = False
    deals: ClassVar[bool] = False
    draws: ClassVar[bool] = False
    openings: ClassVar[bool] = False
    talks: ClassVar[bool] = False
    board: ClassVar[bool] = True
    rules: ClassVar[str] = ""
    form: ClassVar[str] = "[move]"
    pattern: ClassVar[str] = ""
    oracle: ClassVar[bool] = False

    # Moves

    def legal(self, env: Any, seat: int) -> tuple[str, ...] | None:
        """The canonical tokens of all legal moves; None where they are too many to list."""
        raise NotImplementedError

    def permits(self, env: Any, seat: int, move: str) -> bool:
        """Whether a canonical token is legal now."""
        listed = self.legal(env, seat)
        return listed is not None and move in listed

    def canonical(self, found: re.Match[str]) -> str:
        """The canonical token of a match of ``pattern``; no number or word becomes another."""
        raise NotImplementedError

    def read(self, inner: str) -> str | None:
        """The canonical token of what stands between brackets; None if it is no move."""
        found = self._pattern.fullmatch(plain(inner).strip().lower())
        return None if found is None else self.canonical(found)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self.pattern)

    def describe(self, env: Any, seat: int) -> str:
        """The legal moves in words."""
        return "Legal moves: " + ", ".join(self.legal(env, seat) or ())

    # Telling

    def view(self, env: Any, seat: int) -> str:
        """What the seat may know of the position and the environment does not tell it."""
        return ""

    def told(self, env: Any) -> str:
        """Rules that the environment plays and does not tell."""
        return self.rules

    def talking(self, env: Any) -> bool:
        """Whether the turn is for talk: any text is legal."""
        return False

    def forced(self, env: Any, seat: int) -> str:
        """What is passed on without asking, where a seat has no choice ("": ask)."""
        return ""

    # Playing

    def reset(self, env: Any, seats: int, seed: int) -> None:
        """Begin the episode."""
        env.reset(num_players=seats, seed=seed)

    def after(self, env: Any, seat: int, action: str, repair: bool) -> None:
        """Called after each action, for what the environment leaves undone."""

    def guess(self, env: Any, seat: int, rng: random.Random) -> str:
        """A random legal move."""
        return rng.choice(self.legal(env, seat) or ("",))

    def best(self, env: Any, seat: int, rng: random.Random) -> str:
        """The move of a perfect player who knows what the seat knows (where ``oracle``)."""
        raise NotImplementedError

    # Scoring

    def payoff(self, reward: float) -> float:
        """A reward as a number in [0, 1]."""
        share = (reward - self.lowest) / (self.highest - self.lowest)
        return min(1.0, max(0.0, share))

    def values(self, rewards: Sequence[float]) -> tuple[float, ...]:
        """The rewards of all seats as numbers in [0, 1]."""
        return tuple(map(self.payoff, rewards))

    def figures(self, env: Any) -> Mapping[str, Json]:
        """Figures of the final position for the record: points, gains."""
        return {}

    def reason_left_out(self, repair: bool) -> str:
        """Why results of this environment stay out of averages ("" if they count)."""
        if self.wrong:
            return self.wrong
        if self.late_told and not repair:
            return "plays one turn more than it announces"
        return ""


class Plain(Adapter):
    """An environment without an adapter: whatever stands in the last brackets is passed on, and
    the environment alone judges it. There are no random baseline and no oracle."""

    listed = False
    seats = 0
    board = False
    talks = True
    reward = "as the environment pays; the highest wins"
    note = "no adapter: legality is judged by the environment, no random baseline"
    pattern = r"[^\[\]]{1,1000}"

    def legal(self, env: Any, seat: int) -> tuple[str, ...] | None:
        return None

    def permits(self, env: Any, seat: int, move: str) -> bool:
        return True

    def read(self, inner: str) -> str | None:
        text = plain(inner).strip()
        return f"[{text}]" if text else None

    def describe(self, env: Any, seat: int) -> str:
        return ""

    def values(self, rewards: Sequence[float]) -> tuple[float, ...]:
        """One player: the reward, cut to [0, 1]. Several: 1 for the highest alone, else 0, and 1/2
        for each of those who share it (ranges and signs of foreign rewards are not known)."""
        if len(rewards) == 1:
            return (min(1.0, max(0.0, rewards[0])),)
        top = max(rewards)
        share = 1.0 if rewards.count(top) == 1 else 0.5
        return tuple(share if reward == top else 0.0 for reward in rewards)
