"""Leaderboards: runs as one table of labels by figures, with what a reader must know of each.

    board = make_board(["runs"], baseline="smollm2")
    board.cells["oracle", "gamesolve:score"].value
    print(render(board, "md"))              # see harness.board.formats

Rows are labels, columns ``task:metric[group]``. Every figure comes with its interval; rows are
ranked by paired tests on common samples, and only where the protocol is the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from .board.arenas import ID, OOD, Arena, Column, expand, find_arenas, parse_columns
from .board.caption import caption
from .board.cells import Cell, Difference, gap, make_cell
from .board.places import StoredRun, find_runs
from .board.protocol import differences, majority, protocol
from .board.ranking import Array, adjust, pairwise, rank
from .board.rows import Members, find_rows
from .board.scores import PARSED, SCORE, Items, mean_without, spread_over_seeds
from .comparisons import paired_from_sums, unpaired, welch
from .contamination import canonical_hits, load_training
from .progress import track
from .stats import exact_interval
from .types import HarnessError

MOST_RANKED: Final = 400
"""Rows of a column that are ranked; more would be pairs without end."""


@dataclass(frozen=True, slots=True)
class Options:
    """What `harness leaderboard` was asked for.

    ``columns`` are presets or ``task:metric[group]``; ``labels`` (label, pattern) pairs;
    ``domains`` arena pattern -> ID, OOD or external; ``training`` label -> folder with its
    training.json; ``exact`` takes bootstrap-t intervals for the scores.
    """

    columns: tuple[str, ...] = ("overall",)
    labels: tuple[tuple[str, str], ...] = ()
    baseline: str = ""
    domains: Mapping[str, str] = field(default_factory=dict)
    training: Mapping[str, str] = field(default_factory=dict)
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Board:
    """A leaderboard. ``cells`` is keyed by (row, column key); ``gaps`` by (row, title);
    ``problems`` names broken run folders and training data that could not be checked."""

    rows: tuple[str, ...]
    columns: tuple[Column, ...]
    arenas: Mapping[str, Arena]
    cells: Mapping[tuple[str, str], Cell]
    gaps: Mapping[tuple[str, str], Cell]
    baseline: str
    caption: tuple[str, ...]
    problems: tuple[str, ...] = ()

    @property
    def gap_titles(self) -> tuple[str, ...]:
        """The ID-OOD gaps, in order."""
        return tuple(dict.fromkeys(title for _, title in self.gaps))


def make_board(
    paths: Iterable[str], options: Options | None = None, extra: Mapping[str, str] | None = None
) -> Board:
    """The leaderboard of all runs at these places (see `harness.board.places.find_runs`).

    :param extra: further columns of plugins, title -> ``task:metric[group]``.
    :raises HarnessError: for places without runs, unknown columns, labels or baseline.
    """
    chosen = options or Options()
    unreadable: list[str] = []
    runs = find_runs(paths, unreadable)
    by_run = find_arenas(runs, chosen.domains)
    members = find_rows(runs, by_run, chosen.labels)
    rows = tuple(sorted({row for row, _ in members}))
    if chosen.baseline and chosen.baseline not in rows:
        raise HarnessError(f"--baseline {chosen.baseline}: no such row; rows: {', '.join(rows)}")
    known = _known(runs, by_run)
    wanted = parse_columns(chosen.columns)
    columns = expand(wanted, known)
    columns += [
        replaced
        for title, text in (extra or {}).items()
        if (replaced := Column.parse(f"{title}={text}")).key not in {c.key for c in columns}
        and any(k.key == replaced.key for k in known)
    ]
    arenas = {arena.name: arena for arena in by_run.values()}
    order = {domain: i for i, domain in enumerate(("", ID, OOD, "external"))}
    columns.sort(key=lambda c: order.get(arenas[c.task].domain, 9))
    maker = _Maker(members, chosen)
    cells = maker.cells(rows, columns)
    rows = _by_score(rows, columns, cells)
    problems = {**maker.problems, **{f"not shown: {text}": None for text in unreadable}}
    return Board(
        rows,
        tuple(columns),
        arenas,
        cells,
        _gaps(rows, columns, arenas, cells),
        chosen.baseline,
        caption(members, columns, arenas, cells, chosen, tuple(problems)),
        tuple(problems),
    )


def _known(runs: Sequence[StoredRun], arenas: Mapping[str, Arena]) -> list[Column]:
    """All columns that some run has, tasks by name, the overall figures of each first."""
    found: dict[str, dict[tuple[str, str], None]] = {}
    for run in runs:
        name = arenas[run.manifest["hash"]].name
        seen = found.setdefault(name, {(SCORE, ""): None})
        for row in run.metrics["metrics"] if run.metrics else ():
            seen.setdefault((row["name"], row["group"]))
    return [
        Column("", task, metric, group)
        for task in sorted(found)
        for metric, group in sorted(found[task], key=lambda key: key[1] != "")
    ]


def _by_score(
    rows: Sequence[str], columns: Sequence[Column], cells: Mapping[tuple[str, str], Cell]
) -> tuple[str, ...]:
    """Best first, by the mean rank over the columns that a row has; what is not ranked, last."""
    places: dict[str, list[float]] = {row: [] for row in rows}
    ranked = {row for (row, _), cell in cells.items() if cell.rankable}
    for column in columns:
        values = {
            row: cell.value
            for row in rows
            if (cell := cells.get((row, column.key))) and cell.value is not None
        }
        for row, value in values.items():
            better = sum(v > value for v in values.values())
            places[row].append(better / max(1, len(values)))
    means = {row: sum(p) / len(p) if p else math.inf for row, p in places.items()}
    return tuple(sorted(rows, key=lambda row: (row not in ranked, means[row], row)))


def _gaps(
    rows: Sequence[str],
    columns: Sequence[Column],
    arenas: Mapping[str, Arena],
    cells: Mapping[tuple[str, str], Cell],
) -> dict[tuple[str, str], Cell]:
    """ID minus OOD for each pair of columns of one task, metric and group."""
    gaps: dict[tuple[str, str], Cell] = {}
    for inside in columns:
        for outside in columns:
            one, other = arenas[inside.task], arenas[outside.task]
            same = (one.family, inside.metric, inside.group) == (
                other.family,
                outside.metric,
                outside.group,
            )
            if not same or (one.domain, other.domain) != (ID, OOD):
                continue
            title = f"{inside.key} - {other.name}"
            for row in rows:
                cell = gap(cells.get((row, inside.key)), cells.get((row, outside.key)))
                if cell is not None:
                    gaps[row, title] = cell
    return gaps


class _Maker:
    """Makes the cells of one column after another; keeps the records of one arena at a time."""

    def __init__(self, members: Members, options: Options) -> None:
        self.members = members
        self.options = options
        self.differs: dict[str, dict[str, tuple[str, ...]]] = {}
        self.clean: dict[tuple[str, str], tuple[int, float | None]] = {}
        self.problems: dict[str, None] = {}

    def cells(self, rows: Sequence[str], columns: Sequence[Column]) -> dict[tuple[str, str], Cell]:
        made: dict[tuple[str, str], Cell] = {}
        by_arena: dict[str, list[Column]] = {}
        for column in columns:
            by_arena.setdefault(column.task, []).append(column)
        for arena, own in track(by_arena.items(), "tables", len(by_arena)):
            present = [row for row in rows if (row, arena) in self.members]
            self._contamination(arena, present)
            scores: dict[str, tuple[Items, dict[str, Array]]] = {}
            for column in own:
                found = {
                    row: self._marked(cell, row, arena)
                    for row in present
                    if (cell := make_cell(self.members[row, arena], column)) is not None
                }
                found = self._compared(found, column, scores)
                made |= {(row, column.key): cell for row, cell in found.items()}
        return made

    def _marked(self, cell: Cell, row: str, arena: str) -> Cell:
        """The cell with what its protocol and its training data say."""
        if arena not in self.differs:
            self.differs[arena] = _protocol_differences(
                [r for (_, a), group in sorted(self.members.items()) if a == arena for r in group]
            )
        found = self.differs[arena]
        parts = [part for run in self.members[row, arena] for part in found[run.manifest["hash"]]]
        items, clean = self.clean.get((row, arena), (None, None))
        return replace(cell, differs=tuple(dict.fromkeys(parts)), contaminated=items, clean=clean)

    def _contamination(self, arena: str, rows: Sequence[str]) -> None:
        """Count the items of each row that its checkpoints were trained on."""
        for row in rows:
            for run in self.members[row, arena]:
                training = load_training(run, self.options.training.get(row), text=False)
                if training is None or not run.finished:
                    continue
                if training.problems:
                    found = "; ".join(training.problems)
                    self.problems[f"contamination of {row} is not known: {found}"] = None
                    continue
                hits = canonical_hits(run, training).canonical
                before, _ = self.clean.get((row, arena), (0, None))
                clean = mean_without(run, hits) if hits else None
                self.clean[row, arena] = (before + len(hits), clean)

    def _compared(
        self,
        cells: dict[str, Cell],
        column: Column,
        scores: dict[str, tuple[Items, dict[str, Array]]],
    ) -> dict[str, Cell]:
        """The cells with ranks, differences to the baseline, and exact intervals if asked for."""
        items, arrays = self._scores(cells, column, scores)
        chosen = items.inside(column.group)
        if not _agrees(cells, arrays, chosen):
            return self._unpaired(cells)
        cells = {
            row: self._spread(cell, row, column, items, arrays.get(row), chosen)
            for row, cell in cells.items()
        }
        ranked = [row for row, cell in cells.items() if cell.rankable and row in arrays]
        if 1 < len(ranked) <= MOST_RANKED:
            matrix = items.stack([arrays[row] for row in ranked])[:, chosen]
            p = pairwise(matrix, items.clusters[chosen])
            p = adjust(self._over_seeds(p, ranked, column))
            values = [cells[row].value or 0.0 for row in ranked]
            for row, place, letters in zip(ranked, *rank(values, p), strict=True):
                cells[row] = replace(cells[row], rank=place, letters=letters)
        return self._with_differences(cells, column, items, arrays, chosen)

    def _scores(
        self,
        cells: Mapping[str, Cell],
        column: Column,
        scores: dict[str, tuple[Items, dict[str, Array]]],
    ) -> tuple[Items, dict[str, Array]]:
        """The figures of every row by sample; read once for each metric of an arena."""
        if column.metric not in scores:
            items = Items()
            arrays: dict[str, Array] = {}
            for row in sorted(row for row, arena in self.members if arena == column.task):
                runs = [r for r in self.members[row, column.task] if r.finished]
                found = [items.add(run, column.metric) for run in runs]
                if found:
                    stacked = items.stack(found)
                    arrays[row] = _mean_over_runs(stacked)
            if column.metric not in (SCORE, PARSED):
                arrays = {row: a for row, a in arrays.items() if not np.isnan(a).all()}
            scores[column.metric] = (items, arrays)
        items, arrays = scores[column.metric]
        return items, {row: arrays[row] for row in cells if row in arrays}

    def _spread(
        self,
        cell: Cell,
        row: str,
        column: Column,
        items: Items,
        array: Array | None,
        chosen: Array,
    ) -> Cell:
        """Bootstrap-t interval with ``--exact``; spread over the seeds of a single run."""
        runs = self.members[row, column.task]
        whole = column.metric == SCORE and not column.group and len(runs) == 1
        if whole and cell.seeds > 1:
            cell = replace(cell, sd=spread_over_seeds(runs[0]))
        if self.options.exact and cell.low is not None and cell.runs == 1 and array is not None:
            keep = chosen[: len(array)] & ~np.isnan(array)
            clusters = [str(c) for c in items.clusters[: len(array)][keep]]
            low, high = exact_interval(array[keep].tolist(), clusters)
            cell = replace(cell, low=low, high=high, note="bootstrap-t over clusters")
        return cell

    def _over_seeds(self, p: Array, rows: Sequence[str], column: Column) -> Array:
        """Rows of several runs each are compared run by run: the seed is what varies."""
        values = {row: self._run_values(row, column) for row in rows}
        for i, one in enumerate(rows):
            for j, other in enumerate(rows[:i]):
                if len(values[one]) > 1 and len(values[other]) > 1:
                    p[i, j] = p[j, i] = welch(values[one], values[other]).p
        return p

    def _run_values(self, row: str, column: Column) -> list[float]:
        """The figure of each run of a row; empty for a row of one run."""
        runs = self.members[row, column.task]
        cells = [make_cell([run], column) for run in runs] if len(runs) > 1 else []
        return [c.value for c in cells if c is not None and c.value is not None]

    def _with_differences(
        self,
        cells: dict[str, Cell],
        column: Column,
        items: Items,
        arrays: Mapping[str, Array],
        chosen: Array,
    ) -> dict[str, Cell]:
        base = self.options.baseline
        if base not in cells or base not in arrays or cells[base].differs:
            return cells
        matrix = items.stack([arrays[base]])[0]
        of_base = self._run_values(base, column)
        for row in [r for r in cells if r != base and r in arrays and not cells[r].differs]:
            own = self._run_values(row, column)
            if len(own) > 1 and len(of_base) > 1:
                test = welch(own, of_base)
                seen = Difference(test.difference, test.low, test.high, test.p, "over runs")
                cells[row] = replace(cells[row], difference=seen)
                continue
            sums, sizes = items.sums(items.stack([arrays[row]])[0] - matrix, chosen)
            if len(sums):
                found = paired_from_sums(sums, sizes)
                difference = Difference(found.difference, found.low, found.high, found.p, "paired")
                cells[row] = replace(cells[row], difference=difference)
        return cells

    def _unpaired(self, cells: dict[str, Cell]) -> dict[str, Cell]:
        """Differences of figures that the records do not split: from the two intervals."""
        base = cells.get(self.options.baseline)
        if base is None or base.value is None or base.differs:
            return cells
        for row, cell in cells.items():
            if cell is base or cell.value is None or cell.differs:
                continue
            interval = unpaired(
                (cell.value, cell.low, cell.high), (base.value, base.low, base.high)
            )
            found = Difference(cell.value - base.value, *interval, None, "unpaired")
            cells[row] = replace(cell, difference=found)
        return cells


def _protocol_differences(runs: Sequence[StoredRun]) -> dict[str, tuple[str, ...]]:
    """In what each run of an arena differs from the usual protocol, by the run's hash."""
    found = {run.manifest["hash"]: protocol(run) for run in runs}
    everyone = list(found.values())
    reference = majority(everyone)
    return {key: differences(own, reference, everyone) for key, own in found.items()}


def _agrees(cells: Mapping[str, Cell], arrays: Mapping[str, Array], chosen: Array) -> bool:
    """Whether the figures of the complete rows are the means of the chosen samples: the records
    cannot tell who belongs to a group that a task forms by facts of its own."""
    if not arrays or not chosen.any():
        return False
    for row, array in arrays.items():
        cell, own = cells[row], chosen[: len(array)]
        if cell.value is not None and not cell.missing:
            values = array[own & ~np.isnan(array)]
            if not len(values) or abs(float(values.mean()) - cell.value) > 1e-6:
                return False
    return True


def _mean_over_runs(stacked: Array) -> Array:
    known = ~np.isnan(stacked)
    sums = np.where(known, stacked, 0.0).sum(0)
    counts = known.sum(0)
    means: Array = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return means
