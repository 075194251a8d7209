"""Exports to Inspect and lm-eval: what they hold, and the real packages opening them."""

from __future__ import annotations

import json
import math
import re
import zipfile

import pytest
from board_runs import make_run
from outside import run_outside

from harness.store import read_records

FILES = 3
"""A log; results and samples."""


@pytest.fixture
def runs(harness_command, tmp_path):
    """A run of the toy task copy (30 records, two seeds) and a game of several moves."""
    done = harness_command(
        "run", "--task", "copy", "--model", "batched", "--seeds", "0,1", "--limit", 15
    )
    assert done.returncode == 0, done.stderr
    done = harness_command("run", "--task", "gtbench", "--model", "oracle", "--limit", 8)
    assert done.returncode == 0, done.stderr
    found = {folder.name.split("--")[0]: folder for folder in (tmp_path / "runs").iterdir()}
    return found["copy"], found["gtbench"]


def export(harness_command, run, form, out):
    done = harness_command("export", run, "--format", form, "--out", out)
    assert done.returncode == 0, done.stderr
    return done.stdout.partition(": ")[0]


def test_an_inspect_log_holds_every_record(runs, harness_command, tmp_path):
    copy, _ = runs
    path = export(harness_command, copy, "inspect", tmp_path / "a" / "copy.eval")
    records = list(read_records(copy))
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        header = json.loads(archive.read("header.json"))
        summaries = json.loads(archive.read("summaries.json"))
        first = json.loads(archive.read(f"samples/{records[0].sample}_epoch_2.json"))
    assert len([n for n in names if n.startswith("samples/")]) == len(set(names)) - 3 == 30
    assert header["status"] == "success"
    assert header["eval"]["config"]["epochs"] == 2
    assert [s["scores"]["exact"]["value"] for s in summaries] == [r.score.value for r in records]
    assert first["metadata"]["seed"] == 1
    assert first["messages"][-1]["role"] == "assistant"
    assert first["target"] == "w0"


def test_the_same_run_gives_the_same_bytes(runs, harness_command, tmp_path):
    _, games = runs
    found = []
    for name in ("a", "b"):
        log = export(harness_command, games, "inspect", tmp_path / name / "x.eval")
        export(harness_command, games, "lm-eval", tmp_path / name)
        files = sorted(p for p in (tmp_path / name).rglob("*") if p.is_file())
        found.append({p.relative_to(tmp_path / name): p.read_bytes() for p in files})
        assert len(found[-1]) == FILES, log
    assert found[0] == found[1]


def test_lm_eval_results_are_those_of_the_summary(runs, harness_command, tmp_path):
    copy, _ = runs
    path = export(harness_command, copy, "lm-eval", tmp_path / "out")
    found = json.loads((tmp_path / path).read_text())
    metrics = json.loads((copy / "metrics.json").read_text())
    figures = found["results"]["copy"]
    assert figures["score,none"] == metrics["score"]["value"]
    for row in metrics["metrics"]:
        assert figures[f"{row['name']},{row['group'] or 'none'}"] == row["value"]
    values = [r.score.value for r in read_records(copy)]
    mean = sum(values) / len(values)
    spread = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values))
    assert figures["score_stderr,none"] == pytest.approx(spread)
    (samples,) = (tmp_path / path).parent.glob("samples_copy_*.jsonl")
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    assert [row["score"] for row in rows] == values
    assert len({row["doc_hash"] for row in rows}) == len(rows)


def test_what_cannot_be_exported_says_why(harness_command, tmp_path):
    ended = make_run(tmp_path / "runs", "copy", "m", [0.0, 1.0], expected=3)
    open_run = make_run(tmp_path / "runs", "copy", "n", [0.0])
    (open_run / "metrics.json").unlink()
    for words, reason in (
        ([open_run, "--format", "inspect"], "has not ended yet"),
        ([tmp_path / "runs", "--format", "lm-eval"], "holds 2 runs"),
        ([ended, "--format", "inspect", "--out", "log.json"], "write .eval"),
        ([ended], "add --format"),
        ([tmp_path, "--format", "other"], "'other' is not one of"),
    ):
        done = harness_command("export", *words)
        assert (done.returncode, reason in done.stderr) == (2, True), done.stderr
        assert "Traceback" not in done.stderr
    done = harness_command("export", ended, "--format", "inspect", "--out", "part.eval")
    assert done.returncode == 1
    with zipfile.ZipFile(tmp_path / "part.eval") as archive:
        header = json.loads(archive.read("header.json"))
    assert header["status"] == "error"
    assert "1 of 3 records are missing" in header["error"]["message"]


