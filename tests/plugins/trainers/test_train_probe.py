"""The probe loss on real verl, on a processor: beside plain GRPO, over ranks, killed, resumed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch
from tiny_models import tiny_checkpoint, tiny_llama, tiny_tokenizer
from train_jobs import SUPPORT, Training, missing

from harness.training import curves

pytestmark = [
    pytest.mark.train,
    pytest.mark.skipif(bool(missing()), reason=missing() or "verl is there"),
]

STEPS = 10
FEW = 4
SETTINGS = {
    "batch_size": 6, "rollouts": 4, "micro_batch": 4, "steps": 10, "learning_rate": 1e-3,
    "schedule": "constant", "warmup": 0, "max_prompt": 64, "max_reply": 8, "temperature": 1.0,
    "top_p": 1.0, "save_every": 5, "eval_every": 5, "validation__limit": 60,
    "probe__layers": "0,1", "probe__learning_rate": 0.03,
}  # fmt: skip
REWARD = ("--reward", "letters")
MARGIN = 0.2
"""By so much the heads' accuracy on held-out prompts exceeds the majority share."""

NEAR = {"rtol": 1e-4, "atol": 1e-5}
"""Tolerance where sums are made in another order."""


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    folder = tmp_path_factory.mktemp("probe")
    tiny_checkpoint(folder / "base-tied", initializer_range=0.1, tie_word_embeddings=True)
    return Training(folder, tiny_checkpoint(folder / "base", initializer_range=0.1), task="marks")


@pytest.fixture(scope="module")
def job(training):
    """A job that is ready but not begun, with recorded rollouts of its steps."""
    from recorded import record

    from harness.registry import Registry
    from harness.training.data import training_items
    from harness_plugins.trainers.verl.probe_settings import Probe, description

    done = training.refused("grpo-probe", "job", "--stage", "build", **SETTINGS)
    assert done.returncode == 0, done.stderr
    folder = training.folder / "job"
    registry = Registry.load(SUPPORT / "toy_registry.toml")
    task, probe = registry.create("task", "marks", {}), Probe.read(description(folder))
    reward = registry.create("reward", "letters", {})
    model, items = tiny_llama(0, initializer_range=0.1), training_items(task)
    steps = [
        record(model, tiny_tokenizer(), task, probe, items[6 * n : 6 * n + 6], 4, reward)
        for n in range(STEPS)
    ]
    torch.save(steps, folder / "rollouts.pt")
    return folder


def replay(job, variants, processes=1):
    """What the ranks of each variant end with."""
    out = job / f"replayed-{processes}"
    out.mkdir()
    wanted = ",".join(f"{name}:{steps}" for name, steps in variants.items())
    script = [str(SUPPORT / "probe_replay.py"), str(job), wanted, str(out)]
    start = [sys.executable]
    if processes > 1:
        start += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    environment = {
        **os.environ, "PYTHONPATH": str(SUPPORT), "OMP_NUM_THREADS": "1", "VERL_PLATFORM": "cpu",
    }  # fmt: skip
    done = subprocess.run([*start, *script], capture_output=True, text=True, env=environment,
                          timeout=600)  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return {
        name: [
            torch.load(out / f"{name}-{rank}.pt", weights_only=True) for rank in range(processes)
        ]
        for name in variants
    }


@pytest.fixture(scope="module")
def one(job):
    """One process."""
    few = dict.fromkeys(("probe", "packed", "stored", "parts", "adapters", "resumed"), FEW)
    found = replay(job, {"plain": STEPS, "zero": STEPS, **few, "tied": 2, "fused": 2})
    return {name: ranks[0] for name, ranks in found.items()}


def same(one, two):
    return all(torch.equal(one[name], two[name]) for name in one) and one.keys() == two.keys()


def test_with_coef_0_the_parameters_are_those_of_plain_grpo_bit_for_bit(one, training):
    from safetensors.torch import load_file

    base = load_file(training.base / "model.safetensors")
    assert not any(torch.equal(base[n], one["plain"]["model"][n]) for n in base if "proj" in n)
    assert same(one["plain"]["model"], one["zero"]["model"])
    for mine, plain in zip(one["zero"]["figures"], one["plain"]["figures"], strict=True):
        assert mine["actor/pg_loss"] == plain["actor/pg_loss"]
    moved = one["probe"]["figures"][1]["actor/pg_loss"]
    assert moved != one["plain"]["figures"][1]["actor/pg_loss"]


