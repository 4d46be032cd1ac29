"""Circuits against a guard that marks, a client that stops reading and a flood of CREATE, over real TLS (NETWORK 6)."""

import asyncio
import contextlib
import ipaddress
import itertools
import socket
import time
from collections.abc import AsyncIterator, Sequence

import pytest

from restante.client.circuits.circuit import ClientCircuit
from restante.core.circuit.cell_queues import MAX_QUEUE_BYTES, CellBudget
from restante.core.circuit.flow import CIRCUIT_WINDOW
from restante.core.circuit.pool import STORES
from restante.core.mesh_proofs.descriptors import sign_descriptor
from restante.crypto.identity import Identity
from restante.crypto.onion import start_handshake
from restante.model.ids import NodeId
from restante.model.node_descriptor import Endpoint, NodeDescriptor, Role
from restante.policy.circuits.create_limits import BURST_S, CORE_SHARE, PER_CLIENT_PER_S
from restante.policy.circuits.limits import MESSAGES_PER_CIRCUIT
from restante.policy.circuits.path import Path
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.system import SystemClock, SystemEntropy
from restante.runtime.transport.circuit_connection import CircuitConnection
from restante.wire.circuit.cells import DIALLER_BIT
from restante.wire.circuit.frames import CircuitFrameType, Create, encode_create, encode_destroy
from support.circuit.network import HOUR_MS, HopNode, Network, network, pool_of
from support.spec.clauses import clause
from support.system.wait_until import until_true

MARK = b"the guard's mark"
MARKED_ID = 0x9A_5A_5A_5A
BUFFER_BYTES = 65_536
"""Of the sockets between client and guard, so that queues grow in the guard and not in the kernel."""
UNKNOWN = NodeId(b"?" * 32)


