"""Drawing one item of a plan: candidates from the item's own seed until one fits.

Nothing is shared between items: the seed is a hash of the generator's version, the data seed and
the item's own name, so any item can be drawn alone, in any order, in any process. A candidate fits
when the question has the wanted answer (where the design balances answers), the game's bucket
belongs to the item's split, and its equilibria are of the item's stratum.

>>> from .presets import plan
>>> sample = draw_item(plan("gamesolve")[0], data_seed=1)
>>> sample.group, sample.truth["class"]
('nash/2x2/general/pure', 'pure')
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from harness.seeds import derive
from harness.types import HarnessError, Json, Sample

from .canonical import bucket, canonical
from .draws import SIGMA_PLACES, Draws, level
from .games import Game, Matrix, decimal
from .labels import CONTEXTS, draw_labels
from .presets import BUCKETS, ROLES, Item
from .samplers import draw_candidate, may_fit
from .solver import pure_equilibria, solve
from .truth import NASH_KINDS, difficulty, dominant, dominated, truth

GENERATOR: Final = "1"
"""The version of the generator; raise it whenever any item would come out differently."""
ATTEMPTS: Final = 1_000_000
"""Candidates before giving up: the rarest item of the presets takes some thousands."""


@dataclass(frozen=True, slots=True)
class _Draw:
    """An item with its stream of draws, and a name for its balanced factors."""

    item: Item
    draws: Draws
    key: tuple[object, ...]

    def level(self, levels: int, k: int, factor: str) -> int:
        return level(levels, k, *self.key, factor)


def draw_item(item: Item, data_seed: int) -> Sample:
    """The sample of an item. Raises HarnessError if no candidate fits (an impossible design)."""
    key = ("gamesolve", GENERATOR, data_seed, *item.key)
    draw = _Draw(item, Draws(derive(*key, item.k)), key)
    game, question = _search(draw)
    return _sample(draw, game, question)


def _search(draw: _Draw) -> tuple[Game, dict[str, Json]]:
    item, cell = draw.item, draw.item.cell
    for _ in range(ATTEMPTS):
        game = draw_candidate(
            draw.draws, cell.game_type, cell.m, cell.n, cell.payoffs, item.stratum
        )
        if game is None or not may_fit(game, item.stratum):
            continue
        question = _QUESTIONS[cell.kind](draw, game)
        if question is None or split_of(canonical(game)) != item.split:
            continue
        if not item.stratum or _suits(game, item.stratum):
            return _placed(draw, game), question
    raise HarnessError(f"no game found for {item.id}: the design asks for what hardly exists")


def split_of(identity: str) -> str:
    """The split that a canonical game belongs to, in every preset."""
    return BUCKETS[bucket(identity)]


def _suits(game: Game, stratum: str) -> bool:
    """Whether a game is of a stratum and, with finitely many equilibria, not one for which "every
    cell is an equilibrium" is a good answer: precision times recall of it is at most 1/3.

    That leaves out a few degenerate games, such as 2x2 games with two equilibria, both pure. With a
    continuum there is no choice: in 2x2 symmetric games at least three cells are equilibria then.
    """
    solution = solve(game)
    m, n = game.shape
    easy = 3 * len(solution.pure) ** 2 > m * n * len(solution.equilibria)
    return solution.stratum == stratum and (solution.continuum or not easy)


def _placed(draw: _Draw, game: Game) -> Game:
    """The game with its actions reordered so that over the items of a series one of the pure
    equilibria falls on each cell equally often: no cell is a good guess.

    The unique pure equilibrium of a symmetric game lies on the diagonal, so there the columns are
    shuffled first: rows and columns have names of their own, and no order is the natural one.
    """
    cell, serial = draw.item.cell, draw.item.serial
    if not cell.balanced or cell.kind not in NASH_KINDS:
        return game
    if cell.game_type == "symmetric":
        game = game.permuted(range(cell.m), draw.draws.order(cell.n))
    found = pure_equilibria(game)
    if not found:
        return game
    i, j = draw.draws.choice(found)
    # Diagonals first, then places on them, counted over all splits: even in short series too.
    key = (*draw.key[:-1], "place")
    shift = level(cell.n, serial, *key)
    row = level(cell.m, serial // cell.n, *key, shift)
    column = (row + shift) % cell.n
    return game.permuted(_exchange(cell.m, i, row), _exchange(cell.n, j, column))


def _exchange(n: int, one: int, other: int) -> list[int]:
    order = list(range(n))
    order[one], order[other] = other, one
    return order


def _sample(draw: _Draw, game: Game, question: dict[str, Json]) -> Sample:
    item, cell = draw.item, draw.item.cell
    row_labels, col_labels = draw_labels(draw.draws, cell.m, cell.n)
    data: dict[str, Json] = {
        "kind": cell.kind,
        "row": _shown(game.row, cell.payoffs.places),
        "col": _shown(game.col, cell.payoffs.places),
        "row_labels": row_labels,
        "col_labels": col_labels,
        "format": cell.formats[draw.level(len(cell.formats), item.k, "format")],
        "context": draw.draws.choice(CONTEXTS),
        "game_type": cell.game_type,
        **question,
    }
    return labelled(
        Sample(item.id, item.split, data, truth(data)),
        game,
        design=cell.name,
        category=cell.category,
    )


def labelled(sample: Sample, game: Game, design: str, category: str) -> Sample:
    """The sample with what follows from its data and truth: stratum, difficulty, identity."""
    data, answer = dict(sample.data), sample.truth
    stratum = ""
    if "class" in answer:
        stratum = "continuum" if answer["continuum"] else answer["class"]
    data |= {
        "design": design,
        "stratum": stratum,
        "category": category,
        "difficulty": difficulty(data, answer),
    }
    identity = canonical(game)
    group = f"{design}/{stratum}" if stratum else design
    return Sample(sample.id, sample.split, data, answer, group, identity, identity)


def _shown(matrix: Matrix, places: int) -> list[list[int | str]]:
    return [[decimal(int(x), places) for x in line] for line in matrix]


# Questions: what a kind adds to the game; None where the candidate's answer isn't the wanted one.


def _nash(draw: _Draw, game: Game) -> dict[str, Json]:
    return {}


def _best_response(draw: _Draw, game: Game) -> dict[str, Json] | None:
    responder, wanted, own = _responder(draw, game)
    sigma = draw.draws.strategy(len(own[0]))
    weights = [round_units(p) for p in sigma]
    values = [sum(w * x for w, x in zip(weights, line, strict=True)) for line in own]
    if wanted is not None and values[wanted] < max(values):
        return None
    return {"responder": responder, "sigma": sigma}


def round_units(probability: str) -> int:
    """A probability in 4 decimals as a whole number of ten-thousandths.

    >>> round_units("0.0625")
    625
    """
    return int(probability.replace(".", "", 1).ljust(SIGMA_PLACES + 1, "0"))


def _best_response_pure(draw: _Draw, game: Game) -> dict[str, Json] | None:
    responder, wanted, own = _responder(draw, game)
    action = draw.draws.below(len(own[0]))
    values = [line[action] for line in own]
    best = [i for i, value in enumerate(values) if value == max(values)]
    # Ties are frequent here and would make every constant answer right more often than chance.
    if wanted is not None and best != [wanted]:
        return None
    return {"responder": responder, "opponent_action": action}


def _responder(draw: _Draw, game: Game) -> tuple[str, int | None, Matrix]:
    """Who responds, which action should be best (None: any), and the responder's payoffs.

    Responders and best actions are balanced: a constant answer is right as often as chance.
    """
    cell, k = draw.item.cell, draw.item.k
    responder = cell.responders[draw.level(len(cell.responders), k, "responder")]
    own = game.own(responder)
    if not cell.balanced:
        return responder, None, own
    wanted = draw.level(len(own), k // len(cell.responders), f"best/{responder}")
    return responder, wanted, own


def _payoff(draw: _Draw, game: Game) -> dict[str, Json]:
    m, n = game.shape
    k = draw.item.k
    i, j = divmod(draw.level(m * n, k // 2, "profile"), n)
    return {"cell": [i, j], "player": ROLES[draw.level(2, k, "player")]}


def _dominance(draw: _Draw, game: Game) -> dict[str, Json] | None:
    k = draw.item.k
    player = ROLES[draw.level(2, k, "player")]
    own = game.own(player)
    case = draw.level(3 if len(own) == 2 else 4, k // 2, f"dominance/{player}")
    return {"player": player} if _has_case(own, case) else None


def _has_case(own: Matrix, case: int) -> bool:
    """Case 0: nothing is dominated. With two actions, case a + 1: action a dominates the other.
    With more, 1 and 2: something is dominated, nothing dominant; 3: an action is dominant."""
    best = dominant(own)
    if case == 0:
        return not dominated(own)
    if len(own) == 2:
        return best == case - 1
    if case == 3:
        return best is not None
    return best is None and bool(dominated(own))


_QUESTIONS: Final[dict[str, Callable[[_Draw, Game], dict[str, Json] | None]]] = {
    "nash": _nash,
    "pure_equilibria": _nash,
    "best_response": _best_response,
    "best_response_pure": _best_response_pure,
    "payoff": _payoff,
    "dominance": _dominance,
}