def test_heads_learn_where_coef_is_0(one):
    found = one["zero"]["held_out"]
    assert found["probe/dominant/accuracy"] > found["probe/dominant/majority"] + MARGIN


def test_packed_rows_and_stored_activations_and_smaller_parts_give_the_same(one):
    for other in ("packed", "stored", "parts"):
        for what in ("model", "heads"):
            for name, values in one["probe"][what].items():
                torch.testing.assert_close(one[other][what][name], values, **NEAR)
        for mine, row in zip(one[other]["figures"], one["probe"]["figures"], strict=True):
            assert mine == pytest.approx(row, rel=1e-4, abs=1e-6)


def test_fused_kernels_have_heads_that_do_the_same(one):
    for what in ("model", "heads"):
        for name, values in one["tied"][what].items():
            torch.testing.assert_close(one["fused"][what][name], values, **NEAR)
    for mine, row in zip(one["fused"]["figures"], one["tied"]["figures"], strict=True):
        assert mine == pytest.approx(row, rel=1e-4, abs=1e-6)


def test_adapters_have_heads_that_read_the_same(one):
    """New adapters change nothing, so the first step's figures are the model's."""
    first, whole = (one[name]["figures"][0] for name in ("adapters", "probe"))
    assert first == pytest.approx(whole, rel=1e-4, abs=1e-6)
    assert any("base_layer" in name for name in one["adapters"]["model"])


def test_a_resumed_worker_goes_on_with_the_same_heads_bit_for_bit(one):
    assert same(one["resumed"]["heads"], one["probe"]["heads"])
    assert same(one["resumed"]["model"], one["probe"]["model"])
    for place, moments in one["probe"]["adam"].items():
        assert same(one["resumed"]["adam"][place], moments)


def test_two_ranks_have_equal_heads_and_those_of_one_process(one, job):
    ranks = replay(job, {"probe": FEW}, processes=2)["probe"]
    assert same(ranks[0]["heads"], ranks[1]["heads"])
    for what in ("model", "heads"):
        for name, values in one["probe"][what].items():
            torch.testing.assert_close(ranks[0][what][name], values, **NEAR)
    for mine, row in zip(ranks[0]["figures"], one["probe"]["figures"], strict=True):
        assert mine == pytest.approx(row, rel=1e-4, abs=1e-6)
    assert ranks[1]["held_out"] == pytest.approx(one["probe"]["held_out"], rel=1e-4, abs=1e-6)


def test_figures_are_those_of_the_heads_on_the_rows(one, job):
    """The last figures but one update, computed again from the base's states: the first step's."""
    from harness.probing.heads import ProbeHeads, pool_padded
    from harness_plugins.trainers.verl.probe_settings import Probe, description

    probe = Probe.read(description(job))
    rows = torch.load(job / "rollouts.pt", weights_only=True)[0]
    heads = ProbeHeads(probe.width, probe.classes, probe.layers, probe.weights, probe.seed)
    model = tiny_llama(0, initializer_range=0.1)
    pooled = {layer: [] for layer in probe.layers}
    for row in rows:
        states = model(row["prompts"][None], output_hidden_states=True).hidden_states
        final = model.model.layers[-1]
        heard = []
        handle = final.register_forward_hook(lambda m, i, o, h=heard: h.append(o))
        model(row["prompts"][None])
        handle.remove()
        for layer in probe.layers:
            block = states[layer + 1] if layer + 1 < len(model.model.layers) else heard[0]
            size = torch.tensor([len(row["prompts"])])
            pooled[layer].append(pool_padded(block, torch.zeros_like(size), size, probe.pooling))
    labels = torch.stack([row["probe_labels"] for row in rows])
    named = dict(zip(probe.classes, labels.unbind(1), strict=True))
    _, figures = heads.loss({n: torch.cat(found) for n, found in pooled.items()}, named)
    first = one["probe"]["figures"][0]
    assert first["probe/loss"] == pytest.approx(figures["probe/loss"], rel=1e-4)
    for place, name in enumerate(probe.classes):
        for what in ("loss", "accuracy", "majority"):
            found = figures[f"probe/{name}/{what}"]
            assert first[f"probe/{place}/{what}"] == pytest.approx(found, rel=1e-4), (name, what)


