"""Options to verl's configuration, and recipes against the reference study's tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.train_ import divide, read_config
from harness.registry import Registry
from harness.types import HarnessError
from harness_plugins.trainers.opsd import UNUSED
from harness_plugins.trainers.verl import settings
from harness_plugins.trainers.verl.settings import Place

ROOT = Path(__file__).resolve().parents[3]
GPUS = Place(Path("/out"), Path("/base"), 8, 8, tied=True)
CPU = Place(Path("/out"), Path("/base"), 0, 1)

SFT_TABLE = {
    "learning_rate": 2e-5, "schedule": "cosine", "warmup": 0.05, "batch_size": 64,
    "micro_batch": 2, "epochs": 3, "clip_norm": 1.0, "seed": 42, "gpus": 8,
    "gradient_checkpointing": True, "eval_every": 50,
}  # fmt: skip
"""Reference study, SFT: 2 a GPU x 8 GPUs x 4 accumulated = 64; 30 steps an epoch, 90 in all; 4
steps of warm-up; AdamW, clip 1.0, bf16, gradient checkpointing, 2,048 tokens."""

GRPO_TABLE = {
    "learning_rate": 1e-6, "schedule": "cosine", "warmup": 0.05, "batch_size": 16, "rollouts": 5,
    "mini_batch": 16, "micro_batch": 10, "steps": 360, "epochs": 3, "max_prompt": 1024,
    "max_reply": 512, "temperature": 0.7, "top_p": 0.9, "clip_low": 0.2, "clip_high": 0.2,
    "clip_dual": 3.0, "loss_mean": "token-mean", "standardise": True, "kl": "", "entropy": 0.0,
    "clip_norm": 1.0, "weight_decay": 0.01, "eval_every": 40, "save_every": 40, "gpus": 8,
    "rollout.tensor_parallel": 1, "rollout.memory": 0.5, "data.overlong": "filter",
}  # fmt: skip
"""Reference study, verl GRPO: 16 prompts x 5 rollouts, 3 epochs of 120 = 360 steps, PPO clip 0.2
(dual 3.0), token mean, group advantage divided by its standard deviation, no KL, no entropy bonus,
vLLM rollouts with tensor parallel 1 and half of the memory."""

PROBE_TABLE = {
    "probe.layers": "17", "probe.coef": 0.1, "probe.pooling": "mean", "probe.learning_rate": 1e-3,
    "probe.concepts": ["eq_type", "difficulty", "dominance", "br_direction", "eq_uniqueness"],
}  # fmt: skip
PROBE_WEIGHTS = {
    "br_direction": 1.57, "eq_uniqueness": 1.37, "eq_type": 1.34, "dominance": 1.23,
    "difficulty": 1.11,
}  # fmt: skip
"""Reference study, GRPO+Probe: five heads on the mean of block 17 of 36, lambda 0.1, learning rate
1e-3 of the heads, weights by the inverse of the probes' accuracy."""


def recipe(name):
    """The resolved options of a recipe, and its task."""
    top, given = read_config(ROOT / "configs" / name)
    registry = Registry.load(None)
    options, task_options, _ = divide(registry, top["method"], top["task"], given)
    entry = registry.entry("trainer", top["method"])
    return top, registry.options(entry, options), task_options


def test_the_sft_recipe_is_the_reference_table():
    top, options, _ = recipe("gamesolve-sft-qwen2.5-3b-8gpu.toml")
    assert top["task"] == "gamesolve"
    assert top["model"] == "Qwen/Qwen2.5-3B-Instruct"
    assert {name: options[name] for name in SFT_TABLE} == SFT_TABLE
    assert options["max_prompt"] + options["max_reply"] == 2048
    assert options["batch_size"] == 2 * 8 * 4
    assert settings.total_steps(options, 1922) == 90
    found = settings.sft_overrides(GPUS, options, 1922)
    assert "optim.lr_warmup_steps=4" in found
    assert "optim.lr=2e-05" in found
    assert "trainer.total_training_steps=90" in found


def test_the_grpo_recipe_is_the_reference_table():
    top, options, _ = recipe("gamesolve-grpo-qwen2.5-3b-8gpu.toml")
    assert top["model"] == "Qwen/Qwen2.5-3B-Instruct"
    assert {name: options[name] for name in GRPO_TABLE} == GRPO_TABLE
    assert settings.total_steps(options, 1922) == 360
    found = settings.grpo_overrides(GPUS, options, 1922)
    prefix = "actor_rollout_ref"
    for wanted in (
        f"{prefix}.rollout.n=5", f"{prefix}.rollout.temperature=0.7", f"{prefix}.rollout.top_p=0.9",
        f"{prefix}.actor.clip_ratio_c=3.0", f"{prefix}.actor.use_kl_loss=False",
        "data.train_batch_size=16", "trainer.test_freq=40", "trainer.val_before_train=True",
        f"{prefix}.actor.optim.lr_warmup_steps=18", f"{prefix}.rollout.name=vllm",
    ):  # fmt: skip
        assert wanted in found, wanted


def test_the_probe_recipe_is_the_reference_table():
    from harness_plugins.trainers.verl.probe_settings import weights_of

    _, options, _ = recipe("gamesolve-grpo-probe-qwen2.5-3b-8gpu.toml")
    assert {name: options[name] for name in {**GRPO_TABLE, **PROBE_TABLE}} == {
        **GRPO_TABLE,
        **PROBE_TABLE,
    }
    classes = dict.fromkeys(PROBE_TABLE["probe.concepts"], 2)
    assert weights_of(options["probe.weights"], "17", classes) == PROBE_WEIGHTS


