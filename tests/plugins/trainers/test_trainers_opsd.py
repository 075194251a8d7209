"""Self-distillation before verl is started: teachers' prompts, settings, budgets, exports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from saved_steps import save_step
from tiny_models import tiny_checkpoint, tiny_llama

from harness.registry import Registry
from harness.rendering import render
from harness.trainer import TrainJob
from harness.training import checkpoints
from harness.training.recipe import divide, read_config
from harness.training.session import Session
from harness.types import HarnessError
from harness_plugins.models.adapter import read_adapter
from harness_plugins.models.checkpoint import Found, weights_hash
from harness_plugins.models.transformers import TransformersModel
from harness_plugins.tasks.counterfactual_tom.english import sentences
from harness_plugins.trainers import opsd
from harness_plugins.trainers.verl import settings
from harness_plugins.trainers.verl.settings import Place

CONFIGS = Path(__file__).resolve().parents[3] / "configs"
STUDY = {
    "lora.rank": 64, "lora.alpha": 128, "learning_rate": 5e-6, "schedule": "constant",
    "warmup": 0.0, "clip_norm": 0.1, "batch_size": 32, "micro_batch": 2, "steps": 100,
    "temperature": 0.8, "top_p": 0.95, "kl_temperature": 0.8, "kl_clip": 0.0, "max_reply": 384,
    "save_every": 50, "seed": 2026, "gpus": 1,
}  # fmt: skip
"""Reference study, OPSD: 2 x 16 prompts a step, 100 steps, a gradient norm of 0.1, replies of 384
tokens at T 0.8 and top-p 0.95, the loss at 0.8 and without a clip; saved at 50 and 100."""

TASKS = {
    "counterfactual-tom": {},
    "counterfactual-tom/exact-order": {"style": "exact-order"},
    "counterfactual-tom/reference": {"preset": "reference"},
    "gamesolve": {},
    "gamesolve-skills": {},
}


def task_of(name):
    return Registry.load(None).create("task", name.partition("/")[0], TASKS[name])


def options(**changes):
    registry = Registry.load(None)
    small = {"max_prompt": 64, "max_teacher_prompt": 96, "max_reply": 16, "batch_size": 10,
             "gpus": 0, **changes}  # fmt: skip
    return registry.options(registry.entry("trainer", "opsd"), small)


@pytest.fixture
def job(tmp_path, support):
    def made(task="copy", **changes):
        base = tmp_path / "base"
        if not base.exists():
            tiny_checkpoint(base)
        return TrainJob(
            task, str(base), tmp_path / "out", options(**changes),
            registry_file=support / "toy_registry.toml", quiet=True,
        )  # fmt: skip

    return made


# Prompts


@pytest.mark.parametrize("name", TASKS)
def test_a_teachers_prompt_is_the_students_with_one_block_more(name):
    """So the student's holds nothing of what the teacher knows."""
    task = task_of(name)
    for sample, _ in zip(task.samples("train"), range(40), strict=False):
        *told, teacher = task.privileged(sample)
        *shown, student = task.messages(sample)
        assert told == shown
        assert teacher.role == student.role == "user"
        start = teacher.content.index("Known to you alone")
        head, rest = teacher.content[:start], teacher.content[start:]
        tails = [rest[k:] for k in range(len(rest)) if head + rest[k:] == student.content]
        assert tails, sample.id
        assert "Known to you alone" not in student.content


@pytest.mark.parametrize("style", ["compact", "exact-order"])
def test_a_teacher_of_beliefs_knows_the_answer_and_what_it_rests_on(style):
    task = Registry.load(None).create("task", "counterfactual-tom", {"style": style})
    for sample, _ in zip(task.samples("train"), range(60), strict=False):
        block = _block(task, sample)
        story = sample.data["story"]
        lines = [line[2:] for line in block.splitlines() if line.startswith("- ")]
        assert f"the answer is {sample.truth['answer']}." in block
        assert all(line in story for line in lines)
        assert [story.index(line) for line in lines] == sorted(story.index(x) for x in lines)
        for place in sample.truth["trace"]:
            assert any(place in line for line in lines), (sample.id, place)
        assert 1 <= len(lines) <= len(sample.data["chain"])
        for word in ("critical", "baseline", "observed side", "event 1", "e1"):
            assert word not in block.replace(story, "")


