"""Checks of a task as it is played: prompts, oracle, constants, faults, players, concurrency."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from statistics import fmean, stdev

import orjson

from ..task import Task
from ..types import OK, Move, Outcome, Sample
from .kit import Finding, Kit, Skip, Steps, named
from .table import Table, saying
from .tasks import counter, first_prompt, prompt_fault

FULL = 1.0 - 1e-9
CONSTANTS = 20
"""Constant answers that are tried, the most frequent right ones first."""

SLACK = 0.05
"""How far a constant answer may be above chance in a task with few samples."""

SAYINGS = {
    "nothing": "",
    "blanks": " \n\t ",
    "a refusal": "I'm sorry, but I can't help with that.",
    "an open thought": "<think>Let me see.",
    "small talk": "The weather was fine and the harbour lay still.",
}


def prompts(kit: Kit) -> Steps:
    """Prompts are messages that a model can be shown, and fit with their replies: the first ones,
    and those of every later turn as the reference players see them."""
    table = Table.of(kit)
    task = table.task
    count, room = counter(kit)
    shown = [(s.id, first_prompt(task, s)) for s in table.samples]
    name = next((n for n in ("random", "oracle") if n in task.players()), None)
    outcomes = table.play(name) if name else []
    for sample, outcome in zip(table.samples, outcomes, strict=False):
        shown += [(sample.id, list(move.messages)) for move in (outcome.moves if outcome else ())]
    longest, which, asked = 0, "", 0
    for where, messages in shown:
        if not messages:
            continue  # a first prompt that only a rollout knows, or a player that reads none
        asked += 1
        if fault := prompt_fault(messages):
            yield Finding(
                f"{where}: {fault}", "make a list of harness.types.Message, a user's last"
            )
            return
        if (size := count(messages)) > longest:
            longest, which = size, where
    if longest + task.decoding.max_tokens > room:
        yield Finding(
            f"a prompt of {which} takes about {longest} tokens and its reply up to "
            f"{task.decoding.max_tokens}; {room} is the limit",
            "shorten the prompt, or lower max_tokens in the task's decoding",
        )
    if not asked:
        raise Skip("the reference players read no prompts, and there is no first one")
    limit = task.decoding.max_tokens
    yield f"{asked} prompts, at most about {longest} tokens and {limit} for the reply, of {room}"


def oracle(kit: Kit) -> Steps:
    """The oracle scores 1 in questions; in games it does no worse than random play."""
    table = Table.of(kit)
    if "oracle" not in table.task.players():
        raise Skip("there is no player oracle")
    outcomes = table.play("oracle")
    scores = [s.value if s is not None else None for s in table.scores(outcomes)]
    played = [value for value in scores if value is not None]
    if not played:
        raise Skip("the oracle can play none of these samples")
    if table.task.seats == 1:
        short = [
            f"{s.id} ({v:.3f})"
            for s, v in zip(table.samples, scores, strict=True)
            if v is not None and v < FULL
        ]
        if short:
            yield Finding(
                f"the oracle does not score 1 in {len(short)} of {len(played)} samples: "
                f"{named(short)}",
                "its reply, the parser or the reward is wrong: `harness run --model oracle`, then "
                "look at the records",
            )
    else:
        chance = table.mean("random")
        if chance is not None and fmean(played) < chance - 2 * _error(played) - 1e-9:
            yield Finding(
                f"the oracle scores {fmean(played):.3f}, random play {chance:.3f}",
                "mend the oracle, or look whether the reward pays the right seat",
            )
    yield f"mean score {fmean(played):.3f} over {len(played)} samples"


def _error(values: list[float]) -> float:
    """Standard error of the mean; a wide one where there are too few values."""
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.5


def constants(kit: Kit) -> Steps:
    """No answer that ignores the question scores above chance, unless the table shows it."""
    table = Table.of(kit)
    if table.task.seats > 1:
        raise Skip("in games a constant move may be a good one; the table shows the players")
    if len(table.samples) < 20 or "oracle" not in table.task.players():
        raise Skip("needs an oracle and 20 samples")
    random_ = [s.value if s else 0.0 for s in table.scores(table.play("random"))]
    floor = random_
    if "constant" in table.task.players():
        floor = [s.value if s else 0.0 for s in table.scores(table.play("constant"))]
        if fmean(random_) > fmean(floor):
            floor = random_
    said = Counter(o.moves[0].reply.text for o in table.play("oracle") if o is not None and o.moves)
    half = len(table.samples) // 2
    best, text = -1.0, ""
    for candidate, _ in said.most_common(CONSTANTS):
        values = _values(table, candidate)
        if (mean := fmean(values[:half])) > best:
            best, text = mean, candidate
    later = _values(table, text)[half:]
    gains = [a - b for a, b in zip(later, floor[half:], strict=True)]
    if fmean(gains) > SLACK + 3 * _error(gains):
        yield Finding(
            f"always saying {text[:40]!r} scores {fmean(later):.3f}; chance is "
            f"{fmean(floor[half:]):.3f}",
            'balance the right answers, or add it to players() as "constant", so that tables '
            "show it as a floor",
        )
    tried = min(len(said), CONSTANTS)
    yield f"best of {tried} constants {fmean(later):.3f}, chance {fmean(floor[half:]):.3f}"


def _values(table: Table, text: str) -> list[float]:
    outcomes = table.all(saying(text))
    return [s.value if s is not None else 0.0 for s in table.scores(outcomes)]


def faults(kit: Kit) -> Steps:
    """Replies without an answer end in a fault of the model and pay no more than chance."""
    table = Table.of(kit)
    chance = table.mean("random")
    worst = 0.0
    for name, text in SAYINGS.items():
        outcomes = table.all(saying(text))
        pairs = zip(table.samples, outcomes, strict=True)
        moves = [_own(o, s, table.task) for s, o in pairs if o is not None]
        taken = sum(move is not None and move.cls == OK for move in moves)
        scores = [s.value for s in table.scores(outcomes) if s is not None]
        if name in ("nothing", "blanks", "an open thought") and taken:
            yield Finding(
                f"a reply of {name} counts as an answer in {taken} of {len(moves)} samples",
                "let parse() return Parsed(None, UNPARSED), and the rollout end in that class",
            )
        if scores and chance is not None:
            worst = max(worst, fmean(scores))
            if fmean(scores) > chance + SLACK + 2 * _error(scores):
                yield Finding(
                    f"a reply of {name} scores {fmean(scores):.3f}, random play {chance:.3f}",
                    "a fault of the model must not pay: a forfeit is a loss",
                )
    yield f"at most {worst:.3f}"


def targets(kit: Kit) -> Steps:
    """What supervised training aims at is read as an answer, and pays in full where it ends it."""
    table = Table.of(kit)
    task = table.task
    whole = type(task).rollout is Task.rollout
    wrong, unread, count = [], [], 0
    for sample in table.samples:
        target = task.target(sample)
        if target is None:
            continue
        count += 1
        outcome = asyncio.run(_told(table, sample, target))
        move = _own(outcome, sample, task)
        # Where the opponent moved first, the target may belong to another position.
        asked = move is not None and list(move.messages) == first_prompt(task, sample)
        if move is not None and asked and move.cls != OK:
            unread.append(sample.id)
        elif whole and (score := table.reward.score(sample, outcome).value) < FULL:
            wrong.append(f"{sample.id} ({score:.3f})")
    if not count:
        raise Skip("the task has no targets")
    if unread:
        yield Finding(
            f"{len(unread)} of {count} targets are not read as an answer: {named(unread)}",
            "write targets in the form that the prompt asks for",
        )
    if wrong:
        yield Finding(
            f"{len(wrong)} of {count} targets do not score 1: {named(wrong)}",
            "training would teach mistakes: mend target(), parse() or the reward",
        )
    yield f"{count} targets"


def _own(outcome: Outcome, sample: Sample, task: Task) -> Move | None:
    """The model's first move; None where it had none."""
    seat = task.lineup(sample).index("model")
    return next((m for m in outcome.moves if m.seat == seat), None)


