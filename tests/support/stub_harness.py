"""Stands in for ``harness`` in tests of the scheduler: "trains" and "runs" in moments.

It leaves what a training leaves (a job that resumes, saved steps, validation), answers as a run
does, and notes when it ran with which GPUs. The recipe's learning rate says how it behaves; what is
held waits before its second step for a file ``go``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import tomllib
from pathlib import Path

CRASH_ONCE, CRASH_ALWAYS, HELD, DEAF, KILL_ONCE = 0.1, 0.2, 0.3, 0.4, 0.5
STEPS = 4


def option(name: str, default: str = "") -> str:
    words = sys.argv
    return words[words.index(name) + 1] if name in words else default


def note(folder: Path, **row: object) -> None:
    with (folder / "stub.jsonl").open("a") as file:
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES")
        cluster = os.environ.get("RAY_ADDRESS")
        facts = {"gpus": gpus, "ray": cluster, "time": time.time(), "pid": os.getpid()}
        file.write(json.dumps({**row, **facts}) + "\n")


def train() -> int:
    recipe = tomllib.loads(Path(option("--config")).read_text())
    out = Path(option("--out"))
    root = out.parent.parent
    how = recipe["learning_rate"]
    resume = "--resume" in sys.argv
    if (out / "job.json").exists() != resume:
        print("harness: --resume where there is no job, or a job without it", file=sys.stderr)
        return 2
    out.mkdir(parents=True, exist_ok=True)
    (out / "job.json").write_text("{}")
    saved = sorted(int(p.name[12:]) for p in out.glob("global_step_*"))
    begin = saved[-1] if saved else 0
    note(root, cell=out.name, begin=begin)
    first = not (out / "tried").exists()
    (out / "tried").touch()
    if how == CRASH_ALWAYS or (how == CRASH_ONCE and first):
        print("harness: training failed: the GPU's memory is too small", file=sys.stderr)
        return 2
    if how == DEAF:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    for step in range(begin + 1, STEPS + 1):
        time.sleep(0.02)
        while step == 2 and how in (HELD, DEAF) and not (root / "go").exists():
            time.sleep(0.02)
        folder = out / f"global_step_{step}"
        folder.mkdir(exist_ok=True)
        (folder / "hashes.json").write_text("{}")
        (folder / "model_world_size_1_rank_0.pt").write_text("shard")
        with (out / "val.jsonl").open("a") as file:
            # The third step is the best one; a seed and a layer are worth a little.
            score = {1: 0.1, 2: 0.2, 3: 0.4, 4: 0.3}[step]
            score += recipe["seed"] / 100 + float(recipe.get("probe.layers", 0)) / 1000
            file.write(json.dumps({"step": step, "score": score}) + "\n")
        if how == KILL_ONCE and first and step == 2:
            os.kill(os.getppid(), signal.SIGKILL)  # the cell's process, as an out-of-memory kill
            time.sleep(60)
    (out / "training.json").write_text(json.dumps({"complete": True, "seconds": 1.0}))
    note(root, cell=out.name, end=STEPS)
    return 0


def run() -> int:
    out = Path(option("--out"))
    model, _, step = option("--model").rpartition("@")
    note(out.parent, cell=Path(model).name, tested=int(step), words=sys.argv[2:])
    scores = json.loads(f"[{(Path(model) / 'val.jsonl').read_text().replace(chr(10), ',')[:-1]}]")
    value = next(row["score"] for row in scores if row["step"] == int(step)) - 0.05
    score = {"value": value, "low": value - 0.01, "high": value + 0.01, "n": 20}
    print(json.dumps([{"folder": str(out / Path(model).name), "score": score}]))
    return 0


if __name__ == "__main__":
    sys.exit({"train": train, "run": run}[sys.argv[1]]())
