"""GRPO on real verl, on a processor: it learns, is paid by reward plugins, resumes and shards."""

from __future__ import annotations

import json

import pytest
from tiny_models import tiny_checkpoint
from train_jobs import Training, missing

from harness.training import curves

pytestmark = [
    pytest.mark.train,
    pytest.mark.skipif(bool(missing()), reason=missing() or "verl is there"),
]

SETTINGS = {
    "batch_size": 6, "rollouts": 8, "micro_batch": 24, "steps": 12, "learning_rate": 1e-2,
    "schedule": "constant", "warmup": 0, "max_prompt": 64, "max_reply": 12, "temperature": 1.0,
    "top_p": 1.0, "save_every": 5, "eval_every": 5, "validation__limit": 6,
}  # fmt: skip
MARGIN = 0.2
"""By so much the mean reward of the last three steps exceeds that of the first."""

NEAR = 0.02
"""Tolerance of rewards between an uninterrupted job and a resumed one: batches of other sizes round
differently, and a token may fall the other way."""


REWARD = ("--reward", "letters")


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    folder = tmp_path_factory.mktemp("grpo")
    return Training(folder, tiny_checkpoint(folder / "base", initializer_range=0.1))


@pytest.fixture(scope="module")
def whole(training):
    """The uninterrupted job on the processor."""
    return training.run("grpo", "whole", *REWARD, **SETTINGS)


def column(folder, name):
    return [row[name] for row in curves.steps(folder).values() if name in row]


def test_grpo_cpu_raises_the_reward(whole):
    rewards = column(whole, "reward/mean")
    assert len(rewards) == 12
    assert sum(rewards[-3:]) / 3 > rewards[0] + MARGIN


def test_grpo_cpu_is_paid_what_the_reward_plugin_says(whole):
    """verl's own mean of the scores that it was handed, in float32, beside ours in float64."""
    ours, verls = column(whole, "reward/mean"), column(whole, "critic/score/mean")
    assert verls == pytest.approx(ours, abs=1e-6)
    assert column(whole, "reward/part/letters") == ours


def test_grpo_cpu_trainer_and_rollout_agree_on_probabilities(whole):
    """So weights reach the rollout engine after every step, and the tokens line up."""
    assert min(column(whole, "training/rollout_actor_probs_pearson_corr")) > 0.999


def test_grpo_cpu_validation_and_record(whole):
    rows = curves.validations(whole)
    assert [row["step"] for row in rows] == [0, 5, 10, 12]
    assert all(set(row["parts"]) == {"exact"} for row in rows), "validation is by the task's rules"
    record = json.loads((whole / "training.json").read_text())
    assert record["reward"] == "letters"
    assert record["data"][0]["samples"] == 30
    assert record["curves"]["reward"]["steps"] == 12


def test_grpo_cpu_killed_and_resumed(whole, training):
    seen = training.kill_after(7, "grpo", "killed", *REWARD, **SETTINGS)
    assert 7 <= seen < 12
    folder = training.run("grpo", "killed", "--resume", *REWARD, **SETTINGS)
    wanted, found = column(whole, "reward/mean"), column(folder, "reward/mean")
    assert found == pytest.approx(wanted, abs=NEAR)
    assert [row["step"] for row in curves.validations(folder)] == [0, 5, 10, 12]


def test_grpo_cpu_two_processes_do_what_one_does(whole, training):
    settings = {**SETTINGS, "processes": 2, "steps": 2, "kl": "loss", "validation__limit": -1}
    folder = training.run("grpo", "two", *REWARD, **settings)
    wanted = column(whole, "reward/mean")[:2]
    assert column(folder, "reward/mean") == pytest.approx(wanted, abs=NEAR)
    assert column(folder, "actor/kl_loss")[0] == pytest.approx(0.0, abs=1e-6)


def test_grpo_cpu_plays_a_game_of_several_turns(training):
    """Each turn of the model is a sequence; groups of uneven size are filled up."""
    duel = Training(training.folder, training.base, task="duel")
    settings = {**SETTINGS, "steps": 2, "rollouts": 3, "batch_size": 2, "data__limit": 4,
                "validation__limit": 2, "save_every": 0, "eval_every": 0}  # fmt: skip
    folder = duel.run("grpo", "duel", **settings)
    assert len(column(folder, "reward/mean")) == 2


def test_grpo_cpu_step_is_a_checkpoint(whole, harness_command):
    done = harness_command(
        "run", "--task", "copy", "--model", f"{whole}@5", "--limit", "4", "--quiet"
    )
    assert done.returncode == 0, done.stderr
