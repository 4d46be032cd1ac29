"""Connections to other nodes that many circuits share: one a node, dialled on demand, closed when idle."""

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, Generic, Protocol, TypeVar

from restante.model.ids import NodeId
from restante.model.node_descriptor import NodeDescriptor
from restante.policy.failures import Failure
from restante.ports.relay_connection import AttemptFailed

IDLE_S: Final = 120.0
RETRY_S: Final = 5.0
"""A node that could not be dialled is not dialled again for this long."""


class Shared(Protocol):
    @property
    def is_ready(self) -> bool: ...
    async def lost(self) -> None: ...
    async def close(self) -> None: ...


Connection = TypeVar("Connection", bound=Shared)


def hosts_of(descriptor: NodeDescriptor) -> Iterator[tuple[str, int]]:
    for endpoint in descriptor.endpoints:
        yield str(ipaddress.ip_address(endpoint.ip)), endpoint.port


class SharedConnections(Generic[Connection]):
    """`find` returns the descriptor of a node that may be dialled, None for any other."""

    def __init__(
        self,
        find: Callable[[NodeId], NodeDescriptor | None],
        connect: Callable[[str, int, NodeDescriptor], Awaitable[Connection]],
        *,
        is_busy: Callable[[Connection], bool] = lambda _connection: False,
    ) -> None:
        self._find = find
        self._connect = connect
        self._is_busy = is_busy
        self._open: dict[NodeId, tuple[Connection, asyncio.Task[None]]] = {}
        self._used_s: dict[NodeId, float] = {}
        self._dialling: dict[NodeId, asyncio.Task[Connection]] = {}
        self._not_before_s: dict[NodeId, float] = {}

    async def get(self, node_id: NodeId) -> Connection:
        """Return the connection to this node. Raises `AttemptFailed` if there is none and it can't be dialled."""
        now_s = asyncio.get_running_loop().time()
        held = self._open.get(node_id)
        if held is not None and held[0].is_ready:
            self._used_s[node_id] = now_s
            return held[0]
        dialling = self._dialling.get(node_id)
        if dialling is None:
            if now_s < self._not_before_s.get(node_id, 0.0):
                raise _not_reached("the node could not be dialled a moment ago")
            descriptor = self._find(node_id)
            if descriptor is None:
                raise _not_reached("the node is not in the directory")
            dialling = self._dialling[node_id] = asyncio.create_task(self._dial(node_id, descriptor))
            dialling.add_done_callback(_retrieve)
        return await asyncio.shield(dialling)

    async def close(self) -> None:
        tasks: list[asyncio.Task[Connection] | asyncio.Task[None]] = [*self._dialling.values()]
        tasks += [watching for _, watching in self._open.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _dial(self, node_id: NodeId, descriptor: NodeDescriptor) -> Connection:
        failed = _not_reached("the node names no endpoint")
        try:
            for host, port in hosts_of(descriptor):
                try:
                    connection = await self._connect(host, port, descriptor)
                except AttemptFailed as problem:
                    failed = _not_reached(str(problem))
                    continue
                self._used_s[node_id] = asyncio.get_running_loop().time()
                self._open[node_id] = connection, asyncio.create_task(self._watch(node_id, connection))
                self._not_before_s.pop(node_id, None)
                return connection
        finally:
            self._dialling.pop(node_id, None)
        self._not_before_s[node_id] = asyncio.get_running_loop().time() + RETRY_S
        raise failed

    async def _watch(self, node_id: NodeId, connection: Connection) -> None:
        """Wait until the connection is lost or was idle for too long; then close it."""
        loop = asyncio.get_running_loop()
        lost = asyncio.create_task(connection.lost())
        try:
            while not lost.done():
                idle_s = 0.0 if self._is_busy(connection) else loop.time() - self._used_s.get(node_id, 0.0)
                if idle_s >= IDLE_S:
                    return
                await asyncio.wait([lost], timeout=max(1.0, IDLE_S - idle_s))
        finally:
            lost.cancel()
            held = self._open.get(node_id)
            if held is not None and held[0] is connection:
                del self._open[node_id]
                self._used_s.pop(node_id, None)
            await connection.close()


def _not_reached(text: str) -> AttemptFailed:
    return AttemptFailed(text, failure=Failure.CONNECTION_REFUSED, reached=False)


def _retrieve(dial: "asyncio.Task[Connection]") -> None:
    """Mark the exception as seen: every caller that still waits gets it, and there may be none."""
    if not dial.cancelled():
        dial.exception()
