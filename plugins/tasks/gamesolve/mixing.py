"""Mixed equilibria, derived: indifference equations written down, solved, and checked.

A mixed strategy is found from the other player's payoffs: the actions that the other one uses must
pay the same. For two unknowns that is one equation; more are solved by elimination. Which supports
to try is known from the exact truth; in small games the supports that fail are shown with the
reason.

>>> strategies = solved([[Fraction(2), Fraction(-1)]])
>>> [str(p) for p in strategies]
['1/3', '2/3']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, islice, product

from harness.types import Json

from .board import Board, linear, show
from .games import Number
from .text import both, start

SUPPORTS = 10
"""Up to this many pairs of supports the failing ones are shown one by one."""

Alive = tuple[list[int], list[int]]
Strategy = tuple[Fraction, ...]


def mixed_steps(board: Board, alive: Alive, truth: Mapping[str, Json]) -> Iterator[str]:
    """The steps to all equilibria that are not pure, among the actions that are left."""
    work = _Work(board)
    subsets = [_strategies(s) for s in truth["subsets"]]
    mixed = [s for s in subsets if not _one_cell(s)]
    for rows, cols in mixed:
        yield from work.subset(rows, cols)
    if min(map(len, alive)) == 1:
        if not mixed:
            yield _nothing_to_mix(board, alive)
        return
    if sum(1 for _ in islice(_supports(alive), SUPPORTS + 1)) > SUPPORTS:
        yield "The other pairs of supports give no equilibrium."
        return
    reasons = [reason for pair in _supports(alive) if (reason := _failure(board, pair))]
    yield from reasons
    if not mixed and not reasons:
        yield "No mixture of the actions that are left is an equilibrium."


def ruled_out(board: Board, alive: Alive) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The pairs of supports that the steps rule out one by one (none where there are too many)."""
    if min(map(len, alive)) == 1:
        return []
    pairs = list(islice(_supports(alive), SUPPORTS + 1))
    return [] if len(pairs) > SUPPORTS else [pair for pair in pairs if _failure(board, pair)]


def solved(equations: Sequence[Sequence[Number]]) -> Strategy | None:
    """The one solution of homogeneous equations in probabilities that sum to 1, which may be
    negative; None if there is none or more than one."""
    rows = [[*map(Fraction, line), Fraction(0)] for line in equations]
    width = len(rows[0]) - 1
    rows.append([Fraction(1)] * (width + 1))
    for column in range(width):
        pivot = next((k for k in range(column, len(rows)) if rows[k][column]), None)
        if pivot is None:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        lead = rows[column][column]
        rows[column] = [x / lead for x in rows[column]]
        for k, line in enumerate(rows):
            if k != column and line[column]:
                rows[k] = [x - line[column] * y for x, y in zip(line, rows[column], strict=True)]
    if any(line[-1] for line in rows[width:]):
        return None
    return tuple(line[-1] for line in rows[:width])


@dataclass(slots=True)
class _Work:
    """Derives strategies, each one once."""

    board: Board
    known: set[tuple[int, Strategy]] = field(default_factory=set)

    def subset(self, rows: list[Strategy], cols: list[Strategy]) -> Iterator[str]:
        """One maximal Nash subset: a single equilibrium or a continuum."""
        board = self.board
        if len(rows) == len(cols) == 1:
            uses = [_support_names(board, k, s[0]) for k, s in enumerate((rows, cols))]
            who = board.roles
            yield f"Mixed equilibrium: {who[0]} on {uses[0]}, {who[1]} on {uses[1]}."
        else:
            yield (
                f"Continuum of equilibria: {board.roles[0]} {_hull(board, 0, rows)}, and"
                f" {board.roles[1]} {_hull(board, 1, cols)}."
            )
        for player, strategies in ((1, cols), (0, rows)):
            for strategy in strategies:
                yield from self._derived(player, strategy)
        x, y = _vector(rows[0]), _vector(cols[0])
        pure = next(((x, y) for x in rows for y in cols if max(x) == 1 and max(y) == 1), None)
        if len(rows) == len(cols) == 1:
            yield f"Equilibrium: ({x}, {y})."
        elif pure is None:
            yield f"No point of it is pure; one of its extreme points is ({x}, {y})."
        else:
            cell = board.cell(pure[0].index(1), pure[1].index(1))
            yield f"The pure equilibrium {cell} is one of its extreme points."

    def _derived(self, player: int, strategy: Strategy) -> Iterator[str]:
        if (player, strategy) in self.known:
            return
        self.known.add((player, strategy))
        board, other = self.board, 1 - player
        pays = board.pays(other, strategy)
        best = [i for i, pay in enumerate(pays) if pay == max(pays)]
        support = [i for i, p in enumerate(strategy) if p]
        if len(support) == 2:
            yield from _one_equation(board, player, support, best)
        elif len(support) > 2:
            yield from _elimination(board, player, support, best)
        results = [f"{board.names[other][i]} {show(pay)}" for i, pay in enumerate(pays)]
        yield (
            f"Check: against {_vector(strategy)} of {board.roles[player]}, {board.roles[other]}"
            f" expects {both(results)}; best {both([board.names[other][i] for i in best])}."
        )


