"""The doctor: what it says of machines that lack something, made up piece by piece."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from types import SimpleNamespace

import pytest

from harness import machine
from harness.machine import Finding, findings, missing_extras, requirements


def rows(which, *arguments):
    return {row.subject: row for row in which(*arguments)}


@pytest.fixture
def installed(monkeypatch):
    """Pretend that packages are there in these versions (None: not there)."""

    def pretend(**versions):
        true = metadata.version

        def version(name):
            if name in versions:
                if versions[name] is None:
                    raise metadata.PackageNotFoundError(name)
                return versions[name]
            return true(name)

        monkeypatch.setattr(machine.metadata, "version", version)

    return pretend


def test_requirements_are_read_from_the_package(monkeypatch):
    lines = [
        "click>=8.1",
        "open_spiel==2.0.2",
        'textarena==0.7.4; extra == "games"',
        'pygambit==17.0; python_version == "2.7" and extra == "dev"',
        "strategic-harness[train]; extra == 'dev'",
    ]
    monkeypatch.setattr(machine.metadata, "requires", lambda name: lines)
    assert requirements() == [
        ("click", ">=8.1", ""),
        ("open_spiel", "==2.0.2", ""),
        ("textarena", "==0.7.4", "games"),
        ("strategic-harness", "", "dev"),
    ]


def test_a_missing_package_is_named_with_what_to_install(installed):
    installed(click=None, numpy="1.26.0")
    found = rows(machine._required)
    assert found["click"] == Finding("click", False, "not installed: pip install 'click>=8.1'")
    assert not found["numpy"].ok
    assert "1.26.0 is there, >=2.0 is needed" in found["numpy"].advice
    assert "required packages" not in found


def test_a_missing_part_is_in_order_and_says_how_to_get_it(installed):
    installed(textarena=None)
    assert missing_extras()["games"] == ["textarena==0.7.4"]
    row = rows(machine._extras)["part games"]
    assert row.ok
    assert "pip install 'strategic-harness[games]'" in row.advice


def test_an_old_python_is_a_finding(monkeypatch):
    monkeypatch.setattr(machine.platform, "python_version_tuple", lambda: ("3", "10", "1"))
    assert not machine._python().ok
    monkeypatch.setattr(machine.platform, "python_version_tuple", lambda: ("3", "14", "0"))
    row = machine._python()
    assert row.ok
    assert "newer than the tested" in row.advice


def test_the_built_in_plugins_must_be_ours(monkeypatch, tmp_path):
    assert rows(machine._own_package)["built-in plugins"].ok
    alien = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(machine.util, "find_spec", lambda name: alien)
    row = rows(machine._own_package)["built-in plugins"]
    assert not row.ok
    assert "which is not ours" in row.advice
    monkeypatch.setattr(machine.util, "find_spec", lambda name: None)
    assert "reinstall" in rows(machine._own_package)["built-in plugins"].advice


def test_another_package_of_our_name_is_a_finding(monkeypatch):
    owners = {"harness": ["strategic-harness", "harness"]}
    monkeypatch.setattr(machine.metadata, "packages_distributions", lambda: owners)
    row = rows(machine._own_package)["import harness"]
    assert not row.ok
    assert row.advice.endswith("pip uninstall harness")


def nvidia_smi(tmp_path, monkeypatch, script):
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")


def test_gpu_and_a_torch_that_cannot_use_it(tmp_path, monkeypatch, installed):
    nvidia_smi(tmp_path, monkeypatch, "echo 'NVIDIA H200, 570.1, 143771 MiB'")
    installed(torch="2.9.0+cpu")
    found = rows(machine._gpu)
    assert found["GPU"].advice == "NVIDIA H200, 570.1, 143771 MiB"
    assert not found["torch on the GPU"].ok
    installed(torch="2.9.0+cu128")
    assert "torch on the GPU" not in rows(machine._gpu)


def test_a_broken_driver_is_a_finding_and_no_driver_is_none(tmp_path, monkeypatch):
    nvidia_smi(tmp_path, monkeypatch, "echo 'driver/library version mismatch'; exit 9")
    row = rows(machine._gpu)["GPU"]
    assert not row.ok
    assert "version mismatch" in row.advice
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    assert rows(machine._gpu)["GPU"] == Finding("GPU", True, "none: models run on the CPU")


def test_little_room_says_where_to_go(monkeypatch, tmp_path):
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda p: SimpleNamespace(free=2**30))
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    found = rows(machine._places)
    assert not found["cache"].ok
    assert "set HARNESS_CACHE" in found["cache"].advice
    assert "--out" in found["disk"].advice
    monkeypatch.setenv("HARNESS_CACHE", "/proc/nowhere")
    assert "set HARNESS_CACHE" in rows(machine._places)["cache"].advice


def test_memory_is_told(monkeypatch):
    assert "GiB free" in rows(machine._memory)["memory"].advice
    monkeypatch.setattr(machine, "ROOM", 1e9)
    assert not rows(machine._memory)["memory"].ok


def test_plugins_fail_alone_and_a_broken_registry_is_a_row(tmp_path, monkeypatch):
    (tmp_path / "ill_plugin.py").write_text("def doctor():\n    raise ValueError('no pulse')\n")
    (tmp_path / "dead_plugin.py").write_text("raise RuntimeError('dead')\n")
    entry = '[[plugin]]\nkind = "task"\nname = "{0}"\nmodule = "{0}_plugin"\n'
    file = tmp_path / "mine.toml"
    file.write_text(entry.format("ill") + entry.format("dead"))
    monkeypatch.setenv("HARNESS_LOAD_PLUGINS", "ill,dead,absent")
    found = list(machine._plugins(file))
    texts = [row.advice for row in found if not row.ok]
    assert any("doctor() raises ValueError: no pulse" in text for text in texts)
    assert any("RuntimeError: dead" in text for text in texts)
    assert any("'absent' fits nothing" in text for text in texts)
    assert any("leaves out" in row.advice for row in found if row.ok)
    file.write_text("[[plugin]\n")
    [row] = machine._plugins(file)
    assert (row.subject, row.ok) == ("registry", False)
    for name in ("ill_plugin", "dead_plugin"):
        sys.modules.pop(name, None)


def test_the_command_prints_rows_and_json(harness_command, monkeypatch, tmp_path):
    import os

    environment = {**os.environ, "HARNESS_LOAD_PLUGINS": "gtbench", "HARNESS_CACHE": str(tmp_path)}
    done = harness_command("doctor", registry=False, env=environment)
    assert done.returncode == 0, done.stdout
    for part in ("Python", "memory", "cache", "disk", "built-in plugins", "task gtbench"):
        assert part in done.stdout
    assert done.stdout.endswith("all in order\n")
    broken = {**environment, "HARNESS_LOAD_PLUGINS": "gtbench,gtbensh"}
    told = harness_command("doctor", "--json", registry=False, env=broken)
    assert told.returncode == 1
    bad = [row for row in json.loads(told.stdout) if not row["ok"]]
    assert [row["subject"] for row in bad] == ["registry"]


def test_findings_import_nothing_heavy():
    import subprocess

    code = (
        "import os, sys\nos.environ['HARNESS_LOAD_PLUGINS'] = ''\n"
        "from harness.machine import findings\nlist(findings())\n"
        "print([m for m in ('torch', 'numpy', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert callable(findings)
