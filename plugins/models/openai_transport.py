"""The way to an OpenAI-compatible server: one POST, sent again until it is answered.

    transport = Transport(Endpoint("http://127.0.0.1:8000/v1", "OPENAI_API_KEY"))
    answer = await transport.chat({"model": "m", "messages": [...]})     # the JSON, a mapping

A request is sent again after a lost connection, a time-out, an answer that is no answer, and the
statuses 408, 409, 425, 429 and 5xx: after the server's own ``Retry-After`` if there is one, else
after waits that double, with jitter. After the last try it is a ProviderError, which the engine
counts. What a user must mend (the key, the model's name, a field that the server refuses) is a
HarnessError at once. Texts of servers and libraries pass through `Endpoint.clean`, which takes keys
out of them.
"""

from __future__ import annotations

import asyncio
import email.utils
import os
import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from harness.types import HarnessError, Json, ProviderError

from .openai_ledger import Totals
from .openai_limiter import Limiter

OFFICIAL: Final = "https://api.openai.com/v1"
RETRIED: Final = frozenset({408, 409, 425, 429, *range(500, 600)})
OVERLOAD: Final = frozenset({408, 429, 503, 529})
"""Statuses that ask for fewer requests."""

LONGEST_WAIT: Final = 600.0
"""Seconds of a ``Retry-After`` that are obeyed at most."""

VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
SECRETS: Final = re.compile(r"\b(sk-|key-|Bearer\s+)[\w.*-]{6,}")
TOO_LONG: Final = re.compile(
    r"context[ _](length|window|size)|maximum context|prompt is too long|too many tokens", re.I
)


class ContextExceeded(Exception):
    """Prompt and reply do not fit what the server takes."""


class Patience(NamedTuple):
    """Tries after the first, first wait and longest doubled wait, and time-out of a request, in
    seconds."""

    retries: int = 8
    delay: float = 0.5
    longest: float = 60.0
    timeout: float = 600.0


PATIENT: Final = Patience()


@dataclass(frozen=True)
class Endpoint:
    """A server's address and the name of the environment variable that holds its key."""

    url: str
    key_variable: str
    key: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not VARIABLE.fullmatch(self.key_variable):  # a key perhaps: it is not repeated
            raise HarnessError(
                "api_key_env: give the name of an environment variable, never the key itself"
            )
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise HarnessError("base_url: give http(s)://HOST[:PORT]/v1")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise HarnessError(
                "base_url holds more than an address; a key belongs into the environment "
                f"variable {self.key_variable}"
            )
        key = os.environ.get(self.key_variable, "").strip()
        if not key and self.official:
            raise HarnessError(f"set the environment variable {self.key_variable} to your key")
        object.__setattr__(self, "key", key)

    @property
    def official(self) -> bool:
        """Whether this is OpenAI's own server."""
        return urlsplit(self.url).hostname == "api.openai.com"

    @property
    def address(self) -> str:
        """Host, port and path, for identities."""
        parts = urlsplit(self.url)
        return f"{parts.netloc}{parts.path.rstrip('/')}"

    def clean(self, text: object) -> str:
        """The first line of a text without keys, at most 300 characters."""
        line = " ".join(str(text).split())
        if self.key:
            line = line.replace(self.key, "***")
        return SECRETS.sub("***", line)[:300]


