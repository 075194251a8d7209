"""RFT and judge-paid GRPO before verl is started: recipes against the study's tables, the plan, and
what a step says of its judge."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.registry import Registry
from harness.trainer import TrainJob
from harness.training.recipe import divide, read_config
from harness.types import HarnessError
from harness_plugins.trainers import rft
from harness_plugins.trainers.verl import payment, settings
from harness_plugins.trainers.verl.settings import Place

ROOT = Path(__file__).resolve().parents[3]
ONE = Place(Path("/out"), Path("/base"), 1, 1, tied=True)

RFT_TABLE = {
    "sample.n": 16, "sample.temperature": 0.8, "sample.top_p": 0.95, "sample.pilot": 50,
    "sample.seed": 2026, "sample.set": ["style=exact-order"], "sample.backend": "vllm",
    "max_reply": 384, "score.gates": ["structure_ok", "all_states_correct", "answer_correct"],
    "score.unfinished": False, "build.cap": 0, "build.dedupe": "text", "build.pairs": False,
    "build.balance": False, "build.min_samples": 0, "build.max_samples": 3000,
    "learning_rate": 1e-5, "schedule": "cosine", "warmup": 0.03, "weight_decay": 0.01,
    "clip_norm": 1.0, "batch_size": 32, "micro_batch": 2, "epochs": 1, "seed": 2026,
    "gradient_checkpointing": True, "gpus": 1, "lora.rank": 0,
}  # fmt: skip
"""Reference study, RFT: 50 pairs of each of orders 1 to 3 x 16 candidates at temperature 0.8 and
top-p 0.95, at most 384 tokens, asked in the exact-order wording and trained on in the compact one;
2 x 16 accumulated = 32, one epoch, 2,048 tokens in all."""

GRPO_TABLE = {
    "batch_size": 8, "rollouts": 16, "mini_batch": 8, "micro_batch": 2, "steps": 800, "epochs": 2,
    "max_prompt": 2048, "max_reply": 384, "temperature": 1.0, "top_p": 1.0, "top_k": 0,
    "learning_rate": 5e-7, "schedule": "constant", "warmup": 0.0, "clip_low": 0.2,
    "clip_high": 0.3, "entropy": 0.001, "kl": "loss", "kl_coef": 0.001,
    "kl_estimator": "low_var_kl", "clip_norm": 1.0, "standardise": True, "offload": True,
    "gradient_checkpointing": True, "save_every": 400, "eval_every": 50, "seed": 2026, "gpus": 1,
    "rollout.memory": 0.35, "rollout.eager": True, "rollout.sequences": 128, "lora.rank": 0,
}  # fmt: skip
"""Reference study, GRPO: 8 prompts x 16 rollouts = 128 trajectories of at most 384 tokens, 800
steps at 5e-7, clip 0.2 / 0.3, entropy 0.001, KL of 0.001 to the frozen RFT checkpoint."""

JUDGE_TABLE = {"judge_concurrency": 8, "judge_retries": 4, "judge_max_tokens": 3000,
               "judge_preset": "deepseek"}  # fmt: skip


def recipe(name):
    top, given = read_config(ROOT / "configs" / name)
    registry = Registry.load(None)
    options, task_options, reward_options = divide(registry, top["method"], top["task"], given)
    entry = registry.entry("trainer", top["method"])
    return top, registry.options(entry, options), task_options, reward_options


def test_the_rft_recipe_is_the_reference_table():
    top, options, task, _ = recipe("tom-rft-qwen2.5-3b-1gpu.toml")
    assert (top["method"], top["task"], top["reward"]) == (
        "rft",
        "counterfactual-tom",
        "tom-process",
    )
    assert top["model"] == "Qwen/Qwen2.5-3B-Instruct"
    assert task == {"style": "compact"}
    assert {name: options[name] for name in RFT_TABLE} == RFT_TABLE
    assert options["max_prompt"] + options["max_reply"] == 2048
    found = settings.sft_overrides(ONE, options, 1000)
    assert "trainer.total_training_steps=31" in found
    assert "data.train_batch_size=32" in found


def test_the_tom_grpo_recipe_is_the_reference_table():
    top, options, task, reward = recipe("tom-grpo-qwen2.5-3b-1gpu.toml")
    assert (top["task"], top["reward"], task) == (
        "counterfactual-tom", "tom-process", {"style": "compact"},
    )  # fmt: skip
    assert {name: options[name] for name in GRPO_TABLE} == GRPO_TABLE
    assert {name: reward[name] for name in JUDGE_TABLE} == JUDGE_TABLE
    assert settings.total_steps({**options, "steps": 0}, 3200) == 800, "two passes over 3,200"
    found = settings.grpo_overrides(ONE, options, 3200)
    prefix = "actor_rollout_ref"
    for wanted in (
        f"{prefix}.rollout.n=16", f"{prefix}.actor.use_kl_loss=True", "data.shuffle=False",
        f"{prefix}.actor.kl_loss_coef=0.001", f"{prefix}.actor.optim.lr_warmup_steps=0",
        "trainer.total_training_steps=800", f"{prefix}.actor.entropy_coeff=0.001",
        f"{prefix}.rollout.enforce_eager=True", f"{prefix}.actor.ppo_micro_batch_size_per_gpu=2",
    ):  # fmt: skip
        assert wanted in found, wanted


def job(tmp_path, **changes):
    registry = Registry.load(None)
    options = registry.options(registry.entry("trainer", "rft"), changes)
    return TrainJob("counterfactual-tom", "x", tmp_path / "out", options, {"style": "compact"})


def test_prompts_are_sampled_and_trained_on_in_their_own_wording(tmp_path):
    made = job(tmp_path, **{"sample.set": ["style=exact-order"], "sample.limit": 6})
    assert rft.sampled_options(made) == {"style": "exact-order"}
    assert len(list(rft.chosen(made, Registry.load(None)))) == 6


def test_samples_that_are_shown_as_examples_are_not_asked(tmp_path):
    """A worked answer before its own question would bring gold text into the data."""
    registry = Registry.load(None)
    common = {"data.groups": ["order-1"], "sample.limit": 40}
    plain = [s.cluster for s in rft.chosen(job(tmp_path, **common), registry)]
    shown = list(rft.chosen(job(tmp_path, **common, **{"sample.fewshot": 2}), registry))
    assert len(shown) == 40
    assert {s.group for s in shown} == {"order-1"}
    assert not {s.cluster for s in shown} & set(plain[:2])


def told(worker, number, **figures):
    return {"judge": {"worker": worker, "told": number, **figures}}


def test_the_judge_figures_of_a_step_are_what_was_added_since_the_last():
    totals = payment.JudgeTotals()
    first = [told(1, 1, groups=3, requests=2, prompt_tokens=200, seconds=1.0, slowest=0.8),
             told(1, 2, groups=4, requests=3, cache_hits=1, prompt_tokens=300, completion_tokens=60,
                  seconds=1.5, slowest=0.8, cost=0.5, difference=0.3, compared=6),
             told(2, 1, groups=4, requests=4, prompt_tokens=400, seconds=2.0, slowest=1.2),
             {}]  # fmt: skip
    row = totals.step(first)
    assert row["judge/requests"] == 7
    assert row["judge/groups"] == 8
    assert row["judge/total_tokens"] == 760
    assert row["judge/cache_hit_rate"] == 1 / 8  # of answers, 7 of which were asked for
    assert row["judge/latency_mean"] == pytest.approx(3.5 / 7)
    assert row["judge/latency_max"] == 1.2
    assert row["judge/swap_difference"] == pytest.approx(0.05)
    again = totals.step([told(1, 3, groups=8, requests=3, cache_hits=5, prompt_tokens=300,
                              completion_tokens=60, seconds=1.5, failures=2, cost=0.5,
                              difference=0.3, compared=6, slowest=0.8)])  # fmt: skip
    assert (again["judge/requests"], again["judge/cache_hits"], again["judge/cost"]) == (0, 4, 0)
    assert again["judge/unjudged"] == 0.5
    assert again["judge/cache_hit_rate"] == 1.0
    assert "judge/swap_difference" not in again
    assert totals.step([{}]) == {}


def test_a_judge_keeps_what_it_was_paid_for_with_the_job(tmp_path):
    found = payment.kept_judge({"judge_model": "openai:x", "state": 0.4}, tmp_path)
    assert found["judge_cache"] == str(tmp_path / "judge")
    assert found["judge_ledger"] == str(tmp_path / "judge" / "ledger.jsonl")
    own = {"judge_model": "openai:x", "judge_cache": "/own", "judge_ledger": "/ledger"}
    assert payment.kept_judge(own, tmp_path) == own
    assert payment.kept_judge({"state": 0.4}, tmp_path) == {"state": 0.4}


def test_a_job_that_must_stop_says_why(tmp_path):
    assert payment.halted(tmp_path) == ""
    payment.halt(tmp_path, "the budget is spent")
    assert payment.halted(tmp_path) == "the budget is spent"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"sample.limit": 3, "sample.pilot": 2}, "give one of the two"),
        ({"sample.n": 0}, "--n 0: must be at least 1"),
        ({"build.dedupe": "words"}, "choose from text, answer, none"),
        ({"score.min_reward": 1.5}, r"must lie in \[0, 1\]"),
        ({"sample.set": ["style"]}, "sample.set style: write KEY=VALUE"),
    ],
)
def test_options_of_a_chain_that_make_no_sense(tmp_path, changes, told):
    from tiny_models import tiny_checkpoint

    base = tiny_checkpoint(tmp_path / "base")
    made = job(tmp_path, **changes)
    made = TrainJob(made.task, str(base), made.out, made.options, made.task_options)
    with pytest.raises(HarnessError, match=told):
        rft.recipe_of(made, tmp_path, Registry.load(None))


def test_rewards_are_shown_by_order_and_side():
    def row(prompt, stratum, score):
        return prompt, {"score": score, "cls": "ok", "parts": {}, "stratum": stratum}

    rows = [row("a", "order-1/hidden", 1.0), row("a", "order-1/hidden", 0.0),
            row("b", "order-1/observed", 0.2)]  # fmt: skip
    found = payment.figures(rows)
    assert found["reward/of/order-1/hidden"] == 0.5
    assert found["reward/of/order-1/observed"] == 0.2
    assert not [name for name in payment.figures(rows[:2]) if name.startswith("reward/of/")]
    many = [row(str(k), f"s{k}", 0.5) for k in range(payment.STRATA + 1)]
    assert not [name for name in payment.figures(many) if name.startswith("reward/of/")]
