"""SFT on real verl, on a processor: it learns, resumes, shards, and its steps can be evaluated."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from tiny_models import tiny_checkpoint
from train_jobs import Training, missing

from harness.training import curves
from harness.training.checkpoints import saved_steps

pytestmark = [
    pytest.mark.train,
    pytest.mark.skipif(bool(missing()), reason=missing() or "verl is there"),
]

SETTINGS = {
    "batch_size": 10, "micro_batch": 5, "steps": 9, "learning_rate": 2e-3, "max_prompt": 64,
    "max_reply": 16, "save_every": 3, "eval_every": 5, "validation__limit": 6,
}  # fmt: skip
"""30 items make 3 steps an epoch: each save lies at the end of one."""

EXACT = 1e-5
"""Tolerance of losses between an uninterrupted job, a resumed one and one of two processes."""


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sft")
    return Training(folder, tiny_checkpoint(folder / "base"))


@pytest.fixture(scope="module")
def whole(training):
    """The uninterrupted job."""
    return training.run("sft", "whole", **SETTINGS)


def losses(folder):
    return [row["train/loss"] for step, row in curves.steps(folder).items() if step]


def test_the_loss_falls(whole):
    found = losses(whole)
    assert len(found) == 9
    assert sum(found[-3:]) / 3 < 0.7 * found[0]


def test_the_tokens_that_were_trained_on(whole, training):
    """The loss lies on the reply and one end token, and nowhere else."""
    from transformers import AutoTokenizer

    from harness_plugins.trainers.verl.sft_rows import TokenRows

    tokenizer = AutoTokenizer.from_pretrained(training.base)
    path = str(whole / "data" / "train.parquet")
    names = pq.read_table(path).column("id").to_pylist()
    rows = TokenRows(path, tokenizer, None)
    assert len(rows) == 30
    for name, row in zip(names, (rows[i] for i in range(30)), strict=True):
        trained = row["input_ids"][row["loss_mask"] == 1].tolist()
        assert trained.count(tokenizer.eos_token_id) == 1
        assert trained[-1] == tokenizer.eos_token_id
        assert tokenizer.decode(trained[:-1]) == f"w{name.rpartition('-')[2]}"
        mask = row["loss_mask"].tolist()
        assert mask == sorted(mask), "the reply is the end of the row"


def test_validation_before_on_the_way_and_at_the_end(whole):
    assert [row["step"] for row in curves.validations(whole)] == [0, 5, 9]
    assert all(row["n"] == 6 for row in curves.validations(whole))


def test_killed_and_resumed_at_the_end_of_an_epoch(whole, training):
    """verl loses an epoch there; the curve must go on as the uninterrupted one."""
    seen = training.kill_after(4, "sft", "killed", **SETTINGS)
    assert 4 <= seen < 9
    resumed_at = max(saved_steps(training.folder / "killed"))
    assert resumed_at % 3 == 0
    done = training.refused("sft", "killed", **SETTINGS)
    assert done.returncode == 2
    assert "--resume goes on with it" in done.stderr
    folder = training.run("sft", "killed", "--resume", **SETTINGS)
    assert losses(folder) == pytest.approx(losses(whole), abs=EXACT)
    record = json.loads((folder / "training.json").read_text())
    assert (record["step"], record["complete"], len(record["attempts"])) == (9, True, 2)


def test_two_processes_give_the_losses_of_one(whole, training):
    settings = {
        **SETTINGS,
        "steps": 3,
        "processes": 2,
        "validation__limit": -1,
        "schedule": "cosine",
    }
    one = training.run("sft", "one", **{**settings, "processes": 1})
    two = training.run("sft", "two", **settings)
    assert losses(two) == pytest.approx(losses(one), abs=EXACT)


def test_a_step_of_another_number_of_processes_is_refused(training, whole):
    import shutil

    shutil.copytree(whole, training.folder / "cut")
    shutil.rmtree(training.folder / "cut" / "global_step_9")
    done = training.refused("sft", "cut", "--resume", **{**SETTINGS, "processes": 2})
    assert done.returncode == 2
    assert "was saved by 1 processes and cannot be resumed with 2" in done.stderr


def test_another_job_in_the_same_folder_is_refused(training, whole):
    done = training.refused("sft", "whole", "--resume", **{**SETTINGS, "learning_rate": 1e-3})
    assert done.returncode == 2
    assert "holds another job (options.learning_rate: 0.002, now 0.001)" in done.stderr


def test_steps_and_result_are_checkpoints(whole, training, harness_command):
    from transformers import AutoModelForCausalLM

    last = AutoModelForCausalLM.from_pretrained(whole)
    first = AutoModelForCausalLM.from_pretrained(training.base)
    assert [n for n, _ in last.named_parameters()] == [n for n, _ in first.named_parameters()]
    for model in (str(whole), f"{whole}@3"):
        done = harness_command("run", "--task", "copy", "--model", model, "--limit", "4", "--quiet")
        assert done.returncode == 0, done.stderr
    done = harness_command("export", f"{whole}@6", "--out", "six", registry=False)
    assert done.returncode == 0, done.stderr
    done = harness_command("run", "--task", "copy", "--model", "six", "--limit", "4", "--quiet")
    assert done.returncode == 0, done.stderr


def test_items_that_were_trained_on_are_found_in_a_run(whole, tmp_path, toy_registry):
    """As leaderboards mark them: all of the train split, none of the test split."""
    import harness
    from harness.board.places import find_runs
    from harness.contamination import check, load_training

    for split, seen in (("train", 5), ("test", 0)):
        out = tmp_path / split
        harness.run("copy", f"{whole}@3", registry=toy_registry, split=split, limit=5, out=out)
        (run,) = find_runs([str(out)])
        found = check(run, load_training(run))
        assert len(found.canonical) == seen


def test_training_from_a_step_names_its_parent(training, whole):
    child = Training(training.folder, f"{whole}@3")
    settings = {**SETTINGS, "steps": 1, "validation__limit": -1}
    folder = child.run("sft", "child", **settings)
    record = json.loads((folder / "training.json").read_text())
    assert record["parent"]["method"] == "sft"
    assert record["base"]["identity"].startswith("whole@3-")


def test_adapters_are_trained_and_merged(training):
    """The merged checkpoint says what peft's own model with these adapters says."""
    import torch
    from transformers import AutoModelForCausalLM

    settings = {
        **SETTINGS, "steps": 2, "save_every": 0, "lora.rank": 4, "lora.alpha": 8,
        "validation__limit": -1, "learning_rate": 1e-2,
    }  # fmt: skip
    folder = training.run("sft", "lora", **settings)
    shards = torch.load(
        folder / "global_step_2" / "model_world_size_1_rank_0.pt", weights_only=False
    )
    from peft import LoraConfig, get_peft_model

    base = AutoModelForCausalLM.from_pretrained(training.base)
    config = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM")
    adapted = get_peft_model(base, config)
    adapted.load_state_dict({n: getattr(t, "_local_tensor", t) for n, t in shards.items()})
    ids = torch.tensor([[1, 3, 50, 60, 70]])
    with torch.no_grad():
        wanted = adapted(ids).logits
        merged = AutoModelForCausalLM.from_pretrained(folder)(ids).logits
        untrained = AutoModelForCausalLM.from_pretrained(training.base)(ids).logits
    assert torch.allclose(merged, wanted, atol=1e-4)
    assert not torch.allclose(merged, untrained, atol=1e-2)


def test_bad_input_is_one_line(training, tmp_path):
    bare = tiny_checkpoint(tmp_path / "bare", template=None)
    cases = [
        (training.base, {"data.split": "test"}, "not for training; only 'train' is"),
        (bare, {}, "has no chat template"),
        (training.base, {"max_prompt": 5}, "have more than 5 prompt tokens"),
        (training.base, {"epochs": 0, "steps": 0}, "give epochs or steps"),
        (training.base, {"learning_rat": 1}, "did you mean learning_rate"),
        ("echo", {}, "cannot be trained"),
    ]
    for base, settings, told in cases:
        done = Training(tmp_path, base).refused("sft", "out", **{**SETTINGS, **settings})
        assert done.returncode == 2, told
        assert told in done.stderr, done.stderr
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
        assert not (tmp_path / "out" / "config.json").exists()
