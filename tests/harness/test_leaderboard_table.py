"""Leaderboards: rows, columns, marks, ranks, differences, seeds, gaps, formats."""

from __future__ import annotations

import csv
import io
import json
import random
import shutil

import numpy as np
import pytest
from board_runs import make_run
from scipy import stats as scipy_stats

from harness.board.arenas import PRESETS, Column, parse_columns, split_columns
from harness.board.formats import FORMATS, render
from harness.board.places import find_runs
from harness.comparisons import paired
from harness.leaderboard import Options, make_board
from harness.types import HarnessError

SKILLS = {"random": 0.25, "constant": 0.35, "oracle": 1.0, "smollm2": 0.5, "replay": 0.5}
TASKS = (
    ("tom", {}),
    ("gamesolve", {"preset": "gamesolve"}),
    ("gamesolve", {"preset": "gamesolve-ood"}),
)


def scores(skill, seed, n=120):
    rng = random.Random(seed)
    return [float(rng.random() < skill) for _ in range(n)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Five methods over three arenas, 120 samples in pairs."""
    root = tmp_path_factory.mktemp("board") / "runs"
    for t, (task, options) in enumerate(TASKS):
        for model, skill in SKILLS.items():
            seed = f"{t}{'smollm2' if model == 'replay' else model}"
            make_run(
                root, task, model, scores(skill, seed),
                options=options,
                clusters=[f"c{i // 2}" for i in range(120)],
                groups=[f"order-{i % 3}" if task == "tom" else "2x2/pure" for i in range(120)],
                classes=["ok" if i % 10 else "unparsed" for i in range(120)],
            )  # fmt: skip
    return root


def test_figures_are_those_of_the_runs(runs):
    board = make_board([str(runs)])
    assert {c.key for c in board.columns} == {
        "tom:score",
        "gamesolve:score",
        "gamesolve-ood:score",
    }
    assert set(board.rows) == set(SKILLS)
    for run in find_runs([str(runs)]):
        task = run.spec["task"]
        cell = board.cells[
            run.manifest["model_name"], f"{task['options'].get('preset', 'tom')}:score"
        ]
        score = run.metrics["score"]
        assert (cell.value, cell.low, cell.high) == (score["value"], score["low"], score["high"])
        assert (cell.n, cell.clusters) == (120, 60)
        assert cell.normalised == pytest.approx((score["value"] - 0.25) / 0.75)
        assert cell.ledger == {"ok": 108, "unparsed": 12}
        assert cell.marks == ""


def test_domains_follow_the_names_or_the_user(runs):
    board = make_board([str(runs)])
    domains = {name: arena.domain for name, arena in board.arenas.items()}
    assert domains == {"gamesolve": "ID", "gamesolve-ood": "OOD", "tom": "external"}
    own = make_board([str(runs)], Options(domains={"tom": "ID", "game*": "external"}))
    assert {own.arenas["tom"].domain, own.arenas["gamesolve-ood"].domain} == {"ID", "external"}


def test_gap_is_id_minus_ood_with_newcombes_kind_of_interval(runs):
    board = make_board([str(runs)])
    (title,) = board.gap_titles
    gap = board.gaps["smollm2", title]
    inside, outside = (board.cells["smollm2", f"gamesolve{s}:score"] for s in ("", "-ood"))
    assert gap.value == pytest.approx(inside.value - outside.value)
    below = np.hypot(inside.value - inside.low, outside.high - outside.value)
    assert gap.low == pytest.approx(gap.value - below)


def test_ranks_ties_and_baseline_are_paired_tests(runs):
    board = make_board([str(runs)], Options(baseline="smollm2"))
    cells = {row: board.cells[row, "tom:score"] for row in SKILLS}
    assert cells["oracle"].rank == 1
    assert cells["smollm2"].rank == cells["replay"].rank
    assert set(cells["smollm2"].letters) == set(cells["replay"].letters)
    assert not set(cells["oracle"].letters) & set(cells["random"].letters)
    values = {
        run.manifest["model_name"]: run.table(["value"])["value"].to_pylist()
        for run in find_runs([str(runs)])
        if run.spec["task"]["name"] == "tom"
    }
    expected = paired(values["random"], values["smollm2"], [i // 2 for i in range(120)])
    found = cells["random"].difference
    assert (found.value, found.low, found.high, found.p) == pytest.approx(
        (expected.difference, expected.low, expected.high, expected.p)
    )
    assert cells["replay"].difference.value == 0.0
    assert cells["smollm2"].difference is None


def test_groups_are_ranked_where_the_records_know_them(runs):
    board = make_board([str(runs)], Options(columns=("tom:score[order-1]",), baseline="random"))
    cell = board.cells["oracle", "tom:score[order-1]"]
    assert (cell.n, cell.rank, cell.difference.how) == (40, 1, "paired")


def test_a_group_that_only_the_task_knows_is_compared_by_intervals(tmp_path):
    row = {"name": "score", "group": "nash", "low": 0.3, "high": 0.5, "n": 60, "clusters": 60}
    for model, value in (("a", 0.4), ("b", 0.45)):
        make_run(
            tmp_path, "gamesolve", model, scores(value, model),
            metrics=[{**row, "value": value, "note": ""}],
        )  # fmt: skip
    board = make_board([str(tmp_path)], Options(columns=("Nash=*:score[nash]",), baseline="a"))
    cell = board.cells["b", "gamesolve:score[nash]"]
    assert (cell.rank, cell.difference.how) == (None, "unpaired")
    assert board.columns[0].title == "Nash"


def test_incomplete_runs_are_marked_and_not_ranked(runs, tmp_path):
    make_run(tmp_path, "tom", "late", scores(0.9, 3)[:50], expected=120)
    board = make_board([str(runs), str(tmp_path)])
    cell = board.cells["late", "tom:score"]
    assert (cell.marks, cell.missing, cell.rank) == ("‡", 70, None)
    assert board.rows[-1] == "late"
    assert any("late: 70 records missing" in line for line in board.caption)


def test_a_run_that_never_ended_has_no_figure(runs, tmp_path):
    path = make_run(tmp_path, "tom", "killed", scores(0.9, 3), identity="k")
    (path / "metrics.json").unlink()
    cell = make_board([str(runs), str(tmp_path)]).cells["killed", "tom:score"]
    assert (cell.value, cell.marks) == (None, "‡")


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"data_hash": "other"}, "data"),
        ({"prompt_hash": "other"}, "prompt"),
        ({"system": "Be brief."}, "prompt"),
        ({"decoding": {"temperature": 0.7}}, "decoding"),
        ({"reward": {"name": "exact", "version": "2", "options": {}}}, "reward"),
    ],
)
def test_other_protocols_are_marked_and_never_ranked_together(runs, tmp_path, change, part):
    make_run(tmp_path, "tom", "other", scores(0.9, 4), **change)
    board = make_board([str(runs), str(tmp_path)], Options(baseline="smollm2"))
    cell = board.cells["other", "tom:score"]
    assert (cell.marks, cell.differs, cell.rank) == ("§", (part,), None)
    assert cell.difference is None
    assert board.cells["oracle", "tom:score"].rank == 1


def test_templates_are_compared_within_a_family(tmp_path):
    def model(architecture, template):
        return {"architecture": architecture, "parameters": 1, "template_hash": template}

    for name, architecture, template in (
        ("a", "Llama", "x"), ("b", "Llama", "x"), ("c", "Llama", "y"), ("d", "Qwen", "z"),
    ):  # fmt: skip
        make_run(tmp_path, "tom", name, scores(0.5, name), described=model(architecture, template))
    board = make_board([str(tmp_path)])
    found = {row: board.cells[row, "tom:score"].differs for row in board.rows}
    assert found == {"a": (), "b": (), "c": ("template",), "d": ()}


def test_one_label_with_two_protocols_makes_two_rows(runs, tmp_path):
    make_run(tmp_path, "tom", "smollm2", scores(0.6, 5), decoding={"temperature": 0.7})
    make_run(tmp_path, "tom", "smollm2", scores(0.6, 6), identity="smollm2-0123456789ab")
    rows = make_board([str(runs), str(tmp_path)]).rows
    assert {"smollm2", "smollm2 (temperature=0.7)", "smollm2 (model=0123456789ab)"} < set(rows)


def test_training_seeds_make_one_row_with_a_t_interval_over_runs(tmp_path):
    for method, rates in (("sft", (0.6, 0.63, 0.58)), ("grpo", (0.8, 0.83, 0.79))):
        for seed, rate in enumerate(rates):
            make_run(tmp_path, "tom", f"{method}-{seed}", scores(rate, f"{method}{seed}"))
    labels = (("SFT", "sft-?"), ("GRPO", "grpo-?"))
    board = make_board([str(tmp_path)], Options(labels=labels, baseline="SFT"))
    assert set(board.rows) == {"SFT", "GRPO"}
    values = {
        row: [
            run.metrics["score"]["value"]
            for run in find_runs([str(tmp_path)])
            if run.manifest["model_name"].startswith(row.lower())
        ]
        for row in board.rows
    }
    cell = board.cells["GRPO", "tom:score"]
    low, high = scipy_stats.ttest_1samp(values["GRPO"], 0).confidence_interval()
    assert (cell.value, cell.sd, cell.runs) == pytest.approx(
        (np.mean(values["GRPO"]), np.std(values["GRPO"], ddof=1), 3)
    )
    assert (cell.low, cell.high) == pytest.approx((low, high), rel=1e-6)
    expected = scipy_stats.ttest_ind(values["GRPO"], values["SFT"], equal_var=False)
    assert cell.difference.p == pytest.approx(expected.pvalue, rel=1e-6)
    assert (cell.difference.how, cell.rank) == ("over runs", 1)


def test_decoding_seeds_of_one_run_show_their_spread(tmp_path):
    values = scores(0.5, 8, 90)
    pairs = [(f"s{i // 3}", v) for i, v in enumerate(values)]
    seeds = [i % 3 for i in range(90)]
    make_run(tmp_path, "tom", "m", pairs, record_seeds=seeds, seeds=[0, 1, 2])
    cell = make_board([str(tmp_path)]).cells["m", "tom:score"]
    means = [np.mean(values[s::3]) for s in range(3)]
    assert (cell.seeds, cell.sd) == (3, pytest.approx(np.std(means, ddof=1)))
    assert cell.clusters == 30


def test_runs_with_other_seeds_share_data_and_prompts(tmp_path):
    """Hashes over records repeat a sample for each rollout; what counts is each sample once."""
    import hashlib

    samples = [f"s{i}" for i in range(30)]

    def hashes(times):
        data, prompts = hashlib.sha256(), hashlib.sha256()
        for s in samples:
            for _ in range(times):
                data.update(f"{s}\0{s}\0".encode())
                prompts.update(f"user\0What is {s}?\0".encode())
        return {"data_hash": data.hexdigest()[:16], "prompt_hash": prompts.hexdigest()[:16]}

    make_run(tmp_path, "tom", "once", [(s, 1.0) for s in samples], **hashes(1))
    twice = [(s, 0.0) for s in samples for _ in range(2)]
    make_run(
        tmp_path, "tom", "twice", twice,
        seeds=[0, 1], record_seeds=[0, 1] * 30, prompts=[f"What is {s}?" for s, _ in twice],
        **hashes(2),
    )  # fmt: skip
    board = make_board([str(tmp_path)])
    assert [board.cells[row, "tom:score"].differs for row in board.rows] == [(), ()]
    assert [board.cells[row, "tom:score"].rank for row in ("once", "twice")] == [1, 2]


def test_places_merge_and_the_fuller_copy_counts(runs, tmp_path):
    one, other = tmp_path / "here", tmp_path / "there"
    make_run(one, "tom", "m", scores(0.5, 1)[:40], expected=120)
    make_run(other, "tom", "m", scores(0.5, 1))
    for order in ([one, other], [other, one]):
        board = make_board([str(runs), *map(str, order)])
        assert board.cells["m", "tom:score"].n == 120


def test_a_url_is_read_through_fsspec(runs):
    import fsspec

    files = fsspec.filesystem("memory")
    files.put(str(runs), "/stored/runs", recursive=True)
    try:
        local, remote = make_board([str(runs)]), make_board(["memory://stored/runs"])
        assert render(local, "json") == render(remote, "json")
    finally:
        files.rm("/stored", recursive=True)


def test_parts_of_the_score_are_columns_with_paired_differences(tmp_path):
    rng = random.Random(0)
    for model, rate in (("a", 0.3), ("b", 0.7)):
        parts = [{"recall": float(rng.random() < rate)} for _ in range(60)]
        mean = sum(p["recall"] for p in parts) / 60
        row = {"name": "recall", "group": "", "value": mean, "low": 0.1, "high": 0.9}
        make_run(
            tmp_path, "t", model, [0.5] * 60,
            parts=parts, metrics=[{**row, "n": 60, "clusters": 60, "note": ""}],
        )  # fmt: skip
    board = make_board([str(tmp_path)], Options(columns=("t:recall",), baseline="a"))
    cell = board.cells["b", "t:recall"]
    assert (cell.rank, cell.difference.how) == (1, "paired")
    assert cell.difference.value == pytest.approx(cell.value - board.cells["a", "t:recall"].value)


def test_exact_intervals_are_bootstrap_t(runs):
    plain = make_board([str(runs)]).cells["smollm2", "tom:score"]
    exact = make_board([str(runs)], Options(exact=True)).cells["smollm2", "tom:score"]
    assert exact.note.startswith("bootstrap-t")
    assert (exact.low, exact.high) != (plain.low, plain.high)
    assert (exact.low, exact.high) == pytest.approx((plain.low, plain.high), abs=0.03)


def test_opponents_and_splits_make_arenas_of_their_own(tmp_path):
    for opponent in ("player:mcts", "player:random"):
        make_run(tmp_path, "gtbench", "m", scores(0.5, opponent), opponent=opponent)
    make_run(tmp_path, "tom", "m", scores(0.5, 1), split="train")
    keys = [c.key for c in make_board([str(tmp_path)]).columns]
    assert keys == ["gtbench vs mcts:score", "gtbench vs random:score", "tom@train:score"]


def test_columns_are_parsed_and_presets_too():
    assert Column.parse("tom:score[2]") == Column("", "tom", "score", "2")
    assert Column.parse("X = tom").metric == "score"
    assert split_columns("a:b[c,d],e") == ["a:b[c,d]", "e"]
    assert all(parse_columns([name]) for name in PRESETS)
    for wrong in ("", "a:b:c", "[x]"):
        with pytest.raises(HarnessError, match="task:metric"):
            Column.parse(wrong)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Options(columns=("nope:score",)), "no run has it"),
        (Options(baseline="nope"), "no such row"),
        (Options(labels=(("x", "nope*"),)), "no run's folder or model fits"),
    ],
)
def test_wrong_names_are_one_clear_line(runs, options, message):
    with pytest.raises(HarnessError, match=message):
        make_board([str(runs)], options)


def test_places_without_runs_and_broken_files_are_one_clear_line(runs, tmp_path):
    with pytest.raises(HarnessError, match="no run folder there"):
        find_runs([str(tmp_path)])
    copy = tmp_path / "copy"
    shutil.copytree(next(runs.iterdir()), copy)
    (copy / "records.parquet").write_bytes(b"PAR1 broken")
    with pytest.raises(HarnessError, match="cannot be read"):
        make_board([str(copy)])
    (copy / "metrics.json").write_text("{")
    with pytest.raises(HarnessError, match="not JSON"):
        find_runs([str(copy)])
    (copy / "manifest.json").write_text('{"spec": {}, "format": 99}')
    with pytest.raises(HarnessError, match="format 99"):
        find_runs([str(copy)])


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_byte_identical_and_has_every_figure(runs, form):
    options = Options(baseline="smollm2")
    board = make_board([str(runs)], options)
    text = render(board, form)
    assert text == render(make_board([str(runs)], options), form)
    figure = board.cells["random", "tom:score"].value
    assert (f"{figure:.3f}" in text) or (repr(figure) in text)
    if form != "csv":
        assert "max_tokens 16" in text.replace("\\", "")
        assert "split test" in text


def test_terminal_fits_100_columns_with_many_columns_and_long_labels(runs, tmp_path):
    make_run(tmp_path, "tom", "owner/a-very-long-name-of-a-model-" + "x" * 80, scores(0.4, 2))
    board = make_board(
        [str(runs), str(tmp_path)], Options(columns=("overall", "groups"), baseline="smollm2")
    )
    lines = render(board, "terminal").splitlines()
    assert max(map(len, lines)) <= 100
    assert any("#1" in line for line in lines)


def test_labels_cannot_break_out_of_any_format(tmp_path):
    label = "<b>|x|</b> & $y$ #1 \x1b[31m"
    make_run(tmp_path, "tom", label, scores(0.4, 2))
    board = make_board([str(tmp_path)])
    for form in ("terminal", "md", "html", "latex"):
        assert "\x1b" not in render(board, form)
    assert "<b>" not in render(board, "md") + render(board, "html")
    assert r"\$y\$ \#1" in render(board, "latex")
    rows = list(csv.DictReader(io.StringIO(render(board, "csv"))))
    assert rows[0]["label"] == label.replace("\x1b", "?")
    assert json.loads(render(board, "json"))["rows"] == [label]


def test_csv_has_one_line_for_each_cell(runs):
    rows = list(csv.DictReader(io.StringIO(render(make_board([str(runs)]), "csv"))))
    assert len(rows) == 15
    assert {row["domain"] for row in rows} == {"ID", "OOD", "external"}


def test_command_writes_files_and_says_incomplete(harness_command, runs, tmp_path):
    done = harness_command("leaderboard", runs, registry=False)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 100
    out = tmp_path / "deep" / "board.json"
    again = harness_command("leaderboard", runs, "--json", "--out", out, registry=False)
    assert again.returncode == 0
    assert json.loads(out.read_text())["rows"][0] == "oracle"
    late = tmp_path / "late"
    make_run(late, "tom", "late", scores(0.9, 3)[:50], expected=120)
    assert harness_command("leaderboard", late, registry=False).returncode == 1
    wrong = harness_command("leaderboard", tmp_path / "nothing", registry=False)
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)


def test_observers_add_columns(harness_command, runs, tmp_path):
    plugin = tmp_path / "columns_plugin.py"
    plugin.write_text(
        "from harness import hookimpl\n"
        "@hookimpl\n"
        "def leaderboard_columns(tasks):\n"
        "    return {'First order': 'tom:score[order-1]'} if 'tom' in tasks else {}\n"
    )
    registry = tmp_path / "own.toml"
    registry.write_text(
        '[[plugin]]\nkind = "observer"\nname = "columns"\nmodule = "columns_plugin"\n'
        'summary = "columns"\n'
    )
    import os

    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = harness_command(
        "leaderboard", runs, "--observer", "columns", "--registry", registry,
        registry=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "First order" in done.stdout
