"""Leaderboard and compare at scale: 1,000 runs with 1,000,000 records; limits 20 s and 1 GiB.

    python benchmarks/leaderboard.py [--folder DIR] [--labels 100] [--tasks 10] [--samples 1000]

Makes synthetic run folders (each record with a prompt and a reply, as a real one has), then runs
the commands as processes of their own and prints wall seconds, CPU seconds and peak memory. The
limit is on CPU seconds: the commands use one thread, and wall time on a busy machine says little.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from multiprocessing import Process
from pathlib import Path
from typing import Any

SECONDS, MEMORY = 20.0, 2**30


def make_runs(root: Path, labels: int, tasks: int, samples: int, prefix: str = "model") -> None:
    """Write ``labels`` x ``tasks`` runs of ``samples`` records."""
    import numpy as np

    rng = np.random.default_rng(0)
    for t in range(tasks):
        task = f"task{t}"
        ids = [f"{task}-{i:07d}" for i in range(samples)]
        hardness = rng.random(samples)
        fixed = _fixed_columns(task, ids)
        for m in range(labels):
            skill = 0.2 + 0.6 * m / max(1, labels - 1)
            noise = rng.random(samples) * 0.6 - 0.3
            values = (hardness + noise < skill).astype(float)
            _write(root, task, f"{prefix}{m:03d}", values, fixed)


def _fixed_columns(task: str, ids: list[str]) -> dict[str, Any]:
    import pyarrow as pa

    from harness.tables import schema

    n = len(ids)
    prompt = "A matrix game with the payoffs below. Find all Nash equilibria. " * 12
    moves = [
        [
            {
                "seat": 0, "number": 0, "attempt": 0, "class": "ok", "parsed": "1",
                "text": f"The best response of {name} is the second. ANSWER: 1", "reasoning": "",
                "finish_reason": "stop", "prompt_tokens": 300, "completion_tokens": 20,
                "prompt_ids": None, "ids": None, "logprobs": None,
                "messages": [{"role": "user", "content": f"{prompt}{name}"}],
            }
        ]
        for name in ids
    ]  # fmt: skip
    columns: dict[str, list[object]] = {
        "index": list(range(n)),
        "task": [task] * n,
        "sample": list(ids),
        "split": ["test"] * n,
        "seed": [0] * n,
        "repeat": [0] * n,
        "group": [f"group{i % 8}" for i in range(n)],
        "cluster": [f"{task}-c{i // 2}" for i in range(n)],
        "canonical": list(ids),
        "class": ["ok"] * n,
        "parts": ["{}"] * n,
        "raw": ["{}"] * n,
        "per_seat": [[]] * n,
        "returns": [[]] * n,
        "data": ["{}"] * n,
        "moves": list(moves),
    }
    return {name: pa.array(column, schema().field(name).type) for name, column in columns.items()}


def _write(root: Path, task: str, model: str, values: Any, fixed: dict[str, Any]) -> None:
    import orjson
    import pyarrow as pa
    import pyarrow.parquet as pq

    from harness.stats import mean_metric
    from harness.store import spec_hash
    from harness.tables import schema

    spec = {
        "harness": "0.1.0",
        "task": {"name": task, "version": "1", "options": {}, "data": ""},
        "split": "test", "model": model, "opponent": None,
        "reward": {"name": "exact", "version": "1", "options": {}},
        "decoding": {"temperature": 0.0, "top_p": 1.0, "top_k": 0, "max_tokens": 512, "stop": []},
        "system": None, "fewshot": 0, "chat_template_kwargs": {}, "model_options": {},
        "seeds": [0], "repeats": 1, "n": 1,
    }  # fmt: skip
    identity = spec_hash(spec)
    folder = root / f"{task}--{model}--{identity[:10]}"
    folder.mkdir(parents=True)
    n = len(values)
    manifest = {
        "format": 1, "hash": identity, "label": f"{task}--{model}", "spec": spec,
        "model_name": model, "model": {}, "expected": n, "limit": None,
    }  # fmt: skip
    (folder / "manifest.json").write_bytes(orjson.dumps(manifest))
    table = pa.table({**fixed, "value": pa.array(values)}).select(schema().names)
    pq.write_table(table, folder / "records.parquet", compression="zstd", row_group_size=1000)
    clusters = fixed["cluster"].to_pylist()
    score = asdict(mean_metric("score", values.tolist(), clusters))
    rows = [score]
    for g in range(8):
        part = values[g::8].tolist()
        rows.append(asdict(mean_metric("score", part, clusters[g::8], f"group{g}")))
    summary = {
        "complete": True, "records": n, "expected": n, "task": task, "model": model,
        "opponent": None, "reward": "exact", "split": "test", "score": score, "metrics": rows,
        "ledger": {"records": {"ok": n}, "moves": {"ok": n}},
        "policies": {"as_played": score, "given_valid": score},
        "levels": {"random": 0.25, "oracle": 1.0}, "normalised": (score["value"] - 0.25) / 0.75,
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "cut_off": 0},
        "hashes": {"data": task, "prompts": task},
    }  # fmt: skip
    (folder / "metrics.json").write_bytes(orjson.dumps(summary))


def measure(name: str, *arguments: str) -> bool:
    """Run the command; print and return whether it kept the limits."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", *arguments], stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    code = os.waitstatus_to_exitcode(status)
    memory = usage.ru_maxrss * 1024
    cpu = usage.ru_utime + usage.ru_stime
    good = code == 0 and cpu < SECONDS and memory < MEMORY
    verdict = "ok" if good else f"FAILED (exit code {code})"
    print(f"{name:34} {wall:6.1f} s wall {cpu:6.1f} s CPU {memory / 2**20:6.0f} MiB  {verdict}")
    return good


def main() -> int:
    """Exit code 1 when a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--labels", type=int, default=100)
    parser.add_argument("--tasks", type=int, default=10)
    parser.add_argument("--samples", type=int, default=1000)
    given = parser.parse_args()
    sizes = (given.labels, given.tasks, given.samples)
    with tempfile.TemporaryDirectory() as scratch:
        root = given.folder or Path(scratch)
        many, large = root / "many", root / "large"
        half = given.labels * given.tasks * given.samples // 2
        for folder, size in ((many, sizes), (large, (2, 1, half))):
            if not folder.exists():  # in a process of its own: this one must stay small
                maker = Process(target=make_runs, args=(folder, *size))
                maker.start()
                maker.join()
        pair = sorted(map(str, large.iterdir()))
        groups = ("--columns", "groups", "--baseline", "model000", "--format", "html")
        two = sorted(map(str, many.iterdir()))[:2]
        results = [
            measure("leaderboard, 1 column a task", "leaderboard", str(many), "--format", "json"),
            measure("leaderboard, all groups, baseline", "leaderboard", str(many), *groups),
            measure("leaderboard of two large runs", "leaderboard", str(large)),
            measure("compare two runs of the many", "compare", *two),
            measure("compare two large runs", "compare", *pair),
        ]
    return int(not all(results))


if __name__ == "__main__":
    sys.exit(main())
