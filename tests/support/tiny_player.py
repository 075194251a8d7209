"""A checkpoint of a few kilobytes that plays tic-tac-toe: at first each cell with the same
probability, marked or not, so its games take several turns and some end by an illegal move.

Its tokenizer has the words of the prompt as tokens. Its weights are set by hand where one token
follows from the one before it (the form of an answer) and random elsewhere.
"""

from __future__ import annotations

import re
from pathlib import Path

import torch
from tiny_models import tiny_llama, tiny_tokenizer

OPENING = "ANSWER: "
CELLS = tuple(f"C{x}R{y}" for y in (1, 2, 3) for x in (1, 2, 3))
CERTAIN = 1.5
"""Weight of what follows: a logit of 8 times this over the square root of a token's neighbours."""


def player_tokenizer(text):
    """Bytes, the words of ``text``, and the parts of an answer."""
    tokenizer = tiny_tokenizer()
    words = sorted(set(re.findall(r" ?[A-Za-z]{2,}", text)) - {" C", " R"})
    tokenizer.add_tokens([OPENING, *CELLS, *words])
    return tokenizer


def player_checkpoint(folder: Path, task) -> Path:
    """Write model and tokenizer for a task of tic-tac-toe into a folder."""
    sample = next(iter(task.samples("train")))
    tokenizer = player_tokenizer("\n".join(m.content for m in task.messages(sample)))
    model = tiny_llama(
        0, vocab_size=len(tokenizer), initializer_range=0.05, max_position_embeddings=1024
    )
    number = tokenizer.convert_tokens_to_ids
    opening, cells = number(OPENING), [number(cell) for cell in CELLS]
    follows = {tokenizer("\n", add_special_tokens=False)["input_ids"][0]: [opening],
               opening: cells, **{cell: [tokenizer.eos_token_id] for cell in cells}}  # fmt: skip
    with torch.no_grad():
        embedding, head = model.model.embed_tokens.weight, model.lm_head.weight
        head.zero_()
        embedding[:, : len(follows)] = 0.0
        for place, (token, after) in enumerate(follows.items()):
            embedding[token] = 0.0
            embedding[token, place] = 1.0
            head[after, place] = CERTAIN
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
