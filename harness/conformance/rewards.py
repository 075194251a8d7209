"""Checks of a reward, on outcomes of a task: bounded, repeatable, blind to what runs beside it."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator
from statistics import fmean

import orjson

from ..registry import Registry
from ..reward import Reward
from ..types import HarnessError, Outcome, Sample, Score
from .common import own_options
from .fuzz import mangled
from .kit import Finding, Kit, Skip, Steps, first_line, named
from .play import SAYINGS
from .table import Table, saying

MANGLED = 60
SLOW = 0.05
"""Seconds that scoring one outcome may take, where no model is asked."""


def find_task(registry: Registry, reward: str) -> str:
    """A task whose own reward this is. Raises HarnessError where there is none."""
    from ..registry import load_module

    for (kind, name), entry in registry.entries.items():
        if kind != "task":
            continue
        try:
            load_module(entry)
            if registry.create("task", name, {}).reward == reward:
                return name
        except HarnessError:
            continue  # a task that cannot be made here has no say
    raise HarnessError(
        f"no task names the reward {reward!r} as its own; give the one to try it on: --task NAME"
    )


def reward_table(kit: Kit) -> Table:
    """The kit's task with this reward."""

    def make() -> Table:
        inner = Kit(kit.registry, kit.registry.entry("task", kit.task), {}, kit.limit)
        return Table.of(inner, kit.made())

    table: Table = kit.once("reward table", make)
    return table


def named_alike(kit: Kit) -> Steps:
    """The reward answers to the name under which runs find it again, and has its options."""
    reward: Reward = kit.made()
    if reward.name != kit.entry.name:
        yield Finding(
            f"the reward calls itself {reward.name!r}, the registry {kit.entry.name!r}",
            "make them equal: `harness score` finds the reward of a run by its name",
        )
    if (fault := own_options(kit)) is not None:
        yield fault
    if unknown := set(reward.incidental) - set(kit.entry.options):
        yield Finding(f"incidental names {unknown.pop()!r}, which is no option", "take it out")
    yield f"version {reward.version}, {'' if reward.deterministic else 'not '}deterministic"


def outcomes_of(kit: Kit) -> list[tuple[Sample, Outcome]]:
    """Outcomes of every sort: good, random, faulty, mangled."""

    def make() -> list[tuple[Sample, Outcome]]:
        table = reward_table(kit)
        found: list[tuple[Sample, Outcome]] = []
        said = []
        for name in ("oracle", "random", "constant"):
            if name in table.task.players():
                played = table.play(name)
                found += [(s, o) for s, o in zip(table.samples, played, strict=True) if o]
                said += [m.reply.text for o in played[:20] if o for m in o.moves]
        texts = [*SAYINGS.values(), *mangled(said, MANGLED, seed=2)]
        for count, text in enumerate(texts):
            sample = table.samples[count % len(table.samples)]
            outcome = asyncio.run(table.rollout(sample, saying(text)))
            if outcome is not None and _storable(outcome):
                found.append((sample, outcome))
        if not found:
            raise Skip("the task has no players that can be scored")
        return found

    outcomes: list[tuple[Sample, Outcome]] = kit.once("outcomes", make)
    return outcomes


def _storable(outcome: Outcome) -> bool:
    """Whether the task made an outcome of JSON; where not, the check of the task says so."""
    try:
        orjson.dumps(outcome)
    except TypeError:
        return False
    return True


def bounded(kit: Kit) -> Steps:
    """Values lie in [0, 1], parts are finite, and all of it can be stored."""
    reward: Reward = kit.made()
    seen: set[str] = set()
    pairs = outcomes_of(kit)
    for sample, outcome in pairs:
        try:
            score = asyncio.run(reward.score_group(sample, [outcome]))[0]
        except Exception as error:  # the reward under test may raise anything
            yield Finding(
                f"{sample.id}: scoring {_shown(outcome)} raises {type(error).__name__}: "
                f"{first_line(error)}",
                "a reward scores whatever was said; what has no answer gets 0",
            )
            return
        for fault in _bad(score):
            yield Finding(f"{sample.id}: {_shown(outcome)}: {fault[0]}", fault[1])
            return
        seen |= set(score.parts)
    if absent := [gate for gate in reward.gates if gate not in seen]:
        yield Finding(
            f"gates that are no part of any score: {named(absent)}",
            "gates name parts: rejection sampling would accept nothing",
        )
    yield f"{len(pairs)} outcomes, parts {', '.join(sorted(seen)) or 'none'}"


