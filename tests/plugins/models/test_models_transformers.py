"""The transformers back end against the library's own generate, forward pass and logit filters."""

from __future__ import annotations

import math
import shutil

import numpy as np
import pytest
import torch
from tiny_models import tiny_checkpoint, tiny_llama, tiny_tokenizer
from transformers import AutoModelForCausalLM

from harness.rendering import render
from harness.types import Decoding, HarnessError, Message, Request
from harness_plugins.models import checkpoint, generation
from harness_plugins.models.attention import NAME, roomy_cache
from harness_plugins.models.checkpoint import Found, identity, locate
from harness_plugins.models.sampling import Sampler, cut
from harness_plugins.models.transformers import TransformersModel, create_model

TEXTS = ("hi", "What is 2 + 2?", "a", "Row A or row B? " * 3, "x" * 60, "no", "1 2 3", "go on")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def _one_thread():
    # Products this small only wait for each other on several.
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_checkpoint(tmp_path_factory.mktemp("models") / "tiny")


def make(folder, **options):
    return TransformersModel(Found(folder, "tiny"), {"dtype": "float32", **options})


def ask(text, seed=0, **decoding):
    return Request((Message("user", text),), Decoding(**{"max_tokens": 24, **decoding}), seed)


def library_reply(folder, text, tokens, **more):
    """The library's greedy reply to one prompt alone: no batch, no padding, its own cache."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ids = torch.tensor([render(tiny_tokenizer(), [Message("user", text)])])
    settings = {"do_sample": False, "max_new_tokens": tokens, "pad_token_id": 0, **more}
    out = model.generate(ids, attention_mask=torch.ones_like(ids), **settings)
    return tuple(out[0, ids.shape[1] :].tolist())


# Greedy replies


def test_greedy_replies_are_those_of_the_library_row_by_row(folder):
    replies = make(folder).generate_batch([ask(text) for text in TEXTS])
    for text, reply in zip(TEXTS, replies, strict=True):
        assert reply.ids == library_reply(folder, text, 24)
        assert reply.prompt_ids == tuple(render(tiny_tokenizer(), [Message("user", text)]))
        assert reply.prompt_tokens == len(reply.prompt_ids)
        assert reply.completion_tokens == len(reply.ids)
        assert reply.text == tiny_tokenizer().decode(reply.ids, skip_special_tokens=True)
    assert len({reply.ids for reply in replies}) == len(TEXTS), (
        "the tiny model must tell them apart"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"num_key_value_heads": 4},
        {"num_key_value_heads": 1},
        {"num_hidden_layers": 3, "tie_word_embeddings": True},
    ],
)
def test_other_head_layouts_are_the_same(tmp_path, changes):
    folder = tiny_checkpoint(tmp_path / "m", **changes)
    replies = make(folder).generate_batch([ask(text) for text in TEXTS[:4]])
    assert [r.ids for r in replies] == [library_reply(folder, t, 24) for t in TEXTS[:4]]


def test_sliding_windows_and_other_architectures(tmp_path):
    from transformers import GPT2Config, GPT2LMHeadModel, MistralConfig, MistralForCausalLM

    torch.manual_seed(3)
    sizes = {"vocab_size": 260, "initializer_range": 0.4, "bos_token_id": 1, "eos_token_id": 2}
    mistral = MistralConfig(hidden_size=64, intermediate_size=96, num_hidden_layers=2,
                            num_attention_heads=4, num_key_value_heads=2, sliding_window=8,
                            max_position_embeddings=512, **sizes)  # fmt: skip
    gpt2 = GPT2Config(n_embd=64, n_layer=2, n_head=4, n_positions=512, **sizes)
    for model in (MistralForCausalLM(mistral), GPT2LMHeadModel(gpt2)):
        folder = tmp_path / model.config.model_type
        model.save_pretrained(folder)
        tiny_tokenizer().save_pretrained(folder)
        limits = (24, 3, 24, 5)
        requests = [ask(t, max_tokens=n) for t, n in zip(TEXTS, limits, strict=False)]
        replies = make(folder).generate_batch(requests)
        for text, limit, reply in zip(TEXTS, limits, replies, strict=False):
            assert reply.ids == library_reply(folder, text, limit)


def test_the_checkpoints_own_decoding_never_applies(folder, tmp_path):
    from transformers import GenerationConfig

    marked = tmp_path / "marked"
    shutil.copytree(folder, marked)
    GenerationConfig(
        do_sample=True, temperature=5.0, top_k=3, repetition_penalty=3.0, max_new_tokens=2,
        eos_token_id=2, no_repeat_ngram_size=2,
    ).save_pretrained(marked)  # fmt: skip
    requests = [ask(text) for text in TEXTS]
    plain, own = make(folder).generate_batch(requests), make(marked).generate_batch(requests)
    assert [r.ids for r in plain] == [r.ids for r in own]


# Where a reply ends


def ending_folder(folder, tmp_path, place, token):
    """The same checkpoint, where one more token ends a text, said in the given file."""
    import json

    ending = tmp_path / "ending"
    shutil.copytree(folder, ending)
    path = ending / place
    config = json.loads(path.read_text())
    config["eos_token_id"] = [2, token]
    path.write_text(json.dumps(config))
    return ending


@pytest.mark.parametrize("place", ["config.json", "generation_config.json"])
def test_a_row_ends_at_any_end_token_of_the_checkpoint(folder, tmp_path, place):
    free = make(folder).generate_batch([ask(text) for text in TEXTS])
    token = free[0].ids[5]
    ending = ending_folder(folder, tmp_path, place, token)
    ended = make(ending).generate_batch([ask(text) for text in TEXTS])
    for before, after in zip(free, ended, strict=True):
        if token in before.ids:
            expected = before.ids[: before.ids.index(token) + 1]
            assert (after.ids, after.finish_reason) == (expected, "stop")
            assert after.text == tiny_tokenizer().decode(expected[:-1], skip_special_tokens=True)
        else:
            assert (after.ids, after.finish_reason) == (before.ids, before.finish_reason)
    assert ended[0].finish_reason == "stop"


def test_token_limits_are_each_rows_own(folder):
    limits = (1, 24, 2, 17, 3, 24, 5, 8)
    full = make(folder).generate_batch([ask(text) for text in TEXTS])
    cut_off = make(folder).generate_batch(
        [ask(text, max_tokens=n) for text, n in zip(TEXTS, limits, strict=True)]
    )
    for reply, whole, limit in zip(cut_off, full, limits, strict=True):
        assert reply.ids == whole.ids[:limit]
        assert reply.completion_tokens == len(reply.ids)
        ended = len(whole.ids) <= limit and whole.finish_reason == "stop"
        assert reply.finish_reason == ("stop" if ended else "length")


def test_a_stop_text_ends_the_reply_and_is_no_part_of_it(folder):
    model = make(folder)
    whole = model.generate_batch([ask(text) for text in TEXTS])
    stop = whole[3].text[9:12]
    assert stop.isprintable()
    assert len(stop) == 3
    stopped = model.generate_batch([ask(text, stop=(stop, "never")) for text in TEXTS])
    for before, after in zip(whole, stopped, strict=True):
        place = before.text.find(stop)
        if place < 0:
            assert (after.text, after.finish_reason) == (before.text, before.finish_reason)
        else:
            assert (after.text, after.finish_reason) == (before.text[:place], "stop")
            decoded = tiny_tokenizer().decode(after.ids, skip_special_tokens=True)
            assert decoded.endswith(stop), "it ends with the token that completes the stop text"
    assert stopped[3].finish_reason == "stop"


def test_a_base_model_stops_where_it_begins_the_next_turn(tmp_path, monkeypatch):
    folder = tiny_checkpoint(tmp_path / "base", template=None)
    model = make(folder)
    assert model.describe()["format"] == "plain"
    said = tiny_tokenizer().encode(" 4\n\nUser: and now?", add_special_tokens=False)
    script = iter(said)
    # What the weights say is replaced, the loop around them is not.
    monkeypatch.setattr(
        generation.Sampler, "__call__", lambda self, logits, step: torch.tensor([next(script)])
    )
    (reply,) = model.generate_batch([ask("2 + 2?", max_tokens=40)])
    assert (reply.text, reply.finish_reason) == (" 4\n", "stop")


def test_a_prompt_that_cannot_fit_names_both_numbers(folder):
    model = make(folder)
    size = model.count_tokens([Message("user", "y" * 480)])
    assert 480 < size < 512
    with pytest.raises(
        HarnessError, match=rf"{size} tokens with a reply of up to 99 .* 512 tokens"
    ):
        model.generate_batch([ask("y" * 480, max_tokens=99)])
    (reply,) = model.generate_batch([ask("y" * 480, max_tokens=512 - size)])
    assert reply.completion_tokens == 512 - size
    with pytest.raises(HarnessError, match="at least 1"):
        model.generate_batch([ask("hi", max_tokens=0)])


def test_template_arguments_are_rendered(folder):
    model = make(folder, chat_template_kwargs='{"thinking": true}')
    (reply,) = model.generate_batch([ask("hi", max_tokens=2)])
    assert reply.prompt_tokens == make(folder).count_tokens([Message("user", "hi")]) + 3


# Sampling


def test_a_sampled_row_is_the_same_alone_and_in_any_batch(folder):
    model = make(folder)
    settings = [
        {"temperature": 1.0},
        {"temperature": 0.7, "top_p": 0.9},
        {"temperature": 1.5, "top_k": 7},
        {"temperature": 0.0},
        {"temperature": 1.0, "top_k": 20, "top_p": 0.5},
        {"temperature": 2.0, "max_tokens": 5},
        {"temperature": 1.0},
        {"temperature": 0.3, "top_p": 0.01},
    ]
    requests = [
        ask(text, seed=100 + i, **each)
        for i, (text, each) in enumerate(zip(TEXTS, settings, strict=True))
    ]
    together = model.generate_batch(requests)
    alone = [model.generate_batch([request])[0] for request in requests]
    backwards = model.generate_batch(requests[::-1])[::-1]
    assert [r.ids for r in together] == [r.ids for r in alone] == [r.ids for r in backwards]


def test_seeds_make_different_replies_of_one_prompt_that_is_read_once(folder):
    model = make(folder)
    sizes = []
    model.model.register_forward_pre_hook(
        lambda module, args, kwargs: sizes.append(tuple(kwargs["input_ids"].shape)),
        with_kwargs=True,
    )
    requests = [ask("hi", seed=s, temperature=1.0, max_tokens=6) for s in range(8)]
    replies = model.generate_batch([*requests, ask("other", temperature=1.0, max_tokens=6)])
    assert sizes[0][0] == 2, "two different prompts"
    assert all(size == (9, 1) for size in sizes[1:3])
    assert len({r.ids for r in replies[:8]}) > 4
    again = model.generate_batch([requests[3]])[0]
    assert again.ids == replies[3].ids


def test_ended_rows_leave_the_batch(folder):
    model = make(folder)
    rows = []
    model.model.register_forward_pre_hook(
        lambda module, args, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    model.generate_batch([ask(t, max_tokens=4 if i < 6 else 20) for i, t in enumerate(TEXTS)])
    assert rows[0] == 8
    assert len(rows) > 10
    assert max(rows[4:]) <= 2


def test_draws_follow_the_distribution():
    torch.manual_seed(5)
    logits = torch.randn(1, 40).mul(1.5)
    count = 20_000
    decoding = Decoding(temperature=0.8, top_k=12, top_p=0.9, max_tokens=1)
    sampler = Sampler([decoding] * count, range(count), torch.device("cpu"))
    drawn = sampler(logits.expand(count, -1), 0)
    kept = library_filtered(logits, 0.8, 12, 0.9)
    expected = torch.softmax(kept.double(), -1)[0]
    seen = torch.bincount(drawn, minlength=40).double()
    inside = expected > 0
    assert seen[~inside].sum() == 0
    chi2 = ((seen - count * expected)[inside] ** 2 / (count * expected)[inside]).sum()
    freedom = int(inside.sum()) - 1
    assert chi2 < freedom + 4 * math.sqrt(2 * freedom)


def library_filtered(logits, temperature, top_k, top_p):
    """The library's own logit filters, in its order."""
    from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    logits = TemperatureLogitsWarper(temperature)(None, logits.clone())
    if top_k:
        logits = TopKLogitsWarper(top_k)(None, logits)
    return TopPLogitsWarper(top_p)(None, logits) if top_p < 1 else logits


