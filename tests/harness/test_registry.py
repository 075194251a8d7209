"""The registry: sources, errors that name the place, lazy import, options."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from harness.registry import KINDS, Registry, convert, read_file
from harness.types import HarnessError


def write(path, text):
    path.write_text(textwrap.dedent(text))
    return path


ENTRY = """
    [[plugin]]
    kind = "task"
    name = "{name}"
    module = "{module}"
    [plugin.options]
    size = {{ default = 3, help = "how many" }}
"""


def test_builtin_plugins_enter_by_the_registry():
    registry = Registry.load()
    assert "gamesolve" in registry.names("task")
    assert all(kind in KINDS for kind, _ in registry.entries)


def test_user_registry_in_the_working_folder_is_read(tmp_path, monkeypatch):
    write(tmp_path / "registry.toml", ENTRY.format(name="mine", module="mine"))
    monkeypatch.chdir(tmp_path)
    assert "mine" in Registry.load().names("task")


def test_broken_toml_names_file_and_line(tmp_path):
    path = write(tmp_path / "r.toml", '[[plugin]]\nkind = "task\n')
    with pytest.raises(HarnessError, match=r"r\.toml.*line 2"):
        Registry.load(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[plugin]]\nkind = "task"\nname = "x"\n', r"line 1: the field 'module'"),
        ('\n\n[[plugin]]\nkind = "game"\nname = "x"\nmodule = "m"\n', r"line 3: kind 'game'"),
        ('[[plugin]]\nkind = "task"\nname = "x"\nmodul = "m"\n', r"'modul' \(did you mean module"),
        (
            "[[plugin]]\nkind = 'task'\nname = 'x'\nmodule = 'm'\noptions = { a = 1 }\n",
            "option 'a'",
        ),
        ("[other]\n", "nothing else"),
        ("plugin = [1]\n", "nothing else"),
        ("plugin = " + "[" * 5_000, "too deeply|not valid TOML"),
        *(
            (f"[[plugin]]\nkind = 'task'\nname = 'x'\nmodule = 'm'\n{line}\n", message)
            for line, message in (
                ("priority = nan", "priority nan is no whole number"),
                ("priority = 'high'", "priority 'high' is no whole number"),
                ("handles = 1979-05-27", "give a list of texts"),
                ("handles = [[]]", "give a list of texts"),
                ("options = 1", "options must be a table"),
            )
        ),
    ],
)
def test_bad_entries_are_named(tmp_path, text, message):
    with pytest.raises(HarnessError, match=message):
        read_file(write(tmp_path / "r.toml", text), "x")


def test_missing_registry_file_is_named(tmp_path):
    with pytest.raises(HarnessError, match="no such file"):
        Registry.load(tmp_path / "absent.toml")


ROOT = Path(__file__).resolve().parents[2]


def test_the_same_entry_twice_is_one(tmp_path):
    """An installed harness, used in a checkout: both hold the same registry.toml."""
    (tmp_path / "copy.toml").write_bytes((ROOT / "registry.toml").read_bytes())
    assert Registry.load(tmp_path / "copy.toml").names("task") == Registry.load().names("task")


def test_double_name_is_an_error_that_names_both(tmp_path):
    path = write(tmp_path / "r.toml", ENTRY.format(name="gamesolve", module="mine"))
    with pytest.raises(HarnessError, match=r"two plugins.*built in.*r\.toml"):
        Registry.load(path)


def test_unknown_names_come_with_the_nearest():
    with pytest.raises(HarnessError, match="did you mean gamesolve"):
        Registry.load().entry("task", "gamesolv")


def test_plugin_that_raises_at_import_is_named(tmp_path, monkeypatch):
    write(tmp_path / "boom_plugin.py", "raise ValueError('no luck')")
    path = write(tmp_path / "r.toml", ENTRY.format(name="boom", module="boom_plugin"))
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = Registry.load(path)
    with pytest.raises(HarnessError, match=r"'boom'.*boom_plugin.*ValueError: no luck"):
        registry.create("task", "boom", {})


def test_missing_module_says_which_and_what_to_install(tmp_path):
    text = ENTRY.format(name="x", module="absent_module").replace(
        "[plugin.options]", 'extra = "train"\n    [plugin.options]'
    )
    registry = Registry.load(write(tmp_path / "r.toml", text))
    with pytest.raises(
        HarnessError, match=r"absent_module.*pip install 'strategic-harness\[train\]'"
    ):
        registry.create("task", "x", {})


def test_plugin_without_its_hook_is_named(tmp_path, monkeypatch):
    write(tmp_path / "hookless_plugin.py", "")
    path = write(tmp_path / "r.toml", ENTRY.format(name="x", module="hookless_plugin"))
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(HarnessError, match="no @hookimpl create_task"):
        Registry.load(path).create("task", "x", {})


def test_options_are_defaults_overlaid_and_converted(toy_registry):
    entry = toy_registry.entry("task", "copy")
    assert toy_registry.options(entry, {"size": "7"}) == {"size": 7}
    with pytest.raises(HarnessError, match=r"no option 'sise' \(did you mean size"):
        toy_registry.options(entry, {"sise": "7"})
    with pytest.raises(HarnessError, match="is no whole number"):
        toy_registry.options(entry, {"size": "many"})


@pytest.mark.parametrize(
    ("value", "default", "expected"),
    [
        ('{"a": [1]}', {}, {"a": [1]}),
        ("", {}, {}),
        ("yes", False, True),
        ("0", True, False),
        ("3", 1, 3),
        ("0.5", 1.0, 0.5),
        ("[a, 'b']", ["x"], ["a", "b"]),
        ("a,b", [], ["a", "b"]),
        ("", [], []),
        ("x", "", "x"),
        ({"a": 1}, {}, {"a": 1}),
    ],
)
def test_convert_follows_the_default(value, default, expected):
    assert convert(value, default, "x") == expected


@pytest.mark.parametrize(("value", "default"), [("maybe", False), ("x", 1.0), (2.5, 1), ("a", {})])
def test_convert_rejects_what_does_not_fit(value, default):
    with pytest.raises(HarnessError):
        convert(value, default, "x")


def test_entry_points_are_read_without_import_and_broken_ones_are_skipped(tmp_path, monkeypatch):
    package = tmp_path / "good_pkg"
    package.mkdir()
    write(package / "__init__.py", "raise RuntimeError('imported too early')")
    write(package / "registry.toml", ENTRY.format(name="good", module="good_pkg"))
    info = tmp_path / "good_pkg-1.dist-info"
    info.mkdir()
    write(info / "METADATA", "Metadata-Version: 2.1\nName: good-pkg\nVersion: 1\n")
    write(
        info / "entry_points.txt",
        "[harness.plugins]\ngood = good_pkg\nlost = absent_pkg\n",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = Registry.load()
    assert "good" in registry.names("task")
    assert any("lost" in problem for problem in registry.problems)
    with pytest.raises(HarnessError, match="imported too early"):
        registry.create("task", "good", {})


BESIDE = """
    from harness import hookimpl
    from harness.reward import Reward
    from harness.task import Task
    from harness.types import Message, Sample, Score

    class Beside(Task):
        name, reward, splits = "beside", "beside", ("test",)
        def samples(self, split):
            yield Sample("one", "test", {}, ordinal=0)
        def messages(self, sample):
            return [Message("user", "Say yes.")]

    class Yes(Reward):
        name = "beside"
        def score(self, sample, outcome):
            return Score(float(outcome.moves[-1].parsed == "Say yes."))

    @hookimpl
    def create_task(name, options):
        return Beside(options)

    @hookimpl
    def create_reward(name, options):
        return Yes(options)
