"""A chat-completions server on loopback that fails on purpose.

    with FaultServer(Faults(drop=0.05, delay=0.05, throttle=0.10)) as server:
        ...                       # server.url, server.seen, server.answered

Which fault a request meets depends on its body, its try and the seed alone, so a test that repeats
itself meets the same ones. Answers depend on the body alone. As a process of its own, which prints
its address: ``python fault_server.py --drop 0.05 --throttle 0.1``.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import threading
import time
from collections import Counter
from dataclasses import dataclass, field, fields


@dataclass(frozen=True)
class Faults:
    """Shares of requests, drawn in this order; ``first`` faults come before any answer.

    ``drop`` closes the connection (half of them in the middle of the body), ``delay`` waits
    ``delay_seconds``, ``throttle`` answers 429 with ``retry_after`` seconds, ``error`` 500,
    ``garbage`` something that is no completion, ``hang`` never answers. ``capacity`` is how many
    requests are worked on at once, ``work`` the seconds that each takes, ``reject_above`` how many
    in flight before 429.
    """

    drop: float = 0.0
    delay: float = 0.0
    throttle: float = 0.0
    error: float = 0.0
    garbage: float = 0.0
    hang: float = 0.0
    delay_seconds: float = 0.2
    retry_after: float = 0.05
    capacity: int = 0
    work: float = 0.0
    reject_above: int = 0
    seed: int = 0


KINDS = ("drop", "delay", "throttle", "error", "garbage", "hang")


@dataclass
class Seen:
    """What arrived. ``bodies`` counts each body's tries; ``headers`` are those of the last."""

    requests: int = 0
    faults: Counter = field(default_factory=Counter)
    bodies: Counter = field(default_factory=Counter)
    answered: Counter = field(default_factory=Counter)
    last: dict = field(default_factory=dict)
    headers: dict = field(default_factory=dict)
    running: int = 0
    most: int = 0


class FaultServer:
    """The server, in a thread of its own."""

    def __init__(self, faults=None, *, port=0, key=None, models=None, script=None, keep=True):
        self.faults = faults or Faults()
        self.port = port
        self.key = key
        self.models = [{"id": "toy", "owned_by": "tests"}] if models is None else models
        self.script = script  # body -> (status, headers, JSON) or None for the usual
        self.keep = keep  # whether bodies are counted
        self.seen = Seen()

    def __enter__(self):
        started = threading.Event()
        self._thread = threading.Thread(target=self._main, args=(started,), daemon=True)
        self._thread.start()
        assert started.wait(10)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/v1"

    def _main(self, started):
        asyncio.run(self.serve(started.set))

    async def serve(self, started=lambda: None):
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._places = asyncio.Semaphore(self.faults.capacity or 1_000_000)
        self._open = set()
        server = await asyncio.start_server(self._connection, "127.0.0.1", self.port, backlog=4096)
        self.port = server.sockets[0].getsockname()[1]
        started()
        await self._stop.wait()
        server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _connection(self, reader, writer):
        self._open.add(asyncio.current_task())
        try:
            while request := await _read(reader):
                if not await self._answer(request, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(asyncio.current_task())
            writer.close()

    async def _answer(self, request, writer):
        method, path, headers, body = request
        if self.key and headers.get("authorization") != f"Bearer {self.key}":
            said = f"Incorrect API key provided: {headers.get('authorization')}"
            return await _write(writer, 401, {"error": {"message": said}})
        if method == "GET" and path.endswith("/models"):
            return await _write(writer, 200, {"object": "list", "data": self.models})
        if method == "GET" and path.endswith("/stats"):
            return await _write(writer, 200, self._stats())
        if not path.endswith("/chat/completions"):
            return await _write(writer, 404, {"error": {"message": f"no route {path}"}})
        seen = self.seen
        seen.running += 1
        seen.most = max(seen.most, seen.running)
        try:
            return await self._complete(body, headers, writer)
        finally:
            seen.running -= 1

    async def _complete(self, raw, headers, writer):
        seen, faults = self.seen, self.faults
        digest = hashlib.blake2b(raw, digest_size=8).hexdigest()
        tries = seen.bodies[digest] = seen.bodies[digest] + 1
        seen.requests += 1
        body = seen.last = json.loads(raw)
        seen.headers = headers
        if self.script is not None and (scripted := self.script(body)) is not None:
            status, more, answer = scripted
            return await _write(writer, status, answer, more)
        fault = self._fault(digest, tries)
        seen.faults[fault] += 1
        if fault == "throttle" or 0 < faults.reject_above < seen.running:
            seen.faults["rejected"] += fault != "throttle"
            said = {"error": {"message": "too many requests", "code": "rate_limit_exceeded"}}
            return await _write(writer, 429, said, {"Retry-After": str(faults.retry_after)})
        if fault == "error":
            return await _write(writer, 500, {"error": {"message": "internal"}})
        if fault == "garbage":
            return await _write(writer, 200, [{"choices": []}, "<html>", {"ok": 1}][tries % 3])
        if fault == "hang":
            await asyncio.sleep(3600)
        if fault == "delay":
            await asyncio.sleep(faults.delay_seconds)
        if faults.work:
            async with self._places:
                await asyncio.sleep(faults.work)
        answer = completion(body)
        if fault == "drop":
            return await _drop(writer, answer, whole=int(digest, 16) % 2)
        if self.keep:
            seen.answered[digest] += 1
        return await _write(writer, 200, answer)

    def _fault(self, digest, tries):
        text = f"{self.faults.seed}/{digest}/{tries}".encode()
        drawn = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") / 2**64
        for kind in KINDS:
            drawn -= getattr(self.faults, kind)
            if drawn < 0:
                return kind
        return "none"

    def _stats(self):
        seen = self.seen
        return {
            "requests": seen.requests,
            "faults": dict(seen.faults),
            "distinct": len(seen.bodies),
            "answered": sum(seen.answered.values()),
            "answered_twice": sum(count > 1 for count in seen.answered.values()),
            "most_in_flight": seen.most,
        }


def completion(body):
    """The answer to a body: the last message's words, and a mark that depends on the seed."""
    said = body["messages"][-1]["content"]
    text = f"{said} #{body.get('seed', 0) % 1000}"
    return {
        "id": "x",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": body["model"],
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": len(said.split()) + 5, "completion_tokens": len(text.split())},
    }


async def _read(reader):
    """One request as (method, path, headers, body); None at the end of the connection."""
    head = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
    if not head:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return method, path, headers, body


def _bytes(status, answer, headers=None):
    body = json.dumps(answer).encode()
    lines = [f"HTTP/1.1 {status} X", "Content-Type: application/json"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    lines += [f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


async def _write(writer, status, answer, headers=None):
    writer.write(_bytes(status, answer, headers))
    await writer.drain()
    return True


async def _drop(writer, answer, whole):
    """Close the connection: before the answer, or in the middle of it."""
    if not whole:
        written = _bytes(200, answer)
        writer.write(written[: len(written) - 20])
        await writer.drain()
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0)
    for each in fields(Faults):
        flag = f"--{each.name.replace('_', '-')}"
        parser.add_argument(flag, type=type(each.default), default=each.default)
    given = vars(parser.parse_args())
    server = FaultServer(port=given.pop("port"), faults=Faults(**given))
    asyncio.run(server.serve(lambda: print(server.url, flush=True)))


if __name__ == "__main__":
    main()