@pytest.mark.parametrize("size", [30, 5000])
@pytest.mark.parametrize("scale", [0.1, 2.0, 8.0])
def test_the_cut_keeps_what_the_library_keeps(size, scale):
    torch.manual_seed(7)
    pairs = [(0, 0.9), (5, 1.0), (5, 0.5), (600, 0.95), (0, 0.999), (1, 1.0), (0, 1e-9), (0, 1.0)]
    pairs = [(min(k, size), p) for k, p in pairs]
    logits = torch.randn(len(pairs), size) * scale
    floor = cut(logits, torch.tensor([k for k, _ in pairs]), torch.tensor([p for _, p in pairs]))
    for row, (k, p) in enumerate(pairs):
        theirs = library_filtered(logits[row : row + 1], 1.0, k, p)[0] > -torch.inf
        assert torch.equal(logits[row] >= floor[row], theirs), (k, p)


def test_ties_are_kept_together():
    logits = torch.tensor([[2.0, 1.0, 1.0, 1.0, 0.0]])
    floor = cut(logits, torch.tensor([2]), torch.tensor([1.0]))
    assert (logits >= floor[:, None])[0].tolist() == [True, True, True, True, False]


def test_logprobs_are_the_models_own(folder):
    model = make(folder, logprobs=True)
    (reply,) = model.generate_batch([ask("hi", seed=3, temperature=2.0, top_k=50, max_tokens=10)])
    whole = torch.tensor([[*reply.prompt_ids, *reply.ids]])
    with torch.inference_mode():
        logits = tiny_from(folder)(whole).logits[0].log_softmax(-1)
    start = reply.prompt_tokens - 1
    expected = [float(logits[start + i, token]) for i, token in enumerate(reply.ids)]
    assert reply.logprobs == pytest.approx(expected, abs=1e-4)
    assert make(folder).generate_batch([ask("hi", max_tokens=1)])[0].logprobs is None