"""


def test_modules_are_found_beside_the_file_that_names_them(harness_command, tmp_path):
    """In the folder that one works in, and from a package that is not installed; whoever changes
    the rules is told that an old run is shown."""
    entries = "".join(
        f'[[plugin]]\nkind = "{kind}"\nname = "beside"\nmodule = "beside"\n'
        for kind in ("task", "reward")
    )
    words = ("run", "--task", "beside", "--model", "echo")
    package = tmp_path / "deep" / "beside"
    package.mkdir(parents=True)
    write(package / "__init__.py", BESIDE)
    (package / "registry.toml").write_text(entries)
    named = (*words, "--registry", package / "registry.toml", "--out", "other")
    assert harness_command(*named, registry=False).returncode == 0
    code = write(tmp_path / "beside.py", BESIDE)
    (tmp_path / "registry.toml").write_text(entries)
    assert "note:" not in harness_command(*words, registry=False).stderr
    os.utime(code, (code.stat().st_mtime + 60,) * 2)
    again = harness_command(*words, registry=False)
    assert again.returncode == 0
    assert "note: the code of beside changed after that; raise its version" in again.stderr


def test_what_is_installed_goes_before_what_lies_beside(tmp_path, monkeypatch):
    """A file named as a module of Python's does not take its place."""
    write(tmp_path / "textwrap.py", "raise RuntimeError('shadowed')")
    entry = ENTRY.format(name="x", module="textwrap")
    registry = Registry.load(write(tmp_path / "registry.toml", entry))
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(HarnessError, match="no @hookimpl create_task"):
        registry.create("task", "x", {})
    assert sys.path[-1] == str(tmp_path)


