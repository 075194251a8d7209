"""SmolLM2 on GameSolve on one GPU: SFT, evaluation, and GRPO with vLLM rollouts, stage by stage.

    python benchmarks/train_h200.py run --work DIR --gguf SmolLM2-135M-Instruct.Q4_1.gguf
    python benchmarks/train_h200.py wait --work DIR --results OUT      # attach again

Stages: ``base`` (the model from its GGUF), ``sft`` (GameSolve's worked answers), ``eval`` (base and
SFT on held-out items and on items of the train split), ``skills`` (SFT on skills with short
answers), ``grpo`` (64 prompts x 8 rollouts x 96 tokens, 56 steps). The work goes on in a process of
its own, in which Ray and vLLM stay up for the whole of a stage, whatever the caller's time limit; a
stage that was interrupted is taken up where it was, and one that is complete is not done again.
``wait`` prints how far it is, and copies what is worth keeping: records of training, curves,
figures, a summary with the median seconds of each phase of a step.

A rehearsal without a GPU, with a small checkpoint in place of SmolLM2:

    python benchmarks/train_h200.py run --work DIR --base FOLDER --rehearse
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAGES = ("base", "sft", "eval", "skills", "grpo")
HELD_OUT = 128
WARM_UP = 5
"""Steps that the medians leave out."""


def harness(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "harness", *map(str, words)]


REHEARSAL = {
    "": ("gpus=0", "batch_size=4", "steps=2", "max_reply=4000", "max_prompt=2000", "save_every=1",
         "data.limit=12"),
    "grpo": ("rollouts=2", "max_reply=16", "micro_batch=4", "rollout.engine=transformers",
             "rollout.workers=1", "rollout.graphs=", "validation.limit=2"),
}  # fmt: skip


def train(work: Path, name: str, model: Path, *more: str) -> list[str]:
    out = work / name
    if read(work / "state.json").get("rehearse"):
        settings = (*REHEARSAL[""], *REHEARSAL.get(name, ()))
        more = (*more, *(word for each in settings for word in ("--set", each)))
    config = ROOT / "configs" / f"smollm2-{name}-1gpu.toml"
    resume = ["--resume"] if (out / "job.json").is_file() else []
    return harness("train", "--config", config, "--model", model, "--out", out, *more, *resume)


def evaluate(work: Path, split: str, model: Path) -> list[str]:
    few = bool(read(work / "state.json").get("rehearse"))
    return harness(
        "run", "--task", "gamesolve", "--model", f"transformers:{model}", "--split", split,
        "--limit", "4" if few else str(HELD_OUT), "--max-tokens", "16" if few else "1024",
        "--out", work / "runs" / split,
    )  # fmt: skip


def commands(work: Path, stage: str) -> list[list[str]]:
    """What a stage runs, at the same time: the base is evaluated beside SFT, which leaves most of
    the GPU's memory free. Nothing runs beside vLLM, which measures free memory when it starts."""
    splits = ("test", "train")
    if stage == "sft":
        sft = train(work, "sft", work / "base", "--set", "validation.limit=-1")
        return [sft, *(evaluate(work, split, work / "base") for split in splits)]
    if stage == "eval":
        return [evaluate(work, split, work / "sft") for split in splits]
    if stage == "skills":
        return [train(work, "skills", work / "sft")]
    return [train(work, "grpo", work / "skills")]


def make_base(work: Path, gguf: Path) -> None:
    """The base as a Hugging Face folder: from its GGUF, or a copy of a folder."""
    if gguf.is_dir():
        shutil.copytree(gguf, work / "base", dirs_exist_ok=True)
    elif not (work / "base" / "config.json").is_file():
        from harness.progress import track
        from harness_plugins.models.gguf import convert

        shutil.rmtree(work / "base", ignore_errors=True)
        convert(gguf, work / "base", track)


def worker(
    work: Path, stages: list[str], gguf: Path | None,
    commands: Callable[[Path, str], list[list[str]]] = commands,
) -> None:  # fmt: skip
    """Run the stages; what is done is written into ``state.json``."""
    state = read(work / "state.json")
    for stage in stages:
        if state.get(stage, {}).get("done"):
            continue
        began = time.time()
        state[stage] = {"began": began}
        save(work / "state.json", state)
        failed = 0
        if stage == "base":
            if gguf is not None:
                make_base(work, gguf)
        else:
            with (work / f"{stage}.log").open("ab") as log:
                started = [
                    subprocess.Popen(c, stdout=log, stderr=log) for c in commands(work, stage)
                ]
                failed = max(abs(process.wait()) for process in started)
        state[stage] |= {"done": not failed, "code": failed, "seconds": time.time() - began}
        save(work / "state.json", state)
        if failed:
            break
    state["ended"] = True
    save(work / "state.json", state)


