"""One rollout for training: the task's own rollout, with the model behind verl's client in a seat.

    session = await play(task, sample, client, tokenizer, decoding, seed)
    session.outcome             # what evaluation would have stored
    session.calls               # prompt and reply ids of each turn of the model, to train on

Each turn of the model is a training sequence of its own: its prompt as it was shown, and its
reply, which alone carries a loss. What opponents said stands in prompts and is never trained on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from harness.player import ModelPlayer, Player, Seat
from harness.rendering import render
from harness.seeds import Streams, derive
from harness.task import Task
from harness.types import Decoding, HarnessError, Outcome, ProviderError, Reply, Request, Sample


@dataclass(frozen=True, slots=True)
class Call:
    """One turn of the model, in tokens."""

    prompt: tuple[int, ...]
    reply: tuple[int, ...]
    logprobs: tuple[float, ...]
    version: int


@dataclass(slots=True)
class Session:
    """One rollout: how it ended and what the model said on the way."""

    calls: list[Call] = field(default_factory=list)
    outcome: Outcome = field(default_factory=lambda: Outcome(()))


@dataclass(frozen=True, slots=True)
class Speaker:
    """How the model speaks in training: verl's client, the tokenizer, end tokens, lengths, whether
    requests carry seeds, and what else the engine is told."""

    generate: Callable[..., Awaitable[Any]]
    tokenizer: Any
    ends: frozenset[int]
    longest_prompt: int
    seeded: bool
    more: Mapping[str, Any] = field(default_factory=dict)

    async def ask(self, session: Session, request: Request) -> Reply:
        """One reply, remembered in the session. A prompt that is too long (a history that grew)
        gets none, which is the model's fault as in evaluation."""
        prompt = render(self.tokenizer, request.messages)
        if len(prompt) > self.longest_prompt:
            return Reply("", finish_reason="length", prompt_tokens=len(prompt))
        decoding = request.decoding
        sampling: dict[str, Any] = {
            "temperature": decoding.temperature,
            "top_p": decoding.top_p if decoding.temperature else 1.0,
            "top_k": (decoding.top_k or -1) if decoding.temperature else -1,
            "repetition_penalty": 1.0,
            "logprobs": True,
            "max_tokens": decoding.max_tokens,
            **self.more,
        }
        if self.seeded and decoding.temperature:
            sampling["seed"] = request.seed
        made = await self.generate(
            request_id=uuid4().hex, prompt_ids=prompt, sampling_params=sampling
        )
        ids = tuple(made.token_ids)
        if not ids:
            raise ProviderError(f"the rollout engine gave no token ({made.stop_reason})")
        version = made.extra_fields.get("global_steps") or 0
        logprobs = tuple(made.log_probs or [0.0] * len(ids))
        session.calls.append(Call(tuple(prompt), ids, logprobs, int(version)))
        stopped = ids[-1] in self.ends
        text = self.tokenizer.decode(
            ids[:-1] if stopped else ids,
            skip_special_tokens=True,
            clean_up_tokenization_spaces=False,
        )
        return Reply(
            text=str(text),
            finish_reason="stop" if stopped else "length",
            prompt_tokens=len(prompt),
            completion_tokens=len(ids),
            prompt_ids=tuple(prompt),
            ids=ids,
            logprobs=logprobs,
        )


async def play(
    task: Task,
    sample: Sample,
    speaker: Speaker,
    decoding: Decoding,
    seed: int,
    opponent: str = "",
    luck: int | None = None,
) -> Session:
    """Roll one sample out. Raises ProviderError when the engine failed.

    :param seed: of the model's replies.
    :param luck: seed of all other draws, such as a random opponent's; by default the same. Rollouts
        that share it differ by what the model said alone, so they can be compared: the opponent
        answers the same moves the same way.
    """
    session = Session()
    luck = seed if luck is None else luck

    async def ask(request: Request) -> Reply:
        return await speaker.ask(session, request)

    players = seats(task, sample, lambda: ModelPlayer(ask, decoding, seed), luck, opponent)
    session.outcome = await task.rollout(sample, players, Streams(luck))
    return session


def seats(
    task: Task, sample: Sample, model: Callable[[], Player], seed: int, opponent: str
) -> Sequence[Player]:
    """A player for each seat: the model, or the reference player that sits opposite.

    Raises HarnessError for an opponent that the task does not have.
    """
    found: list[Player] = []
    for seat, who in enumerate(task.lineup(sample)):
        if who == "model":
            found.append(model())
            continue
        name = opponent or task.default_opponent
        factory = task.players().get(name)
        if factory is None:
            raise HarnessError(
                f"opponent {name!r}: {task.name} has {', '.join(sorted(task.players()))}"
            )
        found.append(factory(Seat(task, sample, seat, seed)))
    return found


def seed_of(run: int, step: int, sample: Sample, number: int) -> int:
    """The seed of a rollout: by run, step, sample and its number, so that a resumed job repeats
    what an uninterrupted one would have drawn."""
    return derive(run, step, sample.id, number)
