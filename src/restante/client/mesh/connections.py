"""Connections to nodes of the mesh: one for each node and use, opened on demand, closed when idle (SPEC 6.5).

Uses never mix: what puts proves no inbox, and each inbox has connections of its own.
"""

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from restante.client.circuits.circuit import CircuitFailed
from restante.model.ids import BlindedKey, NodeKey
from restante.model.node_descriptor import NodeDescriptor
from restante.model.places import RelayPlace
from restante.policy.failures import Failure
from restante.ports.mesh_connection import MeshConnection, MeshConnector, PutAnswer, UnsignedAnswer
from restante.ports.relay_connection import AttemptFailed, ConnectionLost
from restante.wire.storage_receipts import StorageReceipt

IDLE_S: Final = 60.0
RECORDS_IDLE_S: Final = 5.0
"""Keys are published and fetched seldom: their connections soon make room for other circuits."""
RETRY_S: Final = 5.0
"""A node that could not be dialled is not dialled again for this long: many requests ask for it at once."""
INBOX_EXITS: Final = 2
"""Different exits over which the nodes of one inbox are asked, at least (SPEC 11.6)."""


class Use(StrEnum):
    """What connections are for. Each inbox has connections under a name of its own."""

    DIRECTORY = "directory"
    PUTS = "puts"
    RECORDS = "records"
    LOOKUP = "lookup"


_ONE_EXIT: Final = frozenset({Use.PUTS, Use.RECORDS, Use.LOOKUP})


class Circuits(Protocol):
    """Reaches nodes through circuits instead of directly (SPEC 11.6). Uses with different names share no circuit.

    `slots` are for messages that are stored at the same time.
    """

    slots: asyncio.Semaphore

    async def connect(self, node: NodeDescriptor, use: str, *, exits: int) -> MeshConnection:
        """Return an inner connection to the node. Those of one use leave over at least so many different exits."""
        ...

    async def put(self, node: NodeDescriptor, blinded: BlindedKey, bucket: int, envelope: bytes) -> PutAnswer:
        """Put to a node. Puts of one envelope at the same moment are uploaded once."""
        ...

    def admit(self, size_bytes: int) -> None:
        """Count one message. Raises `AttemptFailed` with the time to wait if the client sends too fast."""
        ...

    async def close(self) -> None: ...


class NodeNotReached(AttemptFailed):
    """No connection to the node could be made."""

    def __init__(self, text: str = "the node cannot be reached", *, failure: Failure = Failure.CONNECTION_REFUSED):
        super().__init__(text, failure=failure, reached=False)


class CircuitBroke(NodeNotReached):
    """The circuit failed before the node could answer: nothing is known about the node."""


@dataclass(slots=True)
class _Open:
    connection: MeshConnection
    watching: asyncio.Task[None]
    used_at_s: float
    is_pinned: bool = False


Key = tuple[NodeKey, str]


