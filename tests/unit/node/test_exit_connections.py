"""node/circuits/exit_connections: how long an exit waits for a node (SPEC 11.5, 11.6)."""

import asyncio
from socket import socketpair
from typing import cast

import pytest

from restante.crypto.identity import Identity
from restante.model.ids import BlindedKey
from restante.node.circuits import exit_connections
from restante.node.circuits.exit_connections import ExitConnections, NodeSocket
from restante.policy.connection_limits import RelayLimits
from restante.runtime.transport.mesh_connection import MeshConnection
from restante.wire.circuit.streams import NO_ANSWER, StoreAnswer, StoreRequest
from restante.wire.inbox_keys import node_id_of
from support.mesh.nodes import node
from support.spec.clauses import clause

SILENT = node(1)
MORE_THAN_A_SOCKET_HOLDS = 8 * 1_048_576


class ReadsNothing:
    """A connection that has no room for one more request, however long one waits."""

    is_ready = True

    async def put(self, *_request: object, **_options: object) -> None:
        await asyncio.Event().wait()

    async def lost(self) -> None:
        await asyncio.Event().wait()

    async def close(self) -> None: ...


@clause("11.5", "11.6")
async def test_an_ended_connection_to_a_node_that_reads_nothing_does_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exit_connections, "LINGER_S", 0.05)
    closed = asyncio.Event()
    socket = NodeSocket(on_data=lambda _data: None, on_written=lambda _cost: None, on_closed=closed.set)
    near, far = socketpair()
    with far:
        transport, _ = await asyncio.get_running_loop().create_connection(lambda: socket, sock=near)
        socket.write(bytes(MORE_THAN_A_SOCKET_HOLDS), 1)
        assert transport.get_write_buffer_size()
        socket.close()
        async with asyncio.timeout(2):
            await closed.wait()


@clause("11.5")
async def test_a_connection_that_ends_while_it_is_full_gives_its_credit_back() -> None:
    happened: list[int | str] = []
    closed = asyncio.Event()

    def on_closed() -> None:
        happened.append("closed")
        closed.set()

    socket = NodeSocket(on_data=lambda _data: None, on_written=happened.append, on_closed=on_closed)
    near, far = socketpair()
    with far:
        transport, _ = await asyncio.get_running_loop().create_connection(lambda: socket, sock=near)
        socket.write(bytes(MORE_THAN_A_SOCKET_HOLDS), 3)
        socket.write(b"more", 4)
        transport.abort()
        async with asyncio.timeout(2):
            await closed.wait()
        socket.write(b"too late", 5)
    assert happened == [7, "closed", 5]


@clause("11.5", "11.6")
async def test_a_node_that_reads_nothing_does_not_hold_a_message_at_the_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exit_connections, "PUT_TIMEOUT_S", 0.05)
    identity = Identity(b"x" * 32)
    known = {SILENT.node_id: SILENT}
    exits = ExitConnections(identity, known.get, own_id=node_id_of(identity.node_key), limits=RelayLimits())

    async def connect(*_place: object) -> MeshConnection:
        return cast("MeshConnection", ReadsNothing())

    exits._mesh._connect = connect
    request = StoreRequest((SILENT.node_id,), BlindedKey(b"b" * 32), 7, b"message")
    async with asyncio.timeout(2):
        assert await exits.put("circuit", request, 0) == StoreAnswer(0, NO_ANSWER, b"")
    await exits.close()
