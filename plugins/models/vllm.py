"""The vllm back end: vLLM's asynchronous engine in this process, fed by the run's own queue.

    harness run --task gtbench --model vllm:FOLDER                  # the default where a GPU is
    harness run --task gamesolve --model vllm:FOLDER --model-set tensor_parallel=2

Prompts become tokens in `harness.rendering`, requests go to the engine as they come, and only final
outputs come back; texts are made from the tokens once, at the end. Each request carries its own
seed and every sampling parameter, so a checkpoint's generation settings never apply (its
end-of-text tokens do). Where several completions of a prompt are wanted, prefix caching makes all
after the first read it for nothing. The engine starts with the first request: a dry run loads no
weights.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy, deepcopy
from dataclasses import replace
from itertools import count
from typing import Any, Final

from harness import hookimpl
from harness.model import Estimate, Model
from harness.rendering import format_name, render, stop_texts, template_hash, template_options
from harness.seeds import derive
from harness.types import (
    Decoding,
    EngineLostError,
    HarnessError,
    Json,
    Message,
    ProviderError,
    Reply,
    Request,
)

from . import vllm_device
from .vllm_checkpoint import Checkpoint, checkpoint
from .vllm_engine import Start, set_environment, start_engine
from .vllm_estimate import estimate
from .vllm_guard import Guard, end, engine_processes
from .vllm_server import Served, served
from .vllm_thinking import Thinking

DEFAULTS: Final[Mapping[str, Json]] = {
    "dtype": "auto",
    "tensor_parallel": 1,
    "pipeline_parallel": 1,
    "max_model_len": 0,
    "gpu_memory": 0.9,
    "max_num_seqs": 0,
    "max_batched_tokens": 0,
    "quantization": "",
    "kv_cache_dtype": "auto",
    "load_format": "auto",
    "lora": "",
    "logprobs": False,
    "reasoning_parser": "",
    "reasoning_budget": 0,
    "reasoning_end": "</think>",
    "enforce_eager": False,
    "prefix_caching": True,
    "flashinfer_sampler": False,
    "chat_template_kwargs": {},
    "engine_args": "",
}
"""The options of a registry entry, with their defaults."""

LONGEST: Final = 32_768
"""Tokens of context at most, unless ``max_model_len`` says otherwise."""

REMEMBERED: Final = 8192
"""Rendered prompts that are kept between counting and generating."""

BATCHED: Final = 1024
"""Sequences that vLLM takes at a time on its largest GPUs."""

RENDERERS: Final = 4
"""Threads that make prompts into tokens."""


class VllmModel(Model):
    """A causal language model in vLLM's engine."""

    concurrency = 2048
    """Rollouts in flight, where the user names no number: twice the sequences that vLLM takes on
    its largest GPUs, so that one always waits where another ends."""

    incidental = frozenset(
        {"tensor_parallel", "pipeline_parallel", "gpu_memory", "max_num_seqs"}
        | {"max_batched_tokens", "enforce_eager", "prefix_caching", "flashinfer_sampler"}
    )
    """Options that change how fast records come, and rounding at most."""

    def __init__(self, found: Checkpoint, options: Mapping[str, Json]) -> None:
        from transformers import AutoTokenizer

        self.options = o = {**DEFAULTS, **options}
        self.found = found
        self.name = found.name
        self.identity = found.identity
        self.template = template_options(o["chat_template_kwargs"])
        shared = {"local_files_only": True, "trust_remote_code": False}
        self.tokenizer = AutoTokenizer.from_pretrained(found.folder, **shared)
        self.ends = found.end_tokens(self.tokenizer)
        self.stops = stop_texts(self.tokenizer)
        self.thinking = Thinking.of(self.tokenizer, o)
        self.context_length = self._context()
        self.start = Start.of(found, o, self._engine_length())
        set_environment(self.start)
        self._needed = 0
        self._longest = 0
        self._engine: Any = None
        self._lora: Any = None
        self._guard: Guard | None = None
        self._failure: HarnessError | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._known_params: dict[Any, Any] = {}
        self._numbers = count()
        self._rendered: dict[tuple[Message, ...], tuple[int, ...]] = {}
        self._own, self._lock = threading.local(), threading.Lock()
        self._threads = ThreadPoolExecutor(RENDERERS, thread_name_prefix="harness-tokens")

    @property
    def device_share(self) -> float:  # type: ignore[override]
        """The share of each GPU's memory that the engine takes (``gpu_memory``)."""
        return float(self.start.arguments["gpu_memory_utilization"])

    @device_share.setter
    def device_share(self, share: float) -> None:
        changed = {**self.start.arguments, "gpu_memory_utilization": round(share, 4)}
        self.start = replace(self.start, arguments=changed, shared=True)

    # Replies

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Tokens of the rendered prompt."""
        count = len(self._render(tuple(messages)))
        self._longest = max(self._longest, count)
        return count

    def count_all(self, prompts: Sequence[Sequence[Message]]) -> list[int | None]:
        """`count_tokens` of many prompts, in threads."""
        asked = [tuple(messages) for messages in prompts]
        counts = [len(ids) for ids in self._threads.map(self._render, asked)]
        self._longest = max(self._longest, *counts, 0)
        return list(counts)

    async def measure(self, messages: Sequence[Message]) -> int:
        """`count_tokens` in a thread: tokenizers let the loop go on meanwhile."""
        asked = tuple(messages)
        if asked not in self._rendered:
            loop = asyncio.get_running_loop()
            return len(await loop.run_in_executor(self._threads, self._render, asked))
        return len(self._rendered[asked])

    async def generate(self, request: Request) -> Reply:
        """Answer one request. Raises HarnessError when the engine cannot start or has died."""
        prompt = self._render(request.messages)
        stops = tuple(dict.fromkeys((*request.decoding.stop, *self.stops)))
        thought: tuple[int, ...] = ()
        if self.thinking.budget:
            # Stop texts end a reply, not the thoughts before it.
            first = self._params(request, request.seed, self.thinking.budget, self.thinking.stops)
            output = await self._complete(prompt, first)
            thought = self.thinking.closed(output.token_ids, output.finish_reason == "length")
            if not thought:
                return self._reply(prompt, thought, output, stops)
        seed = derive(request.seed, "answer") if thought else request.seed
        params = self._params(request, seed, request.decoding.max_tokens, (), stops)
        output = await self._complete((*prompt, *thought), params)
        return self._reply(prompt, thought, output, stops)

    async def _complete(self, prompt: Sequence[int], params: Any) -> Any:
        """One completion (vLLM's CompletionOutput)."""
        from vllm.exceptions import VLLMValidationError
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        engine = self._running()
        room = int(engine.vllm_config.model_config.max_model_len)
        if len(prompt) + params.max_tokens > room:
            raise HarnessError(
                f"a prompt of {len(prompt)} tokens with a reply of up to {params.max_tokens} does "
                f"not fit the {room} tokens of {self.name}; lower --max-tokens"
            )
        final = None
        try:
            asked = {"type": "token", "prompt_token_ids": list(prompt)}
            number = str(next(self._numbers))
            async for output in engine.generate(asked, params, number, lora_request=self._lora):
                final = output
        except EngineDeadError:
            raise EngineLostError(
                "vLLM's engine died (its own words are above); the same command goes on from here"
            ) from None
        except EngineGenerateError as error:
            raise ProviderError(f"vLLM: {error.__cause__ or error}") from None
        except (ValueError, VLLMValidationError) as error:
            raise HarnessError(f"vLLM refuses a request: {error}") from None
        if final is None or final.outputs[0].finish_reason in ("abort", "error"):
            raise ProviderError("vLLM ended a request without a reply")
        return final.outputs[0]

    def _params(
        self,
        request: Request,
        seed: int,
        limit: int,
        more_ends: Iterable[int],
        stops: Sequence[str] = (),
    ) -> Any:
        """Every sampling parameter, explicitly; ``limit`` new tokens at most. Made once for each
        decoding: requests differ in the seed alone."""
        key = request.decoding, limit, tuple(more_ends), tuple(stops)
        params = self._known_params.get(key)
        if params is None:
            params = self._known_params[key] = self._new_params(*key)
        # Greedy replies use no random numbers, and a generator for each row costs time.
        if request.decoding.temperature > 0:
            params = copy(params)
            params.seed = seed
        return params

    def _new_params(
        self, d: Decoding, limit: int, more_ends: Sequence[int], stops: Sequence[str]
    ) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        return SamplingParams(
            n=1,
            temperature=d.temperature,
            top_p=d.top_p,
            top_k=d.top_k,
            min_p=0.0,
            presence_penalty=0.0,
            frequency_penalty=0.0,
            repetition_penalty=1.0,
            seed=0 if d.temperature > 0 else None,
            max_tokens=limit,
            min_tokens=0,
            ignore_eos=False,
            stop=list(stops) or None,
            stop_token_ids=sorted({*self.ends, *more_ends}),
            logprobs=0 if self.options["logprobs"] else None,
            detokenize=bool(stops),  # only stop texts need the text while it grows
            skip_special_tokens=True,
            output_kind=RequestOutputKind.FINAL_ONLY,
            skip_clone=True,
        )

    def _reply(
        self, prompt: Sequence[int], thought: Sequence[int], output: Any, stops: Sequence[str]
    ) -> Reply:
        ids = (*thought, *output.token_ids)
        answer = output.text or self._text(output.token_ids)
        places = [place for stop in stops if (place := answer.find(stop)) >= 0]
        answer = answer[: min(places)] if places else answer
        text = self.thinking.shown(self._text(thought)) + answer if thought else answer
        thoughts, text = self.thinking.split(text)
        return Reply(
            text=text,
            finish_reason="length" if output.finish_reason == "length" else "stop",
            prompt_tokens=len(prompt),
            completion_tokens=len(ids),
            reasoning=thoughts,
            prompt_ids=tuple(prompt),
            ids=ids,
            logprobs=None if thought or output.logprobs is None else _logprobs(output),
        )

    def _text(self, ids: Sequence[int]) -> str:
        kept = ids[:-1] if ids and ids[-1] in self.ends else ids
        decode = self.tokenizer.decode
        return str(decode(kept, skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def _render(self, messages: tuple[Message, ...]) -> tuple[int, ...]:
        found = self._rendered.get(messages)
        if found is None:
            # A tokenizer is not made for several threads: each has a copy.
            tokenizer = getattr(self._own, "tokenizer", None)
            if tokenizer is None:
                tokenizer = self._own.tokenizer = deepcopy(self.tokenizer)
            found = tuple(render(tokenizer, messages, self.template))
            with self._lock:
                while len(self._rendered) >= REMEMBERED:
                    del self._rendered[next(iter(self._rendered))]
                self._rendered[messages] = found
        return found

    # The engine

    def _running(self) -> Any:
        """The engine of the running loop, started on first use (its sockets belong to a loop)."""
        if self._failure is not None:  # the requests that wait would all try to start it again
            raise self._failure
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._shut_down()
            try:
                self._engine, self._loop = start_engine(self.start, self._needed), loop
            except HarnessError as error:
                self._failure = error
                raise
            self._guard = Guard(process.pid for process in engine_processes(self._engine))
            self._lora = self.start.lora
            length = int(self._engine.vllm_config.model_config.max_model_len)
            self.context_length = length - self.thinking.most
        return self._engine

    async def forget(self) -> None:
        """Empty the prefix cache and the rendered prompts."""
        self._rendered.clear()
        if self._engine is not None:
            await self._engine.reset_prefix_cache()

    def _shut_down(self) -> None:
        engine, self._engine, self._loop = self._engine, None, None
        if engine is not None:
            end(engine)
        if self._guard is not None:
            self._guard.release()

    def close(self) -> None:
        """End the engine and its processes."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        loop = self._loop
        self._shut_down()
        if loop is not None and not loop.is_closed() and not loop.is_running():
            loop.run_until_complete(asyncio.sleep(0))  # its tasks see that they were cancelled

    # What it is and what it takes

    def describe(self) -> dict[str, Json]:
        """Everything about the checkpoint and how it is run that a reader may ask for."""
        found = vllm_device.gpus()
        return {
            "backend": "vllm",
            "vllm": vllm_device.installed(),
            "folder": str(self.found.folder),
            "adapter": str(self.found.adapter or ""),
            "quantisation": self.found.quantisation,
            "format": format_name(self.tokenizer),
            "template_hash": template_hash(self.tokenizer),
            "template_kwargs": self.template,
            "end_tokens": sorted(self.ends),
            "context_length": self.context_length,
            "engine": self.start.shown(),
            "gpus": [{"name": gpu.name, "driver": gpu.driver} for gpu in found],
        }

    def estimate(self, prompts: int, prompt_tokens: float, reply_tokens: float) -> Estimate:
        """Memory of weights, and of keys and values for the requests in flight; seconds on a GPU
        whose speed is known.

        The longest prompt that was counted, with its reply, is what the engine's context must hold
        at least."""
        self._needed = max(self._needed, self._longest + round(reply_tokens) + self.thinking.most)
        live = min(self.concurrency, int(self.options["max_num_seqs"]) or BATCHED)
        return estimate(self.found, self.start.gpus, live, prompts, prompt_tokens, reply_tokens)

    def _engine_length(self) -> int | None:
        """The engine's context: the user's, else the checkpoint's up to `LONGEST`."""
        asked, own = int(self.options["max_model_len"]), self.found.context
        if asked and own and asked > own:
            raise HarnessError(f"max_model_len {asked}: {self.name} takes {own} tokens")
        return asked or (min(own, LONGEST) if own else None)

    def _context(self) -> int | None:
        """Tokens for prompt and reply: the engine's context less what thinking may take."""
        length = self._engine_length()
        return None if length is None else length - self.thinking.most


def _logprobs(output: Any) -> tuple[float, ...]:
    """The log-probabilities of the tokens that were chosen."""
    chosen = zip(output.token_ids, output.logprobs, strict=True)
    return tuple(float(place[token].logprob) for token, place in chosen)


def available() -> bool:
    """Whether a GPU and vLLM are here: then this back end is the default for checkpoints."""
    return bool(vllm_device.installed()) and bool(vllm_device.gpus())


def serve(
    name: str, options: Mapping[str, Json], flags: Sequence[str], check: bool = True
) -> Served:
    """What serves a checkpoint over HTTP with vLLM's own server, for `harness serve`.

    ``options`` are this back end's; ``flags`` go to the server as they are. ``check``: look at the
    GPUs first. Raises HarnessError for what is missing.
    """
    if check and not vllm_device.installed():
        raise ModuleNotFoundError("No module named 'vllm'", name="vllm")
    options = {**DEFAULTS, **options}
    found = checkpoint(name, options)
    length = int(options["max_model_len"]) or (min(found.context, LONGEST) if found.context else 0)
    start = Start.of(found, options, length or None)
    if parser := str(options["reasoning_parser"]):
        flags = ["--reasoning-parser", parser, *flags]
    return served(start, flags, check)


@hookimpl
def create_model(name: str, options: Mapping[str, Json]) -> VllmModel:
    """A folder, ``FOLDER@STEP`` or hub id. The engine itself starts with the first request."""
    if name == "vllm":
        raise HarnessError("which checkpoint? --model vllm:FOLDER or vllm:OWNER/NAME[@REVISION]")
    if not vllm_device.installed():
        raise ModuleNotFoundError("No module named 'vllm'", name="vllm")
    return VllmModel(checkpoint(name, options), options)


def doctor() -> Iterable[tuple[str, bool, str]]:
    """What the driver can run and what is installed."""
    return vllm_device.findings()
