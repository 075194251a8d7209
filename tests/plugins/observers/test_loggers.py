"""TensorBoard and Weights & Biases, offline: what a run and a training job leave behind, read back
in the libraries' own formats."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import pytest

from harness_plugins.observers.progress import EVERY, Pace, summary_figures

TASK = ("--task", "copy", "--model", "sleepy", "--set", "size=120", "--quiet")


@pytest.fixture
def environment():
    """No key, no settings of the user's own, and the toy plugins."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("WANDB_", "HARNESS_"))}
    support = Path(__file__).parents[2] / "support"
    return {**kept, "PYTHONPATH": str(support), "COLUMNS": "100"}


def summary_of(folder):
    (path,) = folder.glob("runs/*/metrics.json")
    return path.parent, dict(summary_figures(json.loads(path.read_text())))


def scalars(folder):
    """tag -> [(step, value)] of an event folder, by TensorBoard's own reader."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util import tensor_util

    events = EventAccumulator(str(folder))
    events.Reload()
    return {
        tag: [
            (e.step, float(tensor_util.make_ndarray(e.tensor_proto))) for e in events.Tensors(tag)
        ]
        for tag in events.Tags()["tensors"]
    }


def wandb_records(path):
    """The records of a .wandb file: protocol buffers in LevelDB's log format."""
    from wandb.proto.wandb_internal_pb2 import Record

    data = path.read_bytes()
    assert data[:4] == b":W&B"
    place, parts = 7, b""
    while place + 7 <= len(data):
        left = 32_768 - place % 32_768
        if left < 7:
            place += left
            continue
        _, length, kind = struct.unpack("<IHB", data[place : place + 7])
        if kind == 0:
            place += left
            continue
        parts += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            record = Record()
            record.ParseFromString(parts)
            parts = b""
            yield record


def items(found):
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in found}


def test_tensorboard_holds_the_curves_and_every_final_figure(
    harness_command, environment, tmp_path
):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    done = harness_command("run", *TASK, "--log", "tensorboard", env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    run, figures = summary_of(tmp_path)
    found = scalars(run / "tensorboard")
    assert [step for step, _ in found["running/score"]] == [EVERY, 2 * EVERY]
    assert {tag for tag in found if not tag.startswith("running/")} == set(figures)
    for tag, value in figures.items():
        assert found[tag] == [(0, pytest.approx(value, rel=1e-6))]


def test_tensorboard_folder_of_the_users_choice(harness_command, environment, tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    environment["HARNESS_TENSORBOARD_DIR"] = str(tmp_path / "all")
    assert harness_command("run", *TASK, "--log", "tensorboard", env=environment).returncode == 0
    run, figures = summary_of(tmp_path)
    assert not (run / "tensorboard").exists()
    assert set(figures) <= set(scalars(tmp_path / "all" / run.name))


def test_wandb_stays_offline_without_a_key_and_sends_no_text(
    harness_command, environment, tmp_path
):
    pytest.importorskip("wandb", reason="wandb is not installed")
    done = harness_command("run", *TASK, "--log", "wandb", env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    run, figures = summary_of(tmp_path)
    (file,) = run.glob("wandb/offline-run-*/*.wandb")
    records = list(wandb_records(file))
    kinds = {record.WhichOneof("record_type") for record in records}
    assert {"run", "history", "summary", "exit"} <= kinds
    points = [items(r.history.item) for r in records if r.WhichOneof("record_type") == "history"]
    assert [p["_step"] for p in points if "running/score" in p] == [EVERY, 2 * EVERY]
    final = {}
    for record in records:
        if record.WhichOneof("record_type") == "summary":
            final |= items(record.summary.update)
    assert {name: final[name] for name in figures} == pytest.approx(figures)
    assert final["complete"] is True
    (start,) = (r.run for r in records if r.WhichOneof("record_type") == "run")
    config = {item.key or item.nested_key[0]: item.value_json for item in start.config.update}
    assert json.loads(config["split"]) == "test"
    sent = file.read_bytes()
    assert not [text for text in (b"Copy.", b"w117") if text in sent]


def test_training_steps_are_logged_by_both(tmp_path, monkeypatch, environment):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    pytest.importorskip("wandb", reason="wandb is not installed")
    from harness.trainer import TrainJob
    from harness_plugins.observers import tensorboard, wandb

    for name in [n for n in os.environ if n.startswith("WANDB_") and n != "WANDB_ERROR_REPORTING"]:
        monkeypatch.delenv(name)
    job = TrainJob("copy", "m", tmp_path / "job", {"lr": 1e-5})
    try:
        for step in (1, 2, 3):
            for logger in (tensorboard, wandb):
                logger.train_step_logged(job, step, {"loss": 1.0 / step, "reward/mean": 0.5})
    finally:
        wandb._runs.pop(job.out).finish()
        wandb.wandb.teardown()  # the service writes the file to its end
        tensorboard._writers.pop(job.out).close()
    found = scalars(job.out / "tensorboard")
    assert [(s, pytest.approx(v)) for s, v in found["loss"]] == [(s, 1.0 / s) for s in (1, 2, 3)]
    (file,) = job.out.glob("wandb/offline-run-*/*.wandb")
    points = [
        items(r.history.item)
        for r in wandb_records(file)
        if r.WhichOneof("record_type") == "history"
    ]
    assert [(p["_step"], p["loss"]) for p in points] == [(s, 1.0 / s) for s in (1, 2, 3)]


def test_a_resumed_run_counts_on(tmp_path):
    class Made:
        class score:
            value = 0.5

        class outcome:
            cls = "unparsed"

    pace = Pace(done=30)
    points = [pace.add(Made) for _ in range(70)]
    assert [i + 31 for i, p in enumerate(points) if p is not None] == [50, 100]
    assert points[19] == {"score": 0.5, "faults": 1.0}


def test_a_logger_that_fails_is_named_once_and_the_run_goes_on(
    harness_command, environment, tmp_path
):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    (tmp_path / "taken").write_text("a file")
    environment["HARNESS_TENSORBOARD_DIR"] = str(tmp_path / "taken")
    done = harness_command("run", *TASK, "--log", "tensorboard", env=environment)
    assert done.returncode == 0
    assert done.stderr.count("observer 'tensorboard' failed") == 1
    summary_of(tmp_path)
