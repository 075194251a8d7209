"""The vLLM back end on a real engine (CPU build or GPU), against the transformers library.

Run where vLLM is installed: ``python -m pytest -m vllm``; elsewhere these tests are skipped.
One engine serves all of them, for starting one takes most of a minute.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from importlib.util import find_spec

import pytest
import torch
from tiny_models import tiny_checkpoint, tiny_tokenizer

from harness.batching import ModelQueue
from harness.rendering import render
from harness.types import Decoding, HarnessError, Message, Request

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed in this Python"),
]

TEXTS = ("hi", "What is 2 + 2?", "a", "Row A or row B?", "x" * 60, "no", "1 2 3", "go on")
SHAPE = {"hidden_size": 128, "num_attention_heads": 2, "num_key_value_heads": 1}
"""Heads of 64, which every attention kernel of vLLM takes."""

OPTIONS = {
    "dtype": "float32",
    "enforce_eager": True,
    "logprobs": True,
    "max_num_seqs": 16,
    "engine_args": '{"distributed_executor_backend": "uni"}',
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_checkpoint(tmp_path_factory.mktemp("models") / "tiny", **SHAPE)


@pytest.fixture(scope="module")
def adapter(folder, tmp_path_factory):
    """A LoRA adapter that changes what the model says."""
    peft = pytest.importorskip("peft", reason="peft is not installed in this Python")
    made = peft.get_peft_model(
        library(folder), peft.LoraConfig(r=8, lora_alpha=32, target_modules=["q_proj", "v_proj"])
    )
    torch.manual_seed(3)
    for name, value in made.named_parameters():
        if "lora_" in name:
            value.data.normal_(std=0.3)
    target = tmp_path_factory.mktemp("models") / "louder"
    made.save_pretrained(target)
    return target


class Started:
    """A model with its engine and the loop that both live in."""

    def __init__(self, folder, **options):
        from harness_plugins.models.vllm import create_model

        self.model = create_model(str(folder), {**OPTIONS, **options})
        self.runner = asyncio.Runner()

    def replies(self, *requests, model=None):
        async def all_at_once():
            asked = model or self.model
            return await asyncio.gather(*(asked.generate(request) for request in requests))

        return self.runner.run(all_at_once())

    def close(self):
        self.model.close()
        self.runner.close()


@pytest.fixture(scope="module")
def started(folder, adapter, tmp_path_factory):
    os.environ["HARNESS_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    made = Started(folder, lora=str(adapter))
    yield made
    made.close()
    del os.environ["HARNESS_CACHE"]


@pytest.fixture(scope="module")
def plain(started):
    """The same engine without the adapter."""
    started.replies(ask("start"))
    started.model._lora, kept = None, started.model._lora
    yield started
    started.model._lora = kept


def library(folder):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def library_reply(model, text, tokens):
    """The library's greedy reply to one prompt alone."""
    ids = torch.tensor([render(tiny_tokenizer(), [Message("user", text)])])
    settings = {"do_sample": False, "max_new_tokens": tokens, "pad_token_id": 0}
    out = model.generate(ids, attention_mask=torch.ones_like(ids), **settings)
    return tuple(out[0, ids.shape[1] :].tolist())


def ask(text, seed=0, **decoding):
    return Request((Message("user", text),), Decoding(**{"max_tokens": 24, **decoding}), seed)


def test_the_adapter_speaks_as_its_merged_weights_do(started, folder, adapter):
    from peft import PeftModel

    merged = PeftModel.from_pretrained(library(folder), adapter).merge_and_unload()
    replies = started.replies(*(ask(text) for text in TEXTS))
    for text, reply in zip(TEXTS, replies, strict=True):
        assert reply.ids == library_reply(merged, text, 24)


def test_greedy_replies_are_those_of_the_library(plain, folder):
    model = library(folder)
    replies = plain.replies(*(ask(text) for text in TEXTS))
    for text, reply in zip(TEXTS, replies, strict=True):
        assert reply.ids == library_reply(model, text, 24)
        assert reply.prompt_ids == tuple(render(tiny_tokenizer(), [Message("user", text)]))
        assert reply.text == tiny_tokenizer().decode(reply.ids, skip_special_tokens=True)
        assert reply.finish_reason == ("stop" if reply.ids[-1] == 2 else "length")


def test_a_checkpoints_generation_settings_do_not_apply(plain):
    decoding = {"temperature": 1.0, "top_p": 1.0, "top_k": 0}
    params = plain.model._params(ask("hi", **decoding), 5, 24, ())
    assert (params.temperature, params.top_p, params.top_k, params.min_p) == (1.0, 1.0, 0, 0.0)
    assert (params.repetition_penalty, params.seed, params.n) == (1.0, 5, 1)
    assert plain.model._engine.vllm_config.model_config.generation_config == "vllm"


