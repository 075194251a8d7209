"""Leaderboard, compare and audit on what users really have: broken folders, mixed versions, hostile
text, presets of real tasks, plots."""

from __future__ import annotations

import json
import random
import shutil

import pytest
from board_runs import make_run

from harness.board.arenas import PRESETS, Column, expand, parse_columns
from harness.board.formats import FORMATS, render
from harness.board.places import find_runs
from harness.findings import Limits, audit_runs
from harness.leaderboard import Options, make_board
from harness.report.plots import draw
from harness.types import HarnessError

HOSTILE = "<script>alert(1)</script>\x1b[31m\x07 \u202e $x^2$ \\input{a} | `x` ]"


def scores(skill, seed, n=60):
    rng = random.Random(seed)
    return [float(rng.random() < skill) for _ in range(n)]


@pytest.fixture
def mixed(tmp_path):
    """One good run among an empty folder, a file, a newer format, and three kinds of damage."""
    root = tmp_path / "runs"
    paths = {
        name: make_run(root, "tom", name, scores(0.5, name))
        for name in ("good", "newer", "cut", "lost", "odd")
    }
    manifest = json.loads((paths["newer"] / "manifest.json").read_text())
    (paths["newer"] / "manifest.json").write_text(json.dumps({**manifest, "format": 2}))
    (paths["cut"] / "records.parquet").write_bytes(b"PAR1")
    summary = json.loads((paths["lost"] / "metrics.json").read_text())
    (paths["lost"] / "metrics.json").write_text(json.dumps({**summary, "records": 61}))
    summary["score"]["value"] = "high"
    (paths["odd"] / "metrics.json").write_text(json.dumps(summary))
    (root / "empty").mkdir()
    (root / "notes.txt").write_text("mine")
    return root


def test_broken_folders_among_others_are_left_out_and_named(mixed, harness_command):
    board = make_board([str(mixed)])
    assert board.rows == ("good",)
    text = " ".join(board.problems)
    for reason in ("format 2", "cannot be read", "60 records", "not a number"):
        assert reason in text
    assert any("format 2" in line for line in board.caption)
    done = harness_command("leaderboard", mixed, registry=False)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    reports = list(audit_runs([str(mixed)], Limits(samples=0)))
    assert [len(r.findings) for r in reports if r.findings and r.findings[0].check == "folder"] == (
        [1] * 4
    )


def test_a_broken_folder_that_is_named_is_an_error(mixed, harness_command):
    for path in sorted(p for p in mixed.iterdir() if "good" not in p.name):
        done = harness_command("leaderboard", path, registry=False)
        assert (done.returncode, done.stderr.count("\n"), done.stdout) == (2, 1, "")
    shutil.rmtree(next(mixed.glob("tom--good*")))
    with pytest.raises(HarnessError, match="records"):
        make_board([str(mixed)])


def test_runs_of_two_versions_make_two_rows(tmp_path):
    one = make_run(tmp_path, "tom", "m", scores(0.5, 1))
    other = tmp_path / "copy"
    shutil.copytree(one, other)
    manifest = json.loads((other / "manifest.json").read_text())
    manifest["spec"]["harness"], manifest["hash"] = "0.2.0", "0123456789ab"
    (other / "manifest.json").write_text(json.dumps(manifest))
    assert set(make_board([str(tmp_path)]).rows) == {"m", "m (harness=0.1.0)"} or set(
        make_board([str(tmp_path)]).rows
    ) == {"m", "m (harness=0.2.0)"}


def test_hostile_text_stays_text_everywhere(tmp_path, harness_command):
    names = ("a" + HOSTILE, "漢字" * 20)
    paths = [
        make_run(
            tmp_path / "runs", "tom", name, [(f"s{i}{HOSTILE}", v) for i, v in enumerate(values)],
            texts=[f"<img src=x>{HOSTILE}\nsecond line"] * 60,
            groups=[f"g{i % 2}{HOSTILE}" for i in range(60)],
        )
        for name, values in zip(names, (scores(0.8, 1), scores(0.3, 2)), strict=True)
    ]  # fmt: skip
    board = make_board([str(tmp_path / "runs")], Options(columns=("groups",), baseline=names[1]))
    for form in ("terminal", "md", "html", "latex"):
        text = render(board, form)
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "<script>alert" not in text or form in ("terminal", "latex")
    assert r"\input" not in render(board, "latex")
    lines = render(board, "terminal").split("\n")
    assert max(sum(2 if ord(c) > 0x2E80 else 1 for c in line) for line in lines) <= 100
    for command in (("compare", *paths, "--replies"), ("audit", tmp_path / "runs", "--samples", 0)):
        done = harness_command(*command, registry=False)
        assert done.returncode in (0, 1), done.stderr
        assert "\x1b" not in done.stdout
    shown = harness_command("compare", *paths, "--replies", registry=False).stdout
    assert "\n        second line" in shown


def test_players_of_games_have_no_prompts_to_differ_in(tmp_path):
    nothing = "e3b0c44298fc1c14"  # SHA-256 of no bytes
    for name in ("random", "oracle", "constant"):
        make_run(tmp_path, "gtbench", name, scores(0.5, name), prompt_hash=nothing)
    make_run(tmp_path, "gtbench", "smollm2", scores(0.4, 4), prompt_hash="a")
    make_run(tmp_path, "gtbench", "other", scores(0.4, 5), prompt_hash="a")
    board = make_board([str(tmp_path)])
    assert {board.cells[row, "gtbench:score"].differs for row in board.rows} == {()}


