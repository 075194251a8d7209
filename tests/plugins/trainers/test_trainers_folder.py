"""Checkpoints, records, curves and the launcher, without verl."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from saved_steps import save_step

from harness.training import checkpoints, curves, record
from harness.training.validation import Verdict, append, summary
from harness.types import HarnessError, Score
from harness_plugins.models.checkpoint import locate
from harness_plugins.trainers.verl import launch
from harness_plugins.trainers.verl.display import TrainDisplay


@pytest.mark.parametrize("inner", ["", "actor"])
def test_a_step_becomes_a_checkpoint_when_it_is_used(tmp_path, inner):
    model = save_step(tmp_path, 4, seed=3, inner=inner)
    found = locate(f"{tmp_path}@4")
    weights = load_file(found.folder / "model.safetensors")
    for name, tensor in model.state_dict().items():
        assert torch.equal(weights[name], tensor), name
    from transformers import AutoModelForCausalLM

    loaded = AutoModelForCausalLM.from_pretrained(found.folder)
    ids = torch.tensor([[1, 7, 9]])
    assert torch.equal(loaded(ids).logits, model(ids).logits)
    assert found.label == f"{tmp_path.name}@4"
    assert (found.folder / "tokenizer.json").is_file()


def test_steps_by_name(tmp_path):
    for step in (2, 10):
        save_step(tmp_path, step)
    append(tmp_path, {"step": 2, "score": 0.9})
    append(tmp_path, {"step": 10, "score": 0.3})
    assert checkpoints.saved_steps(tmp_path) == [2, 10]
    assert checkpoints.resolve_step(tmp_path, "latest") == 10
    assert checkpoints.resolve_step(tmp_path, "best") == 2
    with pytest.raises(HarnessError, match=r"has no step '7'; saved are 2, 10"):
        checkpoints.resolve_step(tmp_path, "7")


def test_a_damaged_step_is_not_loaded(tmp_path):
    save_step(tmp_path, 1)
    shard = tmp_path / "global_step_1" / "model_world_size_1_rank_0.pt"
    shard.write_bytes(shard.read_bytes()[:-1] + b"x")
    with pytest.raises(HarnessError, match="is not the file that was saved"):
        checkpoints.ensure_weights(tmp_path / "global_step_1")


def test_code_in_a_shard_is_not_run(tmp_path):
    class Bad:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "owned"),))

    save_step(tmp_path, 1, state={"w": Bad()})
    with pytest.raises(HarnessError, match="cannot be read"):
        checkpoints.ensure_weights(tmp_path / "global_step_1")
    assert not (tmp_path / "owned").exists()


def test_unfinished_steps_go_and_old_ones_too(tmp_path):
    for step in (1, 2, 3):
        save_step(tmp_path, step)
    (tmp_path / "global_step_3" / "hashes.json").unlink()
    checkpoints.discard_unfinished(tmp_path)
    assert checkpoints.saved_steps(tmp_path) == [1, 2]
    assert not (tmp_path / "global_step_3").exists()
    assert (tmp_path / "latest_checkpointed_iteration.txt").read_text() == "2"
    checkpoints.keep_last(tmp_path, 0)
    assert checkpoints.saved_steps(tmp_path) == [1, 2]
    checkpoints.keep_last(tmp_path, 1)
    assert checkpoints.saved_steps(tmp_path) == [2]


def test_adapters_are_added_into_their_layers():
    torch.manual_seed(0)
    w, a, b = torch.randn(4, 6), torch.randn(2, 6), torch.randn(4, 2)
    state = {
        "base_model.model.l.base_layer.weight": w,
        "base_model.model.l.lora_A.default.weight": a,
        "base_model.model.l.lora_B.default.weight": b,
        "base_model.model.norm.weight": torch.ones(3),
    }
    merged = checkpoints.with_adapters(state, {"r": 2, "lora_alpha": 16})
    assert set(merged) == {"l.weight", "norm.weight"}
    x = torch.randn(5, 6)
    assert torch.allclose(x @ merged["l.weight"].T, x @ w.T + 8 * (x @ a.T) @ b.T, atol=1e-5)


def test_curves_of_several_attempts(tmp_path):
    def attempt(*rows):
        log = curves.next_log(tmp_path)
        log.write_text("".join(json.dumps({"step": s, "data": d}) + "\n" for s, d in rows))

    attempt((1, {"train/loss": 3.0}), (2, {"train/loss": 2.0}), (3, {"train/loss": 9.0}))
    attempt((3, {"train/loss": 1.5, "timing_s/step": 0.5}), (4, {"train/loss": None}))
    found = curves.steps(tmp_path)
    assert [row.get("train/loss") for row in found.values()] == [3.0, 2.0, 1.5, None]
    append(tmp_path, {"step": 0, "score": 0.25})
    told = curves.write_curves(tmp_path)
    assert told["loss"] == {"first": 3.0, "last": 1.5, "steps": 3}
    import pyarrow.parquet as pq

    table = pq.read_table(tmp_path / "curves.parquet").to_pylist()
    assert {"step": 0, "name": "validation/score", "value": 0.25} in table
    assert {"step": 3, "name": "timing_s/step", "value": 0.5} in table


def test_a_growing_log_is_read_in_whole_lines(tmp_path):
    path = tmp_path / "log"
    figures = curves.Figures(path)
    assert list(figures.new()) == []
    path.write_text('{"step": 1, "data": {"a": 1}}\n{"step": 2')
    assert list(figures.new()) == [(1, {"a": 1.0})]
    assert list(figures.new()) == []
    with path.open("a") as file:
        file.write(', "data": {"a": 2, "text": "x"}}\n')
    assert list(figures.new()) == [(2, {"a": 2.0})]


def test_the_validation_line():
    rows = [
        Verdict("nash/2x2", Score(1.0, {"recall": 1.0}), "ok"),
        Verdict("nash/3x3", Score(0.0, {"recall": 0.0}), "unparsed"),
        Verdict("br/2x2", Score(0.5), "ok"),
    ]
    line = summary(7, rows)
    assert line["score"] == 0.5
    assert line["groups"] == {"br": 0.5, "nash": 0.5}
    assert line["parts"] == {"recall": 0.5}
    assert line["parsed"] == pytest.approx(2 / 3)
    assert line["classes"] == {"ok": 2, "unparsed": 1}


def start(tmp_path, code, watch=lambda: None):
    log = tmp_path / "log"
    launch.run([sys.executable, "-c", code], dict(os.environ), log, watch)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried", "GPU's memory is too small: lower"),
        ("OSError: [Errno 28] No space left on device", "the disk is full"),
        ("ImportError: cannot import name 'AutoModelForCausalLMWithValueHead'", "uninstall trl"),
        ("ValueError: Unknown platform 'cpu'", "reinstall strategic-harness"),
        ("harness.types.HarnessError: the reward x gave 2", "the reward x gave 2"),
        ("ray.exceptions.RayTaskError: KeyError\nValueError: wrong shape", "wrong shape"),
    ],
)
def test_the_cause_of_a_failure_in_one_line(tmp_path, said, told):
    with pytest.raises(HarnessError) as raised:
        start(tmp_path, f"print('Traceback'); print({said!r}); raise SystemExit(1)")
    assert told in str(raised.value)
    assert str(tmp_path / "log") in str(raised.value)
    assert "\n" not in str(raised.value)


def test_processes_end_with_their_starter(tmp_path):
    code = (
        "import subprocess, sys, time, pathlib\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(child.pid))\n"
        "time.sleep(60)\n"
    )

    def interrupt():
        if (tmp_path / "pid").is_file() and (tmp_path / "pid").read_text():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(tmp_path, code, interrupt)
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        if state == "Z":
            break
        time.sleep(0.1)
    else:
        assert not Path(f"/proc/{pid}").exists()


def test_one_process_writes_at_a_time(tmp_path):
    lock = launch.hold(tmp_path, 0.0)
    with pytest.raises(HarnessError, match="earlier attempt still write here"):
        launch.hold(tmp_path, 0.0)
    os.close(lock)
    os.close(launch.hold(tmp_path, 0.0))


def test_variables_that_reach_the_workers(monkeypatch, tmp_path):
    for name in ("HF_HOME", "HF_HUB_OFFLINE", "RAY_TMPDIR", "TMPDIR", "VERL_LOGGING_LEVEL"):
        monkeypatch.setenv(name, f"my-{name}")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    found = launch.environment(0, tmp_path / "m.jsonl")
    assert found["VERL_PLATFORM"] == "cpu"
    assert "CUDA_VISIBLE_DEVICES" not in found
    assert found["HF_HOME"] == "my-HF_HOME"
    assert found["RAY_USAGE_STATS_ENABLED"] == "0"
    assert found["VERL_FILE_LOGGER_PATH"] == str(tmp_path / "m.jsonl")
    sent = launch.forwarded()
    for name in ("HF_HOME", "HF_HUB_OFFLINE", "RAY_TMPDIR", "TMPDIR", "VERL_LOGGING_LEVEL"):
        assert sent[name] == f"my-{name}"
    assert launch.environment(1, tmp_path / "m")["CUDA_VISIBLE_DEVICES"] == "0"


def test_the_display_tells_phases_and_the_time_left(capsys):
    display = TrainDisplay("grpo", 10, 0)
    row = {
        "reward/mean": 0.25, "actor/loss": -0.01, "perf/throughput": 1234.0,
        "timing_s/gen": 1.0, "timing_s/update_actor": 0.5, "timing_s/step": 1.7,
    }  # fmt: skip
    display.step(1, row)
    time.sleep(0.05)
    display.step(2, row)
    text = display.figures
    assert "reward 0.250" in text
    assert "tokens/s 1,234" in text
    assert "s: gen 1.00 update_actor 0.50 step 1.70" in text
    assert text.endswith("left")
    display.close()
    assert "grpo: 2/10" in capsys.readouterr().err


def test_a_record_names_what_a_checkpoint_was_trained_on(tmp_path):
    job = tmp_path / "job"
    job.mkdir()
    (job / "training.json").write_text(
        json.dumps({"method": "sft", "step": 9, "data": [{"canonical_file": "canonical.txt"}]})
    )
    (job / "canonical.txt").write_text("abc\n")
    (job / "prompts.jsonl").write_text("")
    out = tmp_path / "out"
    out.mkdir()
    record.copy_record(job, out, 4)
    assert record.read(out)["step"] == 4
    assert (out / "canonical.txt").read_text() == "abc\n"
    parent = record._parent(job / "global_step_4" / "huggingface")
    assert parent["data"][0]["canonical_file"] == str(job / "canonical.txt")