def test_the_event_that_a_pair_differs_in_supports_one_side_only():
    """Published design: it is a support of the observed side, never of the hidden one."""
    task = task_of("counterfactual-tom/reference")
    seen = {"observed": 0, "hidden": 0}
    for sample, _ in zip(task.samples("train"), range(60), strict=False):
        place = sample.data["events"][sample.data["critical"]]["to"]
        critical = next(x for x in sentences(sample.data["story"]) if place in x)
        seen[sample.data["side"]] += 1
        assert (f"- {critical}" in _block(task, sample)) == (sample.data["side"] == "observed")
    assert min(seen.values()) > 10


def test_a_teacher_of_games_knows_the_solution():
    for name in ("gamesolve", "gamesolve-skills"):
        task = task_of(name)
        for sample, _ in zip(task.samples("train"), range(20), strict=False):
            teacher = task.privileged(sample)[-1].content
            assert task.target(sample) in teacher
            assert task.target(sample) not in task.messages(sample)[-1].content


def _block(task, sample):
    content = task.privileged(sample)[-1].content
    return content[content.index("Known to you alone") :].partition("\n\n")[0]


# Settings


def test_the_recipe_is_the_reference_studys():
    top, given = read_config(CONFIGS / "tom-opsd-qwen2.5-3b-1gpu.toml")
    registry = Registry.load(None)
    own, task, _ = divide(registry, "opsd", top["task"], given)
    found = registry.options(registry.entry("trainer", "opsd"), own)
    assert (top["model"], top["task"]) == ("Qwen/Qwen2.5-3B-Instruct", "counterfactual-tom")
    assert task["style"] == "compact"
    assert {name: found[name] for name in STUDY} == STUDY
    assert found["max_teacher_prompt"] + found["max_reply"] == 3072
    assert settings.total_steps(found, 3200) * found["batch_size"] == 3200


def test_overrides_for_verl():
    place = Place(Path("/out"), Path("/base"), 1, 1, tied=True)
    given = {**opsd.UNUSED, **options(verl=["a.b=1"])}
    found = settings.grpo_overrides(place, {**given, "verl": []}, 3200)
    found += opsd.own_overrides(given)
    assert "actor_rollout_ref.rollout.n=1" in found
    assert "actor_rollout_ref.model.lora_rank=64" in found
    assert "actor_rollout_ref.model.lora.merge=True" in found
    assert "actor_rollout_ref.model.use_fused_kernels=False" in found
    assert "+actor_rollout_ref.model.model_type=harness_opsd" in found
    assert found[-1] == "a.b=1"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"lora.rank": 0}, "lora.rank 0: opsd trains adapters, since its teacher is the model"),
        ({"kl_temperature": 0.0}, "kl_temperature 0.0: must be positive"),
        ({"kl_clip": -1.0}, "kl_clip -1.0"),
    ],
)
def test_settings_that_make_no_sense(changes, told):
    with pytest.raises(HarnessError, match=told):
        opsd.check(options(**changes))


def test_teachers_prompts_are_measured(job):
    session = Session.of(job(), "opsd", False)
    opsd.OPSD(session.job.options).prepare(session)
    audit = session.audits["teacher prompt"]
    longest = max(
        len(render(session.tokenizer, session.task.privileged(i.sample))) for i in session.items
    )
    assert (audit.count, audit.longest, audit.limit) == (30, longest, 96)
    assert longest > session.audits["prompt"].longest
    assert audit.line() in session.text()


def test_teachers_prompts_that_do_not_fit(job):
    def prepared(**changes):
        session = Session.of(job(**changes), "opsd", False)
        opsd.OPSD(session.job.options).prepare(session)
        return session

    with pytest.raises(HarnessError, match="have more than 40 teacher prompt tokens"):
        prepared(max_teacher_prompt=40)
    with pytest.raises(HarnessError, match="left no item"):
        prepared(max_teacher_prompt=40, **{"data.overlong": "filter"})
    with pytest.raises(
        HarnessError, match="max_teacher_prompt 500 and max_reply 16 exceed the 512"
    ):
        prepared(max_teacher_prompt=500)


