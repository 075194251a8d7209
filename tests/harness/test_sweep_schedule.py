"""Cells in slots, done by a stand-in for the trainings: kill, retry, resume, stop, outputs."""

from __future__ import annotations

import json
import os
import signal

import pyarrow.parquet as pq
import pytest
from stub_harness import CRASH_ALWAYS, CRASH_ONCE, DEAF, HELD, KILL_ONCE, STEPS
from sweep_files import QUICK, SweepCommand, sweep_file, until
from train_jobs import running

BOTH = {6: QUICK, 17: QUICK}


@pytest.fixture
def sweep(tmp_path):
    return SweepCommand(tmp_path)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A sweep of three conditions and two seeds that went well, and what it printed."""
    folder = tmp_path_factory.mktemp("plain")
    sweep_file(folder, BOTH, none=HELD, gpus=2)
    sweep = SweepCommand(folder)
    process = sweep.start()
    until(lambda: len(sweep.begins()) == 2)
    sweep.go()
    printed, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors
    return sweep, printed


def spans(notes):
    """(begin, end, GPUs) of each training."""
    begun = {row["cell"]: row for row in notes if "begin" in row}
    for row in notes:
        if "end" in row:
            yield begun[row["cell"]]["time"], row["time"], set(row["gpus"].split(","))


def test_all_cells_are_trained_chosen_by_validation_and_tested(plain):
    sweep, printed = plain
    tests = [row for row in sweep.notes() if "tested" in row]
    assert len(tests) == 6
    assert {row["tested"] for row in tests} == {3}, "the third step validated best"
    words = tests[0]["words"]
    assert words[words.index("--limit") + 1] == "8"
    assert words[words.index("--max-tokens") + 1] == "32"
    assert words[words.index("--task") + 1] == "gamesolve"
    row = sweep.summary()["cells"][0]
    assert (row["step"], row["last_step"], row["status"]) == (3, STEPS, "done")
    assert row["validation"] == row["best_validation"] == pytest.approx(0.4)
    assert row["tests"]["gamesolve"]["value"] == pytest.approx(0.35)
    assert "probe@17" in printed
    assert "Spearman +" in printed


def test_slots_never_share_a_gpu_nor_exceed_their_number(plain):
    ran = list(spans(plain[0].notes()))
    assert len(ran) == 6
    assert {frozenset(gpus) for *_, gpus in ran} == {frozenset("35"), frozenset("67")}
    together = 0
    for i, (begin, end, gpus) in enumerate(ran):
        for other_begin, other_end, others in ran[i + 1 :]:
            if begin < other_end and other_begin < end:
                together += 1
                assert not gpus & others
    assert together, "two slots work at the same time"


def test_outputs_are_written(plain):
    sweep, _ = plain
    table = pq.read_table(sweep.root / "trajectories.parquet").to_pylist()
    assert len(table) == 6 * STEPS
    row = next(r for r in table if r["cell"] == "probe-6--seed1" and r["step"] == 2)
    assert row["value"] == pytest.approx(0.2 + 0.01 + 0.006)
    curves = json.loads((sweep.root / "trajectories.json").read_text())
    assert len(curves["none--seed0"]["curves"]["validation/score"]) == STEPS
    assert (sweep.root / "trajectories.png").stat().st_size > 5_000
    events = sweep.events()
    assert events[0]["event"] == "sweep_started"
    cell = [row["event"] for row in events if row.get("cell") == "none--seed0"]
    assert cell == ["cell_started", "cell_training", "cell_chosen", "cell_testing", "cell_done"]


def test_summary_of_a_sweep_that_is_done_runs_nothing(plain, tmp_path):
    sweep, _ = plain
    before = sweep.summary()
    done = sweep.run("--summary", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout) == before
    assert len(sweep.events("cell_started")) == 6
    sweep_file(tmp_path)
    assert SweepCommand(tmp_path).run("--summary").returncode == 2


def test_failed_and_killed_cells_are_tried_again_and_stop_no_other(sweep, tmp_path):
    layers = {6: KILL_ONCE, 17: CRASH_ALWAYS, 30: CRASH_ONCE}
    sweep_file(tmp_path, layers, gpus=0, seeds=[0])
    done = sweep.run()
    assert done.returncode == 1
    assert "3 of 4 cells done (1 failed)" in done.stderr
    assert "probe-17--seed0: harness train: training failed: the GPU's memory is too" in done.stderr
    failed = {(r["cell"], r["attempt"]): r["reason"] for r in sweep.events("cell_failed")}
    assert sorted(failed) == [
        ("probe-17--seed0", 1), ("probe-17--seed0", 2), ("probe-30--seed0", 1),
        ("probe-6--seed0", 1),
    ]  # fmt: skip
    assert failed["probe-6--seed0", 1] == "killed by SIGKILL"
    assert [row["cell"] for row in sweep.events("cell_given_up")] == ["probe-17--seed0"]
    assert sweep.begins("probe-6--seed0") == [0, 2], "it goes on from the last saved step"
    assert {row["gpus"] for row in sweep.notes()} == {""}, "slots without GPUs hide them"
    row = next(c for c in sweep.summary()["cells"] if c["cell"] == "probe-17--seed0")
    assert "memory is too small" in row["reason"]
    assert sweep.run("--retries", 0).returncode == 1
    assert len(sweep.events("cell_started")) == 8, "done cells are not run again"


def test_a_cell_that_could_not_say_how_it_ended_counts_as_failed(tmp_path):
    """It was killed while its state said that it runs."""
    from harness.registry import Registry
    from harness.sweep.cells import Places
    from harness.sweep.events import Events
    from harness.sweep.file import read_sweep
    from harness.sweep.schedule import Ending, Scheduler, prepare, set_state

    class Killing:
        poll = 0.0

        def __init__(self):
            self.running = {}

        def holds(self, cell):
            return False

        def start(self, cell, slot):
            prepare(tmp_path, cell, {})
            set_state(Places(tmp_path, cell.name), {"status": "running", "attempt": 3})
            self.running[slot] = cell
            return {}

        def ended(self):
            while self.running:
                slot, cell = self.running.popitem()
                yield Ending(cell, slot, "killed by SIGKILL")

    sweep = read_sweep(sweep_file(tmp_path, seeds=[0], retries=2), Registry.load())
    events = Events(tmp_path)
    scheduler = Scheduler(sweep.cells, sweep.schedule, tmp_path, Killing(), events)
    assert scheduler.run()
    assert scheduler.given_up == {"none--seed0": "killed by SIGKILL"}
    state = Places(tmp_path, "none--seed0").read("state.json")
    assert state == {"status": "failed", "attempt": 3, "reason": "killed by SIGKILL"}


def test_a_preempted_sweep_stops_its_cells_and_goes_on_later(sweep, tmp_path):
    sweep_file(tmp_path, {6: HELD}, none=HELD, seeds=[0])
    process = sweep.start()
    until(lambda: len(sweep.begins()) == 2)
    until(lambda: len(list((sweep.root / "models").glob("*/global_step_1/hashes.json"))) == 2)
    second = sweep.run()
    assert second.returncode == 2
    assert "another run" in second.stderr
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1, errors
    assert "stopped; 0 of 2 cells done" in errors
    assert not [r["pid"] for r in sweep.notes() if running(r["pid"])], "no cell runs on"
    assert len(sweep.events("cell_stopped")) == 2
    assert not sweep.events("cell_failed"), "being stopped costs no try"
    sweep.go()
    again = sweep.run()
    assert again.returncode == 0, again.stderr
    assert sweep.begins() == [0, 0, 1, 1], "they go on where they were"


def test_cells_die_with_a_killed_sweep(sweep, tmp_path):
    sweep_file(tmp_path, none=HELD)
    process = sweep.start()
    until(lambda: len(sweep.begins()) == 2)
    process.kill()
    process.communicate()
    until(lambda: not [r["pid"] for r in sweep.notes() if running(r["pid"])])
    sweep.go()
    assert sweep.run().returncode == 0


def test_a_command_that_will_not_stop_is_ended(tmp_path, monkeypatch):
    """Its cell kills it when its time is up, and is to go on later."""
    from harness.registry import Registry
    from harness.sweep import worker
    from harness.sweep.file import read_sweep
    from harness.sweep.schedule import prepare

    sweep = SweepCommand(tmp_path)
    path = sweep_file(tmp_path, none=DEAF, seeds=[0])
    found = read_sweep(path, Registry.load())
    sweep.root.mkdir()
    facts = {"command": list(found.schedule.command), "registry_file": "", "prune": False}
    prepare(sweep.root, found.cells[0], facts)
    monkeypatch.setattr(worker, "GRACE", 0.5)
    pid = os.fork()
    if pid == 0:
        os._exit(worker.main(str(sweep.root), found.cells[0].name))
    until(sweep.notes)
    os.kill(pid, signal.SIGTERM)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == worker.STOPPED
    assert not running(sweep.notes()[0]["pid"])


def test_a_cell_that_takes_too_long_is_ended(sweep, tmp_path):
    sweep_file(tmp_path, none=HELD, seeds=[0], retries=0, schedule="hours = 0.0006")
    assert sweep.run().returncode == 1
    (failed,) = sweep.events("cell_failed")
    assert "longer than" in failed["reason"]


def test_ray_clusters_are_one_a_slot(sweep, tmp_path):
    clusters = 'ray = ["10.0.0.1:6379", "10.0.0.2:6379"]'
    sweep_file(tmp_path, gpus=4, schedule=clusters)
    assert sweep.run().returncode == 0
    assert {row["ray"] for row in sweep.notes()} == {"10.0.0.1:6379", "10.0.0.2:6379"}
    assert {row["gpus"] for row in sweep.notes()} == {"3,5,6,7"}, "Ray hands them out"


def test_the_same_folder_again(sweep, tmp_path):
    """Nothing to do; more seeds; another test without training; other settings are refused."""
    path = sweep_file(tmp_path, seeds=[0], end="\n")
    path.write_text("prune = true\n" + path.read_text())
    assert sweep.run().returncode == 0
    model = sweep.root / "models" / "none--seed0"
    assert [p.name for p in model.glob("global_step_*")] == ["global_step_3"], "the chosen one"
    assert (model / "global_step_3" / "model_world_size_1_rank_0.pt").exists(), "not merged yet"
    before = sweep.summary()
    assert sweep.run().returncode == 0
    assert sweep.summary() == before
    assert len(sweep.begins()) == 1
    path.write_text(path.read_text().replace("seeds = [0]", "seeds = [0, 7]"))
    assert sweep.run().returncode == 0
    assert len(sweep.begins()) == 2
    path.write_text(path.read_text().replace("limit = 8", "limit = 16"))
    assert sweep.run().returncode == 0
    assert len(sweep.begins()) == 2
    assert len([r for r in sweep.notes() if "tested" in r]) == 4
    done = sweep.run("--set", "batch_size=8")
    assert done.returncode == 2
    assert "other settings (batch_size: None, now '8')" in done.stderr


def test_gpus_are_those_of_the_driver_unless_the_user_names_some(tmp_path, monkeypatch):
    from harness.sweep.local import visible_gpus

    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 0\necho 1\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert visible_gpus() == ["0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4, GPU-8f")
    assert visible_gpus() == ["4", "GPU-8f"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert visible_gpus() == []
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    tool.write_text("#!/bin/sh\necho 'no devices were found' >&2\nexit 6\n")
    assert visible_gpus() == []


def test_too_few_gpus_are_told_before_anything_runs(sweep, tmp_path):
    sweep_file(tmp_path, gpus=4)
    done = sweep.run()
    assert done.returncode == 2
    assert "2 slots of 4 GPUs need 8, this machine has 4" in done.stderr
    assert not sweep.root.exists()


def test_dry_run_shows_cells_slots_and_settings_and_writes_nothing(sweep, tmp_path):
    sweep_file(tmp_path, BOTH)
    done = sweep.run("--dry-run")
    assert done.returncode == 0, done.stderr
    assert "6 cells to do on 2 slots of 1 GPU (local): 3 rounds" in done.stdout
    assert "probe-17--seed1" in done.stdout
    assert "task=gamesolve" in done.stdout
    assert not sweep.root.exists()
    plan = json.loads(sweep.run("--dry-run", "--json").stdout)
    assert plan["rounds"] == 3
    assert len(plan["cells"]) == 6
    assert plan["cells"][2]["place"] == 6
