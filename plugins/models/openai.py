"""The openai back end: any server that speaks OpenAI's chat completions.

    harness run --task gamesolve --model openai:NAME --model-set base_url=http://127.0.0.1:8000/v1
    harness run --task gamesolve --model openai:gpt-4o-mini --model-set input_price=0.15 \\
        --model-set output_price=0.6 --model-set budget=2

The key comes from the environment (``OPENAI_API_KEY``, or the variable that ``api_key_env`` names)
and is never written anywhere. Every decoding parameter is sent. What is not part of OpenAI's own
interface (top-k, min-p, the repetition penalty, arguments of the chat template) is sent to servers
that say they are vLLM or SGLang, or with ``sampler=extended``, so that a checkpoint's own
generation settings never apply unseen there.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from harness import hookimpl
from harness.model import Model
from harness.rendering import template_options
from harness.types import HarnessError, Json, Message, Reply, Request

from .openai_ledger import Entry, Ledger, Prices
from .openai_limiter import Limiter
from .openai_transport import OFFICIAL, ContextExceeded, Endpoint, Patience, Transport

DEFAULTS: Final[Mapping[str, Json]] = {
    "base_url": "",
    "api_key_env": "OPENAI_API_KEY",
    "max_concurrency": 256,
    "retries": 8,
    "retry_delay": 0.5,
    "timeout": 600.0,
    "sampler": "auto",
    "max_tokens_field": "auto",
    "extra_body": "",
    "omit": [],
    "chat_template_kwargs": {},
    "logprobs": False,
    "token_ids": False,
    "input_price": 0.0,
    "output_price": 0.0,
    "budget": 0.0,
    "ledger": "",
}
"""The options of a registry entry, with their defaults."""

EXTENDED_SERVERS: Final = frozenset({"vllm", "sglang"})
"""Owners in a server's list of models that take the extended sampling parameters."""

SEEDS: Final = 2**31
"""Seeds are sent modulo this: some servers take 32 bits."""