@pytest.mark.parametrize(
    "name", ["gamesolve-grpo{}-qwen2.5-3b-8gpu", "smollm2-grpo{}-1gpu", "tiny-grpo{}-cpu"]
)
def test_a_probe_recipe_is_its_grpo_recipe_with_heads(name):
    (plain, one, task), (probing, two, its) = (
        recipe(f"{name.format(mark)}.toml") for mark in ("", "-probe")
    )
    assert {n: two[n] for n in one} == one
    assert task == its
    assert {**probing, "method": "grpo"} == plain
    assert probing["method"] == "grpo-probe"


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.toml")), ids=lambda p: p.name)
def test_every_recipe_resolves(path):
    top, options, task_options = recipe(path.name)
    settings.check(options)
    task = Registry.load(None).create("task", top["task"], task_options)
    assert task.splits[0] == "train"
    supervised = top["method"] in ("sft", "rft")
    make = settings.sft_overrides if supervised else settings.grpo_overrides
    if top["method"] == "opsd":
        options = {**UNUSED, **options}
    assert make(CPU if options["gpus"] == 0 else GPUS, options, 1000)


def defaults(method, **changes):
    registry = Registry.load(None)
    return registry.options(registry.entry("trainer", method), changes)


@pytest.mark.parametrize(
    ("method", "changes", "told"),
    [
        ("sft", {"batch_size": 0}, "batch_size 0: must be at least 1"),
        ("sft", {"epochs": 0}, "give epochs or steps"),
        ("sft", {"learning_rate": 0.0}, "learning_rate 0.0: must be positive"),
        ("sft", {"warmup": 1.0}, "a share of the steps"),
        ("sft", {"schedule": "linear"}, "cosine or constant"),
        ("grpo", {"rollouts": 1}, "rollouts 1: must be at least 2"),
        ("grpo", {"kl": "both"}, "loss, reward or nothing"),
        ("grpo", {"rollout.engine": "sglang"}, "auto, vllm, transformers"),
        ("grpo", {"old_logprobs": "rollout"}, "needs top_p=1 and top_k=0"),
    ],
)
def test_options_that_make_no_sense(method, changes, told):
    with pytest.raises(HarnessError, match=told):
        settings.check(defaults(method, **changes))


def test_steps_and_epochs():
    options = defaults("sft", batch_size=64)
    assert settings.total_steps(options, 1922) == 90
    assert settings.epochs_for(options, 1922) == 3
    options = defaults("sft", batch_size=64, steps=100)
    assert settings.total_steps(options, 1922) == 100
    assert settings.epochs_for(options, 1922) == 4
    with pytest.raises(HarnessError, match="more than the 10 items"):
        settings.total_steps(options, 10)


def test_a_processor_gets_float32_and_no_gpu_kernels():
    found = settings.grpo_overrides(CPU, defaults("grpo"), 100)
    assert "+actor_rollout_ref.ref.fsdp_config.mixed_precision.param_dtype=fp32" in found
    assert "actor_rollout_ref.model.use_fused_kernels=False" in found
    assert "actor_rollout_ref.rollout.name=harness_transformers" in found
    assert "+ray_kwargs.ray_init.num_gpus=1" in found
    with pytest.raises(HarnessError, match="needs a GPU"):
        settings.rollout_engine(CPU, defaults("grpo", **{"rollout.engine": "vllm"}))


@pytest.mark.parametrize(
    ("method", "changes", "processes", "rows"),
    [
        ("sft", {"batch_size": 64, "micro_batch": 2}, 8, 2),
        ("sft", {"batch_size": 10, "micro_batch": 4}, 1, 2),
        ("grpo", {"batch_size": 16, "rollouts": 5, "micro_batch": 10}, 8, 10),
        ("grpo", {"batch_size": 2, "rollouts": 3, "micro_batch": 24}, 1, 6),
        ("grpo", {"batch_size": 64, "rollouts": 8, "mini_batch": 16, "micro_batch": 96}, 1, 64),
    ],
)
def test_rows_at_a_time_divide_an_update(method, changes, processes, rows):
    place = Place(Path("/out"), Path("/base"), processes, processes)
    assert settings.micro_batch(place, defaults(method, **changes)) == rows


def test_fused_log_probabilities_only_where_the_kernel_sees_the_whole_layer():
    untied = Place(Path("/out"), Path("/base"), 8, 8, tied=False)
    assert "model.use_fused_kernels=True" in settings.sft_overrides(GPUS, defaults("sft"), 100)
    assert "model.use_fused_kernels=False" in settings.sft_overrides(untied, defaults("sft"), 100)


def test_the_users_own_overrides_come_last():
    options = defaults("sft", verl=["optim.betas=[0.9,0.95]"])
    assert settings.sft_overrides(CPU, options, 100)[-1] == "optim.betas=[0.9,0.95]"


def test_configuration_files(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text(
        'method = "sft"\nsteps = 3\n[task]\nname = "copy"\nsize = 9\n[data]\nlimit = 4\n'
    )
    top, given = read_config(path)
    assert top == {"method": "sft", "task": "copy"}
    assert given == {"steps": 3, "task.size": 9, "data.limit": 4}
    path.write_text("steps = ")
    with pytest.raises(HarnessError, match="not valid TOML"):
        read_config(path)
    with pytest.raises(HarnessError, match="cannot be read"):
        read_config(tmp_path / "none.toml")
