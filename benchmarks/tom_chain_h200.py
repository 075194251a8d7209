"""SmolLM2 on counterfactual theory of mind on one GPU: the chain of the reference study, in stages.

    python benchmarks/tom_chain_h200.py run --work DIR --gguf SmolLM2-135M-Instruct.Q4_1.gguf
    python benchmarks/tom_chain_h200.py wait --work DIR --results OUT      # attach again

Stages: ``base`` (the model from its GGUF), ``find`` (on which orders, wordings and numbers of
worked examples the base has any accepted reply, by a small sample of each), ``before`` (the base on
held-out items, with 95 % intervals), ``sample`` (8 x 512 candidates there, acceptance by gate),
``rft`` (SFT on the accepted ones), ``grpo`` (30 steps from it, by rules), ``opsd`` (20 steps from
it), ``eval`` (what came of it, on the same items). Worked examples are shown at sampling only:
training and evaluation use the task's own prompt; the base is also evaluated with them.

As `train_h200.py`, which it borrows from, it works in a process of its own, takes up a stage that
was interrupted where it was, and does not do a complete one again. A rehearsal without a GPU, with
a task and a checkpoint that fit into a test:

    python benchmarks/tom_chain_h200.py run --work DIR --base FOLDER --rehearse
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from train_h200 import harness, make_base, phases, read, save, wait

ROOT = Path(__file__).resolve().parent.parent
STAGES = ("base", "find", "before", "sample", "rft", "grpo", "opsd", "eval")
TRAINED = ("rft", "grpo", "opsd")
LEAST = 0.01
"""Acceptance from which the strict stories, which have no known shortcut, are taken even where the
reference's plan is easier."""

SAMPLED = {"temperature": 0.8, "top_p": 0.95}

FULL: dict[str, Any] = {
    "task": "counterfactual-tom",
    "registry": "",
    "cells": [
        {"options": {"preset": preset, "style": style}, "fewshot": shots}
        for preset in ("strict", "reference")
        for style in ("compact", "exact-order")
        for shots in (0, 4)
    ],
    "orders": ["order-1", "order-2", "order-3"],
    "tries": (32, 8),
    "reply": {"order-1": 128, "order-2": 224, "order-3": 320},
    "backend": "vllm",
    "rft": {},
    "grpo": {"steps": 30},
    "opsd": {"steps": 20, "eval_every": 10, "validation.limit": 100},
    "eval": 300,
    "evaluator": "transformers",
}
SMALL = {"gpus": 0, "max_prompt": 64, "micro_batch": 4, "validation.limit": 4}
REHEARSAL: dict[str, Any] = {
    "task": "belief",
    "registry": str(ROOT / "tests" / "support" / "belief_registry.toml"),
    "cells": [{"options": {"pairs": 40}, "fewshot": shots} for shots in (0, 1)],
    "orders": ["order-1", "order-2"],
    "tries": (6, 4),
    "reply": {"order-1": 48, "order-2": 48},
    "backend": "transformers",
    "rft": {**SMALL, "batch_size": 4, "sample.limit": 20, "sample.n": 4},
    "grpo": {**SMALL, "batch_size": 2, "rollouts": 4, "steps": 2, "save_every": 1,
             "rollout.engine": "transformers", "rollout.workers": 1, "rollout.graphs": ""},
    "opsd": {**SMALL, "batch_size": 4, "steps": 2, "save_every": 1, "max_teacher_prompt": 96,
             "rollout.engine": "transformers", "rollout.workers": 1, "lora.rank": 4},
    "eval": 12,
    "evaluator": "transformers",
}  # fmt: skip


def plan(work: Path) -> dict[str, Any]:
    return REHEARSAL if read(work / "state.json").get("rehearse") else FULL


def find(work: Path) -> int:
    """Sample a little everywhere with one engine, and write down what was accepted."""
    import asyncio

    from harness.api import evaluate_job
    from harness.observers import Observers
    from harness.plan import Contender, Planner, RunSettings
    from harness.registry import Registry
    from harness.rejection.gates import Gates
    from harness.rejection.score import score_candidates

    told = plan(work)
    registry = Registry.load(Path(told["registry"]) if told["registry"] else None)
    model = f"{told['backend']}:{work / 'base'}"
    loaded: dict[str, Contender] = {}
    limit, n = told["tries"]
    rows = []
    with asyncio.Runner() as runner:
        for cell in told["cells"]:
            for order in told["orders"]:
                settings = RunSettings(
                    (told["task"],), (model,), split="train", limit=limit, groups=(order,), n=n,
                    options=cell["options"], fewshot=cell["fewshot"], out=work / "find",
                    decoding={**SAMPLED, "max_tokens": told["reply"][order]},
                )  # fmt: skip
                planner = Planner(settings, registry, loaded)
                job = planner.job(told["task"], model)
                if next(job.samples(), None) is None:
                    continue  # a task without this order
                run = evaluate_job(runner, job, Observers.load(registry, ()), quiet=True)
                report = runner.run(score_candidates(run.path, registry, Gates.of))
                kept = (
                    "candidates",
                    "accepted",
                    "acceptance_rate",
                    "verdicts",
                    "prompts_with_accepted",
                )
                row = {**cell, "order": order, **{name: report[name] for name in kept}}
                rows.append(row)
                print(json.dumps(row), flush=True)
        planner.close()
    save(work / "find.json", {"cells": rows, "chosen": choose(rows)})
    if not any(row["accepted"] for row in rows):
        print("the base has no accepted reply on any order and prompt", flush=True)
        return 1
    return 0