def _one_equation(
    board: Board, player: int, support: Sequence[int], best: Sequence[int]
) -> Iterator[str]:
    """t a + (1 - t) b = t c + (1 - t) d, solved for t, the probability of the first action."""
    own = board.own[1 - player]
    first, second = support
    i, k = next(
        (i, k)
        for i, k in combinations(best, 2)
        if own[i][first] - own[k][first] != own[i][second] - own[k][second]
    )
    a, b, c, d = own[i][first], own[i][second], own[k][first], own[k][second]
    names = board.names[1 - player]
    q, rest = board.chance(player, first), board.chance(player, second)
    factor, right = a - b - c + d, d - b
    value = Fraction(right) / factor
    yield (
        f"{start(board.roles[1 - player])} must be indifferent between {names[i]} and {names[k]}."
        f" With t = {q} and 1 - t = {rest}: {_side(a, b)} = {_side(c, d)}, so"
        f" {linear([factor], ['t'])} = {show(right)} and {q} = {value}, {rest} = {1 - value}."
    )


def _side(a: Number, b: Number) -> str:
    return linear([a, b], ["t", "(1 - t)"])


def _elimination(
    board: Board, player: int, support: Sequence[int], best: Sequence[int]
) -> Iterator[str]:
    """Several indifference equations, solved by elimination."""
    own, names = board.own[1 - player], board.names[1 - player]
    unknowns = [board.chance(player, s) for s in support]
    rows: list[list[Fraction]] = []
    for k in best[1:]:
        line = [Fraction(own[best[0]][s] - own[k][s]) for s in support]
        if _independent([*rows, [x - line[-1] for x in line[:-1]] + [-line[-1]]]):
            yield (
                f"{start(board.roles[1 - player])} must be indifferent between {names[best[0]]} and"
                f" {names[k]}: {linear(line, unknowns)} = 0."
            )
            rows.append([x - line[-1] for x in line[:-1]] + [-line[-1]])
        if len(rows) == len(support) - 1:
            break
    others = linear([-1] * (len(support) - 1), unknowns[:-1])
    yield f"With {unknowns[-1]} = 1 {others.replace('-', '- ', 1)}: {_equations(rows, unknowns)}."
    yield from _solving(rows, unknowns)


def _independent(rows: Sequence[Sequence[Fraction]]) -> bool:
    """Whether the left sides are linearly independent."""
    work = [list(line[:-1]) for line in rows]
    for place, line in enumerate(work):
        lead = next((k for k, x in enumerate(line) if x), None)
        if lead is None:
            return False
        for later in range(place + 1, len(work)):
            factor = work[later][lead] / line[lead]
            work[later] = [x - factor * y for x, y in zip(work[later], line, strict=True)]
    return True


def _equations(rows: Sequence[Sequence[Fraction]], unknowns: Sequence[str]) -> str:
    return "; ".join(
        f"{linear(line[:-1], unknowns[: len(line) - 1])} = {show(line[-1])}" for line in rows
    )


