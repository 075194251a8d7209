"""Generated pages are up to date, and what the README says can be run."""

from __future__ import annotations

import ast
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


def test_the_game_of_the_plugin_guide_is_the_one_that_is_tested():
    """Each Python block of the guide stands in the downstream package, word for word."""
    package = ROOT / "tests" / "downstream" / "rps-memory"
    files = (package / "rps_memory" / "__init__.py", package / "tests" / "test_rps_memory.py")
    source = "\n".join(file.read_text() for file in files)
    page = (ROOT / "docs" / "plugins.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) > 4
    for block in blocks:
        for part in re.split(r"\n\n(?=def )", block):
            assert part.strip() in source, part
    assert (
        'rounds = { default = 10, help = "rounds of a match" }'
        in (package / "rps_memory" / "registry.toml").read_text()
    )


def messages():
    """The messages of all HarnessErrors in the code, with a NUL where a value stands."""
    found = set()
    for file in [*(ROOT / "harness").rglob("*.py"), *(ROOT / "plugins").rglob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            if getattr(node.func, "id", "").endswith("Error"):
                values = getattr(node.args[0], "values", [node.args[0]])
                texts = (str(v.value) if isinstance(v, ast.Constant) else "\0" for v in values)
                found.add("".join(texts).replace("`", ""))
    return found


def test_every_message_of_the_faq_is_one_of_the_code():
    known = messages()
    listed = re.findall(r"^\| `([^`]+)` \|", (ROOT / "docs" / "faq.md").read_text(), re.MULTILINE)
    assert len(listed) > 30
    for text in listed:
        pattern = "".join(
            ".*" if part == "…" else re.escape(part) for part in re.split("(…)", text)
        )
        assert any(re.fullmatch(pattern, one, re.DOTALL) for one in known), text
