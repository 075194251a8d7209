"""Takes the pictures of the viewer in docs/images: runs of reference players and of SmolLM2.

    python docs/screenshots.py [--browser PATH] [--runs FOLDER]

Needs the extra ``dev`` and a Chromium. Without --runs it makes the runs first: minutes on a CPU.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

IMAGES = Path(__file__).resolve().parent / "images"
RUNS = (
    ("gamesolve", "oracle,random", "60", []),
    ("gamesolve", "smollm2", "24", ["--max-tokens", "192"]),
    ("counterfactual-tom", "oracle,random", "40", []),
    ("gtbench", "oracle", "40", []),
)


class Shot(NamedTuple):
    """A picture: its name, the run it shows (task--model), the rest of the address, the width."""

    name: str
    run: str
    rest: str = ""
    width: int = 1280
    scheme: str = "light"


SHOTS = (
    Shot("viewer-runs", ""),
    Shot("viewer-records", "gamesolve--random", "?sort=value&down=1"),
    Shot("viewer-matrix", "gamesolve--random", "/record/8", scheme="dark"),
    Shot("viewer-timeline", "counterfactual-tom--random", "/record/0"),
    Shot("viewer-phone-records", "gamesolve--smollm2", "", 390),
    Shot("viewer-phone-board", "gtbench--oracle", "/record/2", 390, "dark"),
)


def main() -> None:
    """Make the runs if need be, serve them, take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--browser", default=shutil.which("chromium-headless-shell"))
    parser.add_argument("--runs", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.runs or Path(scratch)
        if given.runs is None:
            make_runs(folder)
        command = [sys.executable, "-m", "harness", "view", str(folder)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            take(server.stdout.readline().strip(), folder, given.browser)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(20)


def make_runs(folder: Path) -> None:
    """The runs that the pictures show."""
    for task, model, limit, more in RUNS:
        words = ["--task", task, "--model", model, "--limit", limit, "--out", str(folder), *more]
        subprocess.run([sys.executable, "-m", "harness", "run", *words], check=True)


def take(address: str, folder: Path, browser: str | None) -> None:
    """All pictures, at the size of a screen."""
    from playwright.sync_api import sync_playwright

    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for shot in SHOTS:
            height = 844 if shot.width < 500 else 800
            context = opened.new_context(
                viewport={"width": shot.width, "height": height}, color_scheme=shot.scheme
            )
            picture(context.new_page(), address, folder, shot)
            context.close()
        opened.close()


def picture(page: Any, address: str, folder: Path, shot: Shot) -> None:
    """One picture, once all of the page is there."""
    place = "#/"
    if shot.run:
        (run,) = (path.name for path in folder.iterdir() if path.name.startswith(f"{shot.run}--"))
        place = f"#/run/{run}{shot.rest}"
    page.goto(address + place)
    page.locator("h1").wait_for()
    page.locator(".beside > .soft").wait_for(state="detached")
    page.wait_for_timeout(300)
    path = IMAGES / f"{shot.name}.png"
    page.screenshot(path=path)
    print(f"{path}: {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
