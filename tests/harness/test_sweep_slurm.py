"""Cells as Slurm jobs, against a stand-in for Slurm's commands."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest
import slurm_standin
from stub_harness import CRASH_ONCE, HELD
from sweep_files import SweepCommand, sweep_file, until

from harness.registry import Registry
from harness.sweep.file import read_sweep
from harness.sweep.slurm import check_options, script
from harness.types import HarnessError

OPTIONS = """
[slurm]
partition = "gpu"
exclusive = true
poll = 0.1
setup = ["export SETUP=done"]
"""


@pytest.fixture
def slurm(tmp_path):
    """A sweep beside a stand-in, and the stand-in's folder."""
    sweep = SweepCommand(tmp_path)
    folder = slurm_standin.install(tmp_path / "slurm")
    sweep.environment["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return sweep, folder


def test_cells_are_jobs_and_failed_ones_are_submitted_again(slurm, tmp_path):
    sweep, folder = slurm
    schedule = 'launcher = "slurm"\nhours = 1.5'
    sweep_file(tmp_path, {6: CRASH_ONCE}, OPTIONS, seeds=[0], gpus=4, schedule=schedule)
    done = sweep.run()
    assert done.returncode == 0, done.stderr
    jobs = slurm_standin.jobs(folder)
    assert len(jobs) == 3, "two cells, one of them twice"
    asked = jobs["100"]["asked"]
    assert asked["job-name"] == "sweep-none--seed0"
    assert asked["gpus-per-node"] == "4"
    assert asked["time"] == "90"
    assert asked["partition"] == "gpu"
    assert asked["exclusive"] is asked["requeue"] is True
    assert asked["signal"] == "B:TERM@120"
    (failed,) = sweep.events("cell_failed")
    assert "memory is too small" in failed["reason"]
    assert {row["job"] for row in sweep.events("cell_started")} == {"100", "101", "102"}
    assert sweep.summary()["done"] == 2


def test_jobs_live_on_without_the_sweep_and_are_followed_again(slurm, tmp_path):
    sweep, folder = slurm
    sweep_file(tmp_path, None, OPTIONS, none=HELD)
    process = sweep.start("--launcher", "slurm")
    until(lambda: len(sweep.begins()) == 2)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 1
    again = sweep.start("--launcher", "slurm")
    until(lambda: len(sweep.events("cell_started")) == 4)
    sweep.go()
    _, errors = again.communicate(timeout=100)
    assert again.returncode == 0, errors
    assert len(slurm_standin.jobs(folder)) == 2, "nothing was submitted twice"
    assert sweep.begins() == [0, 0]
    assert [row.get("adopted") for row in sweep.events("cell_started")] == [None, None, True, True]


def test_a_preempted_job_goes_on_and_cancelled_ones_stop(slurm, tmp_path):
    sweep, folder = slurm
    sweep_file(tmp_path, None, OPTIONS, none=HELD, seeds=[0], retries=0)
    process = sweep.start("--launcher", "slurm")
    until(lambda: list((sweep.root / "models").glob("*/global_step_1/hashes.json")))
    os.kill(slurm_standin.jobs(folder)["100"]["pid"], signal.SIGTERM)  # Slurm preempts it
    until(lambda: len(sweep.begins()) == 2)
    process.kill()
    process.communicate()
    assert sweep.begins()[1] >= 1, "it went on, and lost no try"
    cancelled = sweep.run("--launcher", "slurm", "--cancel")
    assert "1 jobs cancelled" in cancelled.stdout
    job = slurm_standin.jobs(folder)["101"]
    until(lambda: not slurm_standin.alive(job["pid"]))
    assert len(sweep.events("cell_stopped")) == 2


def test_what_sbatch_refuses_is_told(slurm, tmp_path):
    sweep, folder = slurm
    sweep_file(tmp_path, None, OPTIONS, seeds=[0], retries=0)
    (folder / "refuse").touch()
    done = sweep.run("--launcher", "slurm")
    assert done.returncode == 1
    assert "invalid partition specified: nowhere" in done.stderr


def test_a_machine_without_slurm(tmp_path, monkeypatch):
    sweep = SweepCommand(tmp_path)
    sweep.environment["PATH"] = str(tmp_path)
    sweep_file(tmp_path, None, OPTIONS, seeds=[0], retries=0)
    done = sweep.run("--launcher", "slurm")
    assert done.returncode == 1
    assert "sbatch is not on the PATH" in done.stderr


def test_the_script_is_shell_and_its_options_are_checked(tmp_path):
    sweep = read_sweep(sweep_file(tmp_path, None, OPTIONS), Registry.load())
    text = script("a b", tmp_path / "it's", sweep.cells[0], sweep.schedule, sweep.slurm)
    assert "export SETUP=done" in text
    subprocess.run(["sh", "-n"], input=text, text=True, check=True)
    for bad in ('"Partition" = "x"', 'partition = "a\\nb"', "partition = false", 'setup = "x"'):
        sweep = read_sweep(sweep_file(tmp_path, None, f"\n[slurm]\n{bad}\n"), Registry.load())
        with pytest.raises(HarnessError, match=r"\[slurm\]"):
            check_options(sweep.slurm)