def test_bad_input_is_one_line(training):
    """And nothing is written; test_trainers_probe.py has the other cases."""
    for task, change, told in (
        ("marks", {"probe__layers": "2"}, "there is no layer 2: the model has 0 to 1"),
        ("copy", {}, "copy has no concepts to probe; train on it with grpo or sft"),
    ):
        job = Training(training.folder, training.base, task=task)
        done = job.refused("grpo-probe", "bad", **{**SETTINGS, **change})
        assert done.returncode == 2
        assert told in done.stderr
        assert "Traceback" not in done.stderr
        assert not (training.folder / "bad").exists()


# Whole jobs


@pytest.fixture(scope="module")
def killed(training):
    """A GRPO job that was killed between two checkpoints, and resumed."""
    seen = training.kill_after(7, "grpo-probe", "killed", *REWARD, **SETTINGS)
    assert 7 <= seen < 10
    return training.run("grpo-probe", "killed", "--resume", *REWARD, **SETTINGS)


def attempt(folder, number):
    """The figures of each step that one attempt made."""
    path = folder / "logs" / f"metrics-{number}.jsonl"
    rows = (json.loads(line) for line in path.read_text().splitlines())
    return {row["step"]: row["data"] for row in rows}


def test_a_killed_job_goes_on_with_its_heads(killed):
    """The steps that both attempts made have the same figures; fresh heads would begin at the
    loss of the first step of all."""
    first, second = attempt(killed, 1), attempt(killed, 2)
    assert min(second) == 6
    both = sorted(set(first) & set(second))
    assert len(both) >= 2
    for step in both:
        assert second[step]["probe/loss"] == pytest.approx(first[step]["probe/loss"], rel=0.02)
    name = "probe/dominant/loss"
    assert first[1][name] > 1.3 * second[both[0]][name]
    assert sorted(curves.steps(killed)) == [0, *range(1, 11)]


def test_accuracy_on_held_out_prompts_rises_above_the_majority(killed):
    lines = curves.validations(killed)
    assert [line["step"] for line in lines] == [0, 5, 10]
    first, last = lines[0]["probe"], lines[-1]["probe"]
    assert last["dominant"]["accuracy"] > last["dominant"]["majority"] + MARGIN
    assert last["dominant"]["accuracy"] > first["dominant"]["accuracy"]
    assert last["loss"] < first["loss"]
    assert last["dominant"]["majority"] == first["dominant"]["majority"] < 0.7


def test_each_concept_is_logged_beside_its_majority_share(killed):
    last = curves.steps(killed)[10]
    for name in ("dominant", "most"):
        for what in ("loss", "accuracy", "majority"):
            assert f"probe/{name}/{what}" in last
        assert 1 / 3 <= last[f"probe/{name}/majority"] <= 1
    assert not [name for name in last if name.startswith("actor/probe")]


def test_heads_lie_beside_the_checkpoint_and_not_in_it(killed, training):
    from safetensors.torch import load_file

    from harness.probing.heads import ProbeHeads

    saved = torch.load(killed / "global_step_10" / "actor" / "probe.pt", weights_only=True)
    assert "actor/probe.pt" in json.loads((killed / "global_step_10" / "hashes.json").read_text())
    described = json.loads((killed / "probe" / "probe_heads.json").read_text())
    heads = ProbeHeads(described["width"], described["classes"], described["layers"])
    heads.load_state_dict(load_file(killed / "probe" / "probe_heads.safetensors"))
    assert same(dict(heads.state_dict()), saved["heads"])
    weights = load_file(killed / "model.safetensors")
    assert weights.keys() == load_file(training.base / "model.safetensors").keys()
    options = json.loads((killed / "training.json").read_text())["options"]
    assert (options["probe.layers"], options["probe.coef"]) == ("0,1", 0.1)


def test_sft_with_a_probe_loss(training):
    settings = {
        "batch_size": 12, "micro_batch": 4, "steps": 10, "learning_rate": 1e-3, "max_prompt": 64,
        "max_reply": 32, "validation__limit": 40, "probe__layers": "-1",
        "probe__learning_rate": 0.03, "processes": 2,
    }  # fmt: skip
    folder = training.run("sft", "sft", **settings)
    first, last = (line["probe"] for line in curves.validations(folder))
    assert last["dominant"]["accuracy"] > last["dominant"]["majority"] + MARGIN
    assert last["loss"] < first["loss"]
    rows = [row for step, row in curves.steps(folder).items() if step]
    assert len(rows) == 10
    assert rows[-1]["probe/loss"] < rows[0]["probe/loss"]
    assert rows[-1]["probe/dominant/accuracy"] > rows[-1]["probe/dominant/majority"]
    assert (folder / "probe" / "probe_heads.safetensors").is_file()
