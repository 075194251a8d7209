"""Rollouts of a tiny model, recorded as the rows that a trainer's update gets."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import torch

from harness.types import Decoding

TOKENS = 6


class Engine:
    """Stands where verl's client stands: samples from a model, by the seed of the request."""

    def __init__(self, model, tokenizer):
        self.model, self.tokenizer = model, tokenizer

    async def generate(self, request_id, *, prompt_ids, sampling_params):
        stream = torch.Generator().manual_seed(sampling_params["seed"] % (1 << 62))
        ids, made, logprobs = list(prompt_ids), [], []
        while len(made) < TOKENS and self.tokenizer.eos_token_id not in made:
            with torch.inference_mode():
                logits = self.model(torch.tensor([ids])).logits[0, -1].float()
            spread = torch.log_softmax(logits, -1)
            token = int(torch.multinomial(spread.exp(), 1, generator=stream))
            made.append(token)
            ids.append(token)
            logprobs.append(float(spread[token]))
        return SimpleNamespace(
            token_ids=made, log_probs=logprobs, stop_reason="completed", extra_fields={}
        )


def record(model, tokenizer, task, probe, items, rollouts, reward):
    """A row for each rollout of each item, with advantages within its group."""
    torch.set_num_threads(1)  # so small a model is slower with several, and waits for them busily
    from harness_plugins.trainers.verl.sessions import Speaker, play, seed_of

    speaker = Speaker(Engine(model, tokenizer).generate, tokenizer,
                      frozenset({tokenizer.eos_token_id}), 1000, True)  # fmt: skip
    rows = []
    for item in items:
        decoding = Decoding(1.0, max_tokens=TOKENS)
        sessions = [
            asyncio.run(play(task, item.sample, speaker, decoding, seed_of(0, 1, item.sample, n)))
            for n in range(rollouts)
        ]
        paid = torch.tensor([reward.score(item.sample, s.outcome).value for s in sessions])
        gains = (paid - paid.mean()) / (paid.std() + 1e-6)
        for session, gain in zip(sessions, gains.tolist(), strict=True):
            (call,) = session.calls
            rows.append(row(call, gain, probe.labels(task, item.sample)))
    return rows


def row(call, gain, labels):
    prompt, reply = torch.tensor(call.prompt), torch.tensor(call.reply)
    ids = torch.cat([prompt, reply])
    return {
        "prompts": prompt,
        "responses": reply,
        "response_mask": torch.ones_like(reply),
        "loss_mask": torch.ones_like(reply),
        "input_ids": ids,
        "position_ids": torch.arange(len(ids)),
        "old_log_probs": torch.tensor(call.logprobs),
        "advantages": torch.full((len(reply),), gain),
        "probe_labels": torch.tensor(labels),
    }
