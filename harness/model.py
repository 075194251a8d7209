"""Models: back ends that turn messages into replies.

The smallest model, for a library that answers one prompt at a time:

    class Shouting(Model):
        name = identity = "shouting"

        async def generate(self, request):
            return Reply(text=request.messages[-1].content.upper())

A back end that works on batches implements ``generate_batch`` instead, and the core gathers the
batches (see `harness.batching`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .player import Player, Seat
from .types import Json, Message, Reply, Request


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run will take: seconds of wall time and bytes of memory; None where unknown.
    ``devices`` names what it runs on."""

    seconds: float | None = None
    memory: int | None = None
    devices: str = ""


class Model:
    """A model back end.

    ``identity`` is a hash of the weights (and quantisation), or endpoint and name: it is part of
    the specification of a run. ``context_length`` counts prompt plus reply tokens (None: unknown).
    ``produced`` counts the tokens generated so far, where a back end updates it while a batch runs
    (the progress display reads it). ``batch_limit`` and ``batch_tokens`` bound the batches that
    ``generate_batch`` gets: rows, and rows x (longest prompt + reply limit). ``concurrency`` is how
    many rollouts keep the back end busy where the user names no number (0: the harness's default).
    ``incidental`` names options that no record depends on (a budget, a time-out, a memory share):
    they are no part of the specification. ``label`` is how tables name the model where its
    ``--model`` value would say it badly. ``given`` are the ``decoding``, ``system`` and ``fewshot``
    that replies which are there already (a replay's) were made with. ``device_share`` is the share
    of a device's memory that the model takes as it starts (0: what it needs); where two models of a
    run would take more than there is, it is scaled down before the first request.
    ``checks_length``: a request that cannot fit the context is answered by the model itself.
    """

    name: str = ""
    identity: str = ""
    context_length: int | None = None
    produced: int = 0
    batch_limit: int = 64
    batch_tokens: int = 65_536
    concurrency: int = 0
    incidental: frozenset[str] = frozenset()
    label: str = ""
    given: Mapping[str, Json] | None = None
    device_share: float = 0.0
    checks_length: bool = False
    depth: int = 0

    async def generate(self, request: Request) -> Reply:
        """Answer one request. Raises ProviderError for faults that a retry may mend."""
        raise NotImplementedError(f"{type(self).__name__}.generate")

    def generate_batch(self, requests: Sequence[Request]) -> list[Reply]:
        """Answer a batch, in order; called in one worker thread. Each row must depend on its own
        request only."""
        raise NotImplementedError(f"{type(self).__name__}.generate_batch")

    def player(self, seat: Seat) -> Player | None:
        """A player of its own kind (scripted models: a reference player); None: a model's player
        that shows it the messages."""
        return None

    def count_tokens(self, messages: Sequence[Message]) -> int | None:
        """Tokens of a rendered prompt, for budgets and batches (None: not known here)."""
        return None

    def count_all(self, prompts: Sequence[Sequence[Message]]) -> list[int | None]:
        """`count_tokens` of many prompts; a back end may do them side by side."""
        return [self.count_tokens(messages) for messages in prompts]

    async def measure(self, messages: Sequence[Message]) -> int | None:
        """`count_tokens` while a run goes on; a back end may do it beside the loop."""
        return self.count_tokens(messages)

    def estimate(self, prompts: int, prompt_tokens: float, reply_tokens: float) -> Estimate:
        """What ``prompts`` requests with these mean token counts will take."""
        return Estimate()

    def describe(self) -> Mapping[str, Json]:
        """What the manifest tells about the model: folder, dtype, device, template hash."""
        return {}

    def hidden_states(
        self,
        prompt_ids: Sequence[Sequence[int]],
        spans: Sequence[tuple[int, int]],
        layers: Sequence[int],
        pooling: str | Sequence[str],
    ) -> Any:
        """Pooled hidden states, an array (prompts, layers, width), or (prompts, poolings, layers,
        width) where several poolings are named; for probing. ``depth`` counts the layers."""
        raise NotImplementedError(f"{type(self).__name__}.hidden_states")

    async def forget(self) -> None:
        """Drop what is kept of earlier requests (prompts, prefixes), so that a measurement that is
        repeated does all the work again."""

    def close(self) -> None:
        """Release what the model holds."""


DEVICE: Final = 0.95
"""The share of a device's memory that the models of a run may take together."""


def share_devices(models: Iterable[Model]) -> None:
    """Where models would take more of a device than there is, scale their shares down in
    proportion: two that ask for 0.9 get 0.475 each. One model in two seats counts once."""
    known = {id(model): model for model in models}
    asked = sum(model.device_share for model in known.values())
    if len(known) > 1 and asked > DEVICE + 1e-9:
        for model in known.values():
            model.device_share *= DEVICE / asked
