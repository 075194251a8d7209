"""Jobs before verl is started: the missing extra, folders, series of steps; without verl."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError

import pytest
from saved_steps import save_step
from tiny_models import tiny_checkpoint

from harness.registry import Registry
from harness.trainer import TrainJob
from harness.training.base import base_checkpoint
from harness.training.series import draw, expand, series_of
from harness.training.session import Session
from harness.types import HarnessError
from harness_plugins.trainers.verl import trainer


def options(method, **changes):
    registry = Registry.load(None)
    small = {"max_prompt": 64, "max_reply": 16, "batch_size": 10, "gpus": 0, **changes}
    return registry.options(registry.entry("trainer", method), small)


@pytest.fixture
def job(tmp_path, support):
    def made(method="sft", task="copy", model=None, stage="train", resume=False, **changes):
        base = model or tmp_path / "base"
        if model is None and not base.exists():
            tiny_checkpoint(base)
        return TrainJob(
            task, str(base), tmp_path / "out", options(method, **changes), stage=stage,
            resume=resume, registry_file=support / "toy_registry.toml", quiet=True,
        )  # fmt: skip

    return made


def test_a_missing_or_wrong_verl_is_told_in_one_line(monkeypatch):
    def gone(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(trainer, "version", gone)
    with pytest.raises(HarnessError, match=r"verl, which is not installed; pip install"):
        trainer.require_verl()
    monkeypatch.setattr(trainer, "version", lambda name: "0.8.0")
    with pytest.raises(HarnessError, match=r"needs verl 0\.9\.1, not 0\.8\.0"):
        trainer.require_verl()


def test_a_base_without_chat_template_is_refused(tmp_path, job):
    bare = tiny_checkpoint(tmp_path / "bare", template=None)
    with pytest.raises(HarnessError, match="has no chat template"):
        Session.of(job(model=bare), "sft", True)


def test_bases_that_are_none(tmp_path):
    registry = Registry.load(None)
    with pytest.raises(HarnessError, match="cannot be trained"):
        base_checkpoint(registry, "random")
    with pytest.raises(HarnessError, match="there is no"):
        base_checkpoint(registry, str(tmp_path / "nothing"))


def test_a_job_is_measured_before_it_starts(job):
    session = Session.of(job(), "sft", True)
    assert len(session.items) == 30
    assert session.audits["prompt"].longest <= 64
    with pytest.raises(HarnessError, match="have more than 10 prompt tokens"):
        Session.of(job(max_prompt=10), "sft", True)
    with pytest.raises(HarnessError, match="exceed the 512 tokens of base"):
        Session.of(job(max_prompt=400, max_reply=200), "sft", True)
    with pytest.raises(HarnessError, match="not for training"):
        Session.of(job(**{"data.split": "test"}), "sft", True)
    with pytest.raises(HarnessError, match="has no prompts of its own"):
        Session.of(job(task="duel"), "sft", True)


def test_the_folder_of_a_job(job, tmp_path):
    first = Session.of(job(), "sft", True)
    with pytest.raises(HarnessError, match=r"--resume: .* holds no job"):
        Session.of(job(resume=True), "sft", True).open()
    first.open()
    with pytest.raises(HarnessError, match="--resume goes on with it"):
        Session.of(job(), "sft", True).open()
    with pytest.raises(HarnessError, match="another run"):
        Session.of(job(resume=True), "sft", True).open()
    first.close()
    again = Session.of(job(resume=True, keep=3, save_every=5), "sft", True)
    again.open()
    again.close()
    with pytest.raises(HarnessError, match=r"another job \(options.seed: 42, now 7\)"):
        Session.of(job(resume=True, seed=7), "sft", True).open()


def test_data_that_were_built_are_there_to_be_trained_on(job):
    built = Session.of(job(stage="build"), "sft", True)
    built.open()
    built.close()
    trained = Session.of(job(resume=True), "sft", True)
    trained.open()
    trained.close()
    with pytest.raises(HarnessError, match=r"another job \(options.seed: 42, now 7\)"):
        Session.of(job(stage="build", seed=7), "sft", True).open()


def test_a_checkpoint_is_not_overwritten(job, tmp_path):
    tiny_checkpoint(tmp_path / "out")
    with pytest.raises(HarnessError, match="is a checkpoint already"):
        Session.of(job(), "sft", True).open()


def test_a_rehearsal_has_a_folder_of_its_own(job, tmp_path):
    session = Session.of(job(stage="smoke"), "sft", True)
    assert session.out == tmp_path / "out" / "smoke"


def test_targets_that_the_reward_does_not_pay(job, monkeypatch):
    from toy_plugins import Copy

    from harness_plugins.trainers.sft import SFT

    monkeypatch.setattr(
        Copy, "target", lambda self, s: s.truth["answer"] if s.id != "copy-train-3" else "w9"
    )
    session = Session.of(job(), "sft", True)
    with pytest.raises(HarnessError, match=r"1 of 30 worked answers .*copy-train-3"):
        SFT(session.job.options).prepare(session)
    session = Session.of(job(**{"data.unverified": "filter"}), "sft", True)
    SFT(session.job.options).prepare(session)
    assert len(session.items) == 29


def test_series_of_steps(tmp_path):
    for step in (3, 12):
        save_step(tmp_path / "job", step)
    folder = str(tmp_path / "job")
    assert expand(["x", f"{folder}@*"]) == ("x", f"{folder}@3", f"{folder}@12")
    assert expand([f"transformers:{folder}@*"])[0] == f"transformers:{folder}@3"
    assert series_of(["x", f"transformers:{folder}@*"]) == [folder]
    with pytest.raises(HarnessError, match="has no saved steps"):
        expand([f"{tmp_path}@*"])


def test_the_curve_of_a_series(tmp_path):
    from types import SimpleNamespace

    def run(step, value):
        return SimpleNamespace(
            manifest={"model_name": f"{tmp_path}@{step}", "spec": {"task": {"name": "copy"}}},
            metrics={"score": {"value": value, "low": value - 0.1, "high": value + 0.1}},
            path=tmp_path,
        )

    (path,) = draw(str(tmp_path), [run(20, 0.5), run(3, 0.2)])
    points = json.loads(path.read_text())
    assert [(p["step"], p["value"]) for p in points] == [(3, 0.2), (20, 0.5)]
    assert path.name == "series--copy.json"
