"""Shared fixtures: the toy registry, a cache of the tests' own, and the command as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parent / "support"
ROOT = Path(__file__).parent.parent

collect_ignore = ["downstream"]  # packages of their own: tests/harness/test_downstream.py runs them


@pytest.fixture
def support():
    """The folder of the toy plugins."""
    return SUPPORT


@pytest.fixture
def toy_registry():
    """The built-in plugins and the toys."""
    from harness.registry import Registry

    return Registry.load(SUPPORT / "toy_registry.toml")


@pytest.fixture
def harness_command(tmp_path):
    """Run ``python -m harness`` in an empty folder; returns the finished process."""
    environment = {**os.environ, "PYTHONPATH": str(SUPPORT), "COLUMNS": "100"}

    def run(*arguments, registry=True, timeout=120, **more):
        extra = ["--registry", str(SUPPORT / "toy_registry.toml")] if registry else []
        return subprocess.run(
            [sys.executable, "-m", "harness", *map(str, arguments), *extra],
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=tmp_path,
            env=more.pop("env", environment),
            **more,
        )

    return run
