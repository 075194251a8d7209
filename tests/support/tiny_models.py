"""Checkpoints of a few kilobytes: random weights, and a tokenizer that knows every byte."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SPECIAL = ("<|pad|>", "<|begin|>", "<|end|>", "<|turn|>")
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}"
    "<|turn|>{{ m['role'] }}\n{{ m['content'] }}{{ eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}<|turn|>assistant\n{% endif %}"
    "{% if thinking is defined and thinking %}hm {% endif %}"
)


def tiny_tokenizer(template: str | None = TEMPLATE, begin: bool = False) -> PreTrainedTokenizerFast:
    """Bytes as tokens, and four special ones. ``begin``: texts get the begin token in front."""
    words = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    inner = Tokenizer(models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in SPECIAL])
    if begin:
        from tokenizers.processors import TemplateProcessing

        inner.post_processor = TemplateProcessing(
            single="<|begin|> $A", special_tokens=[("<|begin|>", 1)]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<|pad|>",
        bos_token="<|begin|>",
        eos_token="<|end|>",
        chat_template=template,
        clean_up_tokenization_spaces=False,
    )


def tiny_llama(seed: int = 0, **changes: object) -> LlamaForCausalLM:
    """Two layers with grouped queries; weights wide enough that replies differ by prompt."""
    settings = {
        "vocab_size": 260,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "initializer_range": 0.4,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "tie_word_embeddings": False,
    }
    torch.manual_seed(seed)
    return LlamaForCausalLM(LlamaConfig(**{**settings, **changes})).eval()


def tiny_checkpoint(
    folder: Path,
    seed: int = 0,
    template: str | None = TEMPLATE,
    begin: bool = False,
    **changes: object,
) -> Path:
    """Write model and tokenizer into a folder."""
    tiny_llama(seed, **changes).save_pretrained(folder)
    tiny_tokenizer(template, begin).save_pretrained(folder)
    return folder
