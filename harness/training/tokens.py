"""Tokens of training items: the same prompt ids as in evaluation, then the reply, then one end.

ids, prompt = supervised(tokenizer, item.messages, item.target)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..rendering import render
from ..types import HarnessError, Message
from .data import Item
from .lengths import Lengths


class Supervised(NamedTuple):
    """Token ids of prompt, reply and end token; ``prompt`` of them carry no loss."""

    ids: tuple[int, ...]
    prompt: int


def supervised(tokenizer: Any, messages: Sequence[Message], target: str) -> Supervised:
    """The ids of a worked item: rendered prompt, reply, exactly one end token.

    The reply is tokenised by itself, since a model begins it at the end of the prompt's ids. Raises
    HarnessError for a tokenizer without an end token, and for a reply that holds one.
    """
    end = getattr(tokenizer, "eos_token_id", None)
    if end is None:
        raise HarnessError("the tokenizer has no end token (eos_token); replies could not end")
    prompt = render(tokenizer, messages)
    reply = list(tokenizer(target, add_special_tokens=False)["input_ids"])
    if end in reply:
        raise HarnessError("a target holds the end token in its text")
    return Supervised((*prompt, *reply, end), len(prompt))


def prompt_lengths(tokenizer: Any, items: Iterable[Item], limit: int = 0) -> Lengths:
    """Token counts of the rendered prompts."""
    counts = ((i.sample.id, len(render(tokenizer, i.messages))) for i in items)
    return Lengths.of("prompt", counts, limit)


def reply_lengths(tokenizer: Any, items: Iterable[Item], limit: int = 0) -> Lengths:
    """Token counts of the targets with their end token."""
    counts = (
        (i.sample.id, len(tokenizer(i.target, add_special_tokens=False)["input_ids"]) + 1)
        for i in items
        if i.target is not None
    )
    return Lengths.of("reply", counts, limit)
