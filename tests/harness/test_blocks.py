"""The shell blocks of README.md and docs/start.md: the cheap ones are run, the others say why not.

Each block stands below a comment, ``<!-- run -->`` or ``<!-- not run: the reason -->``. The blocks
of a page are run in their order in one empty folder, by bash, which stops at the first failure. A
virtual environment of their own lies above that of the tests, so a block may install a package.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "README.zh.md", ROOT / "docs" / "start.md"]
RUN = PAGES[:1] + PAGES[2:]  # the Chinese README has the blocks of the English one
DEAR = re.compile(
    r"harness (train|sweep|serve|sample|fetch)\b|smollm2|openai:|Qwen/|\bmake\b|view runs$"
)
MARKER = r"(?:<!-- (run|not run: [^>]+?) -->\n)?"
FENCE = re.compile(MARKER + r"```(?:sh|bash|shell)\n(.*?)```", re.DOTALL)


class Block(NamedTuple):
    page: str
    number: int
    marker: str
    script: str


def blocks(page: Path) -> list[Block]:
    found = enumerate(FENCE.findall(page.read_text()), 1)
    return [Block(page.name, number, marker, script) for number, (marker, script) in found]


ALL = [block for page in PAGES if page.exists() for block in blocks(page)]


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    """Runs a script as a user would, with ``harness`` and an offline ``pip`` on the path."""
    home = tmp_path_factory.mktemp("blocks") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    [packages] = home.glob("lib/python3*/site-packages")
    above = sysconfig.get_paths()["purelib"]
    (packages / "above.pth").write_text(f"import site; site.addsitedir({above!r})\n")
    offline = "--quiet --no-index --no-deps --no-build-isolation"
    scripts = {
        "harness": 'exec python -m harness "$@"',
        "pip": f'test "$1" = install && shift && exec python -m pip install {offline} "$@"',
    }
    for name, line in scripts.items():
        (home / "bin" / name).write_text(f"#!/bin/sh\n{line}\n")
        (home / "bin" / name).chmod(0o755)
    path = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "100", "HF_HUB_OFFLINE": "1"}

    def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            capture_output=True, text=True, cwd=folder, env=environment, timeout=300,
        )  # fmt: skip

    return run


def test_every_block_says_whether_it_is_run():
    unmarked = [f"{block.page}, block {block.number}" for block in ALL if not block.marker]
    assert not unmarked, "write <!-- run --> or <!-- not run: reason --> above: " + str(unmarked)


def test_only_what_is_dear_is_not_run():
    """A block that is not run has a command that trains, asks a model, installs or does not end."""
    for block in ALL:
        lines = [line.split("#")[0].rstrip() for line in block.script.splitlines()]
        dear = any(DEAR.search(line) or line.startswith("python3 -m venv") for line in lines)
        assert (block.marker != "run") == dear, f"{block.page}, block {block.number}"


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_the_cheap_blocks_run(page, shell, tmp_path):
    done = [block for block in blocks(page) if block.marker == "run"]
    for block in done:
        result = shell(block.script, tmp_path)
        where = f"{block.page}, block {block.number}"
        assert result.returncode == 0, f"{where}\n{result.stdout}\n{result.stderr}"
        assert "Traceback" not in result.stderr, where
        assert result.stdout, where
    print(f"{page.name}: {len(done)} of {len(blocks(page))} blocks run")
    assert len(done) > 1


def test_a_block_that_fails_is_noticed(shell, tmp_path):
    assert shell("harness list\n", tmp_path).returncode == 0
    done = shell("harness run --task nothing --model random\nharness list\n", tmp_path)
    assert done.returncode == 2
    assert "nothing" in done.stderr


@pytest.mark.parametrize(
    "block",
    [block for page in RUN for block in blocks(page) if block.marker != "run"],
    ids=lambda block: f"{block.page}-{block.number}",
)
def test_a_block_that_is_not_run(block):
    pytest.skip(f"{block.page}, block {block.number}: {block.marker}")


def test_the_chinese_readme_has_the_structure_commands_and_links_of_the_english_one():
    english, chinese = ((ROOT / name).read_text() for name in ("README.md", "README.zh.md"))

    def skeleton(text: str) -> list[str]:
        """Levels of headings, code without its comments, links, in the order of the page."""
        found = re.findall(
            r"^#+ |^<!-- .*?-->|```.*?```|\]\([^)]+\)", text, re.DOTALL | re.MULTILINE
        )
        return [re.sub(r" *# .*", "", part) if part.startswith("```") else part for part in found]

    def mirrored(text: str) -> list[str]:
        other = {"](README.md)": "](README.zh.md)"}
        return [other.get(part, part) for part in skeleton(text)]

    assert mirrored(chinese) == mirrored(english)
    assert len(skeleton(english)) > 40
    for target in re.findall(r"\]\(([^)#]+)\)", chinese):
        assert (ROOT / target).exists(), target