class Marking(SystemEntropy):
    """Where a hop should draw random bytes, it writes its mark."""

    def draw(self, size: int) -> bytes:
        return (MARK * (size // len(MARK) + 1))[:size]


async def round_trip(circuit: ClientCircuit) -> float:
    """Ask the exit for a node that it does not know; return how long its answer took, in seconds."""
    began_s = time.perf_counter()
    with contextlib.suppress(AttemptFailed):
        await circuit.begin(UNKNOWN)
    assert circuit.is_open
    return time.perf_counter() - began_s


@clause("11.1", "11.5")
async def test_no_mark_that_a_guard_leaves_in_frames_and_circuit_ids_reaches_the_exit() -> None:
    async with network(6) as made, pool_of(made) as pool:
        guard = made.node(pool._guards.in_order(made.descriptors())[0].node_id)
        guard.family.entropy = Marking()
        for uses in ("first", "second"):
            circuits = [await pool.acquire(f"{uses} {number}") for number in range(8)]
            for circuit in circuits:
                await round_trip(circuit)
                circuit.close()
            for connection, _ in guard.family.next_hops._open.values():
                connection._last = MARKED_ID
        others = [node for node in made.nodes if node is not guard]
        await until_true(lambda: not any(node.family.circuits for node in others))

        from_guard = [frame for node in others for frame in node.frames_from(guard)]
        from_middles = [frame for node in others for frame in node.frames_from(*others)]
        marked = {frame.type for frame in from_guard if MARK in frame.body}
        assert marked == {CircuitFrameType.CREATE, CircuitFrameType.CELL, CircuitFrameType.DESTROY}
        assert any(frame.request > MARKED_ID for frame in from_guard)
        assert {frame.type for frame in from_middles} == marked
        assert not any(MARK in frame.body or frame.request > MARKED_ID for frame in from_middles)


class Pouring(asyncio.Protocol):
    """Sends more than any window takes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(bytes(4 * CIRCUIT_WINDOW))


@contextlib.asynccontextmanager
async def firehose(made: Network) -> AsyncIterator[NodeId]:
    """A node of the directory that sends zeros as fast as they are taken."""
    server = await asyncio.get_running_loop().create_server(Pouring, "127.0.99.1", 0)
    identity = Identity(b"f" * 32)
    now_ms = SystemClock().now_ms()
    unsigned = NodeDescriptor(
        node_key=identity.node_key,
        onion_key=bytes(32),
        endpoints=(Endpoint(ipaddress.ip_address("127.0.99.1").packed, server.sockets[0].getsockname()[1]),),
        roles=Role.STORAGE,
        issued_at_ms=now_ms,
        expires_at_ms=now_ms + 2 * HOUR_MS,
    )
    node = sign_descriptor(unsigned, identity)
    made.directory[node.node_id] = node
    try:
        yield node.node_id
    finally:
        server.close()


def p99(times_s: Sequence[float]) -> float:
    return sorted(times_s)[len(times_s) * 99 // 100]


async def pace(circuits: Sequence[ClientCircuit]) -> float:
    """Return the P99 of round trips that all circuits make at the same time, the best of five rounds."""
    return min([p99(await asyncio.gather(*map(round_trip, circuits))) for _ in range(5)])


async def connection_to(guard: HopNode, source: str = "127.0.0.1") -> CircuitConnection:
    """Return a client's connection, made from an address of this network."""
    [endpoint] = guard.descriptor.endpoints

    async def dial(protocol: asyncio.BufferedProtocol) -> None:
        host = str(ipaddress.ip_address(endpoint.ip))
        loop = asyncio.get_running_loop()
        near = socket.socket()
        near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        near.setblocking(False)
        near.bind((source, 0))
        await loop.sock_connect(near, (host, endpoint.port))
        await loop.create_connection(lambda: protocol, sock=near)

    made = await CircuitConnection.connect_over(dial, node=guard.identity.node_key)
    return made.use(CellBudget(2**30), SystemEntropy())


async def circuits_over(
    connection: CircuitConnection, made: Network, count: int, *, turn: int = 0
) -> list[ClientCircuit]:
    """Build circuits over the first node. `turn` chooses the other hops: one takes 400 a second from another."""
    guard, *behind = (node.descriptor for node in made.nodes)
    path = Path(guard=guard, middle=behind[turn % len(behind)], exit=behind[(turn + 1) % len(behind)])
    circuits = [ClientCircuit(path, connection, entropy=SystemEntropy(), on_ended=lambda _: None) for _ in range(count)]
    await asyncio.gather(*(each.built for each in circuits))
    return circuits


@clause("11.5")
@pytest.mark.parametrize(
    "clients", [5, pytest.param(50, marks=pytest.mark.soak)], ids=["100 circuits", "1,000 circuits"]
)
async def test_circuits_of_a_client_that_stops_reading_slow_no_other_and_keep_to_their_windows(clients: int) -> None:
    async with network(6) as made, firehose(made) as pouring:
        guard = made.nodes[0]
        guard.server.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        slow = await connection_to(guard)
        stopped = await circuits_over(slow, made, PER_CLIENT_PER_S)
        connections = [await connection_to(guard) for _ in range(clients)]
        others = [
            each
            for turn, every in enumerate(connections)
            for each in await circuits_over(every, made, PER_CLIENT_PER_S, turn=turn)
        ]
        before_s = await pace(others)
        assert slow.transport is not None
        slow.transport.pause_reading()
        waiting = [asyncio.create_task(each.begin(pouring)) for each in stopped]
        await until_true(lambda: guard.family.cells.total_bytes)  # its socket takes no more
        after_s = await pace(others)
        assert all(each.is_open for each in others)
        assert len(guard.family.circuits) == len(stopped) + len(others)
        assert guard.family.cells.total_bytes <= len(stopped) * MAX_QUEUE_BYTES
        assert after_s <= 1.5 * before_s
        for task in waiting:
            task.cancel()
        for each in (slow, *connections):
            each.abort()


async def slowest_build(made: Network) -> float:
    """Return the P99 of as many builds, one after the other, as a client may ask for at once."""
    connection, times_s = await connection_to(made.nodes[0]), list[float]()
    for _ in range(PER_CLIENT_PER_S):
        began_s = time.perf_counter()
        await circuits_over(connection, made, 1)
        times_s.append(time.perf_counter() - began_s)
    connection.abort()
    return p99(times_s)


async def flood_of_creates(guard: HopNode) -> None:
    """Ask for circuits faster than a connection may, and leave each soon."""
    connection = await connection_to(guard, source="127.0.77.1")
    draw = SystemEntropy().draw
    request = start_handshake(guard.node_id, guard.descriptor.onion_key, hop=1, entropy=draw(96)).request
    try:
        for number in itertools.count(DIALLER_BIT):
            connection.send(encode_create(number, Create(1, request), draw) + encode_destroy(number - 5, draw))
            await asyncio.sleep(0.01)
    finally:
        connection.abort()


@contextlib.asynccontextmanager
async def flooded(guard: HopNode) -> AsyncIterator[None]:
    flood = [asyncio.create_task(flood_of_creates(guard)) for _ in range(10)]
    await until_true(lambda: guard.family.refused > 100)
    yield
    for task in flood:
        task.cancel()
    await asyncio.gather(*flood, return_exceptions=True)


@clause("11.5")
async def test_a_flood_of_create_gets_a_quarter_of_a_core_and_honest_clients_are_served() -> None:
    async with network(6) as made, flooded(made.nodes[0]):
        family = made.nodes[0].family
        work_s, began_s = family.handshakes_s, time.perf_counter()
        await slowest_build(made)  # none of its circuits is refused
        assert family.handshakes_s - work_s <= CORE_SHARE * (time.perf_counter() - began_s) + BURST_S


@pytest.mark.soak  # compares times
@clause("11.5")
async def test_in_a_flood_of_create_honest_builds_take_at_most_three_times_as_long() -> None:
    async with network(6) as made:
        before_s = min([await slowest_build(made) for _ in range(5)])
        async with flooded(made.nodes[0]):
            during_s = min([await slowest_build(made) for _ in range(5)])
        assert during_s <= 3 * before_s


@clause("11.2")
async def test_a_circuit_is_replaced_after_as_many_messages_as_it_may_carry() -> None:
    async with network(6) as made, pool_of(made) as pool:
        first = await pool.acquire(STORES)
        carried = 1
        while (following := await pool.acquire(STORES)) is first:
            carried += 1
        assert MESSAGES_PER_CIRCUIT <= carried <= MESSAGES_PER_CIRCUIT + 2, "some are allowed again meanwhile"
        assert following.is_open
