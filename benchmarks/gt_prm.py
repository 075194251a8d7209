"""The process reward `gt-prm`: what solutions, tricks and errors earn, and how it fits the answers.

    python benchmarks/gt_prm.py [--every 1] [--run RUN] [--json]

1. ``derived``: the lowest value of all derived solutions, and milliseconds of CPU for each: the
   first reply to a question (its game is solved) and a further one.
2. ``nothing``: the highest value of an empty reply and of the prompt said again.
3. ``other game``: solutions of other items; of *twins*, another game of the same shape told with
   the very names and question of this one.
4. ``players``: answers without steps, and steps that are tricks.
5. ``planted``: one number or action of the steps of a solution is changed at random; how often an
   error is found, how often the value falls, and which kinds of steps were found wrong.
6. ``correlation`` of the value, and of its steps alone, with the reward `gamesolve`: over solutions
   with 0 to 8 planted errors whose answer keeps to the last change, and over the replies of a run.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from statistics import StatisticsError, correlation, fmean
from typing import Any

from harness.progress import track
from harness.seeds import Streams
from harness.store import read_manifest, read_records
from harness.types import Sample
from harness_plugins.rewards.game_process import score
from harness_plugins.rewards.gamesolve import judge
from harness_plugins.tasks.gamesolve import create_task
from harness_plugins.tasks.gamesolve.answers import block, parse
from harness_plugins.tasks.gamesolve.players import CONSTANTS, STRONGEST, guess
from harness_plugins.tasks.gamesolve.targets import target
from harness_plugins.tasks.gamesolve.text import messages
from harness_plugins.tasks.gamesolve.truth import truth

PRESETS = ("gamesolve", "gamesolve-ood", "gamesolve-skills")
ASKED = ("responder", "player", "cell", "opponent_action", "sigma", "context")
NUMBER = re.compile(r"(?<![\w./])\d+(?:\.\d+)?(?![\w/])")

Row = dict[str, Any]


def derived(samples: Sequence[tuple[Sample, str]]) -> Row:
    """Values and times of the derived solutions."""
    first, again, values = [], [], []
    for sample, text in track(samples, "solutions"):
        began = time.process_time()
        values.append(score(sample.data, text).value)
        middle = time.process_time()
        score(sample.data, text)
        first.append(middle - began)
        again.append(time.process_time() - middle)
    return {
        "solutions": len(values),
        "least": min(values),
        "ms_first": 1e3 * fmean(first),
        "ms_again": 1e3 * fmean(again),
        "ms_again_most": 1e3 * max(again),
    }


def spread(values: Sequence[float]) -> Row:
    """Mean, 95th percentile and maximum."""
    ordered = sorted(values)
    at = int(0.95 * (len(ordered) - 1))
    return {"n": len(values), "mean": fmean(values), "p95": ordered[at], "max": ordered[-1]}


def nothing(samples: Sequence[tuple[Sample, str]]) -> Row:
    """Empty replies, and the prompt said again."""
    return {
        "empty": max(score(s.data, "").value for s, _ in samples),
        "prompt": max(score(s.data, messages(s.data)[1].content).value for s, _ in samples),
    }


def other_games(samples: Sequence[tuple[Sample, str]], rng: random.Random) -> dict[str, Row]:
    """Solutions of other games."""
    shapes: dict[object, list[Sample]] = defaultdict(list)
    for sample, _ in samples:
        shapes[_shape(sample)].append(sample)
    any_other, twins = [], []
    for sample, _ in track(samples, "other games"):
        other, text = rng.choice(samples)
        if other.id != sample.id:
            any_other.append(score(sample.data, text).value)
        told = {k: sample.data[k] for k in ASKED if k in sample.data}
        names = {k: sample.data[k] for k in ("row_labels", "col_labels")}
        twin = {**rng.choice(shapes[_shape(sample)]).data, **told, **names}
        if (twin["row"], twin["col"]) != (sample.data["row"], sample.data["col"]):
            twins.append(score(sample.data, target(twin, truth(twin))).value)
    return {"any": spread(any_other), "twin": spread(twins)}


def _shape(sample: Sample) -> object:
    return sample.data["kind"], len(sample.data["row"]), len(sample.data["row"][0])


def players(samples: Sequence[tuple[Sample, str]]) -> dict[str, Row]:
    """Replies that are no solutions."""
    found: dict[str, list[float]] = defaultdict(list)
    for sample, text in track(samples, "players"):
        data = sample.data
        answer = block(data, guess(data, Streams(0), sample.id))
        constant = CONSTANTS[STRONGEST[data["kind"]]](data)
        steps = text[: text.index("ANSWER:")]
        replies = {
            "random answer": answer,
            "constant answer": block(data, constant) if constant else "",
            "right answer alone": text[text.index("ANSWER:") :],
            "steps alone": steps,
            "steps, random answer": steps + answer,
            "first line 50 times": "\n".join([text.split("\n")[0]] * 50),
            "table of payoffs": _table(data),
            "table, constant answer": _table(data) + "\n\n" + (block(data, constant or {})
                                                              if constant else ""),
            "every cell an equilibrium": "\n".join(
                f"({r}, {c}): both actions are best replies, so this is an equilibrium."
                for r in data["row_labels"] for c in data["col_labels"]
            ),
        }  # fmt: skip
        for name, reply in replies.items():
            found[name].append(score(data, reply).value)
    return {name: spread(values) for name, values in found.items()}


def _table(data: Any) -> str:
    lines = []
    for j, c in enumerate(data["col_labels"]):
        gets = ", ".join(f"{data['row'][i][j]} from {r}" for i, r in enumerate(data["row_labels"]))
        lines.append(f"Against {c}, the row player gets {gets}.")
    for i, r in enumerate(data["row_labels"]):
        gets = ", ".join(f"{data['col'][i][j]} from {c}" for j, c in enumerate(data["col_labels"]))
        lines.append(f"Against {r}, the column player gets {gets}.")
        for j, c in enumerate(data["col_labels"]):
            lines.append(f"The cell ({r}, {c}) pays ({data['row'][i][j]}, {data['col'][i][j]}).")
    return "\n".join(lines)


def planted(samples: Sequence[tuple[Sample, str]], rng: random.Random) -> Row:
    """One change in each solution: is it found?"""
    found = fell = n = 0
    kinds: Counter[str] = Counter()
    for sample, text in track(samples, "planted errors"):
        changed = plant(sample.data, text, rng)
        if changed is None:
            continue
        n += 1
        result = score(sample.data, changed)
        found += result.raw["false"] > 0
        fell += result.value < 1
        kinds.update(k.removeprefix("false.") for k in result.raw if k.startswith("false."))
    return {"changes": n, "found": found / n, "value_fell": fell / n, "kinds": dict(kinds)}


def plant(data: Any, text: str, rng: random.Random) -> str | None:
    """The solution with one number of its steps one higher, or one action exchanged."""
    end = text.index("ANSWER:")
    names = sorted({*data["row_labels"], *data["col_labels"]}, key=len, reverse=True)
    labels = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, names))})(?!\w)")
    steps = text[text.index("\n") if text.startswith("Step 1") else 0 : end]
    start = end - len(steps)
    places = [m for m in (*NUMBER.finditer(steps), *labels.finditer(steps)) if not _title(steps, m)]
    if not places:
        return None
    place = rng.choice(places)
    old = place.group()
    if old in names:
        of = data["row_labels"] if old in data["row_labels"] else data["col_labels"]
        others = [name for name in of if name != old]
        new = rng.choice(others)
    else:
        new = str(int(old) + 1) if old.isdecimal() else f"{float(old) + 1:.10g}"
    return text[:start] + steps[: place.start()] + new + steps[place.end() :] + text[end:]


def _title(steps: str, place: re.Match[str]) -> bool:
    """A number of a heading or of a role (Step 2, Firm 1), or the 1 of 1 - t."""
    before = steps[max(0, place.start() - 8) : place.start()]
    roles = r"(?:Step|Firm|Agent|Router|Bidder|Party|Country|Player) $"
    return bool(re.search(roles, before)) or steps[place.end() :].startswith(" - t")


def damaged(samples: Sequence[tuple[Sample, str]], rng: random.Random) -> Iterable[tuple[Row, str]]:
    """Solutions with 0 to 8 errors; half of the damaged ones end in a random answer."""
    for sample, text in samples:
        errors = rng.randrange(9)
        for _ in range(errors):
            text = plant(sample.data, text, rng) or text
        if errors and rng.random() < 0.5:
            wrong = block(sample.data, guess(sample.data, Streams(1), sample.id))
            text = text[: text.index("ANSWER:")] + wrong
        yield {"data": sample.data}, text


def correlated(pairs: Iterable[tuple[Row, str]]) -> Row:
    """Correlations with the outcome."""
    rows = []
    for row, text in pairs:
        data = row["data"]
        paid = judge(data, truth(data), parse(data, text).value).value
        found = score(data, text)
        steps = [v for k, v in found.parts.items() if k not in ("answer", "precision", "parse")]
        rows.append((paid, found.value, found.parts["precision"] ** 2 * fmean(steps or [0.0])))
    paid, value, steps = zip(*rows, strict=True)
    return {
        "n": len(rows),
        "gamesolve": fmean(paid),
        "gt-prm": fmean(value),
        "r": _r(value, paid),
        "r_steps": _r(steps, paid),
    }


def _r(one: Sequence[float], other: Sequence[float]) -> float | None:
    try:
        return correlation(one, other)
    except StatisticsError:
        return None


def replies(path: str) -> Iterable[tuple[Row, str]]:
    """The replies of a run."""
    from pathlib import Path

    spec = read_manifest(Path(path))["spec"]
    task = create_task(spec["task"]["name"], spec["task"]["options"])
    known = {s.id: s for s in task.samples(spec["split"])}
    for record in read_records(Path(path)):
        yield {"data": known[record.sample].data}, record.outcome.moves[-1].reply.text


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="every so many items only")
    parser.add_argument("--run", default="", help="a run folder for the last table")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    report: dict[str, dict[str, Any]] = {}
    steps: dict[str, Callable[[Any], Any]] = {
        "derived": derived,
        "nothing": nothing,
        "other game": lambda s: other_games(s, random.Random(1)),
        "players": players,
        "planted": lambda s: planted(s, random.Random(2)),
        "correlation": lambda s: correlated(damaged(s, random.Random(3))),
    }
    for preset in PRESETS:
        task = create_task(preset, {"preset": preset})
        chosen = islice(task.samples("all"), 0, None, options.every)
        samples = [(s, target(s.data, s.truth)) for s in chosen]
        report[preset] = {name: step(samples) for name, step in steps.items()}
    if options.run:
        report["run"] = {"correlation": correlated(replies(options.run))}
    if options.json:
        print(json.dumps(report, indent=2))
        return
    for preset, tables in report.items():
        print(f"\n{preset}")
        for name, row in tables.items():
            nested = any(isinstance(v, dict) and "mean" in v for v in row.values())
            for title, cells in row.items() if nested else [("", row)]:
                print(f"  {f'{name} {title}':36s} {_cells(cells)}")


def _cells(row: Row) -> str:
    return "  ".join(f"{k} {v:.4f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())


if __name__ == "__main__":
    main()