class Transport:
    """Sends chat requests; counts in ``totals``, admits through ``limiter``."""

    def __init__(
        self,
        endpoint: Endpoint,
        patience: Patience = PATIENT,
        limiter: Limiter | None = None,
        totals: Totals | None = None,
    ) -> None:
        import openai  # here: the package is an extra, and slow to import

        self._library = openai
        self.endpoint = endpoint
        self.patience = patience
        self.limiter = limiter or Limiter()
        self.totals = totals or Totals()
        self._client: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def chat(self, body: Mapping[str, Json]) -> dict[str, Json]:
        """The server's answer with at least one choice.

        Raises ProviderError after the last try, ContextExceeded, and HarnessError for what a user
        must mend.
        """
        trouble = ""
        for attempt in range(self.patience.retries + 1):
            try:
                return await self._send(body)
            except _Again as again:
                trouble = again.reason
                if attempt < self.patience.retries:
                    self.totals.retries += 1
                    self.totals.throttled += again.throttled
                    await asyncio.sleep(self._wait(attempt, again.after))
        tries = self.patience.retries + 1
        raise ProviderError(f"{self.endpoint.address}: {trouble} ({tries} tries)")

    def models(self) -> list[dict[str, Json]]:
        """What the server lists. Empty where it has no list; HarnessError where no server answers
        or the key is refused. Blocks; not for use inside of an event loop."""
        library = self._library
        with library.OpenAI(**self._arguments(timeout=10.0)) as client:
            for attempt in range(4):
                try:
                    answer = client.get("/models", cast_to=object)
                except (library.AuthenticationError, library.PermissionDeniedError) as error:
                    raise self._refused(error) from None
                except library.APIConnectionError as error:
                    if attempt == 3:
                        reason = self.endpoint.clean(error.__cause__ or error)
                        raise HarnessError(
                            f"no server answers at {self.endpoint.address}: {reason}"
                        ) from None
                    time.sleep(min(1.0, self.patience.delay) * (attempt + 1))
                except (library.APIError, ValueError):
                    return []
                else:
                    return _listed(answer)
        return []

    def close(self) -> None:
        """Close the connections, where the loop that they belong to still lives."""
        client, self._client = self._client, None
        if client is not None and self._loop is not None:
            if self._loop.is_closed() or self._loop.is_running():
                return
            self._loop.run_until_complete(client.close())

    async def _send(self, body: Mapping[str, Json]) -> dict[str, Json]:
        """One try. Raises _Again where another may help."""
        library, client = self._library, self._connected()
        async with self.limiter.slot():
            throttled = False
            try:
                answer = await client.post("/chat/completions", body=dict(body), cast_to=object)
            except library.APITimeoutError:
                throttled = True
                raise _Again(f"no answer in {self.patience.timeout:g} s", throttled) from None
            except library.APIConnectionError as error:
                raise _Again(self.endpoint.clean(error.__cause__ or error)) from None
            except library.APIStatusError as error:
                throttled = error.status_code in OVERLOAD
                raise self._status(error) from None
            except (library.APIError, ValueError, UnicodeError) as error:
                raise _Again(f"unreadable answer: {self.endpoint.clean(error)}") from None
            finally:
                self.limiter.note(throttled)
        if not _whole(answer):
            raise _Again(f"an answer without choices: {self.endpoint.clean(answer)}")
        return dict(answer)

    def _status(self, error: Any) -> Exception:
        """What a status other than 2xx comes to."""
        said = self.endpoint.clean(error.message)
        if "insufficient_quota" in str(error.body):
            return HarnessError(f"{self.endpoint.address}: no credit is left ({said})")
        if error.status_code in RETRIED:
            headers = error.response.headers
            after = retry_after(headers.get("retry-after-ms"), headers.get("retry-after"))
            return _Again(said, error.status_code in OVERLOAD, after)
        if error.status_code in (400, 413, 422) and TOO_LONG.search(f"{said} {error.body}"):
            return ContextExceeded(said)
        return self._refused(error)

    def _refused(self, error: Any) -> HarnessError:
        where, said = self.endpoint.address, self.endpoint.clean(error.message)
        if error.status_code in (401, 403):
            holder = self.endpoint.key_variable
            state = "the key in" if self.endpoint.key else "there is no key in"
            return HarnessError(f"{where} refuses the request: {state} {holder}: {said}")
        return HarnessError(f"{where} refuses the request: {said}")

    def _wait(self, attempt: int, after: float | None) -> float:
        """Seconds until the next try: never before the server's own time, and spread out."""
        doubled = min(self.patience.longest, self.patience.delay * 2**attempt)
        if after is None:
            return doubled * random.uniform(0.5, 1.5)
        return min(after, LONGEST_WAIT) + min(doubled, 1.0) * random.random()

    def _connected(self) -> Any:
        """The client of the running loop (connections belong to a loop)."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._client = self._library.AsyncOpenAI(**self._arguments(self.patience.timeout))
            self._loop = loop
        return self._client

    def _arguments(self, timeout: float) -> dict[str, Any]:
        return {
            "base_url": self.endpoint.url,
            "api_key": self.endpoint.key or "none",
            "timeout": timeout,
            "max_retries": 0,
        }


class _Again(Exception):
    """A try that failed in a way that another may mend."""

    def __init__(self, reason: str, throttled: bool = False, after: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.throttled = throttled
        self.after = after


def retry_after(milliseconds: str | None, seconds_or_date: str | None) -> float | None:
    """Seconds that a server asks to wait, from ``retry-after-ms`` and ``Retry-After`` (seconds or
    an HTTP date); None where it names none.

    >>> retry_after("250", None), retry_after(None, "2"), retry_after(None, "soon")
    (0.25, 2.0, None)
    """
    for text, unit in ((milliseconds, 1000), (seconds_or_date, 1)):
        try:
            value = float(text or "") / unit
        except ValueError:
            continue
        if 0 <= value < float("inf"):
            return value
    try:
        date = email.utils.parsedate_to_datetime(seconds_or_date or "")
    except (ValueError, TypeError):
        return None
    return max(0.0, date.timestamp() - time.time())


def _listed(answer: Any) -> list[dict[str, Json]]:
    data = answer.get("data") if isinstance(answer, Mapping) else None
    return [dict(row) for row in data if isinstance(row, Mapping)] if isinstance(data, list) else []


def _whole(answer: Any) -> bool:
    choices = answer.get("choices") if isinstance(answer, Mapping) else None
    return bool(
        isinstance(choices, list)
        and choices
        and isinstance(choices[0], Mapping)
        and isinstance(choices[0].get("message"), Mapping)
    )
