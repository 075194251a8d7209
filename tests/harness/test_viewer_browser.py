"""The viewer in a real browser: headless Chromium, skipped with the reason where there is none."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from board_runs import make_run
from viewers import Watched, browser, viewer

HOSTILE = "<script>document.title = 'taken'</script><img src=x onerror=\"document.title='taken'\">"
SERIOUS = {"serious", "critical"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs of 60 records made up, the third reply hostile; and a real one of matrix games."""
    root = tmp_path_factory.mktemp("runs")
    values = [i / 60 for i in range(60)]
    groups = [("left", "right")[i % 2] for i in range(60)]
    texts = [f"reply number {i}" for i in range(60)]
    texts[2] = f"{HOSTILE}<think>hidden thought</think>\nANSWER: 2"
    classes = ["unparsed" if i % 3 == 0 else "ok" for i in range(60)]
    more = {"groups": groups, "texts": texts, "classes": classes}
    make_run(root, "copy", "first", values, **more)
    make_run(root, "copy", "second", values[::-1], **more)
    words = ["run", "--task", "gamesolve,gtbench", "--model", "oracle", "--limit", "4", "--out"]
    # In a process of its own: the browser's driver keeps an event loop in this one.
    command = [sys.executable, "-m", "harness", *words, root]
    subprocess.run(command, check=True, capture_output=True)
    return root


@pytest.fixture(scope="module")
def opened():
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def address(runs, opened):
    with viewer(runs) as found:
        yield found


@pytest.fixture
def watched(opened, address):
    """A page at 1280 pixels; it must not complain, nor ask anything of another address."""
    seen = Watched(opened, viewport={"width": 1280, "height": 900})
    yield seen
    seen.context.close()
    assert seen.complaints == []
    assert [url for url in seen.requests if not url.startswith(address)] == []


LIST = "section[aria-label=Records]"


def rows(page):
    return page.locator(f"{LIST} tbody tr")


def cell(page, row, title):
    """A cell of the list of records by its column's title."""
    heads = [text.strip(" ↑↓") for text in page.locator(f"{LIST} thead th").all_inner_texts()]
    return rows(page).nth(row).locator("th, td").nth(heads.index(title)).inner_text()


def open_run(page, address, model):
    page.goto(address)
    page.get_by_role("link", name=model, exact=True).first.click()
    page.locator("h1", has_text=f"{model} on").wait_for()


def noted(page, text):
    page.locator("main p[role=status]", has_text=text).wait_for()


def test_sort_filter_open_next_and_previous(watched, address):
    page = watched.page
    open_run(page, address, "first")
    noted(page, "1 to 50 of 60 records")
    page.locator(f"{LIST} th[data-key=value] button").click()
    page.locator("th[aria-sort=ascending]", has_text="score").wait_for()
    page.locator(f"{LIST} th[data-key=value] button").click()
    page.locator("th[aria-sort=descending]", has_text="score").wait_for()
    assert [cell(page, i, "#") for i in range(3)] == ["59", "58", "57"]
    page.get_by_label("Class").select_option("unparsed")
    noted(page, "1 to 20 of 20 records")
    assert [cell(page, i, "#") for i in range(3)] == ["57", "54", "51"]
    page.get_by_label("Group").select_option("right")
    noted(page, "of 10 records")
    rows(page).nth(1).get_by_role("link").click()
    page.locator("h1", has_text="s51").wait_for()
    assert page.locator(".turn span").inner_text() == "2 of 10"
    page.get_by_role("link", name="next ›").click()
    page.locator("h1", has_text="s45").wait_for()
    page.get_by_role("link", name="‹ previous").click()
    page.locator("h1", has_text="s51").wait_for()
    assert "reply number 51" in page.locator(".reply").inner_text()
    page.go_back()
    page.locator("h1", has_text="s45").wait_for()


