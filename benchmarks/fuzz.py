"""Every parser of model output and every TOML loader against mutated and hostile input.

    python benchmarks/fuzz.py --inputs 1000000 --json
    python benchmarks/fuzz.py --inputs 20000 --only gtbench,toml
    python benchmarks/fuzz.py --inputs 0 --linear

Inputs are replies and files of the kind that each reader is made for, changed one to four times
(`harness.conformance.fuzz.mangled`), and random text; the same seed gives the same inputs. A reader
may refuse: a parser by its verdict, a loader by HarnessError. Anything else is a crash, and so is a
verdict that cannot be stored as JSON. Afterwards each parser reads hostile patterns at 4 kB, twice
that, and so on up to 64 kB: the CPU time of the longest may not exceed a small constant, nor grow
like the square. Exit code 1 for a crash or a reader that is not linear.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple

import orjson

from harness.conformance.fuzz import PATTERNS, mangled
from harness.parsing import classify, number, numbers, plain, visible
from harness.registry import Registry, read_file
from harness.seeds import derive
from harness.sweep.file import read_sweep
from harness.training.recipe import divide, read_config, read_toml
from harness.types import HarnessError, Json, Parsed, Reply

ROOT = Path(__file__).resolve().parent.parent
LENGTHS = (4_000, 8_000, 16_000, 32_000, 64_000)
SECONDS = 1.0
"""CPU seconds that 64 kB may take."""

NOTABLE = 0.1
"""CPU seconds below which growth is noise."""

GROWTH = 3.2
"""Times that twice the text may take (linear: 2, quadratic: 4)."""

TOML_SHARE = 0.1
"""Share of the inputs that goes to the loaders of TOML, which are slower."""

CHATTER = (
    "Let me think step by step.\n\n**ANSWER:** 3", "I choose \\boxed{B}.", "<answer>C1R2</answer>",
    '```json\n{"move": "Bet", "reason": "a {nested} one"}\n```', "<think>no: A</think>\nANSWER: B",
    "ANSWER:\nPure NE: (A, X), (B, Y)\nMixed NE: ([1/3, 2/3], [0.25, 75%])",
    "ANSWER:\nBest response: A\nExpected payoffs: [1, \\frac{2}{3}]\nBest response value: 1.50",
    "Think 1: she saw it\nState: tin_box\nThink 2: he did not\nState: red_bag\nAnswer: red_bag",
    "I'm sorry, but I can't help with that.", "CHOICE: 3", "SAY: hello\n[4] [Call] [Bid: 2, 3]",
    "Pure NE: none\nMixed NE: none", "Dominated: B, C\nDominant: none", "Payoff: −1/3",
    '{"c0": [0.5, 1.0], "c1": [0.0, 0.25]}', "2x + 3*(y - 1/2) = 4 - x/3",
    "If row plays A with probability p, 3p + 2(1-p) = 4 - p, so p = 1/2.",
)  # fmt: skip
GRADES = (
    '{"evaluations":[{"candidate_id":"c00","reasoning_scores":[0.0,1]},'
    '{"candidate_id":"c01","reasoning_scores":[0.5]}]}',
    '{"evaluations": [{"candidate_id": "c00", "reasoning_scores": [' + "9" * 400 + "]}]}",
    '{"evaluations": [{"candidate_id": "c00", "reasoning_scores": [NaN, Infinity, 1e999]}]}',
)
HOSTILE = (
    *PATTERNS, "([{", ")]}", "ANSWER:\nPure NE: ", "ANSWER: (", "Mixed NE: [", "[1,", "Think 1: ",
    "State: a\n", "Think 1: x\nState: y\n", "Answer: a\n", '{"move": ', '{"move": "a"} ',
    "\\boxed{", "<answer>", "</answer>",
    "<|channel|>final<|message|>", "CHOICE: 1 ", "CHOICE: ", "9" * 50 + "/",
    "-" * 30 + "1", "1e99 ", "\\frac{1}{2}", "\u0301", "\ufdfa", "[A] ", "[[", "SAY: [", "(1, ",
    "3p + 2(1-p) = ", "((p+", "payoff of A against X is 3. ", "A dominates B because 3 > 2, ",
    "where does a think b thinks ", "A. x, B. y, ",
)  # fmt: skip
"""Patterns of the linear check: nested brackets, digit runs, repeated keys, unicode that grows when
it is normalised."""


class Slow(NamedTuple):
    """An input with the CPU seconds that it took."""

    seconds: float
    text: str


NONE = Slow(0.0, "")


@dataclass(slots=True)
class Reader:
    """What is fuzzed: ``read`` takes a text and a place, by which it may choose a sample."""

    name: str
    read: Callable[[str, int], object]
    seeds: Sequence[str]
    linear: bool = True


@dataclass(slots=True)
class Report:
    """What came of one reader; ``longest`` is the slowest of the texts of 64 kB."""

    inputs: int = 0
    refused: int = 0
    seconds: float = 0.0
    crashes: list[str] = field(default_factory=list)
    slowest: Slow = NONE
    longest: Slow = NONE
    superlinear: list[str] = field(default_factory=list)


def texts(reader: Reader, count: int, seed: int) -> Iterator[str]:
    """``count`` inputs: nine of ten mutated, one of ten random characters; of documents six of ten
    stay valid TOML, with some values replaced."""
    rng = Random(derive("fuzz", seed))
    chatter = CHATTER if reader.linear else ()
    for text in mangled([*reader.seeds, *chatter], count, seed):
        kind = rng.random()
        if not reader.linear and kind < 0.6:
            yield _replaced(rng.choice(reader.seeds), rng)
        else:
            yield _random(rng) if kind > 0.9 else text


def _random(rng: Random) -> str:
    kind = rng.randrange(3)
    if kind == 0:
        return "".join(rng.choice(HOSTILE) for _ in range(rng.randint(0, 40)))
    most = 0x7F if kind == 1 else 0x10FFFF
    points = (rng.randint(0, most) for _ in range(rng.randint(0, 200)))
    return "".join(chr(p) for p in points if not 0xD800 <= p < 0xE000)


def fuzz(reader: Reader, count: int, seed: int) -> Report:
    """Give a reader so many inputs."""
    report = Report()
    began = time.process_time()
    for place, text in enumerate(texts(reader, count, derive(reader.name, seed))):
        start = time.process_time()
        try:
            if (value := reader.read(text, place)) is not None:
                orjson.dumps(value)
        except HarnessError:
            report.refused += 1
        except Exception as error:  # a crash is what is looked for; it is reported
            _crashed(report, error, text)
        report.inputs += 1
        spent = time.process_time() - start
        if spent > report.slowest.seconds:
            report.slowest = Slow(spent, text)
    report.seconds = time.process_time() - began
    return report


def _crashed(report: Report, error: Exception, text: str) -> None:
    if len(report.crashes) < 20:
        report.crashes.append(f"{type(error).__name__}: {str(error)[:80]} on {text[:2_000]!r}")


def check_linear(reader: Reader, report: Report) -> None:
    """Double the length of each hostile pattern up to 64 kB."""
    for pattern in HOSTILE:
        for tail in ("", "ANSWER: 1", "}"):
            spent: list[float] = []
            for length in LENGTHS:
                text = pattern * math.ceil(length / len(pattern)) + tail
                spent.append(_timed(reader, report, text, length))
                if spent[-1] > SECONDS:
                    break
            if spent[-1] > report.longest.seconds:
                report.longest = Slow(spent[-1], f"{pattern!r} x {length // len(pattern)}")
            grown = len(spent) > 1 and spent[-1] > NOTABLE and spent[-1] > GROWTH * spent[-2]
            if spent[-1] > SECONDS or grown:
                times = ", ".join(f"{s:.3f}" for s in spent)
                report.superlinear.append(f"{pattern!r} then {tail!r}: {times} s")


def _timed(reader: Reader, report: Report, text: str, place: int) -> float:
    """The faster of two readings, for the machine is shared."""
    best = math.inf
    for _ in range(2):
        start = time.process_time()
        try:
            reader.read(text, place)
        except HarnessError:
            pass
        except Exception as error:  # as in `fuzz`
            _crashed(report, error, text)
        best = min(best, time.process_time() - start)
        if best < NOTABLE:
            break
    return best


# Readers


def shared() -> Iterator[Reader]:
    """What the core reads replies by."""

    def everything(text: str, place: int) -> Json:
        found = number(text)
        listed = numbers(text)
        fault = classify(Reply(text, "length" if place % 3 == 0 else "stop"), Parsed())
        return [plain(visible(text)), str(found), len(listed), fault]

    yield Reader("parsing", everything, ["1/3", "-12.5 %", "\\frac{1}{-3}", "1e-5", ".5, 2"])


def tasks(registry: Registry) -> Iterator[Reader]:
    """``Task.parse`` of every task, on samples of every group."""
    import asyncio

    from harness.conformance.kit import Kit
    from harness.conformance.table import Table

    for name in registry.names("task"):
        kit = Kit(registry, registry.entry("task", name))
        try:
            table = Table.of(kit)
        except HarnessError as error:
            print(f"{name}: left out: {error}", file=sys.stderr)
            continue
        task, samples = table.task, table.samples
        said = []
        for who in ("oracle", "random"):
            if who in task.players():
                for sample in samples[:12]:
                    outcome = asyncio.run(table.rollout(sample, task.players()[who]))
                    said += [m.reply.text for m in outcome.moves] if outcome else []

        def read(text: str, place: int, task=task, samples=samples) -> object:  # type: ignore[no-untyped-def]
            finish = "length" if place % 5 == 0 else "stop"
            return task.parse(samples[place % len(samples)], Reply(text, finish))

        yield Reader(name, read, sorted(set(said))[:400])


def rewards(registry: Registry) -> Iterator[Reader]:
    """Rewards that read more than the task's parser did, and the judge's own replies."""
    from harness.types import OK, Move, Outcome
    from harness_plugins.rewards.game_process import feedback, score
    from harness_plugins.rewards.game_process.algebra import parse as algebra
    from harness_plugins.rewards.gamesolve_legacy import GameSolveLegacyReward
    from harness_plugins.rewards.judge.protocol import BadReply, read_reply
    from harness_plugins.tasks.gtbench.agents import vote
    from harness_plugins.tasks.tom.question import parse, parse_options

    task = registry.create("task", "gamesolve", {})
    samples = [s for s, _ in zip(task.samples("test"), range(60), strict=False)]
    exhibits = [s.data for s in samples]
    legacy = GameSolveLegacyReward({})

    def process(text: str, place: int) -> Json:
        data = exhibits[place % len(exhibits)]
        return [score(data, text), feedback(data, text)]

    def study(text: str, place: int) -> object:
        sample = samples[place % len(samples)]
        outcome = Outcome((Move(0, Reply(text), task.parse(sample, Reply(text)).value),), OK)
        try:
            return legacy.score(sample, outcome)
        except HarnessError:
            return None

    def judged(text: str, _: int) -> Json:
        try:
            return str(read_reply(text, 2, 2))
        except BadReply as error:
            raise HarnessError(str(error)) from None

    solutions = [task.target(s) for s in samples]
    yield Reader("game-process", process, solutions)
    yield Reader("algebra", lambda text, _: str(algebra(text)), ["3p + 2(1-p)", "2*(x-1/3)/4"])
    yield Reader("gamesolve-legacy", study, [])
    yield Reader("judge", judged, GRADES)
    yield Reader("vote", lambda text, _: vote(Reply(text), 5), ["CHOICE: 2", "2 CHOICE: 1"])
    yield Reader("tom-question", lambda text, _: str(parse(text)), [
        "Where does Ana think Bo thinks the stamp is?", "Where is the stamp really?",
    ])  # fmt: skip
    yield Reader("tom-options", lambda text, _: parse_options(text), [
        "A. red_box, B. tin_bag, C. pan",
    ])  # fmt: skip


def loaders(registry: Registry, folder: Path) -> Iterator[Reader]:
    """TOML: registries, recipes, sweeps, and the options (presets, too) of tasks."""

    (folder / "sweeps").mkdir()

    def file(text: str) -> Path:
        path = folder / "sweeps" / "case.toml"  # a sweep names its recipe as ../NAME
        path.write_bytes(text.encode(errors="surrogatepass"))
        return path

    def recipe(text: str, _: int) -> None:
        top, settings = read_config(file(text))
        method, task = str(top.get("method", "sft")), str(top.get("task", "gamesolve"))
        options, _, _ = divide(registry, method, task, settings)
        registry.options(registry.entry("trainer", method), options)

    def sweep(text: str, _: int) -> None:
        read_sweep(file(text), registry)

    def registered(text: str, _: int) -> None:
        Registry(read_file(file(text), "a file"))

    names = [n for n in registry.names("task") if n != "textarena"]

    def preset(text: str, place: int) -> None:
        registry.create("task", names[place % len(names)], read_toml(file(text)))

    entries = (ROOT / "registry.toml").read_text().split("\n\n")
    recipes = [p.read_text() for p in sorted((ROOT / "configs").glob("*.toml"))]
    sweeps = [p.read_text() for p in sorted((ROOT / "configs/sweeps").glob("*.toml"))]
    for path in (ROOT / "configs").glob("*.toml"):
        (folder / path.name).write_bytes(path.read_bytes())
    presets = [
        'preset = "standard"\npairs = 3\ngames = ["nim", "pig"]', 'preset = "reference"',
        'data_seed = 7\nformat = "json"', "agent = 'tot'\nsamples = 2\nopenings = 1",
        'form = "open"\nstyle = "direct"', "ood_order = 5\nstyle = 'exact-order'",
    ]  # fmt: skip
    yield Reader("toml-registry", registered, entries, False)
    yield Reader("toml-recipe", recipe, recipes, False)
    yield Reader("toml-sweep", sweep, sweeps, False)
    yield Reader("toml-options", preset, presets, False)


VALUES = (
    "0", "-1", "1e999", "nan", "inf", "99999999999999999999", '""', '"x"', "[]", "[[]]", "{}",
    "true", "[1, 'a']", "{ a = 1 }", "1979-05-27", "12:00:00", '"\\u0000"', "[nan]", "-0.0",
    '"../../etc/passwd"', "[" * 3_000, "9" * 400, "{ default = {} }", "[{}]",
)  # fmt: skip


def _replaced(text: str, rng: Random) -> str:
    """A document with one to three lines changed: values of another type or size, tables that are
    values, lines that are missing or there twice."""
    lines = text.split("\n")
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(lines))
        key, equals, _ = lines[at].partition(" = ")
        if rng.random() < 0.1:
            lines[at : at + 1] = rng.choice(([], [lines[at]] * 2))
        elif equals and not key.startswith("#"):
            lines[at] = f"{key} = {rng.choice(VALUES)}"
        elif lines[at].startswith("["):
            lines[at] = f"{lines[at].strip('[] ')} = {rng.choice(VALUES)}"
        lines = lines or [""]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=1_000_000, help="over all readers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", metavar="A,B", help="readers whose name begins so")
    parser.add_argument("--linear", action="store_true", help="the linear check as well")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    registry = Registry.load()
    wanted = tuple(filter(None, given.only.split(",")))
    with tempfile.TemporaryDirectory() as folder:
        readers = [*shared(), *tasks(registry), *rewards(registry)]
        readers += loaders(registry, Path(folder))
        readers = [r for r in readers if not wanted or r.name.startswith(wanted)]
        reports = dict(zip((r.name for r in readers), _all(readers, given), strict=True))
    _show(reports, given.json)
    return int(any(r.crashes or r.superlinear for r in reports.values()))


def _all(readers: Sequence[Reader], given: argparse.Namespace) -> Iterator[Report]:
    loading = sum(not r.linear for r in readers)
    parsing = len(readers) - loading
    share = TOML_SHARE if parsing and loading else float(not parsing)
    for reader in readers:
        count = (
            math.ceil(given.inputs * (1 - share) / parsing)
            if reader.linear
            else math.ceil(given.inputs * share / loading)
        )
        report = fuzz(reader, count, given.seed)
        if reader.linear and (given.linear or given.inputs >= 1_000_000):
            check_linear(reader, report)
        print(
            f"{reader.name}: {report.inputs:,} inputs, {len(report.crashes)} crashes, "
            f"{len(report.superlinear)} not linear, {report.seconds:.1f} s",
            file=sys.stderr, flush=True,
        )  # fmt: skip
        yield report


def _show(reports: dict[str, Report], as_json: bool) -> None:
    total = sum(r.inputs for r in reports.values())
    if as_json:
        rows = {
            name: {
                "inputs": r.inputs, "refused": r.refused, "cpu_s": round(r.seconds, 1),
                "crashes": r.crashes, "slowest_ms": round(r.slowest.seconds * 1000, 2),
                "slowest_chars": len(r.slowest.text), "slowest_begins": r.slowest.text[:60],
                "longest_ms": round(r.longest.seconds * 1000, 1), "longest": r.longest.text,
                "superlinear": r.superlinear,
            }
            for name, r in reports.items()
        }  # fmt: skip
        print(json.dumps({"inputs": total, "readers": rows}, indent=2))
        return
    print(f"{'reader':18} {'inputs':>9} {'refused':>8} {'crashes':>8} {'slowest ms':>11}  64 kB ms")
    for name, r in reports.items():
        print(
            f"{name:18} {r.inputs:9,} {r.refused:8,} {len(r.crashes):8} "
            f"{r.slowest.seconds * 1000:11.2f} {r.longest.seconds * 1000:9.1f}  {r.longest.text}"
        )
        for line in (*r.crashes, *r.superlinear):
            print(f"  {line[:300]}")
    print(f"{total:,} inputs in all")


if __name__ == "__main__":
    sys.exit(main())
