"""Environments of other tools, built once on a machine and kept; their versions are pinned here."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

PINNED = {"inspect-ai": "0.3.285", "lm-eval": "0.4.13"}


def run_outside(package, code, *arguments):
    """Run Python code in an environment that holds ``package`` and nothing of ours; returns what
    it printed. Skips the test where the package cannot be installed."""
    python = environment(package)
    done = subprocess.run(
        [python, "-I", "-c", code, *map(str, arguments)],
        capture_output=True, text=True, timeout=300, cwd=python.parent,
        env={"HOME": str(python.parent), "PATH": "/usr/bin:/bin", "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def environment(package):
    """The environment's Python."""
    wanted = f"{package}=={PINNED[package]}"
    folder = Path(tempfile.gettempdir()) / f"harness-outside-{wanted.replace('==', '-')}"
    python = folder / "bin" / "python"
    if (folder / "ready").exists():
        return python
    for words in ([sys.executable, "-m", "venv", "--clear", folder],
                  [python, "-m", "pip", "install", "--quiet", wanted]):  # fmt: skip
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=900)
        except subprocess.TimeoutExpired:
            pytest.skip(f"{wanted} cannot be installed here: no answer in 15 minutes")
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            pytest.skip(f"{wanted} cannot be installed here: {reason}")
    (folder / "ready").touch()
    return python