def without_blanks(table):
    """A Markdown table with each figure of a task in a full row."""
    lines = [re.sub(r"\s+", "", line) for line in table.splitlines()]
    return "\n".join(re.sub(r"^\|.*?\|.*?\|", "|", line) for line in lines)


INSPECT = """
import json, sys
from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries, read_eval_log_samples
log = read_eval_log(sys.argv[1])
(score,) = log.results.scores
samples = list(read_eval_log_samples(sys.argv[1]))
summaries = read_eval_log_sample_summaries(sys.argv[1])
one = lambda sample: sample.scores[score.name].as_float()
print(json.dumps({
    "status": log.status, "task": log.eval.task, "model": log.eval.model, "scorer": score.name,
    "mean": score.metrics["mean"].value,
    "figures": [[m.name, m.group or "", m.value] for m in score.metrics.values()],
    "values": {f"{s.id} {s.epoch}": one(s) for s in samples},
    "summaries": {f"{s.id} {s.epoch}": one(s) for s in summaries},
    "texts": {f"{s.id} {s.epoch}": [m.text for m in s.messages if m.role == "assistant"]
              for s in samples},
}))
"""

LM_EVAL = """
import json, sys
from pathlib import Path
from lm_eval.api.metrics import mean, mean_stderr
from lm_eval.utils import get_file_task_name, get_latest_filename, get_results_filenames
from lm_eval.utils import get_sample_results_filenames, make_table
files = [str(path) for path in Path(sys.argv[1]).rglob("*.json*")]
results = json.loads(Path(get_latest_filename(get_results_filenames(files))).read_text())
samples = get_latest_filename(get_sample_results_filenames(files))
import datasets
rows = datasets.load_dataset("json", data_files=samples, split="train", cache_dir=sys.argv[2])
values = [row["score"] for row in rows]
print(json.dumps({
    "task": get_file_task_name(Path(samples).name), "table": make_table(results),
    "mean": mean(values), "stderr": mean_stderr(values), "results": results["results"],
    "values": values,
}))
"""


@pytest.mark.outside
def test_inspect_opens_the_log_with_the_same_scores(runs, harness_command, tmp_path):
    for run in runs:
        path = export(harness_command, run, "inspect", tmp_path / f"{run.name}.eval")
        found = json.loads(run_outside("inspect-ai", INSPECT, tmp_path / path))
        metrics = json.loads((run / "metrics.json").read_text())
        assert (found["status"], found["mean"]) == ("success", metrics["score"]["value"])
        ours = [[m["name"], m["group"], m["value"]] for m in metrics["metrics"]]
        assert all(row in found["figures"] for row in ours if row[2] is not None)
        seen, values, texts = {}, {}, {}
        for record in read_records(run):
            seen[record.sample] = seen.get(record.sample, 0) + 1
            key = f"{record.sample} {seen[record.sample]}"
            values[key] = record.score.value
            texts[key] = [move.reply.text for move in record.outcome.moves]
        assert found["values"] == found["summaries"] == values
        assert found["texts"] == texts


@pytest.mark.outside
def test_lm_eval_opens_the_results_with_the_same_scores(runs, harness_command, tmp_path):
    for run in runs:
        export(harness_command, run, "lm-eval", tmp_path / run.name)
        cache = tmp_path / "cache"
        found = json.loads(run_outside("lm-eval", LM_EVAL, tmp_path / run.name, cache))
        metrics = json.loads((run / "metrics.json").read_text())
        name = metrics["task"]
        figures = found["results"][name]
        assert found["task"] == name
        assert found["values"] == [record.score.value for record in read_records(run)]
        assert found["mean"] == pytest.approx(metrics["score"]["value"])
        assert figures["score,none"] == metrics["score"]["value"]
        assert found["stderr"] == pytest.approx(figures["score_stderr,none"])
        (shown,) = re.findall(r"\|none\|\d+\|score\|↑\|([\d.]+)\|", without_blanks(found["table"]))
        assert float(shown) == pytest.approx(metrics["score"]["value"], abs=5e-5)
