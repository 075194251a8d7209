"""Replicas: what they bring, what the driver costs, and where 1,000 GPUs would stop growing.

    python benchmarks/replicas.py scale --model FOLDER --replicas 1,2,4     # requests/s of a run
    python benchmarks/replicas.py records --records 1000000                 # scripted replicas
    python benchmarks/replicas.py costs                                     # CPU ms of each event
    python benchmarks/replicas.py model                                     # 1,000 GPUs, on paper

``scale`` and ``records`` are whole runs of `harness run --replicas N`, each in a process of its
own. ``model`` needs the figures of ``costs`` (given again, it reads them from the folder of
results) and simulates a driver with so many replicas, event by event; beside it stands what the
same costs give by arithmetic.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
EPISODES: Final = 10_000_000
LOADS: Final = {
    "135M, questions of 150 tokens": (170.0, 1),
    "7B, questions of 500 tokens": (12.0, 1),
    "7B, games of 12 turns of 60 tokens": (60.0, 12),
    "70B on 8 GPUs, questions of 1,000 tokens": (1.5, 1),
}
"""Requests a second of one replica, and requests of an episode: assumptions of the model."""


def _run(arguments: list[str], replicas: int) -> dict[str, Any]:
    """A whole run in a process of its own: seconds, CPU seconds and memory of the driver."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "one", "--folder", folder, "--argv"]
        command += [json.dumps([*arguments, "--out", folder, "--replicas", str(replicas)])]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def one(given: argparse.Namespace) -> dict[str, Any]:
    """In the process of a run: what it takes from its first record to its last."""
    from harness import api
    from harness.cli.run_ import _settings, command
    from harness.engine import Engine
    from harness.registry import Registry

    argv = json.loads(given.argv)
    registry_file = argv[argv.index("--registry") + 1] if "--registry" in argv else None
    with command.make_context("run", argv) as context:
        settings = _settings(context.params)
    spent: dict[str, Any] = {}
    original = Engine.run

    async def timed(self: Engine) -> Any:
        if queue := self.job.contender.queue:  # the first replies start engines and kernels
            await _warm(self, queue)
        clock, cpu = time.perf_counter(), time.process_time()
        progress = await original(self)
        spent.update(seconds=time.perf_counter() - clock, cpu_s=time.process_time() - cpu)
        return progress

    Engine.run = timed  # type: ignore[method-assign]
    registry = Registry.load(Path(registry_file) if registry_file else None)
    began = time.process_time()
    ((_, run),) = api.evaluate(settings, registry, quiet=True)
    assert run.complete, run
    n = int(run.metrics["records"])
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "records": n,
        "seconds": round(spent["seconds"], 3),
        "records_per_s": round(n / spent["seconds"], 1),
        "driver_cpu_ms": round(1000 * spent["cpu_s"] / n, 4),
        "driver_peak_mb": round(memory, 1),
        "whole_cpu_s": round(time.process_time() - began, 2),
    }


async def _warm(engine: Any, queue: Any) -> None:
    from harness.types import Request

    count = 4 * max(1, engine.job.settings.replicas)
    some = [sample for sample, _ in zip(engine.job.samples(), range(count), strict=False)]
    decoding = engine.job.decoding
    prompts = [engine.job.prepare(tuple(engine.job.task.messages(sample))) for sample in some]
    await asyncio.gather(*(queue.ask(Request(p, decoding, 0)) for p in prompts))
    await engine.job.contender.model.forget()


def scale(given: argparse.Namespace) -> dict[str, Any]:
    """Requests a second at each number of replicas."""
    arguments = ["--task", given.task, "--model", given.model, "--split", "all"]
    arguments += ["--limit", str(given.prompts), "--max-tokens", str(given.max_tokens)]
    for each in given.model_set:
        arguments += ["--model-set", each]
    rows = [
        {"replicas": number, **_run(arguments, number)}
        for number in map(int, given.replicas.split(","))
    ]
    for row in rows:
        row["speedup"] = round(row["records_per_s"] / rows[0]["records_per_s"], 2)
    return {"task": given.task, "model": Path(given.model).name, "rows": rows, **_machine()}


def records(given: argparse.Namespace) -> dict[str, Any]:
    """Records a second of scripted replicas, and the driver's memory."""
    arguments = ["--task", "echo-task", "--set", f"size={given.records}", "--model", "echo"]
    arguments += ["--registry", str(HERE / "registry.toml"), "--concurrency", "4096"]
    number = int(given.replicas.split(",")[0])
    return {"replicas": number, **_run(arguments, number), **_machine()}


def costs(given: argparse.Namespace) -> dict[str, Any]:
    """CPU milliseconds of the driver for each event."""
    small = argparse.Namespace(**{**vars(given), "records": 40_000})
    with_replicas = records(argparse.Namespace(**{**vars(small), "replicas": "2"}))
    alone = records(argparse.Namespace(**{**vars(small), "replicas": "0"}))
    return {
        "request_ms": with_replicas["driver_cpu_ms"],
        "request_without_replicas_ms": alone["driver_cpu_ms"],
        "question_ms": _question(2),
        "question_without_replicas_ms": _question(0),
        "choose_ms": {str(number): _choosing(number) for number in (4, 16, 100, 1000)},
        "choose_among_all_ms": {str(n): _choosing(n, drawn=n) for n in (100, 1000)},
        "summary_ms": round(
            1000 * (alone["whole_cpu_s"] / alone["records"]) - alone["driver_cpu_ms"], 4
        ),
        "bytes_in_journal": _journal_bytes(),
        **_machine(),
    }