def tiny_from(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


# The cache


def test_the_roomy_cache_holds_what_the_librarys_holds(folder):
    from transformers import DynamicCache

    model = tiny_from(folder)
    torch.manual_seed(1)
    ours, theirs = roomy_cache(model.config), DynamicCache(config=model.config)
    with torch.inference_mode():
        for length in (5, 1, 1, 200, 1):
            ids = torch.randint(4, 260, (3, length))
            logits = [model(ids, past_key_values=c, use_cache=True).logits for c in (ours, theirs)]
            assert torch.allclose(*logits, atol=1e-5)
        for cache in (ours, theirs):
            cache.reorder_cache(torch.tensor([2, 0, 0, 2]))
        ids = torch.randint(4, 260, (4, 1))
        logits = [model(ids, past_key_values=c, use_cache=True).logits for c in (ours, theirs)]
    assert torch.allclose(*logits, atol=1e-5)
    for mine, other in zip(ours.layers, theirs.layers, strict=True):
        assert torch.equal(mine.keys, other.keys)
        assert torch.equal(mine.values, other.values)
        assert mine.get_seq_length() == 209


def test_attention_is_replaced_only_where_it_can_be(folder):
    assert make(folder).describe()["attention"] == NAME
    eager = make(folder, attn_implementation="eager")
    assert eager.describe()["attention"] == "eager"
    requests = [ask(text) for text in TEXTS]
    ours = make(folder).generate_batch(requests)
    assert [r.ids for r in ours] == [r.ids for r in eager.generate_batch(requests)]


# Hidden states


def reference_states(folder, prompt, span, layer, pooling):
    """From the library's own output of all states, pooled by the formula, in float64."""
    model = tiny_from(folder)
    with torch.inference_mode():
        states = model(torch.tensor([prompt]), output_hidden_states=True).hidden_states
        state = states[layer + 1]
    block = state[0, span[0] : span[1]].double().numpy()
    size = len(block)
    weights = np.exp([2 * j / max(1, size - 1) for j in range(size)])
    return {
        "last": lambda: block[-1],
        "first": lambda: block[0],
        "mean": lambda: block.mean(0),
        "sum": lambda: block.sum(0),
        "max": lambda: block.max(0),
        "weighted": lambda: (weights[:, None] * block).sum(0) / weights.sum(),
    }[pooling]()


@pytest.mark.parametrize("pooling", ["last", "first", "mean", "sum", "max", "weighted"])
def test_pooled_states_are_those_of_the_library(tmp_path, pooling):
    folder = tiny_checkpoint(tmp_path / "deep", num_hidden_layers=4)
    model = make(folder)
    prompts = [render(tiny_tokenizer(), [Message("user", text)]) for text in TEXTS]
    spans = [(0, len(p)) if i % 2 else (2, 2 + 1 + i) for i, p in enumerate(prompts)]
    states = model.hidden_states(prompts, spans, [0, 2, -3], pooling)
    assert states.shape == (8, 3, 64)
    assert states.dtype == np.float32
    for row, (prompt, span) in enumerate(zip(prompts, spans, strict=True)):
        for place, layer in enumerate((0, 2, 1)):
            expected = reference_states(folder, prompt, span, layer, pooling)
            np.testing.assert_allclose(states[row, place], expected, rtol=1e-4, atol=1e-4)


def test_the_last_block_comes_before_the_final_norm(folder):
    model = make(folder)
    prompt = render(tiny_tokenizer(), [Message("user", "hi")])
    states = model.hidden_states([prompt], [(0, len(prompt))], [-1], "last")
    library = tiny_from(folder)
    with torch.inference_mode():
        normed = library(torch.tensor([prompt]), output_hidden_states=True).hidden_states[-1][0, -1]
        ours = library.model.norm(torch.from_numpy(states[0, 0]))
    assert torch.allclose(ours, normed, atol=1e-4)


def test_states_do_not_depend_on_the_batch(folder):
    prompts = [render(tiny_tokenizer(), [Message("user", text)]) for text in TEXTS]
    spans = [(0, len(p)) for p in prompts]
    one = make(folder, batch_tokens=1).hidden_states(prompts, spans, [0, 1], "weighted")
    all_at_once = make(folder).hidden_states(prompts, spans, [0, 1], "weighted")
    np.testing.assert_allclose(one, all_at_once, rtol=1e-5, atol=1e-5)


def test_hidden_states_refuse_what_does_not_exist(folder):
    model = make(folder)
    for arguments, said in (
        (([[4, 5]], [(0, 2)], [0], "median"), "median"),
        (([[4, 5]], [(0, 2)], [2], "mean"), "no layer 2"),
        (([[4, 5]], [(0, 2)], [], "mean"), "at least one layer"),
        (([[4, 5]], [(1, 3)], [0], "mean"), "span 1:3"),
        (([[4, 5]], [(1, 1)], [0], "mean"), "span 1:1"),
        (([[4, 5]], [], [0], "mean"), "0 spans"),
    ):
        with pytest.raises(HarnessError, match=said):
            model.hidden_states(*arguments)


# Checkpoints, identity, options


def test_identity_follows_the_weights_and_is_read_once(folder, tmp_path, monkeypatch):
    other = tiny_checkpoint(tmp_path / "other", seed=1)
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    first, second = identity(Found(folder, "tiny")), identity(Found(other, "tiny"))
    assert first != second
    assert first == identity(Found(copy, "tiny"))
    assert first.startswith("tiny-")
    assert len(first) == len("tiny-") + 12
    monkeypatch.setattr(checkpoint, "_chunks", lambda folder: pytest.fail("read again"))
    assert identity(Found(folder, "tiny")) == first


def test_identity_notices_a_file_that_changed(folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    before = identity(Found(copy, "tiny"))
    path = copy / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert identity(Found(copy, "tiny")) != before


def test_steps_are_found_in_the_trainers_folders(folder, tmp_path):
    run = tmp_path / "run"
    for place in ("global_step_20/actor/huggingface", "checkpoint-100", "step-3"):
        shutil.copytree(folder, run / place)
    assert locate(f"{run}@20") == Found(run / "global_step_20/actor/huggingface", "run@20")
    assert locate(f"{run}@100") == Found(run / "checkpoint-100", "run@100")
    assert locate(f"{run}@3").label == "run@3"
    with pytest.raises(HarnessError, match=r"no step '4': it has 3, 20, 100"):
        locate(f"{run}@4")
    with pytest.raises(HarnessError, match=r"is no checkpoint: it has steps: .*run@100"):
        locate(str(run))


def test_what_is_no_checkpoint_is_one_clear_line(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    (tmp_path / "empty").mkdir()
    pickled = tmp_path / "pickled"
    shutil.copytree(folder, pickled)
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text("{}")
    for name, said in (
        (tmp_path / "empty", "it has no config.json"),
        (pickled, "no .safetensors weights"),
        (adapter, "lora=FOLDER"),
        (tmp_path / "missing", "there is no folder"),
        (folder / "config.json", "is a file"),
        (f"{tmp_path / 'empty'}@7", "it has no steps"),
    ):
        with pytest.raises(HarnessError, match=said) as caught:
            create_model(str(name), {})
        assert "\n" not in str(caught.value)
    with pytest.raises(HarnessError, match="which checkpoint"):
        create_model("transformers", {})


def test_a_broken_checkpoint_is_one_clear_line(folder, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    (broken / "config.json").write_text('{"model_type": "no-such-model"}')
    with pytest.raises(HarnessError, match="cannot be loaded") as caught:
        create_model(str(broken), {})
    assert "\n" not in str(caught.value)


def test_a_hub_id_comes_from_the_offline_cache(folder, tmp_path):
    # In a process of its own: the library reads these variables when it is imported.
    import os
    import subprocess
    import sys

    snapshot = tmp_path / "hf/hub/models--owner--name/snapshots/abc123"
    shutil.copytree(folder, snapshot)
    refs = tmp_path / "hf/hub/models--owner--name/refs"
    refs.mkdir()
    (refs / "main").write_text("abc123")
    (refs / "v1").write_text("abc123")
    code = (
        "from harness_plugins.models.checkpoint import locate\n"
        "from harness.types import HarnessError\n"
        "for name in ('owner/name', 'owner/name@v1', 'owner/name@v2', 'owner/other'):\n"
        "    try: print(*locate(name))\n"
        "    except HarnessError as error: print(error)\n"
    )
    environment = {**os.environ, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    lines = done.stdout.splitlines()
    assert lines[0] == f"{snapshot} name"
    assert lines[1] == f"{snapshot} name@v1"
    assert lines[2].startswith("owner/name@v2: it is neither in the offline cache nor")
    assert lines[3].startswith("owner/other: it is neither in the offline cache nor")


def test_options_that_cannot_work_are_refused(folder):
    for options, said in (
        ({"dtype": "int4"}, "dtype 'int4'"),
        ({"device": "abacus"}, "device 'abacus'"),
        ({"attn_implementation": "abacus"}, "cannot be loaded"),
        ({"chat_template_kwargs": "{"}, "not valid JSON"),
    ):
        with pytest.raises(HarnessError, match=said):
            make(folder, **options)


def test_the_manifest_tells_how_it_was_run(folder):
    told = make(folder, dtype="bfloat16", batch_limit=3, batch_tokens=99).describe()
    assert told["dtype"] == "bfloat16"
    assert told["parameters"] == tiny_llama().num_parameters()
    assert (told["batch_limit"], told["batch_tokens"]) == (3, 99)
    assert told["end_tokens"] == [2]
    assert told["device"] == "cpu"
    assert told["format"] == "chat template"
    assert told["quantisation"] is None


def test_an_architecture_without_a_cache_is_refused():
    class Recurrent(torch.nn.Module):
        def forward(self, input_ids):
            return input_ids

    with pytest.raises(HarnessError, match=r"Recurrent takes no attention_mask, .*past_key_values"):
        generation.check_model(Recurrent())


def test_the_estimate_counts_memory_and_takes_time(folder):
    model = make(folder)
    model.generate_batch([ask("hi")])
    estimate = model.estimate(prompts=100, prompt_tokens=30, reply_tokens=20)
    weights = model.describe()["parameters"] * 4
    cache = 32 * 50 * 2 * 2 * 2 * 16 * 4  # rows, tokens, keys and values, layers, heads, width
    assert estimate.memory == weights + cache
    assert 0 < estimate.seconds < 60
    assert model.estimate(10_000, 30, 20).seconds > 3 * estimate.seconds
