"""GGUF to a Hugging Face folder, for Llama-shaped models with the tokenizer of SmolLM.

    convert(Path("model.gguf"), Path("folder"), track)

Weights are dequantised as ggml does it, in float32. The tokenizer is built from the file's
vocabulary and merges with the splitting rule that the file names (``smollm``: each digit alone,
then GPT-2's pattern); a generic GGUF loader leaves that rule out, and numbers after blanks then
come out as other tokens than those the model was trained on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from harness.types import HarnessError

NAMES: Final = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
OUTER: Final = {"token_embd": "embed_tokens", "output_norm": "norm"}
CONTROL: Final = 3
"""The token type of control tokens in GGUF."""


def convert(
    source: Path, folder: Path, progress: Callable[[Iterable[Any], str], Iterable[Any]]
) -> None:
    """Write ``config.json``, ``model.safetensors`` and the tokenizer's files into a new folder.

    Raises HarnessError for a model of another kind.
    """
    from gguf import GGUFReader
    from safetensors.torch import save_file

    reader = GGUFReader(source)
    meta = {name: field.contents() for name, field in reader.fields.items()}
    kind = (meta.get("general.architecture"), meta.get("tokenizer.ggml.pre"))
    if kind != ("llama", "smollm"):
        raise HarnessError(
            f"{source.name}: only llama models with the smollm tokenizer, not {kind}"
        )
    folder.mkdir(parents=True)
    heads = {"attn_q": meta["llama.attention.head_count"],
             "attn_k": meta["llama.attention.head_count_kv"]}  # fmt: skip
    weights = dict(_weight(t, heads) for t in progress(reader.tensors, f"converting {source.name}"))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    tokenizer(meta).save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(_config(meta), indent=2, sort_keys=True) + "\n")


def _weight(tensor: Any, heads: dict[str, int]) -> tuple[str, torch.Tensor]:
    """One tensor under its Hugging Face name, float32."""
    from gguf.quants import dequantize

    values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
    part, *rest = tensor.name.removesuffix(".weight").split(".")
    if part != "blk":
        return f"model.{OUTER[part]}.weight", torch.from_numpy(values)
    layer, inner = rest
    if inner in heads:
        values = _unpermuted(values, heads[inner])
    return f"model.layers.{layer}.{NAMES[inner]}.weight", torch.from_numpy(values)


def _unpermuted(values: np.ndarray[Any, Any], heads: int) -> np.ndarray[Any, Any]:
    """GGUF interleaves the two halves of each head's rotary pairs; here they are taken apart."""
    rows, columns = values.shape
    pairs = values.reshape(heads, rows // heads // 2, 2, columns)
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(rows, columns))


def tokenizer(meta: dict[str, Any]) -> Any:
    """The tokenizer that the file describes, with its chat template and special tokens."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words: list[str] = meta["tokenizer.ggml.tokens"]
    merges = [tuple(pair.split(" ")) for pair in meta["tokenizer.ggml.merges"]]
    inner = Tokenizer(models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=merges))
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    inner.decoder = decoders.ByteLevel()
    types = zip(words, meta["tokenizer.ggml.token_type"], strict=True)
    inner.add_special_tokens(
        [AddedToken(word, special=True, normalized=False) for word, t in types if t == CONTROL]
    )
    special = {
        role: words[meta[f"tokenizer.ggml.{key}_token_id"]]
        for role, key in (("bos_token", "bos"), ("eos_token", "eos"), ("unk_token", "unknown"),
                          ("pad_token", "padding"))
    }  # fmt: skip
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        chat_template=meta["tokenizer.chat_template"],
        model_max_length=meta["llama.context_length"],
        clean_up_tokenization_spaces=False,
        **special,
    )


def _config(meta: dict[str, Any]) -> dict[str, Any]:
    width, heads = meta["llama.embedding_length"], meta["llama.attention.head_count"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float32",
        "hidden_act": "silu",
        "hidden_size": width,
        "head_dim": width // heads,
        "intermediate_size": meta["llama.feed_forward_length"],
        "num_hidden_layers": meta["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": meta["llama.attention.head_count_kv"],
        "max_position_embeddings": meta["llama.context_length"],
        "rms_norm_eps": round(meta["llama.attention.layer_norm_rms_epsilon"], 12),
        "rope_parameters": {"rope_type": "default", "rope_theta": meta["llama.rope.freq_base"]},
        "tie_word_embeddings": True,
        "vocab_size": meta["llama.vocab_size"],
        "bos_token_id": meta["tokenizer.ggml.bos_token_id"],
        "eos_token_id": meta["tokenizer.ggml.eos_token_id"],
        "pad_token_id": meta["tokenizer.ggml.padding_token_id"],
    }
