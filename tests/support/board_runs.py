"""Run folders made up for tests of tables: records, summary and manifest without a model."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path

import orjson

from harness.stats import grouped_means, mean_metric
from harness.store import METRICS, RECORDS, RunFolder, write_atomically
from harness.tables import write_parquet
from harness.types import CLASSES, OK, Message, Move, Outcome, Record, Reply, Score


def make_run(root, task, model, values, **more):
    """Write a run; ``values`` are one score a sample, or (sample, score) pairs.

    ``more``: clusters, groups, canonical, prompts, texts, classes, parts (lists by sample),
    expected, data_hash, prompt_hash, levels, and anything of the specification (split, seeds, ...).
    """
    values = [v if isinstance(v, tuple) else (f"s{i}", v) for i, v in enumerate(values)]

    def at(name, i, default):
        return more[name][i] if name in more else default

    records = []
    for i, (sample, value) in enumerate(values):
        text = at("texts", i, "ANSWER: 1")
        cls = at("classes", i, OK)
        messages = (Message("user", at("prompts", i, f"What is {sample}?")),)
        reason = "length" if cls == "truncated" else "stop"
        move = Move(0, Reply(text, reason, 10, 5), None, cls, messages)
        score = Score(float(value), at("parts", i, {}))
        record = Record(
            i, task, sample, more.get("split", "test"), at("record_seeds", i, 0), 0,
            at("groups", i, ""), at("clusters", i, sample), at("canonical", i, sample),
            Outcome((move,), cls), score,
        )  # fmt: skip
        records.append(record)
    spec = _spec(task, model, more)
    details = {"model_name": model, "model": more.get("described", {}), "expected": len(records)}
    details |= more.get("manifest", {})
    folder = RunFolder.open(Path(root), spec, f"{task}--{model}", details)
    for record in records:
        folder.journal.append(record, 0.0, 0.0, 1)
    folder.journal.commit()
    write_parquet(folder.journal, folder.path / RECORDS)
    summary = _summary(records, task, model, more)
    write_atomically(folder.path / METRICS, orjson.dumps(summary, option=orjson.OPT_INDENT_2))
    folder.close()
    return folder.path


def _spec(task, model, more):
    return {
        "harness": "0.1.0",
        "task": {"name": task, "version": "1", "options": more.get("options", {}), "data": ""},
        "split": more.get("split", "test"),
        "model": more.get("identity", model),
        "opponent": more.get("opponent"),
        "reward": more.get("reward", {"name": "exact", "version": "1", "options": {}}),
        "decoding": {"temperature": 0.0, "max_tokens": 16, **more.get("decoding", {})},
        "system": more.get("system"),
        "fewshot": 0,
        "chat_template_kwargs": {},
        "model_options": {},
        "seeds": more.get("seeds", [0]),
        "repeats": 1,
        "n": 1,
    }


def _summary(records, task, model, more):
    scores = [r.score.value for r in records]
    clusters = [r.cluster for r in records]
    valid = [r for r in records if r.outcome.cls == OK]
    score = asdict(mean_metric("score", scores, clusters))
    counts = Counter(r.outcome.cls for r in records)
    levels = more.get("levels", {"random": 0.25, "oracle": 1.0})
    normalised = None
    if levels and score["value"] is not None:
        normalised = (score["value"] - levels["random"]) / (levels["oracle"] - levels["random"])
    expected = more.get("expected", len(records))
    fair = mean_metric("given_valid", [r.score.value for r in valid], [r.cluster for r in valid])
    return {
        "complete": expected == len(records),
        "records": len(records),
        "expected": expected,
        "task": task,
        "model": model,
        "opponent": more.get("opponent"),
        "reward": "exact",
        "split": more.get("split", "test"),
        "score": score,
        "metrics": [asdict(m) for m in grouped_means(records)] + more.get("metrics", []),
        "ledger": {"records": {c: counts[c] for c in CLASSES}, "moves": {}},
        "policies": {"as_played": score, "given_valid": asdict(fair)},
        "levels": levels,
        "normalised": normalised,
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "cut_off": 0},
        "hashes": {
            "data": more.get("data_hash", f"data-{task}"),
            "prompts": more.get("prompt_hash", f"prompts-{task}"),
        },
    }
