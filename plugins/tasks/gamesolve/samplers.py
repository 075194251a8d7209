"""Random games of each type, and games of a wanted stratum by rejection.

Types: ``general`` (all payoffs independent), ``zero_sum``, ``symmetric`` (each player faces the
same game), ``coordination`` (each action has one strict best reply, and these match pairwise) and
``dominance`` (eliminating strictly dominated actions leaves one profile). A stratum says what kind
of equilibria there are: ``pure``, ``mixed``, ``both``, or a ``continuum`` of them.

Payoffs are drawn as whole units of the last decimal, so a game here is a matrix of ints.

>>> game = draw_game(Draws(1), "zero_sum", 2, 2, Payoffs(-5, 5))
>>> game.col == tuple(tuple(-x for x in line) for line in game.row)
True
>>> why_empty("symmetric", 2, 2, "mixed")
'a symmetric 2x2 game has a pure equilibrium'
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from harness.types import HarnessError

from .draws import Draws
from .games import Game
from .solver import pure_equilibria, solve

STRATA: Final = ("pure", "mixed", "both", "continuum")
PLANT_ABOVE: Final = 100
"""With more payoff values than this, equal payoffs are too rare to wait for; see `_planted`."""


@dataclass(frozen=True, slots=True)
class Payoffs:
    """Payoffs uniform between ``low`` and ``high`` in steps of 10**-places."""

    low: int
    high: int
    places: int = 0

    def draw(self, draws: Draws) -> int:
        """One payoff, in units of the last place."""
        return draws.between(self.low * self.unit, self.high * self.unit)

    def grid(self, draws: Draws, m: int, n: int) -> list[list[int]]:
        """An m x n matrix of them."""
        return [[self.draw(draws) for _ in range(n)] for _ in range(m)]

    @property
    def unit(self) -> int:
        """How many steps make 1."""
        return int(10**self.places)

    @property
    def values(self) -> int:
        """How many different payoffs there are."""
        return (self.high - self.low) * self.unit + 1


def draw_game(draws: Draws, game_type: str, m: int, n: int, payoffs: Payoffs) -> Game:
    """A game of a type. Raises HarnessError for a type or shape that does not exist."""
    if game_type not in GAME_TYPES:
        raise HarnessError(f"no game type {game_type!r}; choose one of {', '.join(GAME_TYPES)}")
    if game_type in SQUARE and m != n:
        raise HarnessError(f"{game_type} games are square; {m}x{n} is not")
    return _SAMPLERS[game_type](draws, m, n, payoffs)


def draw_candidate(
    draws: Draws, game_type: str, m: int, n: int, payoffs: Payoffs, stratum: str
) -> Game | None:
    """A game that may be of the stratum: not checked, but made likely. None: this draw failed."""
    game = draw_game(draws, game_type, m, n, payoffs)
    if stratum == "continuum" and payoffs.values > PLANT_ABOVE:
        return _planted(draws, game, game_type)
    return game


def may_fit(game: Game, stratum: str) -> bool:
    """A quick necessary condition for a stratum: whether there are pure equilibria or not."""
    if stratum == "mixed":
        return not pure_equilibria(game)
    return stratum not in ("pure", "both") or bool(pure_equilibria(game))


def fits(game: Game, stratum: str) -> bool:
    """Whether a game is of a stratum ("" is any)."""
    return not stratum or (may_fit(game, stratum) and solve(game).stratum == stratum)


def why_empty(game_type: str, m: int, n: int, stratum: str) -> str:
    """Why no game of this type and shape (2x2 or more) is of the stratum; "" if there are some."""
    if game_type == "zero_sum" and stratum == "both":
        return "the equilibria of a zero-sum game are one product set: either one, or a continuum"
    if game_type == "symmetric" and (m, n) == (2, 2) and stratum == "mixed":
        return "a symmetric 2x2 game has a pure equilibrium"
    if game_type == "dominance" and stratum != "pure":
        return "eliminating strictly dominated actions leaves one equilibrium, and it is pure"
    if game_type == "coordination" and stratum in ("pure", "mixed"):
        return "each matching pair of actions is an equilibrium, and so is some mixture of them"
    if game_type == "coordination" and (m, n) == (2, 2) and stratum == "continuum":
        return "with strict best replies a 2x2 coordination game has exactly three equilibria"
    return ""


def strata(game_type: str, m: int, n: int) -> tuple[str, ...]:
    """The strata that exist for a type and shape."""
    return tuple(s for s in STRATA if not why_empty(game_type, m, n, s))


def _general(draws: Draws, m: int, n: int, payoffs: Payoffs) -> Game:
    return _game(payoffs.grid(draws, m, n), payoffs.grid(draws, m, n))


def _zero_sum(draws: Draws, m: int, n: int, payoffs: Payoffs) -> Game:
    return _against(payoffs.grid(draws, m, n))


def _symmetric(draws: Draws, m: int, n: int, payoffs: Payoffs) -> Game:
    return _mirrored(payoffs.grid(draws, m, n))


def _coordination(draws: Draws, m: int, n: int, payoffs: Payoffs) -> Game:
    """Each line with its one greatest entry on the diagonal; then the columns are shuffled."""
    row = [_peaked(draws, j, m, payoffs) for j in range(n)]
    col = [_peaked(draws, i, n, payoffs) for i in range(m)]
    game = _game([list(line) for line in zip(*row, strict=True)], col)
    return game.permuted(range(m), draws.order(n))


def _peaked(draws: Draws, peak: int, n: int, payoffs: Payoffs) -> list[int]:
    """n payoffs of which the one at ``peak`` is greater than all others."""
    while True:
        line = [payoffs.draw(draws) for _ in range(n)]
        top = max(line)
        if line.count(top) == 1:
            at = line.index(top)
            line[at], line[peak] = line[peak], line[at]
            return line


def _dominance(draws: Draws, m: int, n: int, payoffs: Payoffs) -> Game:
    """Elimination run backwards: from one profile, actions are added that an action already there
    strictly dominates as long as the opponent has no more than what is there."""
    while True:
        own = [payoffs.grid(draws, m, n), payoffs.grid(draws, n, m)]
        alive = [[draws.below(m)], [draws.below(n)]]
        added = [(0, i) for i in range(m) if i != alive[0][0]]
        added += [(1, j) for j in range(n) if j != alive[1][0]]
        order = draws.order(len(added))
        if all(_add(draws, own, alive, *added[place], payoffs) for place in order):
            return _game(own[0], [list(line) for line in zip(*own[1], strict=True)])


def _add(
    draws: Draws,
    own: list[list[list[int]]],
    alive: list[list[int]],
    player: int,
    action: int,
    payoffs: Payoffs,
) -> bool:
    """Add a dominated action; False where its dominator has the least payoff already."""
    low = payoffs.low * payoffs.unit
    better = own[player][draws.choice(alive[player])]
    for other in alive[1 - player]:
        if better[other] == low:
            return False
        own[player][action][other] = draws.between(low, better[other] - 1)
    alive[player].append(action)
    return True


def _planted(draws: Draws, game: Game, game_type: str) -> Game | None:
    """The game with one payoff copied, so that at one of its pure equilibria a player is
    indifferent to another action; None without a pure equilibrium.

    The other player keeps a strict best reply there (in all but rare draws), so that mixing the two
    actions a little gives a continuum.
    """
    cells = pure_equilibria(game)
    if not cells:
        return None
    i, j = draws.choice(cells)
    row = [[int(x) for x in line] for line in game.row]
    col = [[int(x) for x in line] for line in game.col]
    if game_type == "general" and draws.below(2):
        other = draws.below(len(col[0]))
        col[i][other] = col[i][j]
        return _game(row, col)
    other = draws.below(len(row))
    row[other][j] = row[i][j]
    return _rebuilt(game_type, row, col)


def _rebuilt(game_type: str, row: list[list[int]], col: list[list[int]]) -> Game:
    """A game of the type around a changed matrix of the row player."""
    if game_type == "zero_sum":
        return _against(row)
    if game_type == "symmetric":
        return _mirrored(row)
    return _game(row, col)


def _game(row: list[list[int]], col: list[list[int]]) -> Game:
    return Game(tuple(map(tuple, row)), tuple(map(tuple, col)))


def _against(row: list[list[int]]) -> Game:
    return _game(row, [[-x for x in line] for line in row])


def _mirrored(row: list[list[int]]) -> Game:
    return _game(row, [list(line) for line in zip(*row, strict=True)])


_SAMPLERS: Final[dict[str, Callable[[Draws, int, int, Payoffs], Game]]] = {
    "general": _general,
    "zero_sum": _zero_sum,
    "symmetric": _symmetric,
    "coordination": _coordination,
    "dominance": _dominance,
}
GAME_TYPES: Final = tuple(_SAMPLERS)
SQUARE: Final = ("symmetric", "coordination")
