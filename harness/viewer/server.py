"""The viewer's server: Starlette behind `guard`, on uvicorn.

    serve(pages, host="127.0.0.1", port=0)

It hands out the files of ``assets`` by name (no path of a request ever reaches the disk) and the
answers of `pages` as JSON.
"""

from __future__ import annotations

import secrets
import socket
import sys
from collections.abc import Iterable
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..types import HarnessError
from .files import assets, kind
from .guard import HEADERS, LOOPBACK, App, Guard
from .pages import Pages


def application(pages: Pages, token: str, hosts: Iterable[str] = ()) -> App:
    """The whole application, guarded."""
    held = assets()

    async def asset(request: Request) -> Response:
        name = request.path_params.get("name") or "index.html"
        if name not in held:
            return _plain(404, "there is no such page")
        return Response(held[name], headers={**HEADERS, "content-type": kind(name)})

    async def data(request: Request) -> Response:
        path, given = request.path_params["path"], dict(request.query_params)
        try:
            found = await run_in_threadpool(pages.answer, path, given)
        except LookupError:
            return _json(404, {"error": "there is no such run or record"})
        except HarnessError as error:
            return _json(400, {"error": str(error)})
        return _json(200, found)

    inner = Starlette(
        routes=[
            Route("/api/{path:path}", data),
            Route("/", asset),
            Route("/{name}", asset),
        ]
    )
    return Guard(inner, token, hosts)


def serve(pages: Pages, host: str, port: int, ready: Any = None) -> None:
    """Serve until interrupted. Prints the address on stdout; ``ready`` is called with it.

    Raises HarnessError when the address cannot be listened at.
    """
    import pyarrow.compute  # noqa: F401  # here, so that the first page does not wait for it
    import uvicorn

    token = secrets.token_urlsafe(24)
    listener = _listen(host, port)
    shown = host if host not in ("", "0.0.0.0", "::") else "127.0.0.1"
    shown = f"[{shown}]" if ":" in shown else shown
    address = f"http://{shown}:{listener.getsockname()[1]}/{token}/"
    if host not in LOOPBACK:
        print(
            "harness: whoever has this address can read these runs, and nothing is encrypted",
            file=sys.stderr,
        )
    app = application(pages, token, _names(host))
    settings = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off")
    settings.server_header = False
    print(address, flush=True)
    print("harness: Ctrl-C ends it", file=sys.stderr, flush=True)
    if ready is not None:
        ready(address)
    server = uvicorn.Server(settings)
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        pass
    finally:
        listener.close()


def _names(host: str) -> set[str]:
    """What Host may name, for a server that listens beyond this machine."""
    if host in LOOPBACK:
        return set()
    return {"*", host.lower(), socket.gethostname().lower()}


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise HarnessError(
            f"cannot listen at {host} port {port}: {reason}; choose another --port"
        ) from None
    return listener


def _json(status: int, value: Any) -> Response:
    body = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(body, status, media_type="application/json", headers=HEADERS)


def _plain(status: int, text: str) -> Response:
    return Response(text + "\n", status, media_type="text/plain; charset=utf-8", headers=HEADERS)
