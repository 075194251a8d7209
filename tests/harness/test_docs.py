"""Generated pages are up to date, and what the README says can be run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_generated_pages_are_up_to_date(tmp_path):
    """In a process of its own: click keeps the help option of the first context that it sees."""
    words = [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def commands_in(path):
    """The `harness ...` lines of shell blocks."""
    blocks = re.findall(r"```(?:bash|sh|shell)\n(.*?)```", path.read_text(), re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line.split("#")[0].strip() for line in lines if line.startswith("harness ")]


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_in_the_pages_parse(page):
    """Every command shown exists and takes the options shown (it is parsed, not run)."""
    from harness.cli import cli

    for line in commands_in(page):
        words = shlex.split(line)[1:]
        command, context = cli, None
        while hasattr(command, "get_command"):
            import click

            context = click.Context(command, parent=context)
            command = command.get_command(context, words.pop(0))
        command.make_context("x", words, resilient_parsing=False)


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"
