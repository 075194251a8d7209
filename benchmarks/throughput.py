"""The harness against the engine's own call on the same prompts, and games at many live episodes.

    M=FOLDER_OF_A_CHECKPOINT
    python benchmarks/throughput.py ratio --model $M --out results      # against LLM.generate
    python benchmarks/throughput.py games --model $M --out results      # 1 to 256 live episodes
    python benchmarks/throughput.py runs  --model $M --out results      # whole runs, with ledger
    python benchmarks/throughput.py shape --model $M --out results      # random weights, 3B shape
    python benchmarks/throughput.py games --model $M --out results --replicas 4   # on Ray
    python benchmarks/throughput.py table --out results

On a CPU, at a tiny size (with ``--backend transformers`` the peer is ``model.generate`` on
length-sorted batches; with a CPU build of vLLM, ``--backend vllm``):

    python benchmarks/throughput.py ratio --model $M --out results --backend transformers \\
        --prompts 64 --max-tokens 32
    python benchmarks/throughput.py batches --model $M --out results --prompts 64 --max-tokens 64

Every part of a stage is a process of its own and leaves a JSON file in the folder of results; a
stage that is given again goes on where it stopped (``--again`` measures anew). Both sides of a
ratio get the same token ids, the same sampling parameters and the same engine arguments; each is
warm, and each figure is the median of the rounds. With vLLM the prefix cache is emptied before
every round. The harness's time is that of its whole engine: prompts to ids, replies parsed,
scored and journalled; ``whole`` adds the plan, the summary and the Parquet file.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from throughput_parts import PARTS, SHAPES, make_shape

STAGES: Final = ("ratio", "games", "runs", "shape", "batches", "table")
RUNS: Final = {"gtbench": ("gtbench",), "questions": ("gamesolve", "gamesolve-ood",
                                                      "counterfactual-tom")}  # fmt: skip


def part(name: str, label: str, given: argparse.Namespace, **more: Any) -> dict[str, Any]:
    """The figures of one part: from its file, or measured in a process of its own."""
    file = given.out / f"{label}.json"
    if file.exists() and not given.again:
        print(f"{label}: from {file}", file=sys.stderr)
        return dict(json.loads(file.read_text()))
    wanted = {**vars(given), **more}
    settings = {k: str(v) if isinstance(v, Path) else v for k, v in wanted.items()}
    command = [sys.executable, __file__, "part", "--part", name, "--out", str(file)]
    command += ["--settings", json.dumps(settings)]
    began = time.perf_counter()
    print(f"{label} ...", file=sys.stderr, flush=True)
    code = _run_to_its_end(command, given.longest)
    if code != 0 or not file.exists():
        raise SystemExit(f"{label} ended with exit code {code}; give the command again to go on")
    figures = {**json.loads(file.read_text()), "process_s": round(time.perf_counter() - began, 1)}
    file.write_text(json.dumps(figures, indent=2) + "\n")
    return figures


def _run_to_its_end(command: list[str], longest: float) -> int:
    """The exit code; 124 where it took too long: then it ends with all processes it started."""
    process = subprocess.Popen(command, start_new_session=True)
    try:
        return process.wait(timeout=longest)
    except subprocess.TimeoutExpired:
        return 124
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def ratio(given: argparse.Namespace, label: str = "ratio", **more: Any) -> dict[str, Any]:
    """The harness's speed over that of the engine's own call."""
    peer = part("peer", f"{label}-{given.backend}-peer", given, **{**more, "replicas": 0})
    copies = f"-{given.replicas}-replicas" if given.replicas else ""
    ours = part("ours", f"{label}-{given.backend}-ours{copies}", given, **more)
    figures = {"peer": peer, "ours": ours}
    for name in ("tokens_per_s", "requests_per_s", "tokens_per_cpu_s"):
        if peer.get(name):
            figures[f"ratio_{name}"] = round(ours[name] / peer[name], 4)
    theirs = statistics.median(peer["seconds"]) + peer["tokenise_s"]
    figures["ratio_whole"] = round(theirs / statistics.median(ours["whole_s"]), 4)
    return figures


def games(given: argparse.Namespace) -> dict[str, Any]:
    """Reply tokens a second of gtbench episodes at each number of live ones."""
    copies = f"-{given.replicas}-replicas" if given.replicas else ""
    found = part("games", f"games-{given.backend}{copies}", given)
    rates = {row["live"]: row["tokens_per_s"] for row in found["rows"]}
    first = rates[min(rates)]
    return {**found, "speedup": {live: round(rate / first, 1) for live, rate in rates.items()}}


def runs(given: argparse.Namespace) -> dict[str, Any]:
    """`harness run` to its end; the ledger of each run."""
    return {name: _run(name, tasks, given) for name, tasks in RUNS.items()}


def _run(name: str, tasks: tuple[str, ...], given: argparse.Namespace) -> dict[str, Any]:
    file = given.out / f"runs-{given.backend}-{name}.json"
    if file.exists() and not given.again:
        return dict(json.loads(file.read_text()))
    from harness.registry import Registry

    known = set(Registry.load().names("task"))
    kept = [task for task in tasks if task in known]
    out = given.out / "runs" / name
    if given.again:
        shutil.rmtree(out, ignore_errors=True)
    model = given.model if given.backend == "vllm" else f"{given.backend}:{given.model}"
    command = [sys.executable, "-m", "harness", "run", "--task", ",".join(kept)]
    command += ["--model", str(model), "--out", str(out), "--json"]
    command += [word for each in given.model_set for word in ("--model-set", each)]
    if given.limit:
        command += ["--limit", str(given.limit), "--max-tokens", str(given.max_tokens)]
    began = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=given.longest)
    finished = json.loads(done.stdout) if done.stdout.strip() else []
    for each in finished:
        each.pop("folder", None)
    figures = {
        "command": "harness run --task " + ",".join(kept) + " --model FOLDER",
        "exit_code": done.returncode,
        "left_out": [task for task in tasks if task not in known],
        "process_s": round(time.perf_counter() - began, 1),
        "runs": finished,
    }
    if done.returncode == 0:
        given.out.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(figures, indent=2) + "\n")
    return figures


def shape(given: argparse.Namespace) -> dict[str, Any]:
    """The ratio with random weights of a larger model's shape."""
    folder = make_shape(given.shape, Path(given.model), given.out / given.shape)
    return ratio(given, f"shape-{given.shape}", model=str(folder), load_format="dummy")