def _bad(score: Score) -> Iterator[tuple[str, str]]:
    """What is wrong with one score, and what to do."""
    if not 0.0 <= score.value <= 1.0:
        yield f"the value is {score.value}", "scale it to [0, 1]; keep the figure in raw"
    if odd := [k for k, v in score.parts.items() if not math.isfinite(v)]:
        yield f"the part {odd[0]} is not finite", "parts are numbers"
    try:
        if orjson.loads(orjson.dumps(score.raw)) != dict(score.raw):
            yield "raw comes back changed from JSON", "use lists for tuples and texts for keys"
    except TypeError as error:
        yield f"raw is not JSON: {error}", "hold texts, numbers, lists and dicts"


def _shown(outcome: Outcome) -> str:
    text = outcome.moves[-1].reply.text if outcome.moves else ""
    return repr(text if len(text) <= 60 else f"{text[:60]}...")


def repeatable(kit: Kit) -> Steps:
    """The same outcome scores the same, alone or in a group, and is left as it was."""
    reward: Reward = kit.made()
    if not reward.deterministic:
        raise Skip("the reward says that it is not deterministic")
    fresh: Reward = kit.make()
    groups: dict[str, list[tuple[Sample, Outcome]]] = {}
    for sample, outcome in outcomes_of(kit):
        groups.setdefault(sample.id, []).append((sample, outcome))
    own_group = type(reward).score_group is not Reward.score_group
    for members in groups.values():
        sample, outcomes = members[0][0], [o for _, o in members]
        before = orjson.dumps([sample, outcomes])
        first = asyncio.run(reward.score_group(sample, outcomes))
        again = asyncio.run(fresh.score_group(sample, outcomes))
        if len(first) != len(outcomes):
            yield Finding(
                f"score_group gives {len(first)} scores for {len(outcomes)} outcomes",
                "give one score for each outcome, in their order",
            )
            return
        if orjson.dumps(first) != orjson.dumps(again):
            yield Finding(
                f"{sample.id}: the same outcomes score differently the second time",
                "let the score depend on sample and outcome alone, or set deterministic = False",
            )
            return
        if orjson.dumps([sample, outcomes]) != before:
            yield Finding(f"{sample.id}: scoring changes sample or outcome", "work on copies")
            return
        if own_group:
            continue
        alone = [asyncio.run(reward.score_group(sample, [o]))[0] for o in outcomes]
        if orjson.dumps(alone) != orjson.dumps(first):
            yield Finding(
                f"{sample.id}: a score depends on what else is scored",
                "keep nothing between calls; a group reward overrides score_group",
            )
            return
    yield f"{len(groups)} groups scored twice"


def worth(kit: Kit) -> Steps:
    """Right answers pay more than random ones, and faults pay no more than those."""
    table = reward_table(kit)
    oracle, chance = table.mean("oracle"), table.mean("random")
    if oracle is None or chance is None:
        raise Skip("the task has no oracle or no random player")
    if oracle + 1e-9 < chance:
        yield Finding(
            f"the oracle earns {oracle:.3f}, random play {chance:.3f}",
            "does the reward read the right seat, or the sign the wrong way round?",
        )
    silent = [s.value for s in table.scores(table.all(saying(""))) if s is not None]
    if silent and fmean(silent) > max(chance, 0.05) + 1e-9:
        yield Finding(
            f"saying nothing earns {fmean(silent):.3f}, random play {chance:.3f}",
            "pay nothing where outcome.cls is a fault of the model",
        )
    nothing = f"{fmean(silent):.3f}" if silent else "-"
    yield f"{table.task.name}: oracle {oracle:.3f}, random {chance:.3f}, nothing {nothing}"


def speed(kit: Kit) -> Steps:
    """Scoring runs between the rollouts, in their thread."""
    reward: Reward = kit.made()
    pairs = outcomes_of(kit)
    began = time.process_time()
    for sample, outcome in pairs:
        asyncio.run(reward.score_group(sample, [outcome]))
    each = (time.process_time() - began) / len(pairs)
    if each > SLOW:
        yield Finding(
            f"scoring an outcome takes {1000 * each:.0f} ms",
            "compute what depends on the sample alone once, or in samples()",
        )
    yield f"{1000 * each:.2f} ms an outcome"
