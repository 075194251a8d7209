"""Checks of a model back end: replies that are whole, counted, repeatable, and its own.

A scripted model (one with players of its own) is asked in a small game of its kind instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace

import orjson

from ..batching import ModelQueue
from ..model import Model
from ..player import FixedPlayer, PlayerFactory, Seat
from ..seeds import derive
from ..task import Task
from ..types import Decoding, HarnessError, Message, Reply, Request, Sample, Turn
from ..wrapper import Wrapper
from .kit import Finding, Kit, Skip, Steps

TEXTS = (
    "Name a number from 1 to 9 and say why, in one short sentence.",
    "Rock, paper or scissors? Answer with one word and nothing else.",
    "要么合作，要么背叛：你选哪一个？ Ответь одним словом. 🙂",
    "A: 3, B: 7, C: 5. Which letter has the highest number? Answer with the letter.",
)
TOKENS = 6
"""New tokens of a check's request: enough to see, few enough for a CPU."""


class Words(Task):
    """Say the word: what scripted models are asked."""

    name = "words"

    def samples(self, split: str) -> Iterable[Sample]:
        return [Sample("words-0", "test", {}, {"answer": "rook"})]

    def messages(self, sample: Sample) -> list[Message]:
        return [Message("user", "Say: rook")]

    def players(self) -> Mapping[str, PlayerFactory]:
        return {
            "oracle": lambda seat: FixedPlayer(lambda turn: "rook"),
            "random": lambda seat: FixedPlayer(lambda turn: f"w{derive(seat.seed) % 10}"),
            "constant": lambda seat: FixedPlayer(lambda turn: "pawn"),
        }


def requests(temperature: float = 0.0, tokens: int = TOKENS) -> list[Request]:
    """One request for each of `TEXTS`."""
    decoding = Decoding(temperature=temperature, max_tokens=tokens)
    return [
        Request((Message("user", text),), decoding, derive("check", i))
        for i, text in enumerate(TEXTS)
    ]


def ask(model: Model, asked: list[Request], together: bool = True) -> list[Reply]:
    """The replies, through the queue that runs use: all at once, or one by one."""

    async def run() -> list[Reply]:
        queue = ModelQueue(model)
        try:
            if together:
                return list(await asyncio.gather(*(queue.ask(r) for r in asked)))
            return [await queue.ask(r) for r in asked]
        finally:
            queue.close()

    return asyncio.run(run())


def model_of(kit: Kit) -> Model:
    """The model. Raises Skip for a test-time method, which only asks another model."""
    model: Model = kit.made()
    if isinstance(model, Wrapper):
        raise Skip("it asks another model: check that one")
    return model


def scripted(kit: Kit) -> bool:
    """Whether the model has players of its own."""
    model = model_of(kit)
    task = Words()
    try:
        return model.player(Seat(task, next(iter(task.samples("test"))), 0, 1)) is not None
    except HarnessError:  # a player that this little task does not have
        return True


def _answers(kit: Kit) -> Model:
    if scripted(kit):
        raise Skip("a scripted model: it has players of its own")
    return model_of(kit)


def identity(kit: Kit) -> Steps:
    """A name, an identity and a description, which runs are found by."""
    model = model_of(kit)
    if not model.identity or not model.identity.isprintable():
        yield Finding(
            f"the identity is {model.identity!r}",
            "set it to a hash of the weights, or to address and name",
        )
    if not model.name:
        yield Finding("the model has no name", "set name")
    try:
        orjson.dumps(dict(model.describe()))
    except TypeError as error:
        yield Finding(f"describe() is not JSON: {error}", "return texts and numbers")
    if unknown := set(model.incidental) - set(kit.entry.options):
        yield Finding(f"incidental names {sorted(unknown)[0]!r}, which is no option", "take it out")
    yield f"{model.identity}, context {model.context_length or 'not known'}"


def players(kit: Kit) -> Steps:
    """A scripted model's player depends on the rollout's seed and on nothing else."""
    if not scripted(kit):
        raise Skip("the model answers requests")
    model = model_of(kit)
    task = Words()
    sample = next(iter(task.samples("test")))
    turn = Turn(0, tuple(task.messages(sample)), truth=sample.truth, state=sample)

    async def said(seed: int) -> Reply:
        player = model.player(Seat(task, sample, 0, seed))
        assert player is not None
        return await player.act(turn)

    try:
        pairs = [(asyncio.run(said(seed)), asyncio.run(said(seed))) for seed in range(8)]
    except HarnessError as error:
        raise Skip(f"it does not play a task that it has no player for ({error})") from None
    if any(a != b for a, b in pairs):
        yield Finding(
            "the same seed gives another reply", "draw from derive(seat.seed, turn.number)"
        )
    yield f"{len({a.text for a, _ in pairs})} different replies to 8 seeds"


