"""Generation: a batch of prompts to replies, with a key-value cache and nothing decided unseen.

    rows = [Row(prompt_ids, decoding, seed, stops) for ...]
    Generator(model, tokenizer).run(rows)
    rows[0].ids, rows[0].finish, rows[0].text

Prompts are padded on the left and read once (equal prompts of several completions once together);
then all rows go step by step. A row ends at an end-of-text token, at a stop text or at its token
limit; rows that have ended leave the batch when enough of them have. The settings come from the
rows alone: a checkpoint's ``generation_config`` says which tokens end a text, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import torch

from harness.types import Decoding, HarnessError

from .attention import roomy_cache
from .sampling import Sampler

LEAVE_AT: Final = 0.25
"""Share of ended rows at which the batch is made smaller: that copies the cache once."""

MARGIN: Final = 4
"""Tokens decoded in front of the longest stop text, for characters that are cut in half."""


@dataclass(slots=True)
class Row:
    """One request's way through a batch. ``ids`` are all tokens that were generated, end-of-text
    and stop text included; ``text`` has neither. ``finish`` is "" while it runs."""

    prompt: Sequence[int]
    decoding: Decoding
    seed: int
    stops: tuple[str, ...] = ()
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish: str = ""
    text: str = ""


class Generator:
    """Generates with one model and its tokenizer."""

    def __init__(self, model: Any, tokenizer: Any, logprobs: bool = False) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.logprobs = logprobs
        self.ends = end_tokens(model, tokenizer)
        self.device: torch.device = model.device
        self.produced = 0
        """Tokens generated so far, for the progress display, without those of ``ignore_end``."""

    @torch.inference_mode()
    def run(self, rows: Sequence[Row], ignore_end: bool = False) -> None:
        """Fill the rows in. ``ignore_end``: up to the token limits, for timing."""
        ends = frozenset[int]() if ignore_end else self.ends
        batch = _Batch(self.model, [r.prompt for r in rows], max(_limit(r) for r in rows))
        sampler = Sampler([r.decoding for r in rows], [r.seed for r in rows], self.device)
        alive = list(rows)
        step = 0
        while True:
            chosen = sampler(batch.logits, step)
            logprobs = _logprobs(batch.logits, chosen) if self.logprobs else [0.0] * len(alive)
            for row, token, logprob in zip(alive, chosen.tolist(), logprobs, strict=True):
                if not row.finish:
                    self._push(row, token, logprob, ends)
                    self.produced += not ignore_end
            running = [place for place, row in enumerate(alive) if not row.finish]
            if not running:
                break
            if len(alive) - len(running) >= LEAVE_AT * len(alive):
                kept = torch.tensor(running, device=self.device)
                chosen, alive = chosen[kept], [alive[place] for place in running]
                batch.select(kept)
                sampler.select(kept)
            batch.step(chosen)
            step += 1
        for row in rows:
            row.text = self._text(row)

    def _push(self, row: Row, token: int, logprob: float, ends: frozenset[int]) -> None:
        row.ids.append(token)
        if self.logprobs:
            row.logprobs.append(logprob)
        if token in ends or (row.stops and self._stopped(row)):
            row.finish = "stop"
        elif len(row.ids) >= row.decoding.max_tokens:
            row.finish = "length"

    def _stopped(self, row: Row) -> bool:
        # A token is at least a byte of text, so the tail holds any stop text that ends here.
        reach = max(len(stop.encode()) for stop in row.stops) + MARGIN
        tail = self._decode(row.ids[-reach:])
        return any(stop in tail for stop in row.stops)

    def _text(self, row: Row) -> str:
        text = self._decode(row.ids[:-1] if row.ids[-1] in self.ends else row.ids)
        places = [place for stop in row.stops if (place := text.find(stop)) >= 0]
        return text[: min(places)] if places else text

    def _decode(self, ids: Sequence[int]) -> str:
        return str(
            self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        )


class _Batch:
    """The state of a batch: cache, mask, positions and the logits of the last tokens (float32)."""

    def __init__(self, model: Any, prompts: Sequence[Sequence[int]], room: int) -> None:
        self.model = model
        device = model.device
        places: dict[tuple[int, ...], int] = {}
        order = [places.setdefault(tuple(prompt), len(places)) for prompt in prompts]
        ids, mask = padded(list(places), device, side="left")
        self.width = ids.shape[1]
        self.cache = roomy_cache(model.config)
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        self.logits = self._forward(ids, mask, positions, logits_to_keep=1)
        self.positions = positions[:, -1:]
        self.mask = torch.cat([mask, mask.new_ones(len(mask), room)], dim=-1)
        if len(places) < len(order):
            self.select(torch.tensor(order, device=device))

    def select(self, rows: torch.Tensor) -> None:
        """Keep these rows; an index may occur several times."""
        self.cache.reorder_cache(rows)
        self.mask, self.positions = self.mask[rows], self.positions[rows]
        self.logits = self.logits[rows]

    def step(self, tokens: torch.Tensor) -> None:
        """Feed one token for each row."""
        self.width += 1
        self.positions = self.positions + 1
        self.logits = self._forward(tokens[:, None], self.mask[:, : self.width], self.positions)

    def _forward(
        self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, **more: Any
    ) -> torch.Tensor:
        out = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=self.cache,
            use_cache=True,
            **more,
        )
        logits: torch.Tensor = out.logits[:, -1].float()
        return logits


def padded(
    prompts: Sequence[Sequence[int]], device: torch.device, side: Literal["left", "right"]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and mask, both (prompts, longest). What stands in the padding is never seen."""
    longest = max(map(len, prompts))
    ids = torch.zeros(len(prompts), longest, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for place, prompt in enumerate(prompts):
        start = longest - len(prompt) if side == "left" else 0
        ids[place, start : start + len(prompt)] = torch.tensor(prompt)
        mask[place, start : start + len(prompt)] = 1
    return ids.to(device), mask.to(device)


def end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """All tokens that end a text, by tokenizer, configuration and generation configuration."""
    named = [tokenizer.eos_token_id]
    for config in (model.config, model.config.get_text_config(), model.generation_config):
        named.append(getattr(config, "eos_token_id", None))
    found: set[int] = set()
    for value in named:
        found |= {int(v) for v in value} if isinstance(value, Iterable) else {value} - {None}
    return frozenset(found)


def check_model(model: Any) -> None:
    """Raise HarnessError for architectures that this loop cannot drive."""
    import inspect

    parameters: Mapping[str, Any] = inspect.signature(model.forward).parameters
    missing = {"attention_mask", "position_ids", "past_key_values", "logits_to_keep"} - {
        *parameters
    }
    if missing:
        raise HarnessError(
            f"{type(model).__name__} takes no {', '.join(sorted(missing))}: the transformers back "
            "end cannot run it; try --model vllm:NAME"
        )


def _limit(row: Row) -> int:
    if row.decoding.max_tokens < 1:
        raise HarnessError("max_tokens must be at least 1")
    return row.decoding.max_tokens


def _logprobs(logits: torch.Tensor, chosen: torch.Tensor) -> list[float]:
    """Log-probabilities of the chosen tokens by the model itself: temperature 1, nothing cut."""
    values: list[float] = logits.log_softmax(-1).gather(1, chosen[:, None])[:, 0].tolist()
    return values
