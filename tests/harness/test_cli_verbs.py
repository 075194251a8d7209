"""All verbs alike: help, --json, --quiet, colours, narrow terminals, completion, errors."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import click
import pytest

from harness.cli import VERBS, cli

NO_TABLE = {"data build", "data export", "export", "fetch", "serve", "train", "view"}
"""Verbs that print lines and no table: where something is, what was made."""


def verbs():
    """Every verb by its words, with the command behind it."""

    def below(words, command):
        if isinstance(command, click.Group):
            for name in command.list_commands(click.Context(command)):
                yield from below([*words, name], command.get_command(click.Context(command), name))
        else:
            yield " ".join(words), command

    return dict(below([], cli))


ALL = verbs()


def test_every_verb_is_looked_at():
    assert {words.split()[0] for words in ALL} == set(VERBS)
    assert set(ALL) >= NO_TABLE


@pytest.mark.parametrize("words", ALL)
def test_every_verb_has_its_common_options(words):
    """--quiet everywhere, --json where there is a table, and a text of help."""
    names = {option for p in ALL[words].params for option in p.opts}
    assert "--quiet" in names
    assert ("--json" in names) == (words not in NO_TABLE)
    assert ALL[words].help


@pytest.mark.parametrize("words", ALL)
def test_help_fits_a_narrow_terminal(words):
    """40 columns: only the names of options, and single long words, pass the edge."""
    command = ALL[words]
    context = command.context_class(command, info_name=words, terminal_width=40)
    lines = command.get_help(context).splitlines()
    over = [line for line in lines if len(line) > 40 and not line.startswith("  -")]
    assert [line for line in over if len(line.split()) > 2] == []


@pytest.mark.parametrize("words", ALL)
def test_an_unknown_option_is_one_line(words, monkeypatch, capsys):
    from harness.cli import main

    monkeypatch.setattr(sys, "argv", ["harness", *words.split(), "--no-such-option", "x"])
    if words == "serve":
        return  # hands options that it does not know to vLLM's server
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert said.err.startswith("harness: ")
    assert len(said.err.splitlines()) == 1


def test_quiet_hushes_progress_and_is_not_kept(monkeypatch, capsys):
    """The option of a verb that has none of its own: a later verb without it shows progress."""
    from harness import progress
    from harness.cli import main

    for words, expected in ((["list", "--quiet"], True), (["list"], False)):
        monkeypatch.setattr(sys, "argv", ["harness", *words])
        with pytest.raises(SystemExit):
            main()
        assert progress.quiet is expected
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    assert list(progress.track([1, 2], "working")) == [1, 2]
    assert "working" in capsys.readouterr().err
    monkeypatch.setattr(progress, "quiet", True)
    assert list(progress.track([1, 2], "working")) == [1, 2]
    assert capsys.readouterr().err == ""


def on_a_terminal(words, columns, cwd, **environment):
    """What a command shows on a terminal of so many columns, and its exit code."""
    main, side = pty.openpty()
    values = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color", **environment}
    done = subprocess.Popen(
        [sys.executable, "-m", "harness", *map(str, words)],
        stdin=subprocess.DEVNULL, stdout=side, stderr=side, cwd=cwd, env=values,
    )  # fmt: skip
    os.close(side)
    parts = []
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(main)
    return done.wait(), b"".join(parts).decode().replace("\r\n", "\n")


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    """A folder with two runs of one task."""
    import harness

    folder = tmp_path_factory.mktemp("runs")
    for model in ("random", "oracle"):
        harness.run("hitom", model, limit=30, out=folder / "runs")
    return folder


@pytest.mark.parametrize("columns", [40, 100])
def test_tables_on_terminals_cut_nothing(two_runs, columns):
    first, second = sorted((two_runs / "runs").iterdir())
    commands = (
        (["leaderboard", "runs"], 0, "[0."),
        (["score", first], 0, "95 % interval"),
        (["compare", first, second], 0, "difference"),
        (["audit", "runs", "--samples", 0], None, "findings"),
        (["list"], 0, "gamesolve"),
        (["run", "--task", "hitom", "--model", "oracle", "--limit", 30], 0, "1.000"),
    )
    for words, code, expected in commands:
        ended, shown = on_a_terminal([*words, "--quiet"], columns, two_runs, NO_COLOR="1")
        assert code is None or ended == code, shown
        assert "Traceback" not in shown
        assert expected in shown
        assert "…" not in shown, shown
        assert not re.search(r"\x1b\[[349][0-7]", shown), "a colour, in spite of NO_COLOR"
        if words[0] == "leaderboard":
            plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
            assert max(map(len, plain.splitlines())) <= columns


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_get_their_completion(shell, tmp_path):
    def ask(**variables):
        return subprocess.run(
            [sys.executable, "-c", "import sys; sys.argv[0] = 'harness'\n"
             "from harness.cli import main; main()"],
            capture_output=True, text=True, cwd=tmp_path, env={**os.environ, **variables},
        ).stdout  # fmt: skip

    assert "_HARNESS_COMPLETE" in ask(_HARNESS_COMPLETE=f"{shell}_source")
    word = {"fish": "lead"}.get(shell, "harness lead")
    asked = {"COMP_WORDS": word if shell != "fish" else "harness lead", "COMP_CWORD": "1"}
    if shell == "fish":
        asked["COMP_CWORD"] = "lead"
    assert "leaderboard" in ask(_HARNESS_COMPLETE=f"{shell}_complete", **asked)
