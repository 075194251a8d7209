"""The viewer's server: what it refuses, what it says, and that it changes nothing."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
from urllib.parse import quote, urlsplit

import pytest
from board_runs import make_run
from viewers import viewer

from harness.types import HarnessError
from harness.viewer.guard import Guard
from harness.viewer.server import _names


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    make_run(root, "copy", "a", [0.0, 1.0, 1.0], clusters=["x", "y", "z"], texts=["one"] * 3)
    make_run(root, "copy", "b", [1.0, 1.0, 0.0], clusters=["x", "y", "z"], texts=["two"] * 3)
    (root / "secret.txt").write_text("not for the page")
    return root


@pytest.fixture(scope="module")
def address(runs):
    with viewer(runs) as found:
        yield found


def ask(address, path, method="GET", host=None, body=None, raw=False):
    """One request, with the path as it is; returns status, headers and body."""
    parts = urlsplit(address)
    prefix = "" if raw else parts.path
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=20)
    try:
        connection.putrequest(method, prefix + path, skip_host=True)
        connection.putheader("Host", host or parts.netloc)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def test_the_page_and_its_files_come_with_the_strict_policy(address):
    for path, kind in (("", "text/html"), ("app.js", "text/javascript"), ("style.css", "text/css")):
        status, headers, body = ask(address, path)
        assert (status, headers["content-type"].split(";")[0]) == (200, kind)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "//" not in policy.replace("'", "")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert body
    assert ask(address, "", method="HEAD")[::2] == (200, b"")


def test_no_file_of_the_page_names_another_place():
    from harness.viewer.files import assets

    for name, data in assets().items():
        text = data.decode().replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in text, name
        assert "https:" not in text, name
        for markup in ("innerHTML", "insertAdjacentHTML", "outerHTML", "document.write", "eval("):
            assert markup not in text, name


@pytest.mark.parametrize("path", ["/", "/api/runs", "/wrong/api/runs", "/wrong/", "//api/runs", ""])
def test_without_the_token_nothing_is_said(address, path):
    status, headers, body = ask(address, path or "/x", raw=True)
    assert status == 403
    assert b"token" in body
    assert "content-security-policy" in headers


def test_a_token_that_is_nearly_right_is_wrong(address):
    token = urlsplit(address).path.strip("/")
    for wrong in (token[:-1], token + "x", token.swapcase(), quote(token) + "%00"):
        assert ask(address, f"/{wrong}/api/runs", raw=True)[0] == 403
    assert len(token) >= 30


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.1.2.3", "", "[::2]"],
)
def test_another_host_is_refused(address, host):
    status, _, body = ask(address, "api/runs", host=host or " ")
    assert status in (400, 403)
    assert b"runs" not in body


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "[::1]:8080", "LOCALHOST:80"])
def test_this_machine_may_be_named_in_all_ways(address, host):
    assert ask(address, "api/runs", host=host)[0] == 200


def test_two_hosts_are_refused(address):
    parts = urlsplit(address)
    with socket.create_connection((parts.hostname, parts.port), timeout=20) as line:
        request = f"GET {parts.path}api/runs HTTP/1.1\r\nHost: {parts.netloc}\r\nHost: x\r\n\r\n"
        line.sendall(request.encode())
        assert line.recv(100).split()[1] in (b"400", b"403")


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "..%2fsecret.txt",
        "%2e%2e/secret.txt",
        "....//secret.txt",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "assets/../guard.py",
        "guard.py",
        "api/../../secret.txt",
        "api/runs/..%2f..%2fsecret.txt",
        "api/runs/../secret.txt/records",
        "api/runs/%00",
        "app.js%00.html",
    ],
)
def test_paths_lead_nowhere_else(address, path):
    status, _, body = ask(address, path)
    assert status in (403, 404)
    assert b"not for the page" not in body
    assert b"root:" not in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_nothing_can_be_written(address, method):
    status, headers, _ = ask(address, "api/runs", method=method, body=b"{}")
    assert status == 405
    assert headers["allow"] == "GET, HEAD"


def test_looking_leaves_the_runs_as_they_are(runs):
    def state():
        return {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in runs.rglob("*") if p.is_file()}

    before = state()
    with viewer(runs) as address:
        (first, second) = [run["key"] for run in data(address, "api/runs")["runs"]]
        for path in (
            f"runs/{first}", f"runs/{first}/facets", f"runs/{first}/records?q=one&sort=value",
            f"runs/{first}/records/1", f"runs/{first}/records/1/exhibits",
            f"runs/{first}/sections", "board", f"compare/{first}/{second}",
        ):  # fmt: skip
            data(address, f"api/{path}")
    assert state() == before


def data(address, path, status=200):
    found, headers, body = ask(address, path)
    assert (found, headers["content-type"]) == (status, "application/json"), body
    return json.loads(body)


def test_pages_hold_what_the_runs_hold(address):
    runs = data(address, "api/runs")["runs"]
    assert [(run["model"], run["score"]["value"], run["state"]) for run in runs] == [
        ("a", 2 / 3, "complete"),
        ("b", 2 / 3, "complete"),
    ]
    first, second = (run["key"] for run in runs)
    page = data(address, f"api/runs/{first}/records?sort=value&down=1&count=2")
    assert [row["index"] for row in page["rows"]] == [1, 2]
    record = data(address, f"api/runs/{first}/records/1?sort=value")
    assert record["moves"][0]["visible"] == "one"
    assert record["around"] == {"position": 1, "matched": 3, "previous": 0, "next": 2}
    exhibits = data(address, f"api/runs/{first}/records/1/exhibits")
    assert "there is no task 'copy'" in exhibits["problem"]
    compared = data(address, f"api/compare/{first}/{second}")
    assert {flip["sample"] for flip in compared["flips"]} == {"s0", "s2"}
    assert data(address, f"api/pair/{first}/{second}?sample=s2")["indices"] == [[2], [2]]
    board = data(address, "api/board")
    assert sorted(board["rows"]) == ["a", "b"]
    assert "overall" in board["presets"]


def test_large_tables_are_the_same_from_a_process_of_their_own(runs, monkeypatch):
    from harness.board.places import find_runs
    from harness.viewer import figures

    stored = find_runs([str(runs)])

    def tables():
        return (
            figures.board([str(runs)], stored, "overall"),
            figures.compared(*stored, "score", 7),
        )

    here = tables()
    monkeypatch.setattr(figures, "LARGE", 1)
    assert json.loads(json.dumps(tables())) == json.loads(json.dumps(here))
    with pytest.raises(HarnessError, match=r"^--columns x:y: no run has it"):
        figures.board([str(runs)], stored, "x:y")
    with pytest.raises(HarnessError, match="have no figure '--help'"):
        figures.compared(*stored, "--help", 7)


def test_questions_without_an_answer_say_so(address):
    (first, second) = [run["key"] for run in data(address, "api/runs")["runs"]]
    for path in (
        "api/", "api/nothing", "api/runs/none", f"api/runs/{first}/records/7",
        f"api/runs/{first}/records/x", f"api/runs/{first}/records/1/more",
        f"api/compare/{first}/none", f"api/pair/{first}/{second}?sample=none",
        f"api/runs/{first}/records/%C2%B2", f"api/runs/{first}/records/{'9' * 5000}",
    ):  # fmt: skip
        assert "there is no" in data(address, path, 404)["error"]
    for path in ("sort=x", "count=999", "offset=-1", "low=x", f"offset={'9' * 5000}"):
        path = f"records?{path}"
        data(address, f"api/runs/{first}/{path}", 400)
    assert "no run has it" in data(address, "api/board?columns=x:y", 400)["error"]
    assert "no figure" in data(address, f"api/compare/{first}/{second}?metric=x", 400)["error"]


def test_beyond_this_machine_only_addresses_in_numbers_and_its_name():
    guard = Guard(None, "t", _names("0.0.0.0"))
    known = ["10.0.0.7:8000", "[fe80::1]:8000", "localhost", socket.gethostname()]
    assert all(guard._known(host) for host in known)
    assert not guard._known("evil.example")
    assert _names("127.0.0.1") == set()


def test_observers_add_sections(runs, tmp_path):
    registry = tmp_path / "registry.toml"
    plugin = '[[plugin]]\nkind = "observer"\nname = "sections"\nmodule = "sections"\n'
    registry.write_text(plugin)
    with viewer(runs, "--registry", registry, "--observer", "sections") as address:
        run = data(address, "api/runs")["runs"][0]["key"]
        assert data(address, f"api/runs/{run}")["observers"] == ["sections"]
        (section,) = data(address, f"api/runs/{run}/sections")["sections"]
    assert section == {"name": "sections", "text": f"## Of {run}\n\n<b>3 records</b>"}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["nowhere"], "no run folder"),
        (["{runs}", "--host", "203.0.113.9", "--port", "1"], "cannot listen at 203.0.113.9"),
        (["{runs}", "--observer", "none"], "no observer 'none'"),
        (["{runs}", "--static", "{runs}"], "is not empty"),
    ],
)
def test_bad_input_ends_with_two_and_one_line(runs, tmp_path, arguments, reason):
    words = [word.replace("{runs}", str(runs)) for word in arguments]
    done = subprocess.run(
        [sys.executable, "-m", "harness", "view", *words],
        capture_output=True, text=True, timeout=60, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2
    assert reason in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_help_loads_no_server():
    code = "import sys; import harness.cli.view_; print(sorted({'starlette', 'uvicorn', 'numpy', "
    code += "'pyarrow', 'asyncio', 'rich'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]"