def test_contamination_that_cannot_be_checked_is_said(tmp_path):
    described = {"data": [{"task": "tom", "canonical_file": "gone.txt"}]}
    make_run(tmp_path, "tom", "m", scores(0.5, 1), manifest={"training": described})
    board = make_board([str(tmp_path)])
    assert board.cells["m", "tom:score"].contaminated is None
    assert board.problems == (
        "contamination of m is not known: training data file gone.txt was not found",
    )


def columns(*keys):
    return [Column.parse(key) for key in keys]


def test_presets_leave_out_what_no_run_has_and_name_the_arenas_of_a_task():
    known = columns("gamesolve@train:score", "gamesolve@train:score[nash]", "tom:score")
    found = expand(parse_columns(["gamesolve"]), known)
    assert [(c.title, c.key) for c in found] == [
        ("All", "gamesolve@train:score"),
        ("Nash", "gamesolve@train:score[nash]"),
    ]
    known = columns("gtbench vs a:return", "gtbench vs b:return", "gtbench vs a:return[nim]")
    found = expand(parse_columns(["gtbench"]), known)
    assert [c.title for c in found] == [
        "Return, gtbench vs a:return", "Return, gtbench vs b:return", "nim",
    ]  # fmt: skip
    with pytest.raises(HarnessError, match="textarena: no run has it"):
        expand(parse_columns(["textarena"]), known)


def test_presets_name_the_figures_that_tasks_really_have(harness_command, tmp_path):
    tasks = ("--task", "gamesolve,gamesolve-ood", "--model", "oracle", "--limit", "60")
    done = harness_command("run", *tasks, "--quiet", registry=False)
    assert done.returncode == 0, done.stderr
    board = make_board([str(tmp_path / "runs")], Options(columns=("gamesolve", "gamesolve-ood")))
    titles = [c.title for c in board.columns]
    assert titles[:6] == ["All", "Nash", "BR", "Easy", "Medium", "Hard"]
    named = [t.partition("=")[0] for t in PRESETS["gamesolve-ood"] if "=" in t][:-1]
    assert set(named) <= set(titles)
    assert {"2x2", "5x5"} <= set(titles)
    assert {board.cells["oracle", c.key].value for c in board.columns} == {1.0}


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """Runs with orders, sizes, OOD groups and two opponents."""
    root = tmp_path_factory.mktemp("plots")
    wide, sizes = (
        [names[i % 2] for i in range(60)] for names in (("wide", "json"), ("2x2", "3x3"))
    )
    for model, skill in (("a", 0.8), ("b", 0.4)):
        for task, options, groups in (
            ("tom", {}, [f"order-{i % 3}" for i in range(60)]),
            ("gamesolve", {"preset": "gamesolve"}, sizes),
            ("gamesolve", {"preset": "gamesolve-ood"}, wide),
        ):  # fmt: skip
            make_run(
                root, task, model, scores(skill, f"{model}{task}"), options=options, groups=groups,
                classes=["ok" if i % 7 else "truncated" for i in range(60)],
            )  # fmt: skip
        for opponent in ("player:random", "player:minimax"):
            make_run(root, "gtbench", model, scores(skill, opponent), opponent=opponent)
    return root


def test_plots_are_all_there_and_byte_identical(everything, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    board = make_board([str(everything)])
    full = make_board([str(everything)], Options(columns=("groups",)))
    first, second = (draw(board, full, tmp_path / name) for name in ("one", "two"))
    names = {path.name for path in first}
    expected = ("intervals-tom-score", "order-tom", "size-gamesolve", "ood", "payoffs-gtbench")
    for name in (*expected, "ledger-gamesolve", "ledger-tom"):
        assert {f"{name}.png", f"{name}.svg"} <= names
    assert len(names) == len(first)
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert one.read_bytes()[:4] in (b"\x89PNG", b"<?xm")
    svg = (tmp_path / "one" / "payoffs-gtbench.svg").read_text()
    value = board.cells["a", "gtbench vs random:score"].value
    assert f">{value:.2f}<" in svg.replace("\n", "")
    assert all(f"order-{k}" in (tmp_path / "one" / "order-tom.svg").read_text() for k in range(3))


def test_plots_need_matplotlib_and_a_folder(everything, tmp_path, monkeypatch):
    board = make_board([str(everything)])
    (tmp_path / "file").write_text("")
    with pytest.raises(HarnessError, match="file"):
        draw(board, board, tmp_path / "file" / "plots")
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(HarnessError, match=r"strategic-harness\[report\]"):
        draw(board, board, tmp_path / "plots")


def test_the_page_is_one_file_that_loads_nothing(everything):
    page = render(make_board([str(everything)]), "html")
    assert "default-src 'none'" in page
    for word in ("http://", "https://", "src=", "@import", "url("):
        assert word not in page
    assert page.count('scope="row"') == 2
    assert "data-value" in page


def test_order_of_the_places_does_not_matter(everything):
    runs = [run.place.path for run in find_runs([str(everything)])]
    for form in FORMATS:
        texts = {render(make_board(order), form) for order in (runs, runs[::-1])}
        assert len(texts) == 1