def start(
    work: Path, stages: list[str], gguf: Path | None, rehearse: bool, script: Path = Path(__file__)
) -> None:
    """Begin in a session of its own, so that it outlives the caller."""
    work.mkdir(parents=True, exist_ok=True)
    state = read(work / "state.json")
    if state.get("pid") and Path(f"/proc/{state['pid']}").exists() and not state.get("ended"):
        return
    state.pop("ended", None)
    save(work / "state.json", {**state, "rehearse": rehearse})
    command = [
        sys.executable,
        str(script),
        "worker",
        "--work",
        str(work),
        "--stages",
        ",".join(stages),
    ]
    command += ["--gguf", str(gguf)] if gguf else []
    with (work / "worker.log").open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    save(work / "state.json", {**read(work / "state.json"), "pid": process.pid})


def wait(work: Path, seconds: float) -> bool:
    """Until the stages have ended, or so long; prints new lines of the stages' logs."""
    shown: dict[Path, int] = {}
    end = time.monotonic() + seconds
    while True:
        for log in sorted(work.glob("*.log"), key=lambda p: p.stat().st_mtime):
            text = log.read_text(errors="replace")
            new = text[shown.get(log, 0) :]
            shown[log] = len(text)
            for line in new.splitlines()[-8:]:
                print(f"{log.stem}: {line[:240]}", flush=True)
        if read(work / "state.json").get("ended"):
            return True
        if time.monotonic() > end:
            return False
        time.sleep(5)


def phases(job: Path, last: int = sys.maxsize) -> dict[str, float]:
    """Median seconds of each phase of a step, after the first few and up to ``last``; steps that
    validated or saved count without that."""
    from harness.training.curves import steps

    numbered = steps(job).items()
    rows = [row for n, row in numbered if WARM_UP < n <= last and "timing_s/step" in row]
    for row in rows:
        extra = row.pop("timing_s/save_checkpoint", 0.0)
        row["timing_s/step"] -= extra
        if extra or "timing_s/testing" in row:
            row.pop("timing_s/whole", None)
    names = sorted({n for row in rows for n in row if n.startswith("timing_s/")})
    found = {n.removeprefix("timing_s/"): [r[n] for r in rows if n in r] for n in names}
    return {name: round(statistics.median(values), 3) for name, values in found.items()}


def summary(work: Path) -> dict[str, object]:
    """Everything in figures."""
    from harness.training.curves import steps, validations

    state = read(work / "state.json")
    told: dict[str, object] = {
        "stages": {s: state[s] for s in STAGES if s in state},
        "evaluation": {},
    }
    for metrics in sorted(work.glob("runs/*/*/metrics.json")):
        found = read(metrics)
        run = f"{metrics.parent.parent.name}: {metrics.parent.name.split('--')[1]}"
        told["evaluation"][run] = found.get("score") or found  # type: ignore[index]
    for name in ("sft", "skills", "grpo"):
        job = work / name
        if not (job / "job.json").is_file():
            continue
        rows = steps(job)
        curve = "reward/mean" if name == "grpo" else "train/loss"
        points = [row[curve] for row in rows.values() if curve in row]
        told[name] = {
            "steps": len(points),
            curve: [round(p, 4) for p in points[:: max(1, len(points) // 20)]],
            "last": points[-1:],
            "seconds": phases(job),
            "validation": [{k: v[k] for k in ("step", "score", "n")} for v in validations(job)],
        }
    return told


KEPT = ("training.json", "val.jsonl", "curves.parquet", "curves.png", "job.json", "process.json",
        "probes.json")  # fmt: skip


def collect(work: Path, results: Path) -> None:
    """Copy what is worth keeping as one archive beside the summary."""
    results.mkdir(parents=True, exist_ok=True)
    told = summary(work)
    save(results / "summary.json", told)
    print(json.dumps(told, indent=1)[:9000], flush=True)
    keep(work, results)


def keep(work: Path, results: Path) -> None:
    """The archive."""
    import tarfile

    with tarfile.open(results / "results.tar.gz", "w:gz") as archive:
        for path in sorted(work.rglob("*")):
            small = path.is_file() and path.stat().st_size < 4 << 20
            wanted = path.name in KEPT or path.suffix == ".log" or path.match("runs/*/*/*.json")
            if small and (wanted or path.match("logs/*") or path.match("runs/*/*/*.parquet")):
                archive.add(path, path.relative_to(work))


def read(path: Path) -> dict:
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError):
        return {}


def save(path: Path, value: object) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(json.dumps(value, indent=1))
    part.replace(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=("run", "start", "wait", "worker"))
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--stages", default=",".join(STAGES))
    parser.add_argument("--gguf", "--base", type=Path, help="a GGUF file, or a checkpoint folder")
    parser.add_argument("--rehearse", action="store_true", help="a few tiny steps, without a GPU")
    parser.add_argument("--seconds", type=float, default=520)
    parser.add_argument("--results", type=Path)
    given = parser.parse_args()
    work, stages = given.work.absolute(), given.stages.split(",")
    if given.verb == "worker":
        worker(work, stages, given.gguf)
        return 0
    if given.verb in ("run", "start"):
        start(work, stages, given.gguf and given.gguf.absolute(), given.rehearse)
    if given.verb == "start":
        return 0
    ended = wait(work, given.seconds)
    collect(work, given.results or work / "results")
    return 0 if ended else 3


if __name__ == "__main__":
    sys.exit(main())
