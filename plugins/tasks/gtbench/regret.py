"""Move regret: each decision of a model beside the best one, where a solver knows it.

Tic-tac-toe (search), nim (nim sums), pig (value iteration), and connect four once at most `LATE`
squares are empty (alpha-beta on bit boards). Values are those of best play by both, from -1 to 1.

    decisions(outcome)[0]      # Decision(loss=2.0, optimal=False, random=0.5, critical=True, ...)

* ``optimal``: the share of decisions that keep the value of the position; ``optimal.critical``: of
  those in which some legal move would lose value; ``optimal.opening``, ``.middle``, ``.end`` by
  phase; ``regret``: the mean value lost by a decision. Giving up loses what is there to lose.
* ``random.*``: what random legal moves would get at the same decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from harness.stats import mean_metric
from harness.types import Json, Metric

from .games import pig
from .games.nim import PILES, piles
from .opponents import perfect, pig_table
from .replay import Step, steps

LATE = 12
"""Empty squares from which connect four is solved."""
PHASES = ("opening", "middle", "end")


class Decision(NamedTuple):
    """One decision: the value it lost, whether it kept all, the loss and share of optimal moves of
    random play, whether any legal move loses, and the phase."""

    loss: float
    optimal: bool
    random_loss: float
    random: float
    critical: bool
    phase: str


Values = tuple[Mapping[int, float], str]
"""What each legal action is worth to the seat that moves, and the phase."""


def decisions(data: Mapping[str, Json]) -> list[Decision]:
    """The model's decisions in an episode (`Outcome.data`); empty for games without a solver."""
    solve = SOLVERS.get(data["game"])
    if solve is None:
        return []
    found = []
    for step in steps(data):
        if step.seat != data["model_seat"] or step.how != "asked":
            continue
        solved = solve(step)
        if solved is not None:
            found.append(_judged(*solved, step.action))
    return found


def _judged(values: Mapping[int, float], phase: str, action: int | None) -> Decision:
    best, worst = max(values.values()), min(values.values())
    losses = [best - value for value in values.values()]
    loss = best + 1.0 if action is None else best - values[action]
    good = sum(x < 1e-9 for x in losses) / len(losses)
    return Decision(loss, loss < 1e-9, sum(losses) / len(losses), good, best - worst > 1e-9, phase)


def _tictactoe(step: Step) -> Values:
    cells = ["."] * 9
    for seat, action in step.position.moves:
        cells[action] = "x" if seat == step.seat else "o"
    text = "".join(cells)
    played = 9 - text.count(".")
    values = {a: float(perfect.worth(text, a)[0]) for a in step.legal}
    return values, PHASES[0 if played < 4 else 1 if played < 6 else 2]


def _nim(step: Step) -> Values:
    left = piles(step.position)
    values = {}
    for action in step.legal:
        less, pile = divmod(action, len(PILES))
        after = list(left)
        after[pile] -= less + 1
        values[action] = 1.0 if perfect.lost(after) else -1.0
    return values, PHASES[0 if sum(left) > 10 else 1 if sum(left) > 5 else 2]


def _pig(step: Step) -> Values:
    points, turn = pig.score(step.position)
    i, j = points[step.seat], points[1 - step.seat]
    table = pig_table.values()

    def at(own: int, other: int, total: int) -> float:
        return 1.0 if own + total >= pig.TARGET else table[own, other, total]

    wins = {
        pig.ROLL: pig_table.roll_value(at, i, j, turn),
        pig.STOP: 1.0 if i + turn >= pig.TARGET else 1.0 - at(j, i + turn, 0),
    }
    most = max(i + turn, j)
    phase = PHASES[0 if most < 7 else 1 if most < 14 else 2]
    return {a: 2.0 * wins[a] - 1.0 for a in step.legal}, phase


def _connect4(step: Step) -> Values | None:
    columns = [action for _, action in step.position.moves]
    if 42 - len(columns) > LATE:
        return None
    return {a: float(-four((*columns, a))) for a in step.legal}, PHASES[2]


WIDTH, HEIGHT = 7, 6
BOTTOM = sum(1 << (HEIGHT + 1) * c for c in range(WIDTH))
BOARD = BOTTOM * ((1 << HEIGHT) - 1)
ORDER = (3, 2, 4, 1, 5, 0, 6)


@lru_cache(maxsize=4096)
def four(columns: tuple[int, ...]) -> int:
    """The value of connect four to the player to move, after these columns: 1, 0 or -1."""
    boards, mask = [0, 0], 0
    for number, column in enumerate(columns):
        slot = (mask + (1 << (HEIGHT + 1) * column)) & ~mask & (BOARD | BOTTOM << HEIGHT)
        slot &= ((1 << HEIGHT) - 1) << (HEIGHT + 1) * column
        boards[number % 2] |= slot
        mask |= slot
    mover = len(columns) % 2
    if _has_four(boards[1 - mover]):
        return -1
    return _search(boards[mover], mask, -1, 1, {})


def _has_four(board: int) -> bool:
    for shift in (1, HEIGHT, HEIGHT + 1, HEIGHT + 2):
        pairs = board & board >> shift
        if pairs & pairs >> 2 * shift:
            return True
    return False


def _search(own: int, mask: int, low: int, high: int, known: dict[tuple[int, int], int]) -> int:
    """Alpha-beta for the player whose stones are ``own``; nobody has four yet."""
    if mask == BOARD:
        return 0
    if (own, mask) in known:
        return known[own, mask]
    start, best = low, -1
    slots = [(mask + BOTTOM) & BOARD & COLUMN[c] for c in ORDER]
    slots = [s for s in slots if s and not s & mask]
    if any(_has_four(own | s) for s in slots):
        best = 1
    else:
        for slot in slots:
            best = max(best, -_search(own ^ mask, mask | slot, -high, -low, known))
            low = max(low, best)
            if low >= high:
                break
    # Bounds are kept only where they are exact: inside the window, or at the ends of the scale.
    if start < best < high or best == 1 or (best == -1 and start <= -1):
        known[own, mask] = best
    return best


COLUMN = tuple(((1 << HEIGHT) - 1) << (HEIGHT + 1) * c for c in range(WIDTH))


SOLVERS: Mapping[str, Callable[[Step], Values | None]] = {
    "tictactoe": _tictactoe,
    "nim": _nim,
    "pig": _pig,
    "connect4": _connect4,
}


def figures(group: str, episodes: Sequence[tuple[str, Mapping[str, Json]]]) -> list[Metric]:
    """The figures of one game from (cluster, `Outcome.data`) of its episodes."""
    rows = [(cluster, d) for cluster, data in episodes for d in decisions(data)]
    found: list[Metric] = []

    def add(name: str, kept: Iterable[tuple[str, Decision]]) -> None:
        some = list(kept)
        if some:
            clusters = [cluster for cluster, _ in some]
            hits = [float(d.optimal) for _, d in some]
            found.append(mean_metric(name, hits, clusters, group))
            level = [d.random for _, d in some]
            found.append(mean_metric(f"random.{name}", level, clusters, group))

    add("optimal", rows)
    add("optimal.critical", (row for row in rows if row[1].critical))
    for phase in PHASES:
        add(f"optimal.{phase}", (row for row in rows if row[1].phase == phase))
    if rows:
        clusters = [cluster for cluster, _ in rows]
        note = "value lost by a decision, of a scale from -1 to 1"
        found.append(mean_metric("regret", [d.loss for _, d in rows], clusters, group, note))
        level = [d.random_loss for _, d in rows]
        found.append(mean_metric("random.regret", level, clusters, group))
    return found
