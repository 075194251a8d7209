"""What the viewer costs on a run of 1,000,000 records: time to the first page, filters, memory.

    python benchmarks/viewer.py [--records 1000000] [--keep FOLDER]

Writes a synthetic run (one reply of some 400 characters a record), starts ``harness view`` on it as
a process of its own, and asks it over HTTP as the page does. Memory is the server's peak (VmHWM);
CPU seconds are the server's (wall time on a busy machine says little).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from harness.store import METRICS, RECORDS, RunFolder, write_atomically
from harness.tables import ROW_GROUP, batches
from harness.types import CLASSES, Message, Move, Outcome, Record, Reply, Score

WORDS = ("north", "south", "payoff", "equilibrium", "therefore", "best", "reply", "mixed", "pure")
GROUPS = [f"nash/{m}x{n}/general" for m in range(2, 7) for n in range(2, 7)]


def main() -> None:
    """Make the run, serve it, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--keep", type=Path, help="a folder for the run, kept for another time")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.keep or Path(scratch)
        if not any(folder.glob(f"*/{RECORDS}")):
            print(f"writing {given.records:,} records ...", file=sys.stderr)
            make_run(folder, given.records)
        measure(folder)


def make_run(root: Path, count: int) -> Path:
    """A finished run folder with ``count`` records, in row groups as the harness writes them."""
    spec = {
        "harness": "0.1.0",
        "task": {"name": "synthetic", "version": "1", "options": {}, "data": ""},
        "split": "test", "model": "scripted:synthetic", "opponent": None,
        "reward": {"name": "exact", "version": "1", "options": {}},
        "decoding": {"temperature": 0.0, "max_tokens": 512}, "system": None, "fewshot": 0,
        "chat_template_kwargs": {}, "model_options": {}, "seeds": [0], "repeats": 1, "n": 1,
    }  # fmt: skip
    folder = RunFolder.open(root, spec, "synthetic", {"model_name": "synthetic", "expected": count})
    folder.close()
    (batch,) = batches(_record(i) for i in range(ROW_GROUP))
    rng = np.random.default_rng(0)
    names = {name: place for place, name in enumerate(batch.schema.names)}
    with pq.ParquetWriter(folder.path / RECORDS, batch.schema, compression="zstd") as writer:
        for start in range(0, count, ROW_GROUP):
            places = np.arange(start, start + ROW_GROUP)
            fresh = {
                "index": pa.array(places),
                "sample": pa.array([f"synthetic-test-{i:07d}" for i in places]),
                "cluster": pa.array([f"pair-{i // 2:07d}" for i in places]),
                "group": pa.array([GROUPS[i] for i in rng.integers(0, len(GROUPS), ROW_GROUP)]),
                "class": pa.array([CLASSES[i] for i in rng.integers(0, 4, ROW_GROUP)]),
                "value": pa.array(rng.random(ROW_GROUP)),
            }
            columns = list(batch.columns)
            for name, column in fresh.items():
                columns[names[name]] = column
            writer.write_batch(
                pa.RecordBatch.from_arrays(columns, schema=batch.schema), row_group_size=ROW_GROUP
            )
    _finish(folder.path, count)
    return folder.path


def _record(i: int) -> Record:
    """A record; its reply is of 60 words, one in a thousand has the word that is searched."""
    rng = np.random.default_rng(i)
    text = " ".join(WORDS[k] for k in rng.integers(0, len(WORDS), 60))
    text += " zebra" if i == 17 else ""
    move = Move(
        0, Reply(f"{text}\nANSWER: {i}", "stop", 180, 90), {"value": str(i)},
        messages=(Message("user", f"What is the value of game {i}? " * 6),),
    )  # fmt: skip
    score = Score(0.5, {"precision": 0.5, "recall": 1.0})
    sample = f"s{i}"
    return Record(i, "synthetic", sample, "test", 0, 0, "", sample, sample, Outcome((move,)), score)


def _finish(folder: Path, count: int) -> None:
    """A summary, so that the run counts as ended."""
    score = {"name": "score", "value": 0.5, "low": 0.499, "high": 0.501, "n": count}
    score |= {"clusters": count // 2, "group": "", "note": ""}
    summary = {
        "complete": True, "records": count, "expected": count, "task": "synthetic",
        "model": "synthetic", "opponent": None, "reward": "exact", "split": "test",
        "score": score, "metrics": [score], "levels": {}, "normalised": None, "columns": [],
        "ledger": {"records": dict.fromkeys(CLASSES, 0), "moves": {}},
        "policies": {"as_played": score, "given_valid": score},
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "cut_off": 0},
        "hashes": {"data": "", "prompts": ""},
    }  # fmt: skip
    write_atomically(folder / METRICS, orjson.dumps(summary))


def measure(folder: Path) -> None:
    """Start the server and time what the page asks."""
    command = [sys.executable, "-m", "harness", "view", str(folder)]
    started = time.perf_counter()
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        print(f"server ready             {time.perf_counter() - started:8.2f} s from the command")
        (run,) = timed("list of runs", address, "runs")["runs"]
        rest = f"runs/{quote(run['key'])}"
        begun, worked = time.perf_counter(), processor(server.pid)
        get(address, "")
        get(address, f"api/{rest}")
        page = get(address, f"api/{rest}/records")
        wall, cpu = time.perf_counter() - begun, processor(server.pid) - worked
        print(f"first page               {wall:8.2f} s, {cpu:.2f} CPU s (page, run, 50 rows)")
        print(f"memory after it          {memory(server.pid):8.0f} MB")
        assert page["matched"] == run["records"]
        timed("facets (reads figures)", address, f"{rest}/facets")
        timed("sorted by score", address, f"{rest}/records", sort="value", down="1")
        timed(
            "class and group", address, f"{rest}/records", **{"class": "unparsed", "group": "3x4"}
        )
        timed("page at the end", address, f"{rest}/records", offset=str(run["records"] - 50))
        timed("one transcript", address, f"{rest}/records/{run['records'] // 2}")
        search(address, rest)
        timed("leaderboard", address, "board")
        timed("compared with itself", address, f"compare/{quote(run['key'])}/{quote(run['key'])}")
        print(f"peak memory              {memory(server.pid):8.0f} MB")
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(20)


def search(address: str, rest: str) -> None:
    """A word in all replies: time to the first hits and to the end, asked as the page asks."""
    begun = time.perf_counter()
    first = float("nan")
    while True:
        found = get(address, f"api/{rest}/records?" + urlencode({"q": "zebra"}))
        if first != first and found["rows"]:
            first = time.perf_counter() - begun
        if found["scanned"] >= found["total"]:
            break
    print(f"search: first hits       {first:8.2f} s")
    print(f"search: all replies      {time.perf_counter() - begun:8.2f} s, {found['matched']} hits")


def timed(title: str, address: str, path: str, **fields: str) -> Any:
    """Ask and print how long it took."""
    begun = time.perf_counter()
    found = get(address, f"api/{path}?{urlencode(fields)}")
    print(f"{title:24} {time.perf_counter() - begun:8.2f} s")
    return found


def get(address: str, path: str) -> Any:
    """An answer of the server, JSON where it is."""
    with urllib.request.urlopen(address + path, timeout=120) as answer:
        data = answer.read()
    return json.loads(data) if "json" in answer.headers["content-type"] else data


def processor(pid: int) -> float:
    """The CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> float:
    """The peak resident memory of a process in megabytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmHWM")


if __name__ == "__main__":
    main()
