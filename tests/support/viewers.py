"""The viewer for tests: a server as a process of its own, and a browser where there is one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


@contextmanager
def viewer(*arguments):
    """``harness view`` with these arguments; yields its address, and ends it."""
    command = [sys.executable, "-m", "harness", "view", *map(str, arguments)]
    support = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=support
    )
    try:
        address = server.stdout.readline().strip()
        if not address:
            raise AssertionError(server.stderr.read())
        yield address
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(20)
        server.stdout.close()
        server.stderr.close()


def find_browser():
    """The path of a Chromium; skips the test with the reason where there is none."""
    pytest.importorskip("playwright", reason="playwright is not installed: pip install -e '.[dev]'")
    found = os.environ.get("HARNESS_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    if not found:
        pytest.skip("no Chromium: apt-get install chromium-headless-shell, or HARNESS_BROWSER")
    return found


@contextmanager
def browser():
    """A headless Chromium."""
    path = find_browser()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield opened
        finally:
            opened.close()


class Watched:
    """A page that remembers what went wrong in it and what it asked for."""

    def __init__(self, opened, **context):
        self.context = opened.new_context(**context)
        self.page = self.context.new_page()
        self.page.set_default_timeout(10_000)
        self.complaints = []
        self.requests = []
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def _console(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)
