"""The listed environments and their adapters.

Sixteen with two players and six with one, of those that run offline. An adapter serves all variants
of its family (``Nim-v0-large`` too); the list names one of each.

>>> adapter("Nim-v0-large").family
'Nim-v0'
>>> adapter("Minesweeper-v0").listed
False
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from harness.types import HarnessError

from ..adapter import Adapter, Plain
from .boards import (
    Chopsticks,
    ConnectFour,
    Nim,
    Othello,
    TicTacToe,
    WildTicTacToe,
)
from .cards import GameOfPureStrategy, KuhnPoker, LiarsDice, PigDice
from .chance import Blackjack, Secretary
from .puzzles import FrozenLake, GuessTheNumber, LightsOut, Mastermind
from .repeated import (
    Blotto,
    MatchingPennies,
    PrisonersDilemma,
    RockPaperScissors,
    TwoThirds,
)
from .trade import SimpleNegotiation

REFERENCE: Final = (
    "TicTacToe-v0",
    "ConnectFour-v0",
    "Nim-v0",
    "KuhnPoker-v0",
    "IteratedPrisonersDilemma-v0",
    "SimpleNegotiation-v0",
)
"""The six of the reference study."""

TWO_PLAYER: Final = (
    *REFERENCE,
    "WildTicTacToe-v0",
    "Othello-v0-small",
    "Chopsticks-v0",
    "LiarsDice-v0-small",
    "PigDice-v0-50",
    "GameOfPureStrategy-v0",
    "ColonelBlotto-v0-small",
    "IteratedRockPaperScissors-v0",
    "IteratedMatchingPennies-v0",
    "IteratedTwoThirdsAverage-v0",
)

ONE_PLAYER: Final = (
    "GuessTheNumber-v0",
    "Mastermind-v0",
    "FrozenLake-v0",
    "LightsOut-v0",
    "Blackjack-v0",
    "Secretary-v0",
)

LISTED: Final = (*TWO_PLAYER, *ONE_PLAYER)

_FAMILIES: Final[dict[str, type[Adapter]]] = {
    made.family: made
    for made in (
        TicTacToe,
        ConnectFour,
        Nim,
        KuhnPoker,
        PrisonersDilemma,
        SimpleNegotiation,
        WildTicTacToe,
        Othello,
        Chopsticks,
        LiarsDice,
        PigDice,
        GameOfPureStrategy,
        Blotto,
        RockPaperScissors,
        MatchingPennies,
        TwoThirds,
        GuessTheNumber,
        Mastermind,
        FrozenLake,
        LightsOut,
        Blackjack,
        Secretary,
    )
}


@lru_cache(maxsize=256)
def adapter(name: str) -> Adapter:
    """The adapter of an environment; `Plain` for one that has none.

    Raises HarnessError for a name that differs from another by its wrappers only: no wrapper is
    used here.
    """
    if name.endswith(("-raw", "-train")):
        bare = name.rsplit("-", 1)[0]
        raise HarnessError(f"{name}: wrappers are not used here; name {bare}")
    for family, made in _FAMILIES.items():
        if name == family or name.startswith(f"{family}-"):
            return made()
    return Plain()


def table() -> str:
    """The listed environments as a table in Markdown; ``docs/textarena.md`` holds it."""
    rows = [
        "| environment | players | chance | best play | the reward pays | to know |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name in LISTED:
        made = adapter(name)
        chance = "during play" if made.draws else "at the start" if made.deals else ""
        limit = "as shipped it plays one turn more than its limit" if made.late_limit else ""
        wrong = f"**left out of averages: {made.wrong}**" if made.wrong else ""
        know = "; ".join(text for text in (wrong, made.note, limit) if text)
        best = "computed" if made.oracle else ""
        rows.append(f"| `{name}` | {made.seats} | {chance} | {best} | {made.reward} | {know} |")
    return "\n".join(rows)
