"""The caption of a leaderboard: the protocol behind each column, and what the signs mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..stats import TOO_FEW
from .arenas import Arena, Column
from .cells import BOUND, CONTAMINATED, DIFFERENT, INCOMPLETE, Cell
from .protocol import majority, protocol
from .rows import Members, settings

if TYPE_CHECKING:
    from ..leaderboard import Options


def caption(
    members: Members,
    columns: Sequence[Column],
    arenas: Mapping[str, Arena],
    cells: Mapping[tuple[str, str], Cell],
    options: Options,
    problems: Sequence[str] = (),
) -> tuple[str, ...]:
    """One sentence or more for each point; the same runs give the same text."""
    lines = [_protocol(members, arenas[name]) for name in dict.fromkeys(c.task for c in columns)]
    how = "bootstrap-t over clusters for scores" if options.exact else "score or t, over clusters"
    lines.append(
        f"Mean with 95 % interval ({how}; none below {TOO_FEW} clusters); n counts records. "
        "Rank: one more than the rows that are better by paired t tests on common samples (Holm, "
        "5 %); rows that share a letter are not told apart."
    )
    if options.baseline:
        lines.append(f"Δ: difference to {options.baseline}, paired by sample unless it says so.")
    lines += _marks(members, cells)
    if problems:
        lines.append(f"To look at: {_listed(set(problems))}.")
    lines += _levels(columns, cells)
    return tuple(lines)


def _protocol(members: Members, arena: Arena) -> str:
    """What the runs of an arena have in common."""
    runs = [r for (_, name), group in sorted(members.items()) if name == arena.name for r in group]
    shared: dict[str, list[str]] = {}
    for run in runs:
        for key, value in settings(run).items():
            shared.setdefault(key, []).append(value)
    usual = {key: max(sorted(set(v)), key=v.count) for key, v in shared.items()}
    decoding = ", ".join(
        f"{key} {usual[key]}"
        for key in ("temperature", "top_p", "top_k", "max_tokens")
        if key in usual
    )
    parts = [f"{arena.name}: task {arena.task}, split {arena.split}"]
    if arena.opponent:
        parts.append(f"against {arena.opponent}")
    parts.append(f"reward {usual['reward']}")
    parts.append(decoding)
    if usual.get("system", "null") != "null":
        parts.append("own system message")
    if usual.get("fewshot", "0") != "0":
        parts.append(f"{usual['fewshot']} worked examples")
    seeds = sorted({seed for run in runs for seed in run.spec["seeds"]})
    parts.append(f"seeds {', '.join(map(str, seeds))}")
    if (tries := max(run.spec["repeats"] * run.spec["n"] for run in runs)) > 1:
        parts.append(f"{tries} rollouts of each sample")
    reference = majority([protocol(run) for run in runs])
    hashes = [f"data {reference.data}"] if reference.data else []
    hashes += [f"prompts {reference.prompt.split()[0]}"] if reference.prompt else []
    parts += hashes
    return "; ".join(parts) + f"; harness {usual['harness']}."


def _marks(members: Members, cells: Mapping[tuple[str, str], Cell]) -> list[str]:
    lines = []
    dirty = {
        f"{row} in {key}: {cell.contaminated} items" + _clean(cell)
        for (row, key), cell in cells.items()
        if cell.contaminated
    }
    if dirty:
        lines.append(
            f"{CONTAMINATED} contaminated, items occur in the training data ({_listed(dirty)})."
        )
    missing = {
        f"{row}: {cell.missing} records missing" for (row, _), cell in cells.items() if cell.missing
    }
    if missing:
        lines.append(f"{INCOMPLETE} incomplete, not ranked ({_listed(missing)}).")
    other = {
        f"{row} in {key}: {', '.join(cell.differs)}"
        for (row, key), cell in cells.items()
        if cell.differs
    }
    if other:
        lines.append(
            f"{DIFFERENT} differs from the column's protocol, not ranked ({_listed(other)})."
        )
    bounds = {row for (row, _), cell in cells.items() if cell.bound}
    if bounds:
        lines.append(
            f"{BOUND} chosen among several replies by the truth: an upper bound, not ranked "
            f"({_listed(bounds)})."
        )
    if any(cell.tokens for cell in cells.values()):
        lines.append(
            "tokens: prompt + reply tokens of a record, all drafts of a test-time method counted."
        )
    several = {f"{row}: {cell.runs} runs" for (row, _), cell in cells.items() if cell.runs > 1}
    if several:
        lines.append(
            f"Rows over several runs ({_listed(several)}): mean and t interval over runs; two such "
            "rows are compared by Welch's test over runs."
        )
    return lines


def _clean(cell: Cell) -> str:
    return "" if cell.clean is None else f", {cell.clean:.3f} without them"


def _listed(texts: set[str], most: int = 8) -> str:
    found = sorted(texts)
    more = f"; and {len(found) - most} more" if len(found) > most else ""
    return "; ".join(found[:most]) + more


def _levels(columns: Sequence[Column], cells: Mapping[tuple[str, str], Cell]) -> list[str]:
    """Floor and ceiling of the columns that have them."""
    levels_of: dict[str, Mapping[str, float]] = {}
    for (_, key), cell in cells.items():
        if cell.levels:
            levels_of.setdefault(key, cell.levels)
    found = {column.key: levels_of[column.key] for column in columns if column.key in levels_of}
    if not found:
        return []
    texts = [
        f"{key} " + ", ".join(f"{name} {value:.3f}" for name, value in sorted(levels.items()))
        for key, levels in found.items()
    ]
    return [
        "norm: (score - random) / (oracle - random), with the reference players' scores: "
        + "; ".join(texts)
        + "."
    ]
