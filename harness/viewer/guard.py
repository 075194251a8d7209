"""What stands before the server: only this machine, only with the token, only reading.

Every address begins with a random token, ``http://127.0.0.1:PORT/TOKEN/``, so nothing is kept in
cookies and another page cannot guess it. The header Host must name this machine, which stops
names of others that are made to point here; and nothing but GET and HEAD is answered.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, Final

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")

HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Sent with every answer: the page may load nothing from elsewhere and send nothing anywhere."""


class Guard:
    """Refuses what must not come in, and passes the rest on without the token.

    :param hosts: names that Host may have besides those of this machine; "*" allows any address
        in numbers (names stay refused, for they can be made to point anywhere).
    """

    def __init__(self, app: App, token: str, hosts: Iterable[str] = ()) -> None:
        self.app = app
        self.token = token
        self.hosts = {*LOOPBACK, *hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # nothing else is spoken here
        status, reason = self._verdict(scope)
        if status:
            await _refuse(send, status, reason)
            return
        path = scope["path"].removeprefix(f"/{self.token}")
        if not path:  # the page's own links are relative to the folder
            await _refuse(send, 307, "the address ends in a slash", location=f"/{self.token}/")
            return
        await self.app({**scope, "path": path, "raw_path": path.encode()}, receive, send)

    def _verdict(self, scope: Scope) -> tuple[int, str]:
        headers = [(k, v) for k, v in scope["headers"] if k == b"host"]
        if len(headers) != 1 or not self._known(headers[0][1].decode("latin-1")):
            return 403, "this name is not this server's"
        if scope["method"] not in ("GET", "HEAD"):
            return 405, "nothing can be changed here"
        given = scope["path"].split("/")[1] if scope["path"].startswith("/") else ""
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            return 403, "the address needs the token that `harness view` printed"
        return 0, ""

    def _known(self, host: str) -> bool:
        name = _without_port(host).lower()
        return name in self.hosts or ("*" in self.hosts and _is_address(name))


def _without_port(host: str) -> str:
    """The name in a Host header.

    >>> _without_port("localhost:8000"), _without_port("[::1]:8000")
    ('localhost', '::1')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


async def _refuse(send: Send, status: int, reason: str, **more: str) -> None:
    headers = {"content-type": "text/plain; charset=utf-8", **HEADERS, **more}
    if status == 405:
        headers["allow"] = "GET, HEAD"
    listed = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": listed})
    await send({"type": "http.response.body", "body": f"{reason}\n".encode()})
