"""The documentation as a site: it builds without a warning, links lead somewhere, it is offline."""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from viewers import Watched, browser

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("material", reason="mkdocs-material is not installed (the extra docs)")


def build(root: Path, out: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(words, capture_output=True, text=True, cwd=root, env=environment)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site") / "html"
    done = build(ROOT, out)
    assert done.returncode == 0, done.stderr
    return out


class Refs(HTMLParser):
    """Of a page: anchors, links, and what a browser loads to show it."""

    def __init__(self, text: str):
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.anchors |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag == "link" and found.get("rel") in ("stylesheet", "icon", "preconnect", "preload"):
            self.loaded.append(found["href"])
        if tag in ("script", "img", "iframe", "source") and found.get("src"):
            self.loaded.append(found["src"])


def test_all_links_and_anchors_of_the_site_lead_somewhere(site):
    pages = {path: Refs(path.read_text()) for path in site.rglob("*.html")}
    checked = anchors = 0
    broken = defaultdict(list)
    for path, refs in pages.items():
        if path.name == "404.html":
            continue  # its links are absolute: a server shows it under any address
        for link in refs.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            checked += 1
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                broken[path.name].append(link)
            elif parts.fragment and target in pages:
                anchors += 1
                known = pages[target].anchors
                if unquote(parts.fragment) not in known and parts.fragment != "__skip":
                    broken[path.name].append(link)
    print(f"{len(pages)} pages, {checked} internal links checked, {anchors} of them with an anchor")
    assert not broken, dict(broken)
    assert len(pages) > 20
    assert checked > 500
    assert anchors > 100


def test_every_page_of_docs_is_in_the_site_and_in_its_navigation(site):
    home = (site / "index.html").read_text()
    for page in [*(ROOT / "docs").rglob("*.md"), ROOT / "docs" / "changelog.md"]:
        name = page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        assert (site / name).exists(), name
        assert f'href="{name}"' in home, name


def test_no_markup_is_left_as_text(site):
    """A list or table that GitHub reads and the site does not would be shown as it is written."""
    for path in site.rglob("*.html"):
        article = re.search(r"<article.*?</article>", path.read_text(), re.DOTALL)
        if article:
            text = re.sub(r"<(pre|code|h\d)\b.*?</\1>", "", article[0], flags=re.DOTALL)
            text = html.unescape(re.sub(r"<[^>]+>", "", text))
            left = re.findall(
                r"^ *(?:[*-]|\d+\.) .*|.*(?:\| ?---|```|\]\(|\*\*).*", text, re.MULTILINE
            )
            assert not left, f"{path.name}: {left}"


def test_no_page_loads_anything_from_the_network(site):
    loaded = 0
    for path in site.rglob("*.html"):
        for source in Refs(path.read_text()).loaded:
            loaded += 1
            assert not urlsplit(source).netloc, f"{path.name}: {source}"
    assert loaded
    for sheet in site.rglob("*.css"):
        text = sheet.read_text()
        assert "url(http" not in text, sheet.name
        assert "@import" not in text, sheet.name
    assert (site / "search" / "search_index.js").exists(), "search works from files"


def test_search_works_in_a_site_opened_from_files(site):
    with browser() as opened:
        watched = Watched(opened)
        watched.page.goto((site / "reference" / "cli.html").as_uri())
        watched.page.locator("iframe").wait_for(state="attached")
        watched.page.locator(".md-search__input").click()
        watched.page.keyboard.type("exploitability", delay=20)
        found = watched.page.locator(".md-search-result__link").first
        found.wait_for(state="attached")
        assert "exact-values" in found.get_attribute("href")
        assert not watched.complaints
        assert all(url.startswith(("file:", "about:", "data:")) for url in watched.requests)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a](nowhere.md)", "nowhere.md"),
        ("[a](running.md#nowhere)", "nowhere"),
        ("[a](../nowhere/x.py)", "no such file"),
    ],
)
def test_a_broken_link_ends_the_build(tmp_path, text, said):
    for name in ("README.md", "CHANGELOG.md", "mkdocs.yml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "running.md").write_text("# Runs\n")
    (tmp_path / "docs" / "index.md").write_text(f"# Start\n\n{text}\n")
    shutil.copy(ROOT / "docs" / "site_hooks.py", tmp_path / "docs")
    shutil.copytree(ROOT / "docs" / "assets", tmp_path / "docs" / "assets")
    settings = (tmp_path / "mkdocs.yml").read_text().split("\nnav:")[0]
    nav = "\nnav: [index.md, running.md, changelog.md]\n"
    (tmp_path / "mkdocs.yml").write_text(settings + nav)
    done = build(tmp_path, tmp_path / "out")
    assert done.returncode != 0
    assert said in done.stderr
    (tmp_path / "docs" / "index.md").write_text("# Start\n\n[a](running.md#runs)\n")
    assert build(tmp_path, tmp_path / "out").returncode == 0
