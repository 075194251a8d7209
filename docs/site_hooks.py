"""What the site needs beyond docs/: the changelog as a page, links to the code.

The pages are written to be read in the repository, too, so a link may lead out of docs/. On the
site it leads to the repository instead, and a link to a file that is not there ends the build.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
CODE = "https://github.com/strategic-harness/strategic-harness/blob/main"
PAGES = {ROOT / "CHANGELOG.md": "changelog.md", ROOT / "README.md": "index.md"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add CHANGELOG.md, which lies beside docs/."""
    files.append(File.generated(config, "changelog.md", abs_src_path=str(ROOT / "CHANGELOG.md")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links that leave docs/ into pages of the site or addresses of the repository."""
    below = page.file.src_uri.count("/")
    source = (ROOT / "docs" / page.file.src_uri).parent

    def turned(match: re.Match[str]) -> str:
        anchor = match[2] or ""
        target = (source / match[1]).resolve()
        if not target.exists():
            raise PluginError(f"{page.file.src_uri}: no such file: {match[1]}")
        if target in PAGES:
            return f"]({'../' * below}{PAGES[target]}{anchor})"
        if target.is_relative_to(ROOT / "docs"):
            return match[0]
        return f"]({CODE}/{target.relative_to(ROOT)}{anchor})"

    return re.sub(r"\]\((\.\./[^)#\s]+)(#[^)\s]*)?\)", turned, markdown)