def _solving(rows: list[list[Fraction]], unknowns: Sequence[str]) -> Iterator[str]:
    rows = [list(line) for line in rows]
    width = len(rows)
    order: list[int] = []
    for place in range(width):
        lead = next(k for k, x in enumerate(rows[place][:-1]) if x)
        order.append(lead)
        changed = []
        for later in range(place + 1, width):
            factor = rows[later][lead] / rows[place][lead]
            if factor:
                rows[later] = [
                    x - factor * y for x, y in zip(rows[later], rows[place], strict=True)
                ]
                changed.append(rows[later])
        if changed:
            yield f"Eliminating {unknowns[lead]}: {_equations(changed, unknowns)}."
    values: dict[int, Fraction] = {}
    for place in reversed(range(width)):
        line, lead = rows[place], order[place]
        rest = sum((line[k] * v for k, v in values.items()), Fraction(0))
        values[lead] = (line[-1] - rest) / line[lead]
    values[width] = 1 - sum(values.values(), Fraction(0))
    back = [*reversed(order), width]
    yield f"So {', '.join(f'{unknowns[k]} = {values[k]}' for k in back)}."


# Supports that fail


def _supports(alive: Alive) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The pairs of supports of one size, two or more actions each."""
    for size in range(2, min(map(len, alive)) + 1):
        yield from product(combinations(alive[0], size), combinations(alive[1], size))


def _failure(board: Board, supports: tuple[tuple[int, ...], tuple[int, ...]]) -> str:
    """Why there is no equilibrium with these supports; "" if there is one, or where the equations
    leave a choice."""
    mixes: list[list[Fraction]] = []
    title = " with ".join(
        f"{{{', '.join(board.names[k][i] for i in supports[k])}}}" for k in (0, 1)
    )
    for player in (1, 0):
        mine, theirs = supports[player], supports[1 - player]
        own = board.own[1 - player]
        lines = [[own[theirs[0]][s] - own[i][s] for s in mine] for i in theirs[1:]]
        solution = solved(lines)
        if solution is None:
            return ""
        low = min(solution)
        if low <= 0:
            unknown = board.chance(player, mine[solution.index(low)])
            return (
                f"Supports {title}: indifference would need {unknown} = {low}, so no equilibrium."
            )
        mix = [Fraction(0)] * board.shape[player]
        for s, p in zip(mine, solution, strict=True):
            mix[s] = p
        mixes.append(mix)
    for player, mix in ((1, mixes[0]), (0, mixes[1])):
        pays = board.pays(1 - player, mix)
        inside = pays[supports[1 - player][0]]
        if max(pays) > inside:
            name = board.names[1 - player][pays.index(max(pays))]
            return (
                f"Supports {title}: against {_vector(mix)} of {board.roles[player]}, {name} would"
                f" pay {show(max(pays))} instead of {show(inside)}, so no equilibrium."
            )
    return ""


def _nothing_to_mix(board: Board, alive: Alive) -> str:
    if len(alive[0]) == len(alive[1]) == 1:
        return f"Only {board.cell(alive[0][0], alive[1][0])} is left, so there is nothing to mix."
    player = int(len(alive[1]) == 1)
    return (
        f"{start(board.roles[player])} has only {board.names[player][alive[player][0]]} left, and"
        f" {board.roles[1 - player]} has one best reply to it, so nobody mixes."
    )


def _strategies(subset: Mapping[str, Json]) -> tuple[list[Strategy], list[Strategy]]:
    rows, cols = (
        [tuple(map(Fraction, strategy)) for strategy in subset[side]] for side in ("rows", "cols")
    )
    return rows, cols


def _one_cell(subset: tuple[list[Strategy], list[Strategy]]) -> bool:
    return all(len(side) == 1 and max(side[0]) == 1 for side in subset)


def _support_names(board: Board, player: int, strategy: Strategy) -> str:
    return both([board.names[player][i] for i, p in enumerate(strategy) if p])


def _hull(board: Board, player: int, strategies: list[Strategy]) -> str:
    """``plays A`` or ``plays any mixture of [1, 0] and [1/2, 1/2]``."""
    if len(strategies) == 1:
        only = strategies[0]
        return f"plays {board.names[player][only.index(1)] if max(only) == 1 else _vector(only)}"
    return f"plays any mixture of {both([_vector(s) for s in strategies])}"


def _vector(strategy: Sequence[Fraction]) -> str:
    return f"[{', '.join(map(str, strategy))}]"