class OpenAIModel(Model):
    """A model behind an OpenAI-compatible server."""

    incidental = frozenset(
        {"api_key_env", "max_concurrency", "retries", "retry_delay", "timeout", "base_url"}
        | {"input_price", "output_price", "budget", "ledger"}
    )
    """Options that no record depends on (the endpoint is part of the identity)."""

    def __init__(self, name: str, options: Mapping[str, Json]) -> None:
        self.name = name
        self.options = o = {**DEFAULTS, **options}
        url = str(o["base_url"]) or os.environ.get("OPENAI_BASE_URL", "") or OFFICIAL
        self.endpoint = Endpoint(url, str(o["api_key_env"]))
        self.identity = f"{name}@{self.endpoint.address}"
        self.extra = _json_object("extra_body", o["extra_body"])
        self.template = template_options(o["chat_template_kwargs"])
        prices = Prices(float(o["input_price"]), float(o["output_price"]))
        file = Path(str(o["ledger"])).expanduser() if o["ledger"] else None
        self.ledger = Ledger(prices, float(o["budget"]), file)
        patience = Patience(int(o["retries"]), float(o["retry_delay"]), timeout=float(o["timeout"]))
        self.limiter = Limiter(most=_at_least_one(o["max_concurrency"]))
        self.transport = Transport(self.endpoint, patience, self.limiter, self.ledger.totals)
        self.listing = self._listing()
        self.context_length = self.listing.get("max_model_len") or None
        self.extended = self._takes_extended()
        self.limit_field = self._limit_field()
        if self.template and not self.extended:
            raise HarnessError(
                f"{self.endpoint.address} takes no chat template arguments; if it does, give "
                "sampler=extended"
            )

    async def generate(self, request: Request) -> Reply:
        """Answer one request. Raises ProviderError after the last try."""
        body = self.body(request)
        entry = await self.ledger.reserve(_most_tokens(request), request.decoding.max_tokens)
        try:
            answer = await self.transport.chat(body)
        except ContextExceeded as error:
            self.ledger.release(entry)
            return self._too_long(request, str(error))
        except BaseException:
            self.ledger.release(entry)
            raise
        return self._reply(answer, entry)

    def body(self, request: Request) -> dict[str, Json]:
        """The JSON that is sent: every parameter of the decoding, then the user's own fields."""
        d = request.decoding
        body: dict[str, Json] = {
            "model": self.name,
            "messages": [{"role": m.role, "content": m.content} for m in request.messages],
            "temperature": d.temperature,
            "top_p": d.top_p,
            self.limit_field: d.max_tokens,
            "seed": request.seed % SEEDS,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "n": 1,
            "stream": False,
        }
        if d.stop:
            body["stop"] = list(d.stop)
        if self.options["logprobs"]:
            body["logprobs"] = True
        if self.extended:
            body |= {"top_k": d.top_k or -1, "min_p": 0.0, "repetition_penalty": 1.0}
            if self.options["token_ids"]:
                body["return_token_ids"] = True
            if self.template:
                body["chat_template_kwargs"] = self.template
        elif d.top_k and "top_k" not in self.extra:
            raise HarnessError(
                f"{self.endpoint.address} takes no top-k; leave it 0, or give sampler=extended"
            )
        body |= self.extra
        for name in self.options["omit"]:
            body.pop(name, None)
        return body

    def describe(self) -> dict[str, Json]:
        """Endpoint, what the server says about the model, and how it is asked."""
        return {
            "backend": "openai",
            "endpoint": self.endpoint.address,
            "served": {
                key: self.listing[key]
                for key in ("id", "owned_by", "root", "max_model_len", "created")
                if key in self.listing
            },
            "sampler": "extended" if self.extended else "standard",
            "extra_body": self.extra,
            "omitted": list(self.options["omit"]),
            "template_kwargs": self.template,
            "prices": self.ledger.prices._asdict(),
        }

    def close(self) -> None:
        """Close the connections, save the ledger, and say what it holds where that matters."""
        self.transport.close()
        self.ledger.save()
        totals = self.ledger.totals
        if totals.retries or any(self.ledger.prices):
            print(f"{self.name}: {self.ledger.text()}", file=sys.stderr, flush=True)

    def _listing(self) -> dict[str, Json]:
        rows = self.transport.models()
        return next((row for row in rows if row.get("id") == self.name), {})

    def _takes_extended(self) -> bool:
        choice = str(self.options["sampler"])
        if choice not in ("auto", "standard", "extended"):
            raise HarnessError(f"sampler {choice!r}: give auto, standard or extended")
        return choice == "extended" or (
            choice == "auto" and str(self.listing.get("owned_by")).lower() in EXTENDED_SERVERS
        )

    def _limit_field(self) -> str:
        choice = str(self.options["max_tokens_field"])
        if choice != "auto":
            return choice
        return "max_completion_tokens" if self.endpoint.official else "max_tokens"

    def _too_long(self, request: Request, said: str) -> Reply:
        """A history that outgrew the context is a truncated reply; a first prompt is an error."""
        if any(m.role == "assistant" for m in request.messages):
            return Reply("", finish_reason="length")
        raise HarnessError(f"a prompt does not fit {self.name} with its reply: {said}")

    def _reply(self, answer: Mapping[str, Json], entry: Entry) -> Reply:
        choice = answer["choices"][0]
        message = choice["message"]
        usage = answer.get("usage") or {}
        prompt, completion = (
            int(usage.get(name) or 0) for name in ("prompt_tokens", "completion_tokens")
        )
        self.ledger.settle(entry, prompt, completion)
        return Reply(
            text=_text(message.get("content")) or _text(message.get("refusal")),
            finish_reason="length" if choice.get("finish_reason") == "length" else "stop",
            prompt_tokens=prompt,
            completion_tokens=completion,
            reasoning=_text(message.get("reasoning_content") or message.get("reasoning")),
            prompt_ids=_numbers(answer.get("prompt_token_ids"), int),
            ids=_numbers(choice.get("token_ids"), int),
            logprobs=_logprobs(choice.get("logprobs")),
        )


def _text(content: Json) -> str:
    """The text of a message's content: a string, or parts of which some are text."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""


def _numbers(values: Json, kind: type) -> tuple[Any, ...] | None:
    return tuple(map(kind, values)) if isinstance(values, list) else None


def _logprobs(value: Json) -> tuple[float, ...] | None:
    content = value.get("content") if isinstance(value, Mapping) else None
    if not isinstance(content, list):
        return None
    return tuple(float(token["logprob"]) for token in content)


def _most_tokens(request: Request) -> int:
    """A bound on a prompt's tokens: a token is at least a byte; a turn's frame takes a few."""
    messages: Sequence[Message] = request.messages
    return sum(len(m.content.encode()) + 16 for m in messages)


def _json_object(what: str, value: Json) -> dict[str, Json]:
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else {}
        except ValueError as error:
            raise HarnessError(f"{what} is not valid JSON: {error}") from None
    if not isinstance(value, Mapping):
        raise HarnessError(f'{what} is a JSON object, such as {{"name": true}}')
    return dict(value)


def _at_least_one(value: Json) -> int:
    if int(value) < 1:
        raise HarnessError("max_concurrency must be at least 1")
    return int(value)


@hookimpl
def create_model(name: str, options: Mapping[str, Json]) -> OpenAIModel:
    """``openai:NAME``: the model that the server calls so."""
    if not name or name == "openai":
        raise HarnessError("which model? --model openai:NAME, as the server calls it")
    return OpenAIModel(name, options)


def doctor() -> list[tuple[str, bool, str]]:
    """Whether the client is there; servers are not asked."""
    try:
        from importlib.metadata import version

        return [("openai client", True, version("openai"))]
    except ImportError:
        advice = "not installed (optional): pip install 'strategic-harness[openai]'"
        return [("openai client", True, advice)]