def test_the_extra_of_a_package_is_its_own(tmp_path):
    from harness.registry import Entry, load_module

    entry = Entry("task", "x", "absent_module", "", "package rps-memory", extra="fast")
    with pytest.raises(HarnessError, match=r"pip install 'rps-memory\[fast\]'"):
        load_module(entry)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("gtbench", {"gtbench"}),
        ("task:gamesolve*", {"gamesolve", "gamesolve-ood", "gamesolve-skills"}),
        ("model:e*", {"empty", "echo"}),
        ("", set()),
    ],
)
def test_words_of_load_plugins(monkeypatch, words, names):
    monkeypatch.setenv("HARNESS_LOAD_PLUGINS", words)
    assert {name for _, name in Registry.load().entries} == names


def test_a_word_that_fits_nothing_is_a_problem_and_what_is_left_out_says_so(monkeypatch):
    monkeypatch.setenv("HARNESS_LOAD_PLUGINS", "gtbench, gtbensh")
    registry = Registry.load()
    assert registry.problems == ["HARNESS_LOAD_PLUGINS: 'gtbensh' fits nothing"]
    with pytest.raises(HarnessError, match="left out by HARNESS_LOAD_PLUGINS"):
        registry.entry("task", "hitom")
    with pytest.raises(HarnessError, match="there is no task 'hitomm'"):
        registry.entry("task", "hitomm")


def test_load_plugins_restricts_what_loads(monkeypatch):
    monkeypatch.setenv("HARNESS_LOAD_PLUGINS", "gamesolve")
    registry = Registry.load()
    assert [name for _, name in registry.entries] == ["gamesolve"] * len(registry.entries)


def test_a_bare_name_is_no_model():
    with pytest.raises(HarnessError, match="did you mean"):
        Registry.load().for_model("smolm2")


def test_folders_and_hub_ids_go_to_the_back_end_that_handles_them(tmp_path):
    registry = Registry.load()
    assert registry.for_model(str(tmp_path))[0].kind == "model"
    entry, argument = registry.for_model("owner/name@main")
    assert "hub" in entry.handles
    assert argument == "owner/name@main"
    entry, argument = registry.for_model("transformers:./x")
    assert (entry.name, argument) == ("transformers", "./x")


HEAVY = ("torch", "numpy", "rich", "asyncio", "pandas", "pyarrow", "transformers", "openai")


@pytest.mark.parametrize(
    "code",
    [
        "import harness",
        "import sys; sys.argv = ['harness', '--help']\n"
        "from harness.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass",
    ],
)
def test_import_and_help_load_nothing_heavy(code):
    check = f"{code}\nimport sys\nprint(sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_list_imports_no_plugin(toy_registry):
    code = (
        "import sys; sys.argv = ['harness', 'list']\n"
        "from harness.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print([m for m in sys.modules if m.startswith('harness_plugins')], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "gamesolve" in done.stdout
    assert done.stderr.strip() == "[]"