def replies(kit: Kit) -> Steps:
    """Replies end for a reason, keep to the limit and are counted."""
    model = _answers(kit)
    asked = requests()
    found: list[Reply] = kit.once("replies", lambda: ask(model, asked))
    for request, reply in zip(asked, found, strict=True):
        for fault, advice in _faults(model, request, reply):
            yield Finding(f"{request.messages[0].content[:30]!r}: {fault}", advice)
            return
    one = ask(model, requests(tokens=1))
    if over := [r.completion_tokens for r in one if r.completion_tokens > 1]:
        yield Finding(f"max_tokens=1 gives {over[0]} tokens", "hand Decoding.max_tokens on")
    yield f"{sum(r.completion_tokens for r in found)} tokens in {len(found)} replies"


def _faults(model: Model, request: Request, reply: Reply) -> Iterable[tuple[str, str]]:
    """What is wrong with a reply, and what to do."""
    if not isinstance(reply, Reply) or not isinstance(reply.text, str):
        yield f"generate() returns {type(reply).__name__}", "return harness.types.Reply"
        return
    if reply.finish_reason not in ("stop", "length"):
        yield (
            f"finish_reason is {reply.finish_reason!r}",
            '"stop", or "length" where the token limit cut the reply off',
        )
    if reply.completion_tokens > request.decoding.max_tokens:
        yield f"{reply.completion_tokens} tokens, {TOKENS} allowed", "hand max_tokens on"
    if reply.ids is not None and len(reply.ids) != reply.completion_tokens:
        yield (
            f"{len(reply.ids)} ids, completion_tokens {reply.completion_tokens}",
            "count what was generated",
        )
    if reply.logprobs is not None and len(reply.logprobs) != reply.completion_tokens:
        yield f"{len(reply.logprobs)} logprobs", "give one for each generated token, or None"
    counted = model.count_tokens(request.messages)
    if counted is not None and reply.prompt_tokens and counted != reply.prompt_tokens:
        yield (
            f"count_tokens says {counted}, the reply {reply.prompt_tokens}",
            "count the rendered prompt in both places",
        )


def stops(kit: Kit) -> Steps:
    """A stop text ends a reply and is not part of it."""
    model = _answers(kit)
    found: list[Reply] = kit.once("replies", lambda: ask(model, requests()))
    plan = []
    for request, reply in zip(requests(), found, strict=True):
        words = reply.text.split()
        if len(words) > 1:
            stop = words[1]
            plan.append((replace(request, decoding=replace(request.decoding, stop=(stop,))), stop))
    if not plan:
        raise Skip("no reply has two words")
    for (_, stop), reply in zip(plan, ask(model, [r for r, _ in plan]), strict=True):
        if stop in reply.text:
            yield Finding(
                f"the stop text {stop!r} is in the reply {reply.text[:60]!r}",
                "cut the reply before it (Decoding.stop)",
            )
            return
    yield f"{len(plan)} replies cut"


def repeatable(kit: Kit) -> Steps:
    """The same request gets the same reply: greedy ones in any company, drawn ones by their seed.

    What else is in a batch may change the last bits of a sum, and in half precision a drawn token
    with them: that is told, and is no finding.
    """
    model = _answers(kit)
    greedy = [r.text for r in ask(model, requests())]
    for words, again in (
        ("asked one by one", ask(model, requests(), together=False)),
        ("asked in another order", ask(model, requests()[::-1])[::-1]),
    ):
        if moved := _moved(greedy, again):
            yield Finding(
                f"{moved} of {len(greedy)} greedy replies differ when {words}",
                "let a row depend on its own request alone; in half precision try the same with "
                "--set dtype=float32, where the back end has that option",
            )
            break
    drawn = [r.text for r in ask(model, requests(1.0), together=False)]
    if moved := _moved(drawn, ask(model, requests(1.0), together=False)):
        yield Finding(
            f"{moved} of {len(drawn)} drawn replies differ when asked again with the same seed",
            "draw from Request.seed alone; a server that cannot do that says so in its docs",
        )
    other = [replace(r, seed=r.seed + 1) for r in requests(1.0)]
    together = _moved(drawn, ask(model, requests(1.0)))
    yield (
        f"of {len(drawn)} drawn replies {_moved(drawn, ask(model, other))} differ under another "
        f"seed, {together} beside others"
    )


def _moved(first: list[str], second: list[Reply]) -> int:
    """How many texts differ."""
    return sum(a != b.text for a, b in zip(first, second, strict=True))


def budget(kit: Kit) -> Steps:
    """Prompts can be counted, so that one that cannot fit is refused before a run."""
    model = _answers(kit)
    counts = [model.count_tokens((Message("user", text),)) for text in (*TEXTS, TEXTS[0] * 3)]
    *sizes, longer = [count for count in counts if count is not None] or [0]
    if len(sizes) < len(TEXTS):
        raise Skip("the back end does not count tokens: prompts are not checked before a run")
    if min(sizes) < 1 or longer <= sizes[0]:
        yield Finding(f"count_tokens gives {sizes}", "count the tokens of the rendered prompt")
    if model.context_length is not None and model.context_length < 1:
        yield Finding(f"context_length is {model.context_length}", "tokens of prompt and reply")
    yield f"prompts of {min(sizes)} to {max(sizes)} tokens"


def closing(kit: Kit) -> Steps:
    """The model lets go of what it holds, and can be asked to twice."""
    model = model_of(kit)
    model.close()
    model.close()
    yield "closed twice"