def test_logprobs_are_those_of_the_forward_pass(plain, folder):
    (reply,) = plain.replies(ask("What is 2 + 2?"))
    ids = torch.tensor([[*reply.prompt_ids, *reply.ids]])
    with torch.no_grad():
        whole = library(folder)(ids).logits[0].log_softmax(-1)
    start = len(reply.prompt_ids) - 1
    expected = [float(whole[start + i, token]) for i, token in enumerate(reply.ids)]
    assert reply.logprobs == pytest.approx(expected, abs=1e-4)


def test_a_request_draws_by_its_seed_whatever_runs_beside_it(plain):
    sampled = [ask(text, seed=n, temperature=1.0) for n, text in enumerate(TEXTS)]
    together = plain.replies(*sampled)
    alone = [plain.replies(request)[0] for request in sampled]
    assert [r.ids for r in together] == [r.ids for r in alone]
    (other,) = plain.replies(replace(sampled[1], seed=99))
    assert other.ids != together[1].ids


def test_completions_of_a_prompt_differ_by_seed_and_share_its_cache(plain):
    replies = plain.replies(*(ask("x" * 60, seed=n, temperature=1.0) for n in range(6)))
    assert len({reply.ids for reply in replies}) == 6
    assert plain.model.start.arguments["enable_prefix_caching"] is True


def test_stop_texts_end_a_reply_and_are_no_part_of_it(plain):
    replies = plain.replies(*(ask(text) for text in TEXTS))
    whole = max((reply.text for reply in replies), key=len)
    text = TEXTS[[reply.text for reply in replies].index(whole)]
    stop = whole[4:6]
    (reply,) = plain.replies(ask(text, stop=(stop, "never said")))
    assert reply.text == whole[: whole.index(stop)]
    assert reply.finish_reason == "stop"
    (empty,) = plain.replies(ask(text, stop=(whole[0],)))
    assert (empty.text, empty.finish_reason) == ("", "stop")


def test_the_budget_for_thoughts_ends_them_and_the_answer_has_its_own_limit(plain, folder):
    from harness_plugins.models.vllm_thinking import Thinking

    settings = {"reasoning_budget": 7, "reasoning_end": "q", "reasoning_parser": ""}
    plain.model.thinking, kept = Thinking.of(tiny_tokenizer(), settings), plain.model.thinking
    try:
        (reply,) = plain.replies(ask("What is 2 + 2?", max_tokens=5))
    finally:
        plain.model.thinking = kept
    forced = tuple(tiny_tokenizer().encode("\nq\n\n", add_special_tokens=False))
    thoughts = library_reply(library(folder), "What is 2 + 2?", 7)
    assert 2 not in thoughts, "the tiny model must not end its text here"
    assert reply.ids[: 7 + len(forced)] == (*thoughts, *forced)
    assert len(reply.ids) <= 7 + len(forced) + 5
    assert "\nq\n\n" in reply.text


def test_a_history_that_outgrew_the_context_is_a_truncated_reply(plain):
    assert plain.model.context_length == 512
    queue = ModelQueue(plain.model)
    long = ask("y" * 495, max_tokens=24)
    reply = plain.runner.run(queue.ask(long))
    assert (reply.text, reply.finish_reason, reply.completion_tokens) == ("", "length", 0)
    with pytest.raises(HarnessError, match="does not fit the 512 tokens of tiny"):
        plain.replies(ask("y" * 600))


def test_an_engine_that_cannot_start_says_why_in_one_line_and_is_not_tried_again(folder):
    broken = Started(folder, quantization="never-heard-of")
    with pytest.raises(HarnessError, match="vLLM cannot start: ") as first:
        broken.replies(ask("hi"), ask("ho"))
    assert "\n" not in str(first.value)
    assert "never-heard-of" in str(first.value)
    with pytest.raises(HarnessError) as second:
        broken.replies(ask("hi"))
    assert second.value is first.value
    broken.close()


def test_the_engines_processes_end_with_the_model(started, plain):
    from harness_plugins.models.vllm_guard import _started, engine_processes

    pids = [process.pid for process in engine_processes(started.model._engine)]
    assert pids
    assert all(map(_started, pids))
    started.close()
    assert not any(map(_started, pids))
    assert started.model._engine is None


def test_the_command_prints_json_and_nothing_else(tmp_path):
    """vLLM logs to standard output, unless it is told otherwise before its first import."""
    import json
    import subprocess
    import sys

    folder = tiny_checkpoint(tmp_path / "tiny", **SHAPE, max_position_embeddings=4096)
    command = [sys.executable, "-m", "harness", "run", "--task", "gamesolve", "--limit", "3"]
    command += ["--model", f"vllm:{folder}", "--max-tokens", "4", "--json"]
    command += ["--model-set", "enforce_eager=true", "--out", str(tmp_path / "runs")]
    clean = {k: v for k, v in os.environ.items() if not k.startswith("VLLM_LOGGING")}
    done = subprocess.run(command, capture_output=True, text=True, env=clean, timeout=500)
    assert done.returncode == 0, done.stderr[-2000:]
    (run,) = json.loads(done.stdout)
    assert run["complete"]
    assert "INFO" not in done.stderr
