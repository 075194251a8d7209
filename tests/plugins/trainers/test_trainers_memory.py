"""The presets for larger models fit the GPUs that they name, by the model on paper."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.registry import Registry
from harness.sizing import Shape, evaluation, training
from harness.training.recipe import divide, read_config
from harness_plugins.trainers.verl import memory, settings
from harness_plugins.trainers.verl.settings import Place

ROOT = Path(__file__).resolve().parents[3]

SHAPES = {
    "Qwen/Qwen2.5-7B-Instruct": (3584, 18_944, 28, 28, 4),
    "Qwen/Qwen2.5-14B-Instruct": (5120, 13_824, 48, 40, 8),
    "Qwen/Qwen2.5-32B-Instruct": (5120, 27_648, 64, 40, 8),
    "Qwen/Qwen2.5-72B-Instruct": (8192, 29_568, 80, 64, 8),
}


def shape(model):
    hidden, inner, layers, heads, groups = SHAPES[model]
    return Shape.of(
        {
            "model_type": "qwen2", "hidden_size": hidden, "intermediate_size": inner,
            "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": groups, "vocab_size": 152_064, "tie_word_embeddings": False,
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    "path", sorted((ROOT / "configs/scale").glob("*.toml")), ids=lambda p: p.stem
)
def test_a_preset_fits_its_gpus_and_its_rollouts_fit_theirs(path):
    top, given = read_config(path)
    registry = Registry.load(None)
    chosen, _, _ = divide(registry, top["method"], top["task"], given)
    options = registry.options(registry.entry("trainer", top["method"]), chosen)
    settings.check(options)
    gpus, nodes = int(options["gpus"]), int(options["nodes"])
    place = Place(Path("out"), Path("base"), gpus, gpus, nodes)
    assert settings.grpo_overrides(place, options, 2000)
    plan = memory.plan_of(place, options, top["method"], 80e9)
    assert plan.gpus == gpus * nodes
    model = shape(top["model"])
    assert training(model, plan).total < 80e9
    # vLLM's share holds its weights and some conversations.
    wide = int(options["rollout.tensor_parallel"])
    engine = evaluation(model, 32 * 1536, gpus=wide)
    assert engine.total < float(options["rollout.memory"]) * 80e9


def test_without_its_measures_the_largest_would_not_fit():
    _, given = read_config(ROOT / "configs/scale/grpo-72b-16gpu-lora.toml")
    registry = Registry.load(None)
    chosen, _, _ = divide(registry, "grpo", "gamesolve", {**given, "lora.rank": 0})
    options = registry.options(registry.entry("trainer", "grpo"), chosen)
    place = Place(Path("out"), Path("base"), 8, 8, 2)
    plan = memory.plan_of(place, options, "grpo", 80e9)
    assert training(shape("Qwen/Qwen2.5-72B-Instruct"), plan).total > 80e9
