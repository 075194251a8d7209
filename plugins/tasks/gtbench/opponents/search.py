"""Tree search: OpenSpiel's C++ MCTS, in threads (it lets go of Python's lock while it searches).

Where nothing is hidden the bot searches the position. Where information is hidden it must not see
it: Kuhn poker is searched by information-set MCTS, the other games by searching several worlds
that agree with what the seat knows and adding up the visits (determinisation). A bot is made for
each turn with seeds from (rollout, seat, turn), so the result does not depend on what else runs.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from random import Random
from typing import Any

from harness.player import Player, Seat
from harness.seeds import derive
from harness.types import Reply, Turn

from ..position import SpielPosition
from ..view import View

OPEN = frozenset({"tictactoe", "connect4", "breakthrough", "nim", "pig"})
INFORMATION_SETS = frozenset({"kuhn_poker"})
DETERMINISED = frozenset({"first_sealed_auction", "liars_dice", "negotiation"})
HIDDEN = INFORMATION_SETS | DETERMINISED
PLAYS = OPEN | HIDDEN
"""Not the prisoner's dilemma: its rewards come in every round, which the bot cannot handle."""

EXPLORATION = 2.0
MEMORY_MB = 1000
WORLDS = 20


class SearchPlayer(Player):
    """Searches with a number of simulations before each move."""

    reads_messages = False
    __slots__ = ("seat", "seed", "simulations")

    def __init__(self, simulations: int, seat: Seat) -> None:
        self.simulations = simulations
        self.seed = seat.seed
        self.seat = seat.seat

    async def act(self, turn: Turn) -> Reply:
        view: View = turn.state
        seed = derive(self.seed, "search", self.seat, turn.number) % 2**31
        worlds = self._worlds(view, Random(seed))
        loop = asyncio.get_running_loop()
        action = await loop.run_in_executor(
            threads(), search, view.game.key, worlds, self.simulations, seed
        )
        return Reply(text=view.skin.say(action))

    def _worlds(self, view: View, rng: Random) -> list[Any]:
        if view.game.key in OPEN:
            position = view.open_position()
            assert isinstance(position, SpielPosition)
            return [position.state.clone()]
        count = 1
        if view.game.key in DETERMINISED:
            count = max(1, min(WORLDS, self.simulations // 10))
        return [view.world(rng).state for _ in range(count)]


def search(key: str, worlds: Sequence[Any], simulations: int, seed: int) -> int:
    """The chosen action in states that look the same to the player to move."""
    import pyspiel

    if key in INFORMATION_SETS:
        bot = pyspiel.ISMCTSBot(
            seed,
            pyspiel.RandomRolloutEvaluator(1, seed),
            EXPLORATION,
            simulations,
            -1,
            pyspiel.ISMCTSFinalPolicyType.MAX_VISIT_COUNT,
            False,
            False,
        )
        return int(bot.step(worlds[0]))
    if len(worlds) == 1:
        return int(_bot(worlds[0], simulations, seed).step(worlds[0]))
    visits: Counter[int] = Counter()
    for k, world in enumerate(worlds):
        root = _bot(world, simulations // len(worlds), seed + k).mcts_search(world)
        visits.update({int(child.action): child.explore_count for child in root.children})
    return min(visits, key=lambda action: (-visits[action], action))


def _bot(state: Any, simulations: int, seed: int) -> Any:
    import pyspiel

    return pyspiel.MCTSBot(
        state.get_game(),
        pyspiel.RandomRolloutEvaluator(1, seed),
        EXPLORATION,
        simulations,
        MEMORY_MB,
        True,
        seed,
        False,
    )


@lru_cache(maxsize=1)
def threads() -> ThreadPoolExecutor:
    """The threads that searches run in, one for each core."""
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="gtbench-search")