def _question(replicas: int) -> float:
    """Milliseconds of a real question: GameSolve, its prompt sent back as the reply."""
    arguments = ["--task", "gamesolve", "--split", "all", "--model", "echo"]
    return float(_run(arguments, replicas)["driver_cpu_ms"])


def _choosing(number: int, drawn: int = 0) -> float:
    """Milliseconds to choose among so many replicas, of which ``drawn`` are looked at."""
    from harness.distributed import replicas
    from harness.distributed.replicas import Replicas, _Replica
    from harness.types import Decoding, Message, Request

    replicas.DRAWN = drawn or replicas.DRAWN

    model = Replicas.__new__(Replicas)
    model._replicas = [_Replica() for _ in range(number)]
    model._places, model._room = __import__("collections").OrderedDict(), 10**9
    model._draw = random.Random(0)
    for each in model._replicas:
        each.ready = True
    asked = [Request((Message("user", str(n)),), Decoding(), n) for n in range(2000)]
    began = time.process_time()
    for count, request in enumerate(asked):
        place = model._choose(request)
        assert place is not None
        model._replicas[place].flying[count] = request
    return round(1000 * (time.process_time() - began) / len(asked), 5)


def _journal_bytes() -> float:
    from harness import api
    from harness.plan import RunSettings
    from harness.registry import Registry

    registry = Registry.load(HERE / "registry.toml")
    with tempfile.TemporaryDirectory() as folder:
        settings = RunSettings(("echo-task",), ("echo",), options={"size": 2000}, out=Path(folder))
        ((_, run),) = api.evaluate(settings, registry, quiet=True)
        return round((run.path / "journal.jsonl").stat().st_size / 2000, 1)


def model(given: argparse.Namespace) -> dict[str, Any]:
    """Where a driver with so many GPUs saturates, simulated and by arithmetic."""
    known = json.loads((given.out / "costs.json").read_text())
    cost = known["request_ms"] / 1000
    rows = []
    for load, (rate, turns) in LOADS.items():
        for gpus in (8, 64, 256, 1000):
            replicas = gpus // 8 if "8 GPUs" in load else gpus
            offered = replicas * rate
            reached = simulate(replicas, rate, cost, given.events)
            hours = EPISODES * turns / reached / 3600
            rows.append(
                {
                    "load": load,
                    "gpus": gpus,
                    "engines_requests_per_s": offered,
                    "driver_limit_per_s": round(1 / cost),
                    "simulated_requests_per_s": round(reached, 1),
                    "share_of_engines": round(reached / offered, 3),
                    "driver_busy": round(min(1.0, reached * cost), 3),
                    "hours_for_10M_episodes": round(hours, 2),
                    "journal_mb_per_s": round(reached / turns * known["bytes_in_journal"] / 1e6, 2),
                }
            )
    memory = EPISODES * 170 / 2**30
    return {
        "rows": rows,
        "summary_hours_for_10M": round(EPISODES * known["summary_ms"] / 3.6e6, 2),
        "driver_gib_for_10M": round(memory, 2),
        "costs": known,
    }


def simulate(replicas: int, rate: float, cost: float, events: int) -> float:
    """Requests a second of a driver that spends ``cost`` seconds on each request and keeps
    2 x ``slots`` of them at each of ``replicas`` engines; an engine serves ``slots`` at once and
    ``rate`` a second in all, with exponential service times.

    Event by event: the driver is one server with a queue of what came back; a request that it has
    dealt with goes to the engine with the shortest of sixteen queues.
    """
    draw = random.Random(1)
    slots = 64
    waiting = [0] * replicas
    busy = [0] * replicas
    mean = slots / rate
    events_at: list[tuple[float, int]] = []
    back: deque[int] = deque()
    now = free = 0.0

    def enter(place: int, at: float) -> None:
        if busy[place] < slots:
            busy[place] += 1
            heapq.heappush(events_at, (at + draw.expovariate(1 / mean), place))
        else:
            waiting[place] += 1

    for place in range(replicas):
        for _ in range(2 * slots):
            enter(place, 0.0)
    done = started = 0
    warm_at = 0.0
    warm = 4 * slots * replicas
    total = warm + max(events, 8 * slots * replicas)
    while done < total:
        now, place = heapq.heappop(events_at)
        busy[place] -= 1
        if waiting[place]:
            waiting[place] -= 1
            enter(place, now)
        back.append(place)
        free = max(free, now) + cost  # the driver deals with it when it comes to it
        back.popleft()
        looked = [draw.randrange(replicas) for _ in range(16)]
        best = min(looked, key=lambda p: busy[p] + waiting[p])
        enter(best, free)
        done += 1
        if done == warm:
            warm_at, started = max(now, free), done
    return (done - started) / (max(now, free) - warm_at)


def _machine() -> dict[str, Any]:
    import platform
    from importlib.metadata import version

    return {"cpus": os.cpu_count(), "python": platform.python_version(), "ray": version("ray")}


STAGES: Final = {"scale": scale, "records": records, "costs": costs, "model": model, "one": one}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("stage", choices=tuple(STAGES))
    parser.add_argument("--model", default="", help="a checkpoint folder, or backend:folder")
    parser.add_argument("--model-set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--task", default="gamesolve")
    parser.add_argument("--replicas", default="1,2,4")
    parser.add_argument("--prompts", type=int, default=400)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--events", type=int, default=200_000, help="of the simulation, at least")
    parser.add_argument("--out", type=Path, default=Path("replicas"), help="folder of results")
    parser.add_argument("--folder", default="", help=argparse.SUPPRESS)
    parser.add_argument("--argv", default="[]", help=argparse.SUPPRESS)
    given = parser.parse_args()
    figures = STAGES[given.stage](given)
    if given.stage == "one":
        print(json.dumps(figures))
        return 0
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / f"{given.stage}.json").write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
