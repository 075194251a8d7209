"""Sizes against transformers' own count of parameters and the published ones."""

from __future__ import annotations

import pytest

from harness.sizing import (
    DEVICES,
    Shape,
    TrainingPlan,
    device,
    evaluation,
    seconds,
    training,
)
from harness.types import HarnessError

# hidden, inner, layers, heads, key-value heads, vocabulary, tied; parameters in thousand millions
# as the model cards have them (Qwen2.5).
QWEN = {
    "0.5B": (896, 4864, 24, 14, 2, 151_936, True, 0.49),
    "3B": (2048, 11_008, 36, 16, 2, 151_936, True, 3.09),
    "7B": (3584, 18_944, 28, 28, 4, 152_064, False, 7.61),
    "14B": (5120, 13_824, 48, 40, 8, 152_064, False, 14.7),
    "32B": (5120, 27_648, 64, 40, 8, 152_064, False, 32.5),
    "72B": (8192, 29_568, 80, 64, 8, 152_064, False, 72.7),
}


def config(name):
    hidden, inner, layers, heads, groups, vocabulary, tied, _ = QWEN[name]
    return {
        "model_type": "qwen2", "hidden_size": hidden, "intermediate_size": inner,
        "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": groups, "vocab_size": vocabulary, "tie_word_embeddings": tied,
    }  # fmt: skip


@pytest.mark.parametrize("name", QWEN)
def test_parameters_are_the_published_ones(name):
    found = Shape.of(config(name)).parameters / 1e9
    assert found == pytest.approx(QWEN[name][-1], rel=0.012)


@pytest.mark.parametrize(("kind", "name"), [("qwen2", "3B"), ("llama", "7B"), ("qwen3", "0.5B")])
def test_parameters_are_those_that_transformers_makes(kind, name):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    given = {**config(name), "model_type": kind}
    made = AutoConfig.for_model(kind, **{k: v for k, v in given.items() if k != "model_type"})
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(made)
    exact = sum(p.numel() for p in model.parameters())
    stored = {**made.to_dict(), "model_type": kind}
    # Qwen3 has two norms of a head's width in each block besides.
    extra = 2 * made.head_dim * made.num_hidden_layers if kind == "qwen3" else 0
    assert Shape.of(stored).parameters + extra == exact


def test_a_cache_of_qwen_3b():
    # 36 layers, 2 heads of 128, keys and values, 2 bytes each.
    assert Shape.of(config("3B")).cache_bytes == 36 * 2 * 128 * 2 * 2


def test_evaluation_is_weights_and_cache():
    shape = Shape.of(config("7B"))
    one = evaluation(shape, live_tokens=100_000)
    assert one.weights == 2 * shape.parameters
    assert one.cache == 100_000 * shape.cache_bytes
    assert evaluation(shape, 100_000, gpus=4).weights == one.weights / 4
    assert evaluation(shape, 100_000, weight_bytes=5e9).weights == 5e9


def test_what_fits_where():
    """Well-known facts: 7B trains in full on eight 80 GB GPUs, 70B there only with LoRA."""
    seven, seventy = Shape.of(config("7B")), Shape.of(config("72B"))
    assert training(seven, TrainingPlan("sft", gpus=8)).total < 80e9
    assert training(seven, TrainingPlan("sft", gpus=1)).total > 80e9
    assert training(seventy, TrainingPlan("sft", gpus=8)).total > 80e9
    assert training(seventy, TrainingPlan("sft", gpus=8, lora=16)).total < 80e9


def test_offloading_and_sleeping_make_room():
    shape = Shape.of(config("7B"))
    full = TrainingPlan("grpo", gpus=4, rollout_memory=0.6, sleep=False)
    asleep = TrainingPlan("grpo", gpus=4, rollout_memory=0.6)
    offloaded = TrainingPlan("grpo", gpus=4, rollout_memory=0.6, offload=True)
    assert training(shape, full).total > training(shape, asleep).total
    assert training(shape, asleep).total >= training(shape, offloaded).total


def test_seconds_follow_the_bound_that_binds():
    small, large, gpu = Shape.of(config("0.5B")), Shape.of(config("72B")), DEVICES["H100"]
    # Many rows of a small model: the engine's own time for each row.
    found = seconds(small, gpu, 10_000, 1, 100, live=1000)
    assert found == pytest.approx(10_000 * 100 * 40e-6, rel=0.01)
    # One row of a large one: reading the weights, half of the bandwidth reached.
    found = seconds(large, gpu, 1, 1, 100, live=1)
    assert found == pytest.approx(100 * 2 * large.parameters / (gpu.bandwidth / 2), rel=0.02)
    assert seconds(large, gpu, 1, 1, 100, live=1, gpus=8) < found / 7


def test_devices_by_the_drivers_name():
    assert device("NVIDIA H200") is DEVICES["H200"]
    assert device("NVIDIA A100-SXM4-80GB") is DEVICES["A100"]
    assert device("Some other card") is None


def test_a_configuration_without_sizes_is_one_line():
    with pytest.raises(HarnessError, match="hidden_size"):
        Shape.of({"model_type": "mamba"})
