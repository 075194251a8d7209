"""A theory-of-mind question of one line, and a checkpoint that answers it now and then.

The reward is the real ``tom-process``, so gates and judges work on real replies of a model that
fits into a test.
"""

from __future__ import annotations

import random
from pathlib import Path

import torch
from tiny_models import tiny_checkpoint

from harness import hookimpl
from harness.task import Task
from harness.training.tokens import supervised
from harness.types import Decoding, Message, Sample
from harness_plugins.tasks.tom.outcomes import parse_process

PLACES = ("jar", "box", "bag")


class Belief(Task):
    """Who saw what: in pairs, of which one side says the first place and the other the second."""

    name = "belief"
    reward = "tom-process"
    decoding = Decoding(max_tokens=48)

    def samples(self, split):
        for each in self.splits if split == "all" else (split,):
            for pair in range(int(self.option("pairs"))):
                rng = random.Random(f"{each}/{pair}")
                first, second = rng.sample(PLACES, 2)
                for side, place in (("observed", first), ("hidden", second)):
                    yield Sample(
                        id=f"belief-{each}-{pair}-{side}",
                        split=each,
                        data={"side": side, "choices": list(PLACES), "chain": ["Al"],
                              "text": f"{pair}: {first} {second} {side[0]}"},
                        truth={"trace": [place], "answer": place},
                        group="order-1",
                        cluster=f"belief-{each}-{pair}",
                    )  # fmt: skip

    def messages(self, sample):
        return [Message("user", sample.data["text"])]

    def parse(self, sample, reply):
        return parse_process(reply.text)

    def stratum(self, sample):
        return f"{sample.group}/{sample.data['side']}"

    def privileged(self, sample):
        return [*self.messages(sample), Message("user", f"It is the {sample.truth['answer']}.")]

    def target(self, sample):
        place = sample.truth["answer"]
        return f"Think 1: gold\nState: {place}\nAnswer: {place}"


def taught_checkpoint(folder: Path, steps: int = 140) -> Path:
    """A tiny model that has learnt the form, with reasons of its own and places by chance."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tiny_checkpoint(folder, initializer_range=0.05)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    task = Belief({"pairs": 40})
    rng = random.Random(0)
    rows = []
    for sample in task.samples("train"):
        for place in PLACES:
            said = f"Think 1: {rng.choice(('seen', 'told', 'so'))}\nState: {place}\nAnswer: {place}"
            made = supervised(tokenizer, task.messages(sample), said)
            rows.append((torch.tensor(made.ids), made.prompt))
    optimiser = torch.optim.AdamW(model.parameters(), lr=4e-3)
    torch.manual_seed(0)
    for _ in range(steps):
        chosen = rng.sample(rows, 16)
        width = max(len(ids) for ids, _ in chosen)
        ids = torch.zeros(16, width, dtype=torch.long)
        labels = torch.full_like(ids, -100)
        for place, (row, prompt) in enumerate(chosen):
            ids[place, : len(row)] = row
            labels[place, prompt : len(row)] = row[prompt:]
        loss = model(input_ids=ids, labels=labels).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.save_pretrained(folder)
    return folder


@hookimpl
def create_task(name, options):
    return Belief(options)