def choose(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The wording and examples with the highest acceptance, and the orders that have any there."""
    cells: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        key = json.dumps([row["options"], row["fewshot"]], sort_keys=True)
        cells.setdefault(key, []).append(row)

    def worth(members: list[dict[str, Any]]) -> tuple[bool, float]:
        best = max(row["acceptance_rate"] for row in members)
        return members[0]["options"].get("preset") == "strict" and best >= LEAST, best

    members = max(cells.values(), key=worth)
    orders = [row["order"] for row in members if row["accepted"]]
    return {"options": members[0]["options"], "fewshot": members[0]["fewshot"], "orders": orders}


def train(work: Path, stage: str, *more: str) -> list[str]:
    """The command of a training stage, on what `find` chose."""
    told, chosen = plan(work), read(work / "find.json")["chosen"]
    name = {"sample": "rft"}.get(stage, stage)
    config = {"rft": "smollm2-rft", "grpo": "smollm2-tom-grpo", "opsd": "smollm2-opsd"}[name]
    out = work / name
    given = {**told[name], "data.groups": ",".join(chosen["orders"])}
    given["max_reply"] = max(told["reply"][order] for order in chosen["orders"])
    if name == "rft":
        given |= {"sample.fewshot": chosen["fewshot"], "sample.backend": told["backend"]}
    given |= {f"task.{key}": value for key, value in chosen["options"].items()}
    words = [word for key, value in given.items() for word in ("--set", f"{key}={value}")]
    if told["registry"]:
        words += ["--registry", told["registry"]]
    started = (out / ("chain.json" if name == "rft" else "job.json")).is_file()
    return harness(
        "train", "--config", ROOT / "configs" / f"{config}-1gpu.toml", "--task", told["task"],
        "--model", work / ("base" if name == "rft" else "rft"), "--out", out, *words, *more,
        *(["--resume"] if started else []),
    )  # fmt: skip


def evaluations(work: Path, names: tuple[str, ...], shots: int = 0) -> list[str]:
    """Checkpoints on held-out items: the test split, which the reference's plan does not have."""
    told, chosen = plan(work), read(work / "find.json")["chosen"]
    split = "validation" if chosen["options"].get("preset") == "reference" else "test"
    words = ["--task", told["task"], "--split", split, "--limit", str(told["eval"])]
    words += ["--groups", ",".join(chosen["orders"]), "--out", str(work / "runs"), "--quiet"]
    words += ["--max-tokens", str(max(told["reply"][order] for order in chosen["orders"]))]
    words += [word for k, v in chosen["options"].items() for word in ("--set", f"{k}={v}")]
    words += ["--fewshot", str(shots)] if shots else []
    words += ["--registry", told["registry"]] if told["registry"] else []
    models = ",".join(f"{told['evaluator']}:{work / name}" for name in names)
    return harness("run", *words, "--model", models)


def commands(work: Path, stage: str) -> list[list[str]]:
    """What a stage runs, one after the other."""
    if stage == "find":
        return [[sys.executable, __file__, "find", "--work", str(work)]]
    if stage == "sample":
        return [train(work, stage, "--stage", "build")]
    if stage == "before":
        shots = read(work / "find.json")["chosen"]["fewshot"]
        return [evaluations(work, ("base",), each) for each in sorted({0, shots})]
    return [evaluations(work, TRAINED) if stage == "eval" else train(work, stage)]


def worker(work: Path, stages: list[str], gguf: Path | None) -> None:
    """Run the stages; what is done is written into ``state.json``."""
    state = {**read(work / "state.json"), "pid": os.getpid()}
    for stage in stages:
        if state.get(stage, {}).get("done"):
            continue
        began, code = time.time(), 0
        state[stage] = {"began": began}
        save(work / "state.json", state)
        if stage == "base" and gguf is not None:
            make_base(work, gguf)
        with (work / f"{stage}.log").open("ab") as log:
            for command in commands(work, stage) if stage != "base" else ():
                code = code or subprocess.run(command, stdout=log, stderr=log).returncode
        state[stage] |= {"done": not code, "code": code, "seconds": round(time.time() - began, 1)}
        save(work / "state.json", state)
        if code:
            break
    state["ended"] = True
    save(work / "state.json", state)


def start(work: Path, stages: list[str], gguf: Path | None, rehearse: bool) -> None:
    """Begin in a session of its own, so that it outlives the caller."""
    work.mkdir(parents=True, exist_ok=True)
    state = read(work / "state.json")
    if state.get("pid") and Path(f"/proc/{state['pid']}").exists() and not state.get("ended"):
        return
    state.pop("ended", None)
    save(work / "state.json", {**state, "rehearse": rehearse})
    command = [sys.executable, __file__, "worker", "--work", str(work)]
    command += ["--stages", ",".join(stages), *(["--gguf", str(gguf)] if gguf else [])]
    with (work / "worker.log").open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    save(work / "state.json", {**read(work / "state.json"), "pid": process.pid})


def summary(work: Path) -> dict[str, Any]:
    """Everything in figures: what was found, acceptance, curves, scores with their intervals."""
    from harness.training.curves import steps, validations

    state = read(work / "state.json")
    told: dict[str, Any] = {"stages": {s: state[s] for s in STAGES if s in state}}
    told["find"] = read(work / "find.json")
    told["chain"] = read(work / "rft" / "chain.json").get("steps", {})
    shown = {"rft": ("train/loss",), "grpo": ("reward/mean", "actor/kl_loss"),
             "opsd": ("actor/teacher_kl",)}  # fmt: skip
    for name in TRAINED:
        rows = steps(work / name)
        curves = {key: [r[key] for r in rows.values() if key in r] for key in shown[name]}
        told[name] = {
            "curves": {key: [round(v, 5) for v in values] for key, values in curves.items()},
            "seconds": phases(work / name),
            "validation": [
                {k: v[k] for k in ("step", "score", "n")} for v in validations(work / name)
            ],
        }
    told["scores"] = {}
    for path in sorted(work.glob("runs/*/metrics.json")):
        found, manifest = read(path), read(path.parent / "manifest.json")
        name = manifest["model_name"].rpartition("/")[2]
        shots = manifest["spec"]["fewshot"]
        label = f"{name}, {shots} worked examples" if shots else name
        rows = [m for m in found["metrics"] if not m["group"] and m["low"] is not None]
        told["scores"][label] = {
            "score": found["score"],
            **{m["name"]: [m["value"], m["low"], m["high"]] for m in rows},
        }
    return told


KEPT = ("training.json", "chain.json", "val.jsonl", "curves.parquet", "curves.png", "find.json",
        "acceptance.json", "manifest.json", "metrics.json", "summary.json")  # fmt: skip


def collect(work: Path, results: Path) -> None:
    """Copy what is worth keeping as one archive beside the summary."""
    import tarfile

    results.mkdir(parents=True, exist_ok=True)
    told = summary(work)
    save(results / "summary.json", told)
    brief = {key: told[key] for key in ("stages", "scores")}
    print(json.dumps({**brief, "chosen": told["find"].get("chosen")}, indent=1)[:9000], flush=True)
    with tarfile.open(results / "results.tar.gz", "w:gz") as archive:
        for path in sorted(work.rglob("*")):
            small = path.is_file() and path.stat().st_size < 4 << 20
            if small and (path.name in KEPT or path.suffix == ".log" or path.match("logs/*")):
                archive.add(path, path.relative_to(work))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=("run", "start", "wait", "worker", "find"))
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--stages", default=",".join(STAGES))
    parser.add_argument("--gguf", "--base", type=Path, help="a GGUF file, or a checkpoint folder")
    parser.add_argument("--rehearse", action="store_true", help="tiny sizes, without a GPU")
    parser.add_argument("--seconds", type=float, default=520)
    parser.add_argument("--results", type=Path)
    given = parser.parse_args()
    work, stages = given.work.absolute(), given.stages.split(",")
    if given.verb == "find":
        return find(work)
    if given.verb == "worker":
        worker(work, stages, given.gguf)
        return 0
    if given.verb in ("run", "start"):
        start(work, stages, given.gguf and given.gguf.absolute(), given.rehearse)
    if given.verb == "start":
        return 0
    ended = wait(work, given.seconds)
    collect(work, given.results or work / "results")
    return 0 if ended and not any(s.get("code") for s in states(work)) else 3


def states(work: Path) -> list[dict[str, Any]]:
    state = read(work / "state.json")
    return [state[s] for s in STAGES if s in state]


if __name__ == "__main__":
    sys.exit(main())
