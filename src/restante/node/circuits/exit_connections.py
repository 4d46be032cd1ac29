"""What an exit dials: nodes of its own directory, over connections of its own (SPEC 11.6).

A STORE is put to each node over a mesh connection that all circuits share. An inner connection is a TCP connection
whose bytes the exit passes on without reading them: the client's TLS ends at the node.
"""

import asyncio
from collections.abc import Callable, Hashable
from typing import Final

from restante.core.circuit.exit_shares import ExitShares
from restante.crypto.identity import Identity
from restante.model.error_codes import Code
from restante.model.errors import RestanteError
from restante.model.ids import NodeId
from restante.model.node_descriptor import NodeDescriptor
from restante.node.circuits.dialling import SharedConnections, hosts_of
from restante.policy.connection_limits import RelayLimits
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.transport.mesh_connection import MeshConnection
from restante.wire.circuit.streams import NO_ANSWER, StoreAnswer, StoreRequest, StreamFailure
from restante.wire.frames.codec import FrameType, Refused
from restante.wire.frames.mesh_storage import MeshRoom, MeshStored, NotResponsible, WrongBucket
from restante.wire.mesh_keys import mesh_inbox_key

DIAL_TIMEOUT_S: Final = 10.0
PUT_TIMEOUT_S: Final = 30.0
"""A dial, the wait for room on a connection that others use, and the answer, of 10 s each. A node that reads nothing
holds the message of a STORE no longer than that."""
MAX_WRITE_BUFFER: Final = 262_144
LINGER_S: Final = 10.0
"""How long a node may take to read what was written to it before its stream ended."""

Directory = Callable[[NodeId], NodeDescriptor | None]


class NodeSocket(asyncio.Protocol):
    """The TCP connection of one inner connection."""

    def __init__(
        self,
        *,
        on_data: Callable[[bytes], None],
        on_written: Callable[[int], None],
        on_closed: Callable[[], None],
    ) -> None:
        self._on_data = on_data
        self._on_written = on_written
        self._on_closed = on_closed
        self._transport: asyncio.Transport | None = None
        self._aborting: asyncio.TimerHandle | None = None
        self._is_blocked = False
        self._unwritten = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport
            transport.set_write_buffer_limits(high=MAX_WRITE_BUFFER)
            transport.pause_reading()

    def start(self) -> None:
        """The client knows of the connection: its bytes may be passed on."""
        self.switch_reading(on=True)

    def data_received(self, data: bytes) -> None:
        self._on_data(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the cause changes nothing for us
        self._transport = None
        if self._aborting is not None:
            self._aborting.cancel()
        if self._is_blocked:
            self.resume_writing()  # nothing waits any more: its credit is of the whole circuit
        self._on_closed()

    def pause_writing(self) -> None:
        self._is_blocked = True

    def resume_writing(self) -> None:
        self._is_blocked = False
        cost, self._unwritten = self._unwritten, 0
        self._on_written(cost)

    def write(self, data: bytes, cost: int) -> None:
        if self._transport is not None:
            self._transport.write(data)
        if self._is_blocked:
            self._unwritten += cost
        else:
            self._on_written(cost)

    def switch_reading(self, *, on: bool) -> None:
        if self._transport is not None and not self._transport.is_closing():
            (self._transport.resume_reading if on else self._transport.pause_reading)()

    def close(self) -> None:
        """Close the connection when the node has read what was written, or does not."""
        if self._transport is not None:
            self._transport.close()
            self._aborting = asyncio.get_running_loop().call_later(LINGER_S, self._transport.abort)


class ExitConnections:
    """`directory` returns the descriptor of a node that this node knows; nothing else is dialled."""

    def __init__(self, identity: Identity, directory: Directory, *, own_id: NodeId, limits: RelayLimits) -> None:
        self._directory = directory
        self._own_id = own_id
        self._identity = identity
        self._limits = limits
        self._shares = ExitShares()
        self._mesh: SharedConnections[MeshConnection] = SharedConnections(self._find, self._connect)

    async def put(self, circuit: Hashable, request: StoreRequest, place: int) -> StoreAnswer:
        """Put to one node of a STORE and return its answer as it gave it.

        A circuit that had its part of what the node lets this exit store is refused here, as a full node does.
        """
        key = mesh_inbox_key(request.blinded, request.bucket)
        claim = self._shares.claim(circuit, request.nodes[place], key, len(request.envelope))
        if claim is None:
            refused = Refused(permanent=False, code=Code.STORAGE_FAILED, retry_after_ms=0, text="")
            return StoreAnswer(place, FrameType.REFUSED, refused.body())
        rooms: list[MeshRoom] = []
        try:
            answer = await self._put(request, place, rooms)
        except BaseException:
            self._shares.unanswered(claim)
            raise
        is_stored = answer.frame_type == MeshStored.TYPE
        if rooms or is_stored:
            self._shares.answered(claim, rooms[0] if rooms else None, is_stored=is_stored)
        else:
            self._shares.unanswered(claim)
        return answer

    def forget(self, circuit: Hashable) -> None:
        """The circuit has ended."""
        self._shares.forget(circuit)

    async def _put(self, request: StoreRequest, place: int, rooms: list[MeshRoom]) -> StoreAnswer:
        try:
            async with asyncio.timeout(PUT_TIMEOUT_S):
                connection = await self._mesh.get(request.nodes[place])
                answer = await connection.put(request.blinded, request.bucket, request.envelope, on_room=rooms.append)
        except TimeoutError:
            return StoreAnswer(place, NO_ANSWER, b"")
        except AttemptFailed as failed:
            if not failed.reached:
                return StoreAnswer(place, NO_ANSWER, b"")
            refused = Refused(permanent=False, code=failed.code, retry_after_ms=failed.retry_after_ms or 0, text="")
            return StoreAnswer(place, FrameType.REFUSED, refused.body())
        except RestanteError as error:
            refused = Refused(permanent=True, code=error.code, retry_after_ms=0, text="")
            return StoreAnswer(place, FrameType.REFUSED, refused.body())
        frame = answer if isinstance(answer, WrongBucket | NotResponsible) else MeshStored(receipt=answer)
        return StoreAnswer(place, frame.TYPE, frame.body())

    async def dial(self, node_id: NodeId, socket: NodeSocket) -> StreamFailure | None:
        """Connect the socket to a node; return why not, if it can't be."""
        descriptor = self._find(node_id)
        if descriptor is None:
            return StreamFailure.UNKNOWN_NODE
        for host, port in hosts_of(descriptor):
            try:
                async with asyncio.timeout(DIAL_TIMEOUT_S):
                    await asyncio.get_running_loop().create_connection(lambda: socket, host, port)
            except (OSError, TimeoutError):
                continue
            return None
        return StreamFailure.UNREACHABLE

    async def close(self) -> None:
        await self._mesh.close()

    def _find(self, node_id: NodeId) -> NodeDescriptor | None:
        return None if node_id == self._own_id else self._directory(node_id)

    async def _connect(self, host: str, port: int, descriptor: NodeDescriptor) -> MeshConnection:
        connection = await MeshConnection.connect(host, port, node=descriptor.node_key, limits=self._limits)
        connection.authenticate(self._identity)
        return connection
