"""A task and a model for probes: hidden states of noise, with a concept planted at one layer."""

from __future__ import annotations

import numpy as np

from harness import hookimpl
from harness.model import Model
from harness.task import Task
from harness.types import Message, Sample

DEPTH, WIDTH = 4, 12


def label(item: int, seed: int) -> int:
    """A fair coin for each pair of items."""
    return int(np.random.default_rng([item // 2, seed]).integers(2))


class Planted(Task):
    """Say a number. Pairs of items share a label and a canonical identity."""

    name = "planted"
    reward = "exact"

    def samples(self, split):
        for i in range(int(self.options["n"])):
            yield Sample(id=f"p{i}", split=split, data={"i": i}, canonical=f"c{i // 2}", ordinal=i)

    def messages(self, sample):
        return [Message("user", f"{sample.data['i']}")]

    def concepts(self, sample):
        i = sample.data["i"]
        value = label(i, int(self.options["seed"]))
        return {"coin": value, "early": value if i % 4 < 2 else -1, "one": 0}


class _Tokenizer:
    chat_template = None
    eos_token_id = None

    def __call__(self, text, **options):
        return {"input_ids": [int("".join(c for c in text if c.isdigit()))]}


class PlantedModel(Model):
    """Layer ``layer`` holds the coin of each item at ``strength`` deviations; the rest is noise."""

    name = "planted"
    depth = DEPTH

    def __init__(self, options):
        self.options = options
        self.identity = f"planted-{sorted(options.items())}"
        self.tokenizer, self.template = _Tokenizer(), {}
        self.strength = float(options["strength"])
        self.calls = 0

    def describe(self):
        return {"dtype": "float32"}

    def random_weights(self, seed):
        self.strength = 0.0
        self.identity += "-random"

    def hidden_states(self, prompt_ids, spans, layers, pooling):
        self.calls += 1
        seed = int(self.options["seed"])
        states = np.empty((len(prompt_ids), len(pooling), len(layers), WIDTH), np.float32)
        for row, (item,) in enumerate(prompt_ids):
            for place, layer in enumerate(layers):
                rng = np.random.default_rng([item, layer, seed, int(self.strength * 100)])
                states[row, :, place] = rng.normal(size=(len(pooling), WIDTH))
                if layer == int(self.options["layer"]):
                    states[row, :, place, 3] += self.strength * (label(item, seed) - 0.5)
        return states


@hookimpl
def create_task(name, options):
    return Planted(options)


@hookimpl
def create_model(name, options):
    return PlantedModel(options)
