"""The pool of a client over real TLS: two exits for an inbox, turns when all circuits are in use, rotation."""

import asyncio
import contextlib

from restante.client.circuits.circuit import ClientCircuit
from restante.client.circuits.mesh_circuits import MeshCircuits
from restante.client.circuits.stream_transport import StreamTransport
from restante.core.circuit.flow import MAX_STREAMS
from restante.model.ids import NodeId
from restante.model.node_descriptor import NodeDescriptor
from restante.policy.circuits.limits import GONE_MS, CircuitLimits
from restante.ports.mesh_connection import MeshConnection
from restante.runtime.system import SystemClock
from restante.runtime.transport.mesh_connection import MeshConnection as TlsMeshConnection
from restante.testing.deterministic import FakeClock
from support.circuit.network import Network, network, pool_of
from support.spec.clauses import clause
from support.system.wait_until import until_true

INBOX = "public inbox"


@clause("11.1", "11.6")
async def test_the_five_nodes_of_an_inbox_are_asked_over_two_exits_and_over_no_circuit_of_their_own() -> None:
    async with network(7) as made, pool_of(made) as pool:
        circuits = MeshCircuits(pool, on_rotating=lambda _: None)
        asked = [await circuits.connect(node.descriptor, INBOX, exits=2) for node in made.nodes[:5]]
        used = circuits._inner
        assert sum(map(len, used.values())) == 5
        assert len({circuit.hops[-1] for circuit in used}) >= 2
        assert 2 <= len(used) <= 4, "a small mesh needs few circuits for an inbox"
        for circuit, connections in used.items():
            hops = {made.node(hop).identity.node_key for hop in circuit.hops}
            assert not hops & {each.node for each in connections}
        for each in asked:
            await each.close()
        await circuits.close()


@clause("11.2")
async def test_a_request_that_waits_for_a_circuit_goes_on_when_a_stream_ends() -> None:
    async with network(6) as made, pool_of(made, limits=CircuitLimits(pool=6)) as pool:
        full = await pool.acquire("use 0")
        (first, _), *_ = [await full.begin(_outside(made, full)) for _ in range(MAX_STREAMS)]
        for number in range(1, 6):
            circuit = await pool.acquire(f"use {number}")
            await circuit.begin(_outside(made, circuit))
        waiting = asyncio.create_task(pool.acquire("use 0"))
        other = asyncio.create_task(pool.acquire("use 0"))
        await asyncio.sleep(0)
        assert not waiting.done()
        full.close_stream(first)
        assert await waiting is full
        assert await other is full, "no stream was opened meanwhile"


@clause("11.1")
async def test_a_caller_that_gives_up_an_inner_connection_ends_no_circuit() -> None:
    async with network(7) as made, pool_of(made) as pool:
        circuit = await pool.acquire(INBOX)
        node = made.node(_outside(made, circuit))

        async def dial(protocol: asyncio.BufferedProtocol) -> None:
            await StreamTransport(circuit, protocol).open(node.node_id)
            assert isinstance(protocol, TlsMeshConnection)
            protocol._ready.cancel()  # as a cancelled caller does, some turns of the loop before it aborts
            await until_true(lambda: protocol.is_ready)

        with contextlib.suppress(asyncio.CancelledError):
            await TlsMeshConnection.connect_over(dial, node=node.identity.node_key)
        assert circuit.is_open
        other = await inner(circuit, node.descriptor)
        assert await other.get_record(b"k" * 32) is None
        await other.close()


async def inner(circuit: ClientCircuit, node: NodeDescriptor) -> TlsMeshConnection:
    async def dial(protocol: asyncio.BufferedProtocol) -> None:
        await StreamTransport(circuit, protocol).open(node.node_id)

    return await TlsMeshConnection.connect_over(dial, node=node.node_key)


def _outside(made: Network, circuit: ClientCircuit) -> NodeId:
    return next(node.node_id for node in made.nodes if node.node_id not in circuit.hops)


@clause("11.3")
async def test_a_subscription_is_opened_on_a_fresh_circuit_before_the_old_one_ends() -> None:
    clock = FakeClock(SystemClock().now_ms())
    replaced: list[MeshConnection] = []
    async with network(8) as made, pool_of(made, clock=clock) as pool:
        circuits = MeshCircuits(pool, on_rotating=replaced.append)
        node = made.nodes[0].descriptor
        old = await circuits.connect(node, INBOX, exits=1)
        [old_circuit] = circuits._inner
        clock.advance(GONE_MS - 20_000)
        pool._tick()
        assert replaced == [old]
        assert old_circuit.is_open
        assert old.is_ready
        new = await circuits.connect(node, INBOX, exits=1)
        [new_circuit] = circuits._inner
        assert new_circuit is not old_circuit
        assert await new.get_record(b"k" * 32) is None
        assert await old.get_record(b"k" * 32) is None, "until it ends, the old one still answers"
        clock.advance(20_000)
        pool._tick()
        await until_true(lambda: not old_circuit.is_open)
        assert new_circuit.is_open
        await new.close()
        await circuits.close()