def test_a_hostile_reply_shows_as_text(watched, address):
    page = watched.page
    open_run(page, address, "first")
    page.get_by_label("Search", exact=True).fill("<script>")
    noted(page, "1 to 1 of 1 records")
    rows(page).nth(0).get_by_role("link").click()
    page.locator("h1", has_text="s2").wait_for()
    reply = page.locator(".reply .said").inner_text()
    assert HOSTILE in reply
    assert "hidden thought" not in reply
    thought = page.locator("details", has_text="Reasoning").first
    assert not thought.evaluate("node => node.open")
    thought.locator("summary").click()
    assert "hidden thought" in thought.inner_text()
    assert page.locator("main script, main img").count() == 0
    assert page.title() == "s2 · harness"


def test_keys_walk_through_everything(watched, address):
    page = watched.page
    page.goto(address)
    page.locator("h1", has_text="Runs").wait_for()
    page.keyboard.press("?")
    assert page.get_by_role("dialog").is_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("first")
    noted(page, "1 of 4 runs")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.locator("h1", has_text="first on copy").wait_for()
    noted(page, "1 to 50")
    page.keyboard.press("n")
    noted(page, "51 to 60 of 60")
    page.keyboard.press("p")
    noted(page, "1 to 50")
    for key in "jjjk":
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    page.locator("h1", has_text="s1").wait_for()
    page.keyboard.press("n")
    page.locator("h1", has_text="s2").wait_for()
    page.keyboard.press("p")
    page.locator("h1", has_text="s1").wait_for()
    page.keyboard.press("u")
    page.locator("h1", has_text="first on copy").wait_for()
    page.keyboard.press("b")
    page.locator("h1", has_text="Leaderboard").wait_for()
    page.keyboard.press("r")
    page.locator("h1", has_text="Runs").wait_for()


def test_a_deep_link_opens_what_was_seen(watched, opened, address):
    page = watched.page
    open_run(page, address, "first")
    page.get_by_label("Search", exact=True).fill("number 4")
    noted(page, "of 11 records")
    page.locator(f"{LIST} th[data-key=value] button").click()
    page.locator("th[aria-sort=ascending]", has_text="score").wait_for()
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    noted(page, "1 to 11 of 11 records")
    assert cell(page, 0, "#") == "4"
    assert page.get_by_label("Search", exact=True).input_value() == "number 4"


def test_two_runs_side_by_side(watched, address):
    page = watched.page
    page.goto(address)
    for name in ("first", "second"):
        page.locator("tr", has_text=name).get_by_role("checkbox").check()
    page.get_by_role("button", name="Compare two runs").click()
    page.locator("h1", has_text="first and second on copy").wait_for()
    page.get_by_role("link", name="s0", exact=True).click()
    page.locator(".pair .reply").nth(1).wait_for()
    scores = page.locator(".pair .score strong").all_inner_texts()
    assert scores == ["0.000", "0.983"]
    page.keyboard.press("n")
    page.locator("h1", has_not_text="s0").wait_for()