async def _told(table: Table, sample: Sample, target: str) -> Outcome:
    """The outcome of saying the target at every turn: only the first one is looked at in games."""
    outcome = await table.rollout(sample, saying(target))
    if outcome is None:
        raise Skip("the opponent cannot play this sample")
    return outcome


def players(kit: Kit) -> Steps:
    """Reference players depend on the rollout's seed and on nothing else."""
    table = Table.of(kit)
    if "random" not in table.task.players():
        raise Skip("there is no player random")
    factory = table.task.players()["random"]
    first, again = table.play("random"), table.all(factory)
    if changed := _different(table, first, again):
        yield Finding(
            f"random play differs when it is repeated with the same seed: {named(changed)}",
            "draw from derive(seat.seed, ...), not from a generator that the players share",
        )

    async def other() -> list[Outcome | None]:
        return [await table.rollout(s, factory, repeat=1) for s in table.samples]

    moved = _different(table, first, asyncio.run(other()))
    if not moved and any(o is not None and o.moves for o in first):
        yield Finding(
            "random play is the same under another seed",
            "let the player draw from derive(seat.seed, ...)",
        )
    yield f"{len(moved)} of {len(first)} rollouts differ under another seed"


def concurrency(kit: Kit) -> Steps:
    """Outcomes are the same one by one and all at once, in whatever order turns come back."""
    table = Table.of(kit)
    name = "random" if "random" in table.task.players() else "oracle"
    if name not in table.task.players():
        raise Skip("there is no player random or oracle")
    factory = table.task.players()[name]

    async def together(salt: str) -> list[Outcome | None]:
        waiting = (table.rollout(s, factory, salt=salt) for s in table.samples)
        return list(await asyncio.gather(*waiting))

    alone = table.play(name)
    for salt in ("a", "b"):
        if changed := _different(table, alone, asyncio.run(together(salt))):
            yield Finding(
                f"{len(changed)} of {len(alone)} outcomes differ when rollouts run at once: "
                f"{named(changed)}",
                "keep the state of a rollout in local variables of rollout(), never on the task; "
                "libraries with global state run without an await in between",
            )
            break
    yield f"{len(alone)} rollouts at once, twice"


def _different(
    table: Table, first: list[Outcome | None], second: list[Outcome | None]
) -> list[str]:
    """Ids of the samples whose outcomes are stored differently."""
    pairs = zip(table.samples, first, second, strict=True)
    return [s.id for s, a, b in pairs if orjson.dumps(a) != orjson.dumps(b)]
