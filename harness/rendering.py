"""Messages become token ids here, and nowhere else: for evaluation, for probes, for training.

A chat model's own template is used, with its opening of the assistant's turn at the end. A base
model has none and gets a plain format, which is recorded as such. No library is imported: any
tokenizer with the interface of Hugging Face's will do.

    ids = render(tokenizer, [Message("user", "2 + 2?")])

Two things that templates do behind one's back are taken away, so that the same messages give the
same tokens on every day and nothing of a prompt is lost:

* a template that asks for today's date is told `TEMPLATE_DATE`;
* a template that refuses or drops a system message gets its text in front of the first user
  message.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from .types import HarnessError, Json, Message


class PlainFormat(NamedTuple):
    """How messages are written for a model without a chat template."""

    turn: str
    opening: str
    stops: tuple[str, ...]


PLAIN_FORMAT: Final = PlainFormat(
    turn="{role}: {content}\n\n",
    opening="Assistant:",
    stops=("\nUser:", "\nSystem:", "\nAssistant:"),
)
"""The format of base models; ``stops`` end a reply where the model begins the next turn itself."""

TEMPLATE_DATE: Final = datetime(2024, 7, 26)
"""The day that templates are told, so that prompts do not change overnight."""

DECIDED_HERE: Final = frozenset(
    {"conversation", "chat_template", "tokenize", "add_generation_prompt", "padding", "truncation"}
    | {"continue_final_message", "max_length", "return_tensors", "return_dict", "tokenizer_kwargs"}
    | {"return_assistant_tokens_mask", "messages"}
)
"""Names that are no arguments of a template."""


def render(
    tokenizer: Any,
    messages: Sequence[Message],
    template_kwargs: Mapping[str, Json] | None = None,
) -> list[int]:
    """The token ids of a prompt, up to where the assistant's reply begins.

    ``template_kwargs`` go to the chat template (``enable_thinking``, say). Special tokens come from
    the template alone, or from the tokenizer alone where there is no template: never twice.

    Raises HarnessError for no messages, and for messages that the template refuses.
    """
    text = prompt_text(tokenizer, messages, template_kwargs)
    if has_template(tokenizer):
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])
    ids = list(tokenizer(text)["input_ids"])
    end = getattr(tokenizer, "eos_token_id", None)
    return ids[:-1] if len(ids) > 1 and ids[-1] == end else ids


def prompt_text(
    tokenizer: Any,
    messages: Sequence[Message],
    template_kwargs: Mapping[str, Json] | None = None,
) -> str:
    """The text that `render` turns into ids."""
    if not messages:
        raise HarnessError("a prompt without messages cannot be rendered")
    if not has_template(tokenizer):
        return _plain(messages)
    from jinja2 import TemplateError

    system = messages[0].content.strip() if messages[0].role == "system" else ""
    try:
        text = _templated(tokenizer, messages, template_kwargs)
        if system in text:
            return text
    except TemplateError as error:
        if not system:
            raise _refused(error) from None
    try:
        return _templated(tokenizer, _folded(messages), template_kwargs)
    except TemplateError as error:
        raise _refused(error) from None


def template_options(value: Json) -> dict[str, Json]:
    """The arguments of a chat template from a JSON object or its text ("" is none).

    Raises HarnessError for anything else, and for names that rendering itself decides.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else {}
        except ValueError as error:
            raise HarnessError(f"chat template arguments are not valid JSON: {error}") from None
    if not isinstance(value, Mapping):
        raise HarnessError('chat template arguments are a JSON object, such as {"name": true}')
    if taken := sorted(DECIDED_HERE & set(value)):
        raise HarnessError(f"{taken[0]!r} cannot be given as a chat template argument")
    return dict(value)


def has_template(tokenizer: Any) -> bool:
    """Whether the tokenizer has a chat template."""
    return bool(getattr(tokenizer, "chat_template", None))


def format_name(tokenizer: Any) -> str:
    """``chat template`` or ``plain``, for the manifest."""
    return "chat template" if has_template(tokenizer) else "plain"


def stop_texts(tokenizer: Any) -> tuple[str, ...]:
    """Texts that end a reply besides those of the decoding: none with a chat template."""
    return () if has_template(tokenizer) else PLAIN_FORMAT.stops


def template_hash(tokenizer: Any) -> str:
    """16 hexadecimal digits that name the prompt format (BLAKE2b of template or plain format)."""
    if has_template(tokenizer):
        template = tokenizer.chat_template
        parts = [template] if isinstance(template, str) else [repr(sorted(template.items()))]
    else:
        parts = [PLAIN_FORMAT.turn, PLAIN_FORMAT.opening, *PLAIN_FORMAT.stops]
    return hashlib.blake2b("\x1f".join(parts).encode(), digest_size=8).hexdigest()


def _plain(messages: Sequence[Message]) -> str:
    turns = [
        PLAIN_FORMAT.turn.format(role=m.role.capitalize(), content=m.content.strip())
        for m in messages
    ]
    return "".join(turns) + PLAIN_FORMAT.opening


def _templated(
    tokenizer: Any, messages: Sequence[Message], template_kwargs: Mapping[str, Json] | None
) -> str:
    text = tokenizer.apply_chat_template(
        [{"role": m.role, "content": m.content} for m in messages],
        tokenize=False,
        add_generation_prompt=True,
        **{"strftime_now": TEMPLATE_DATE.strftime, **(template_kwargs or {})},
    )
    return str(text)


def _folded(messages: Sequence[Message]) -> list[Message]:
    """The system message's text in front of the first user message."""
    system, *rest = messages
    for place, message in enumerate(rest):
        if message.role == "user":
            rest[place] = replace(message, content=f"{system.content}\n\n{message.content}")
            return rest
    return [replace(system, role="user"), *rest]


def _refused(error: Exception) -> HarnessError:
    return HarnessError(f"the model's chat template refuses these messages: {error}")