def batches(given: argparse.Namespace) -> dict[str, Any]:
    """The transformers back end beside ``model.generate`` on the same batches."""
    return part("batches", "batches", given)


def table(given: argparse.Namespace) -> None:
    """What is there so far, one line each."""
    for file in sorted(given.out.glob("*.json")):
        if not file.stem.startswith("stage-"):
            continue
        found = json.loads(file.read_text())
        name = file.stem.removeprefix("stage-")
        for key, value in found.items():
            if key.startswith("ratio_"):
                print(f"{name:34} {key:24} {value}")
        for row in found.get("rows", ()):
            live = str(row["live"])
            print(
                f"{name:34} live {live:>4}  {row['tokens_per_s']:>10.1f} tokens/s "
                f"{row['requests_per_s']:>8.1f} requests/s  x {found['speedup'][live]}"
            )
        for key in ("gtbench", "questions"):
            for run in found.get(key, {}).get("runs", ()):
                ledger = run["ledger"]["records"]
                said = ", ".join(f"{name} {count}" for name, count in ledger.items() if count)
                print(f"{name:34} {run['task']:20} complete {run['complete']}  {said}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("stage", choices=(*STAGES, "part"), metavar="|".join(STAGES))
    parser.add_argument("--model", default="", help="a checkpoint folder")
    parser.add_argument("--out", type=Path, default=Path("throughput"), help="folder of results")
    parser.add_argument("--backend", choices=("vllm", "transformers"), default="vllm")
    parser.add_argument("--model-set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--prompts", type=int, default=2000)
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", type=int, default=0, help="prompts of the warm-up, 0: all")
    parser.add_argument("--replicas", type=int, default=0, help="of the harness's model, on Ray")
    parser.add_argument("--live", default="1,8,64,256", help="live episodes")
    parser.add_argument("--window", type=float, default=15.0, help="seconds for each of them")
    parser.add_argument("--game-tokens", type=int, default=64, help="reply tokens of a turn")
    parser.add_argument("--limit", type=int, default=0, help="samples of whole runs, 0: all")
    parser.add_argument("--shape", choices=tuple(SHAPES), default="qwen2.5-3b")
    parser.add_argument("--load-format", default="auto", help=argparse.SUPPRESS)
    parser.add_argument("--longest", type=float, default=540.0, help="seconds for a part, at most")
    parser.add_argument("--again", action="store_true", help="measure anew")
    parser.add_argument("--part", default="", help=argparse.SUPPRESS)
    parser.add_argument("--settings", default="{}", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.stage == "part":
        figures = PARTS[given.part](argparse.Namespace(**json.loads(given.settings)))
        given.out.write_text(json.dumps(figures, indent=2) + "\n")
        return 0
    if given.stage == "table":
        table(given)
        return 0
    if not Path(given.model, "config.json").is_file():
        raise SystemExit("--model: give the folder of a checkpoint")
    given.out.mkdir(parents=True, exist_ok=True)
    if given.stage == "batches":
        given.backend = "transformers"
    stages = {"ratio": ratio, "games": games, "runs": runs, "shape": shape, "batches": batches}
    figures = stages[given.stage](given)
    text = json.dumps(figures, indent=2)
    copies = f"-{given.replicas}-replicas" if given.replicas else ""
    name = f"stage-{given.stage}-{given.backend}{copies}.json"
    (given.out / name).write_text(text + "\n")
    print(text)
    failed = any(run.get("exit_code") for run in figures.values() if isinstance(run, dict))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