def test_a_task_without_a_teachers_prompt(job, monkeypatch):
    from toy_plugins import Copy

    for task in ("duel", "copy"):
        if task == "copy":
            monkeypatch.delattr(Copy, "privileged")
        session = Session.of(job(task=task), "opsd", False)
        with pytest.raises(HarnessError, match=f"{task} has no prompt for a teacher"):
            opsd.OPSD(session.job.options).prepare(session)


# Adapters of a step


@pytest.fixture
def adapted(tmp_path):
    """A job whose step 3 was trained with adapters, as verl leaves it; its base, and its model."""
    peft = pytest.importorskip("peft")
    base = tiny_checkpoint(tmp_path / "base")
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM")
    model = peft.get_peft_model(tiny_llama(), config)
    torch.manual_seed(5)
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.3)
    job = tmp_path / "job"
    save_step(job, 3, state=model.state_dict(), inner="actor")
    meta = {"r": 4, "lora_alpha": 8, "task_type": "CAUSAL_LM"}
    (job / "global_step_3" / "actor" / "lora_train_meta.json").write_text(json.dumps(meta))
    record = {"base": {"name": str(base), "identity": f"base-{weights_hash(base)[:12]}"}, "step": 3}
    (job / "training.json").write_text(json.dumps(record))
    for name in ("canonical.txt", "prompts.jsonl"):
        (job / name).write_text("")
    return job, base, model


def test_adapter_at_run_time_and_merged_are_one_model(adapted, tmp_path, harness_command):
    job, base, model = adapted
    done = harness_command(
        "export", f"{job}@3", "--format", "adapter", "--out", "alone", registry=False
    )
    assert done.returncode == 0, done.stderr
    merged = checkpoints.ensure_weights(job / "global_step_3")
    ids = torch.tensor([[1, 3, 50, 60, 70]])
    with torch.no_grad():
        wanted = model(ids).logits
        beside = TransformersModel(
            Found(base, "base"), {"dtype": "float32", "lora": str(tmp_path / "alone")}
        )
        assert torch.allclose(beside.model(ids).logits, wanted, atol=1e-4)
        whole = TransformersModel(Found(merged, "job@3"), {"dtype": "float32"})
        assert torch.allclose(whole.model(ids).logits, wanted, atol=1e-4)
    state = load_file(tmp_path / "alone" / "adapter_model.safetensors")
    assert all(".lora_" in name for name in state)
    assert read_adapter(str(tmp_path / "alone"), Found(base, "base")).scale == 2.0
    other = tiny_checkpoint(tmp_path / "other", seed=1)
    with pytest.raises(HarnessError, match=r"was trained on base-[0-9a-f]{12}, not on other-"):
        read_adapter(str(tmp_path / "alone"), Found(other, "other"))


def test_a_step_without_adapters_has_none_to_export(tmp_path, harness_command):
    save_step(tmp_path / "job", 2)
    done = harness_command(
        "export", "job@2", "--format", "adapter", "--out", "alone", registry=False
    )
    assert done.returncode == 2
    assert "was trained in all its weights and has no adapter" in done.stderr
    done = harness_command("export", "job@2", "--format", "adapter", registry=False)
    assert done.returncode == 2
    assert "--out" in done.stderr


def test_adapters_are_switched_off_without_being_frozen(adapted):
    """peft's own way freezes them, which sharded parameters do not forget."""
    from harness_plugins.trainers.verl.adapters import adapters_off, merged

    _, _, model = adapted
    ids = torch.tensor([[1, 3, 50, 60, 70]])
    with torch.no_grad():
        trained = model(ids).logits
        with adapters_off(model):
            assert all(w.requires_grad for n, w in model.named_parameters() if "lora_" in n)
            assert torch.allclose(model(ids).logits, tiny_llama()(ids).logits, atol=1e-5)
        assert torch.equal(model(ids).logits, trained)
        whole = tiny_llama(seed=9)
        whole.load_state_dict(dict(merged(model, "cpu", torch.float32)))
        assert torch.allclose(whole(ids).logits, trained, atol=1e-4)
    with pytest.raises(ValueError, match="no adapters"), adapters_off(tiny_llama()):
        pass
