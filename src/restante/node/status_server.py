"""The node's status listener: health for a service manager, metrics for Prometheus, status for its operator.

Plain HTTP, meant for loopback, on a port of its own. It only reads.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import uvicorn
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from restante.model.errors import EnvironmentUnsuitable
from restante.runtime.endpoints import Endpoint

HEALTH: Final = "/healthz"
METRICS: Final = "/metrics"
STATUS: Final = "/status"
MAX_CONNECTIONS: Final = 64
MAX_OPEN: Final = 96
"""Open connections, silent ones included. uvicorn limits requests, not connections, and each is an open file that a
relay's client could need."""

BACKLOG: Final = 64
REQUEST_S: Final = 5.0
"""How long a connection may take to send a whole request: uvicorn itself would wait forever."""

ANSWER_S: Final = 10.0  # more than the longest answer takes (health.LIMIT_S): then the connection ends whatever it does
IDLE_S: Final = 5
LAST_ANSWERS_S: Final = 1
OK: Final = 200
UNAVAILABLE: Final = 503


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The functions that answer the three paths; each is called once a request."""

    health: Callable[[], Awaitable[tuple[bool, Mapping[str, Any]]]]
    metrics: Callable[[], bytes]
    status: Callable[[], Awaitable[Mapping[str, Any]]]


class StatusServer:
    def __init__(self, answers: Answers) -> None:
        config = uvicorn.Config(
            _application(answers),
            http=_DeadlineProtocol,
            lifespan="off",
            ws="none",
            log_config=None,  # the node's own formatter decides what is written
            access_log=False,  # an access log is a list of IP addresses
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_keep_alive=IDLE_S,
            timeout_graceful_shutdown=LAST_ANSWERS_S,
        )
        self._server = _ServerWithoutSignals(config)
        self._serving: asyncio.Task[None] | None = None

    async def start(self, endpoint: Endpoint) -> Endpoint:
        """Listen, and return the endpoint with the port that the system chose if it was 0."""
        listener = await _bound(endpoint)
        self._serving = asyncio.create_task(self._server.serve(sockets=[listener]))
        host, port = listener.getsockname()[:2]
        return Endpoint(host=host, port=port)

    async def stop(self) -> None:
        if self._serving is not None:
            self._server.should_exit = True
            await asyncio.gather(self._serving, return_exceptions=True)


class _ServerWithoutSignals(uvicorn.Server):
    """Handles no signals: the daemon does, and stops this listener last."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _DeadlineProtocol(H11Protocol):
    """Ends each connection soon, so that silent and trickling ones cannot fill the listener."""

    _due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            return
        super().connection_made(transport)
        if len(self.connections) > MAX_OPEN:
            transport.abort()
        else:
            self._due = self.loop.call_later(REQUEST_S, self._end_unless_answering)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._due is not None:
            self._due.cancel()
        super().connection_lost(exc)

    def _end_unless_answering(self) -> None:
        answering: RequestResponseCycle | None = self.cycle  # none before the first request, whatever its stub says
        if answering is not None and not answering.response_complete:
            self._due = self.loop.call_later(ANSWER_S, self.transport.abort)
        else:
            self.transport.abort()


async def _bound(endpoint: Endpoint) -> socket.socket:
    """Bind here, because uvicorn would end the process if it failed."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, place = found[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
            listener.listen(BACKLOG)
        except BaseException:
            listener.close()
            raise
    except OSError as error:
        raise EnvironmentUnsuitable(f"node.status = {endpoint} cannot be listened at: {error.strerror}") from error
    return listener


def _application(answers: Answers) -> Starlette:
    async def health(_: Request) -> Response:
        usable, data = await answers.health()
        return JSONResponse(data, status_code=OK if usable else UNAVAILABLE)

    async def metrics(_: Request) -> Response:
        return Response(answers.metrics(), media_type=CONTENT_TYPE_LATEST)

    async def status(_: Request) -> Response:
        return JSONResponse(await answers.status())

    return Starlette(routes=[Route(HEALTH, health), Route(METRICS, metrics), Route(STATUS, status)])
