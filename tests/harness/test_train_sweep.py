"""A sweep of real trainings on a processor: what validates best is what is tested."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_models import tiny_checkpoint
from train_jobs import SUPPORT, missing

from harness.training import curves

pytestmark = [
    pytest.mark.train,
    pytest.mark.skipif(bool(missing()), reason=missing() or "verl is there"),
]

FILE = """
baseline = "slow"
[train]
method = "sft"
task = "copy"
model = "base"
steps = 30
batch_size = 10
micro_batch = 10
schedule = "constant"
warmup = 0
max_prompt = 64
max_reply = 16
save_every = 10
eval_every = 10
validation.limit = 30
[[condition]]
name = "slow"
learning_rate = 1e-5
[[condition]]
name = "fast"
learning_rate = 4e-3
[test]
limit = 20
[schedule]
slots = 2
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The folder of the sweep and what the command printed."""
    folder = tmp_path_factory.mktemp("sweep")
    tiny_checkpoint(folder / "base", initializer_range=0.1)
    (folder / "s.toml").write_text(FILE)
    words = [sys.executable, "-m", "harness", "sweep", "s.toml", "--out", "out", "--registry",
             str(SUPPORT / "toy_registry.toml")]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(SUPPORT), "OMP_NUM_THREADS": "1"}
    environment |= {"CUDA_VISIBLE_DEVICES": ""}
    finished = subprocess.run(
        words, capture_output=True, text=True, cwd=folder, env=environment, timeout=600
    )
    assert finished.returncode == 0, finished.stderr
    return folder / "out", finished.stdout


def test_what_validation_chooses_is_tested(done):
    root, printed = done
    summary = json.loads((root / "ablation_summary.json").read_text())
    scores = {}
    for cell in summary["cells"]:
        rows = curves.validations(root / "models" / cell["cell"])
        saved = [row for row in rows if row["step"]]
        best = max(saved, key=lambda row: (row["score"], -row["step"]))
        assert (cell["step"], cell["validation"]) == (best["step"], best["score"])
        run = Path(cell["tests"]["copy"]["run"])
        metrics = json.loads((run / "metrics.json").read_text())
        assert cell["tests"]["copy"]["value"] == metrics["score"]["value"]
        manifest = json.loads((run / "manifest.json").read_text())
        assert manifest["model_name"] == f"{root / 'models' / cell['cell']}@{best['step']}"
        assert metrics["split"] == "test"
        assert metrics["records"] == 20
        scores[cell["condition"]] = metrics["score"]["value"]
    assert scores["fast"] > scores["slow"]
    assert "fast" in printed


def test_its_folders_are_a_leaderboards(done, harness_command):
    board = harness_command("leaderboard", done[0] / "test", "--format", "json", registry=False)
    assert board.returncode == 0, board.stderr
    assert "fast--seed0" in board.stdout
    assert "slow--seed0" in board.stdout
