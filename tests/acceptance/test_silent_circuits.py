"""Circuits over real TLS that say nothing any more: a hop that loses cells, a guard whose machine is gone (SPEC 11.3).

Neither sends DESTROY or ends a connection, so that only the client's own clock can tell.
"""

import asyncio

import pytest

from restante.client.circuits import pool as pool_module
from restante.client.circuits.mesh_circuits import MeshCircuits
from restante.client.circuits.pool import CircuitPool
from restante.client.circuits.store_fanout import StoreFanout
from restante.core.circuit.pool import STORES
from restante.model.ids import BlindedKey
from restante.policy.circuits.build_times import ENOUGH
from restante.ports.relay_connection import ConnectionLost
from restante.wire.envelope import Envelope, encode_envelope
from restante.wire.mesh_keys import mesh_inbox_key
from restante.wire.storage_receipts import StorageReceipt
from support.circuit.network import HopNode, network, pool_of
from support.mesh.scripted_node import BUCKET, SIGNER
from support.spec.clauses import clause
from support.system.wait_until import until_true

BLINDED = BlindedKey(SIGNER.public_key)
SOON_S = 1.0
WITHIN_S = 8.0
INBOX = "public inbox"


@pytest.fixture(autouse=True)
def _short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "silent_after_s", lambda _: SOON_S)


async def stored(pool: CircuitPool, node: HopNode) -> object:
    key = mesh_inbox_key(BLINDED, BUCKET)
    envelope = encode_envelope(Envelope(inbox_key=key, expires_at_ms=(BUCKET + 24) * 3_600_000, sealed=bytes(500)))
    async with asyncio.timeout(WITHIN_S):
        return await StoreFanout(pool).put(node.descriptor, BLINDED, BUCKET, envelope)


@clause("11.3")
@pytest.mark.parametrize("place", [1, 2], ids=["middle", "exit"])
async def test_a_message_takes_another_circuit_when_a_hop_loses_its_cells(place: int) -> None:
    async with network(8) as made, pool_of(made) as pool:
        pool.start()
        first = await pool.acquire(STORES)
        made.node(first.hops[place]).family.loses_frames = True
        target = next(node for node in made.nodes if node.node_id not in first.hops)
        assert isinstance(await stored(pool, target), StorageReceipt)
        assert not first.is_open
        assert pool.status().silent


@clause("11.3", "11.7")
@pytest.mark.parametrize("place", [1, 2], ids=["middle", "exit"])
async def test_a_hop_that_lets_a_build_time_out_is_named_and_passed_over(place: int) -> None:
    async with network(12) as made, pool_of(made) as pool:
        first = await pool.acquire(STORES)
        for _ in range(ENOUGH):
            pool.times.built(0.1)
        silent = made.node(first.hops[place])
        silent.family.loses_frames = True
        choose, paths = pool._path, [first.path]
        pool._path = lambda *args: paths.pop() if paths else choose(*args)  # type: ignore[method-assign]
        for number in range(5):
            assert silent.node_id not in (await pool.acquire(f"use {number}")).hops
        assert pool.status().failures == {("middle", "exit")[place - 1]: 1}


@clause("11.3", "11.4")
async def test_another_guard_is_used_when_the_machine_of_the_first_is_gone() -> None:
    async with network(8) as made, pool_of(made) as pool:
        pool.start()
        first = await pool.acquire(STORES)
        guard = made.node(first.hops[0])
        guard.table.stop_admitting()  # and reads nothing more
        target = next(node for node in made.nodes if node.node_id not in first.hops)
        assert isinstance(await stored(pool, target), StorageReceipt)
        assert guard.node_id not in {hop for each in pool._members for hop in each.hops[:1]}


@clause("11.3", "11.6")
async def test_an_inner_connection_ends_when_nothing_comes_over_its_circuit() -> None:
    async with network(8) as made, pool_of(made) as pool:
        circuits = MeshCircuits(pool, on_rotating=lambda _: None)
        target = made.nodes[0].descriptor
        connection = await circuits.connect(target, INBOX, exits=1)
        [circuit] = circuits._inner
        made.node(circuit.hops[1]).family.loses_frames = True
        asking = asyncio.create_task(connection.get_record(bytes(32)))
        async with asyncio.timeout(WITHIN_S):
            await connection.lost()
        with pytest.raises(ConnectionLost):
            await asking
        await circuits.close()


@clause("11.3", "11.6")
async def test_a_node_that_is_slow_to_answer_ends_no_circuit() -> None:
    """The exit answers the client's probe meanwhile."""
    async with network(8, answer=lambda *_: ()) as made, pool_of(made) as pool:
        circuits = MeshCircuits(pool, on_rotating=lambda _: None)
        connection = await circuits.connect(made.nodes[0].descriptor, INBOX, exits=1)
        [circuit] = circuits._inner
        asking = asyncio.create_task(connection.get_record(bytes(32)))
        exit_node = made.node(circuit.hops[2])
        before = len(exit_node.cells)
        await until_true(lambda: len(exit_node.cells) >= before + 2)  # the request and the probe
        await until_true(lambda: circuit.owed_since_s is None)
        assert circuit.is_open
        assert not asking.done()
        asking.cancel()
        await circuits.close()
