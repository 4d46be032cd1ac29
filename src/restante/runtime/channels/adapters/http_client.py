"""Send one HTTP request for an adapter, and tell the two kinds of failure apart.

It uses httpx's transport, not its client, because the client logs whole URLs and some contain a bot's token. Redirects
are not followed, because they would send a signed message elsewhere.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx

from restante.ports.channel_adapter import NoAnswer, NotSent, SendRefused
from restante.runtime.system import SystemClock

MAX_ANSWER_BYTES: Final = 65_536
CONNECT_S: Final = 5.0
"""Shorter than most channels' time limits, so that an unreachable platform does not count as a lost answer."""
MAX_RETRY_AFTER_MS: Final = 30 * 86_400_000
_NOTHING_LEFT: Final = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.UnsupportedProtocol,
    httpx.LocalProtocolError,
    httpx.InvalidURL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    status: int
    retry_after_ms: int | None
    body: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    def text(self) -> str:
        return self.body.decode(errors="replace")

    def json(self) -> dict[str, Any]:
        """Return the JSON object of the body, or an empty one for anything else."""
        try:
            value = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    def refusal(self) -> SendRefused:
        return SendRefused(self.text(), status=self.status, retry_after_ms=self.retry_after_ms)


class HttpCaller:
    """Pooled connections to one platform, either all with TLS or all without."""

    def __init__(self) -> None:
        self._transport: httpx.AsyncHTTPTransport | None = None
        self._opening = asyncio.Lock()

    async def call(
        self, method: str, url: str, *, body: bytes, headers: Mapping[str, str], timeout_s: float = 60.0
    ) -> HttpResponse:
        """Send a request. Raise `NotSent` or `NoAnswer`. The channel's time limit usually ends it before
        `timeout_s`."""
        transport = await self._opened(has_tls=not url.startswith("http://"))
        limits = dict.fromkeys(("read", "write", "pool"), timeout_s) | {"connect": CONNECT_S}
        try:
            request = httpx.Request(method, url, content=body, headers=dict(headers), extensions={"timeout": limits})
            response = await transport.handle_async_request(request)
            try:
                return await _read(response)
            finally:
                await response.aclose()
        except _NOTHING_LEFT as problem:
            raise NotSent(f"the platform cannot be reached ({type(problem).__name__})") from None
        except httpx.HTTPError as problem:
            raise NoAnswer(f"the platform did not answer ({type(problem).__name__})") from None

    async def _opened(self, *, has_tls: bool) -> httpx.AsyncHTTPTransport:
        """Create the transport in a thread, because loading all CA certificates for TLS takes a third of a second."""
        async with self._opening:
            if self._transport is None:
                self._transport = await asyncio.to_thread(httpx.AsyncHTTPTransport, verify=has_tls)
            return self._transport

    async def close(self) -> None:
        if self._transport is not None:
            await self._transport.aclose()
            self._transport = None


async def _read(response: httpx.Response) -> HttpResponse:
    body = b""
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) >= MAX_ANSWER_BYTES:
            break
    value = response.headers.get("retry-after")
    return HttpResponse(
        status=response.status_code,
        retry_after_ms=None if value is None else retry_after_ms(value, now_ms=SystemClock().now_ms()),
        body=body[:MAX_ANSWER_BYTES],
    )


def retry_after_ms(value: str, *, now_ms: int) -> int | None:
    """Parse Retry-After as seconds or as a date; return None for anything else."""
    if value.strip().isdecimal() and value.isascii():
        return min(int(value[:20]) * 1_000, MAX_RETRY_AFTER_MS)
    try:
        at_ms = int(parsedate_to_datetime(value).timestamp() * 1_000)
    except (ValueError, OverflowError):
        return None
    return min(max(at_ms - now_ms, 0), MAX_RETRY_AFTER_MS)


def json_body(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