def test_matrix_and_board_are_shown(watched, address):
    page = watched.page
    open_run(page, address, "oracle")
    page.goto(f"{page.url.partition('?')[0]}/record/0")
    page.locator("caption", has_text="Payoffs").wait_for()
    assert page.locator(".grid .key").count() >= 1
    page.goto(address)
    page.locator("tr", has_text="gtbench").get_by_role("link").click()
    page.locator("h1", has_text="on gtbench").wait_for()
    rows(page).nth(0).get_by_role("link").click()
    page.locator(".steps").wait_for()
    last = page.locator(".board").inner_text()
    page.get_by_role("button", name="step back").click()
    assert page.locator(".board").inner_text() != last


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_every_page_fits_and_has_no_serious_fault(opened, address, runs, width, scheme):
    """Nothing is wider than the screen, and axe finds nothing serious."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    seen = Watched(
        opened, viewport={"width": width, "height": 844}, color_scheme=scheme, bypass_csp=True
    )
    page = seen.page
    first, second, games, board = (_key(runs, name) for name in NAMES)
    for path in (
        "#/", "#/board", f"#/run/{first}", f"#/run/{games}/record/0", f"#/run/{board}/record/0",
        f"#/run/{first}/record/2", f"#/compare/{first}/{second}",
        f"#/pair/{first}/{second}?sample=s0", "#/nothing",
    ):  # fmt: skip
        page.goto("about:blank")
        page.goto(address + path)
        page.locator("h1").wait_for()
        page.wait_for_function("!document.body.innerText.includes('…')")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        found = axe.run(page).response["violations"]
        bad = [(f["id"], f["nodes"][0]["html"]) for f in found if f["impact"] in SERIOUS]
        assert bad == [], path
    seen.context.close()
    assert seen.complaints == []


NAMES = ("copy--first", "copy--second", "gamesolve--oracle", "gtbench--oracle")


def _key(runs, name):
    (found,) = (folder.name for folder in runs.iterdir() if folder.name.startswith(name))
    return found


def test_a_running_job_is_followed(opened, tmp_path):
    folder = make_run(tmp_path / "runs", "copy", "live", [0.0, 1.0, 1.0], expected=3)
    lines = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    for name in ("metrics.json", "records.parquet"):
        (folder / name).unlink()
    (folder / "journal.jsonl").write_bytes(lines[0])
    (folder / "lock").write_text(str(os.getpid()))  # this very process is at work on it
    with viewer(tmp_path / "runs") as address:
        seen = Watched(opened, viewport={"width": 1280, "height": 900})
        page = seen.page
        open_run(page, address, "live")
        noted(page, "1 to 1 of 1 records")
        assert "running 1 of 3 records" in page.locator(".facts").inner_text()
        with (folder / "journal.jsonl").open("ab") as file:
            file.write(lines[2] + lines[1])
        noted(page, "1 to 3 of 3 records")
        page.locator(".facts", has_text="3 of 3 records").wait_for()
        assert [cell(page, i, "#") for i in range(3)] == ["0", "1", "2"]
        seen.context.close()
        assert seen.complaints == []


def test_the_same_as_files(opened, runs, tmp_path, harness_command):
    done = harness_command("view", runs, "--static", tmp_path / "site", "--limit", 55)
    assert done.returncode == 0, done.stderr
    address = (tmp_path / "site" / "index.html").as_uri()
    seen = Watched(opened, viewport={"width": 1280, "height": 900})
    page = seen.page
    open_run(page, address, "first")
    noted(page, "1 to 50 of 55 records")
    assert "The first 55 of 60 records are here" in page.locator(".warning").inner_text()
    page.get_by_label("Search", exact=True).fill("NUMBER 5")
    page.locator(f"{LIST} th[data-key=value] button").click()
    page.locator("th[aria-sort=ascending]", has_text="score").wait_for()
    noted(page, "1 to 6 of 6 records")
    assert [cell(page, i, "#") for i in range(6)] == ["5", "50", "51", "52", "53", "54"]
    rows(page).nth(0).get_by_role("link").click()
    page.locator("h1", has_text="s5").wait_for()
    page.keyboard.press("n")
    page.locator("h1", has_text="s50").wait_for()
    first, second = (_key(runs, name) for name in NAMES[:2])
    page.goto(f"{address}#/pair/{first}/{second}?sample=s2")
    page.locator(".pair .reply").nth(1).wait_for()
    assert HOSTILE in page.locator(".pair .reply .said").nth(0).inner_text()
    assert page.locator("main script, main img").count() == 0
    page.goto(f"{address}#/board?columns=groups")
    page.locator("h1", has_text="Leaderboard").wait_for()
    page.goto(f"{address}#/run/{_key(runs, NAMES[2])}/record/0")
    page.locator("caption", has_text="Payoffs").wait_for()
    seen.context.close()
    assert seen.complaints == []
    assert [url for url in seen.requests if not url.startswith("file:")] == []