class MeshConnections:
    """Call `close` when done. `on_greeted` gets each node's key and its time when a connection was made."""

    def __init__(self, connect: MeshConnector, *, on_greeted: Callable[[NodeKey, int], None]) -> None:
        self._connect = connect
        self._on_greeted = on_greeted
        self._open: dict[Key, _Open] = {}
        self._dialling: dict[Key, asyncio.Task[MeshConnection]] = {}
        self._not_before_s: dict[NodeKey, float] = {}
        self.circuits: Circuits | None = None
        """What reaches nodes through circuits; None: they are dialled directly. Copies of the whole directory always
        are (SPEC 11.7)."""
        self._replaced: set[asyncio.Task[None]] = set()
        self._on_replaced: list[Callable[[MeshConnection], None]] = []

    def is_unreachable(self, node: NodeKey) -> bool:
        """Return whether the last dial of this node failed, a moment ago."""
        return asyncio.get_running_loop().time() < self._not_before_s.get(node, 0.0)

    async def get(self, node: NodeDescriptor | RelayPlace, use: str) -> MeshConnection:
        """Return the connection to this node for this use; dial it if there is none. Raises `NodeNotReached`."""
        key = (node.node_key, use)
        held = self._open.get(key)
        if held is not None:
            held.used_at_s = asyncio.get_running_loop().time()
            return held.connection
        dialling = self._dialling.get(key)
        if dialling is None:
            if self.is_unreachable(node.node_key):
                raise NodeNotReached
            dialling = self._dialling[key] = asyncio.create_task(self._dial(node, key))
            dialling.add_done_callback(_retrieve_exception)
        return await asyncio.shield(dialling)

    async def put(self, node: NodeDescriptor, blinded: BlindedKey, bucket: int, envelope: bytes) -> PutAnswer:
        """Put to one node, over a connection that only puts or through a circuit."""
        if self.circuits is not None:
            return await self.circuits.put(node, blinded, bucket, envelope)
        answer = await (await self.get(node, Use.PUTS)).put(blinded, bucket, envelope)
        return answer if isinstance(answer, StorageReceipt) else (UnsignedAnswer(answer),)

    @contextlib.asynccontextmanager
    async def storing(self, size_bytes: int) -> AsyncIterator[None]:
        """Store one message inside the block. Through circuits it waits for its turn.

        Raises `AttemptFailed` if the circuits have carried as much as they may for now (SPEC 11.2).
        """
        if self.circuits is None:
            yield
            return
        async with self.circuits.slots:
            self.circuits.admit(size_bytes)
            yield

    def on_replaced(self, call: Callable[[MeshConnection], None]) -> None:
        """Call this when a connection will end soon, and the next `get` opens another for its use."""
        self._on_replaced.append(call)

    def replace(self, connection: MeshConnection) -> None:
        """Open no more requests on this connection: its circuit is old. A subscription moves before it ends."""
        for key, held in tuple(self._open.items()):
            if held.connection is connection:
                del self._open[key]
                self._replaced.add(held.watching)
                held.watching.add_done_callback(self._replaced.discard)
                for call in self._on_replaced:
                    call(connection)

    def pin(self, connection: MeshConnection, use: str) -> None:
        """Keep this connection although it is idle: it has a subscription."""
        held = self._open.get((connection.node, use))
        if held is not None:
            held.is_pinned = True

    async def drop(self, node: NodeKey, use: str) -> None:
        """Close this connection, if there is one."""
        held = self._open.get((node, use))
        if held is not None:
            held.watching.cancel()
            await asyncio.gather(held.watching, return_exceptions=True)

    async def close(self) -> None:
        tasks: list[asyncio.Task[object]] = [
            *self._dialling.values(),
            *(each.watching for each in self._open.values()),
            *self._replaced,
        ]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.circuits is not None:
            await self.circuits.close()

    async def _dial(self, node: NodeDescriptor | RelayPlace, key: Key) -> MeshConnection:
        loop = asyncio.get_running_loop()
        try:
            if self.circuits is None or isinstance(node, RelayPlace) or key[1] == Use.DIRECTORY:
                connection = await self._first_of(dial_places(node))
            else:
                exits = 1 if key[1] in _ONE_EXIT else INBOX_EXITS
                connection = await self.circuits.connect(node, str(key[1]), exits=exits)
        except AttemptFailed as failed:
            if self.circuits is not None and isinstance(failed, CircuitFailed | ConnectionLost):
                raise CircuitBroke(str(failed), failure=failed.failure) from failed
            if self.circuits is None:  # else it may be the exit that can't reach it
                self._not_before_s[key[0]] = loop.time() + RETRY_S
            failure = failed.failure
            if failure is Failure.AUTHENTICATION_FAILED:  # one node among many: no relay has another key
                failure = Failure.CONNECTION_REFUSED
            raise NodeNotReached(str(failed), failure=failure) from failed
        finally:
            self._dialling.pop(key, None)
        self._not_before_s.pop(key[0], None)
        self._on_greeted(key[0], connection.hello.now_ms)
        held = _Open(connection, asyncio.create_task(self._watch(key, connection)), loop.time())
        self._open[key] = held
        return connection

    async def _first_of(self, places: list[RelayPlace]) -> MeshConnection:
        failed: AttemptFailed = NodeNotReached("the node names no endpoint")
        for place in places:
            try:
                return await self._connect(place)
            except AttemptFailed as problem:
                failed = problem
        raise failed

    async def _watch(self, key: Key, connection: MeshConnection) -> None:
        """Wait until the connection is lost or has been idle for too long; then close it."""
        loop = asyncio.get_running_loop()
        lost = asyncio.create_task(connection.lost())
        most_s = RECORDS_IDLE_S if key[1] == Use.RECORDS else IDLE_S
        try:
            while not lost.done():
                held = self._open.get(key)
                is_other = held is None or held.connection is not connection
                idle_s = 0.0 if held is None or is_other or held.is_pinned else loop.time() - held.used_at_s
                if idle_s >= most_s:
                    return
                await asyncio.wait([lost], timeout=most_s - idle_s)
        finally:
            held = self._open.get(key)
            if held is not None and held.connection is connection:
                del self._open[key]
            lost.cancel()
            with contextlib.suppress(AttemptFailed):
                await connection.close()


def dial_places(node: NodeDescriptor | RelayPlace) -> list[RelayPlace]:
    """Return where a node is dialled."""
    if isinstance(node, RelayPlace):
        return [node]
    return [
        RelayPlace(node_key=node.node_key, host=str(ipaddress.ip_address(each.ip)), port=each.port)
        for each in node.endpoints
    ]


def _retrieve_exception(dial: asyncio.Task[MeshConnection]) -> None:
    """Mark the exception as seen: every caller that still waits gets it, and there may be none."""
    if not dial.cancelled():
        dial.exception()
