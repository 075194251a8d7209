"""Where SmolLM2 holds GameSolve's concepts, and GRPO with a probe loss there, on one GPU.

    python benchmarks/probe_h200.py run --work DIR --gguf SmolLM2-135M-Instruct.Q4_1.gguf
    python benchmarks/probe_h200.py wait --work DIR --results OUT      # attach again

Stages: ``base`` (the model from its GGUF), ``probes`` (`harness probe` on all 2,400 items, three
poolings, all controls), ``skills`` (SFT on two skills with short answers, which the base never
hits), ``grpo`` (plain, 30 steps of 32 prompts x 8 rollouts x 96 tokens), ``grpo-probe`` (the same
settings with heads at the critical layer, 50 steps). ``--model FOLDER`` starts from a checkpoint
that can answer already: it is probed and trained, and ``skills`` is left out. The summary holds the
median seconds of each phase of a step with and without the probe loss and their ratio, and the
heads' accuracy on held-out items before and after, beside the majority share.

As in train_h200.py the work goes on in a process of its own, each stage is resumed where it was,
and a rehearsal without a GPU takes a small checkpoint:

    python benchmarks/probe_h200.py run --work DIR --model FOLDER --rehearse
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from train_h200 import (
    REHEARSAL,
    ROOT,
    WARM_UP,
    harness,
    keep,
    phases,
    read,
    save,
    start,
    wait,
    worker,
)

STAGES = ("base", "probes", "skills", "grpo", "grpo-probe")
POOLING = "mean"
SHARED = ("batch_size=32", "eval_every=0", "save_every=0", "validation.limit=40")
STEPS = {"grpo": 30, "grpo-probe": 50}
FALLBACK = "14"
"""The layer where no concept can be read beyond its controls."""


def commands(work: Path, stage: str) -> list[list[str]]:
    """What a stage runs."""
    few = bool(read(work / "state.json").get("rehearse"))
    if stage == "probes":
        limit = ("--limit", "120", "--layers", "0,1") if few else ()
        return [harness(
            "probe", "--task", "gamesolve", "--model", work / "base", "--out", work / "probes",
            "--poolings", "last,mean,weighted", "--random-layers", "0,1" if few else "0,9,19,29",
            "--no-plots",
            *limit,
        )]  # fmt: skip
    out = work / stage
    settings = [f"steps={STEPS[stage]}", *SHARED] if stage in STEPS else ["validation.limit=-1"]
    if few:
        settings += [*REHEARSAL[""], *(REHEARSAL["grpo"] if stage in STEPS else ())]
    if stage == "grpo-probe":
        settings.append(f"probe.layers={'1' if few else layer(work)}")
    config = ROOT / "configs" / f"smollm2-{stage}-1gpu.toml"
    model = work / "skills" if (work / "skills").is_dir() and stage in STEPS else work / "base"
    resume = ["--resume"] if (out / "job.json").is_file() else []
    words = [word for each in settings for word in ("--set", each)]
    return [harness("train", "--config", config, "--model", model, "--out", out, *words, *resume)]


def layer(work: Path) -> str:
    """The critical layer of the pooling that the heads use."""
    from harness.probing.results import CRITICAL, layers_from
    from harness.types import HarnessError

    try:
        return str(layers_from(f"{CRITICAL}{work / 'probes' / 'probes.json'}", pooling=POOLING)[0])
    except HarnessError as error:
        print(f"{error}; the heads read layer {FALLBACK}", file=sys.stderr)
        return FALLBACK


def summary(work: Path) -> dict[str, object]:
    """Everything in figures."""
    from harness.training.curves import steps, validations

    state = read(work / "state.json")
    told: dict[str, object] = {"stages": {s: state[s] for s in STAGES if s in state}}
    report = read(work / "probes" / "probes.json")
    if report:
        told["probes"] = {
            "items": report["items"],
            "groups": report["groups"],
            "seconds": report["seconds"],
            "peak_memory_mb": report["peak_memory_mb"],
            "concepts": {name: probed(found) for name, found in report["concepts"].items()},
        }
    timed = {}
    for name in STEPS:
        job = work / name
        if not (job / "job.json").is_file():
            continue
        rows = steps(job)
        timed[name] = phases(job, STEPS["grpo"])
        last = rows[max(rows)] if rows else {}
        told[name] = {
            "options": {k: v for k, v in read(job / "job.json")["job"]["options"].items()
                        if k.startswith("probe.")},
            "steps": max(rows, default=0),
            "seconds": timed[name],
            "reward": [round(r["reward/mean"], 3) for r in rows.values() if "reward/mean" in r],
            "heads": {k: round(v, 4) for k, v in last.items() if k.startswith("probe/")},
            "validation": [{k: v[k] for k in ("step", "score", "n", "probe") if k in v}
                           for v in validations(job)],
        }  # fmt: skip
    if len(timed) == len(STEPS):
        plain, probing = timed["grpo"], timed["grpo-probe"]
        told["ratio"] = {
            name: round(probing[name] / plain[name], 4)
            for name in ("step", "whole", "update_actor")
            if plain.get(name) and probing.get(name)
        } | {"over_steps": [WARM_UP + 1, STEPS["grpo"]]}
    return told


def probed(found: dict) -> dict[str, object]:
    """A concept of probes.json in short."""
    wanted = (
        "majority",
        "decodable",
        "critical_layers",
        "peak",
        "accuracy",
        "gain",
        "best_control",
    )
    kept = {name: found[name] for name in wanted if name in found}
    mean = found["poolings"].get(POOLING, {}).get("critical_layers")
    return {**kept, f"critical_layers_{POOLING}": mean}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=("run", "start", "wait", "worker"))
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--stages", help="a comma list, by default all")
    parser.add_argument("--gguf", type=Path, help="the base as a GGUF file")
    parser.add_argument("--model", type=Path, help="a checkpoint folder instead of base and SFT")
    parser.add_argument("--rehearse", action="store_true", help="a few tiny steps, without a GPU")
    parser.add_argument("--seconds", type=float, default=520)
    parser.add_argument("--results", type=Path)
    given = parser.parse_args()
    work, source = given.work.absolute(), given.model or given.gguf
    chosen = [s for s in STAGES if s != "skills" or not given.model]
    stages = given.stages.split(",") if given.stages else chosen
    if given.verb == "worker":
        worker(work, stages, source, commands)
        return 0
    if given.verb in ("run", "start"):
        start(work, stages, source and source.absolute(), given.rehearse, Path(__file__))
    if given.verb == "start":
        return 0
    ended = wait(work, given.seconds)
    told, results = summary(work), given.results or work / "results"
    results.mkdir(parents=True, exist_ok=True)
    save(results / "summary.json", told)
    print(json.dumps(told, indent=1)[:9000], flush=True)
    keep(work, results)
    return 0 if ended else 3


if __name__ == "__main__":
    sys.exit(main())
