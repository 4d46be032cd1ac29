"""What one connection may ask of a hop, and what a hop remembers of nodes that it does not know (SPEC 11.5, 7.12)."""

import asyncio
import tracemalloc
from types import SimpleNamespace
from typing import cast

import pytest

from restante.core.circuit.table import Phase
from restante.crypto.identity import Identity
from restante.crypto.onion import onion_public_key, start_handshake
from restante.model.ids import NodeId, NodeKey
from restante.model.node_descriptor import NodeDescriptor
from restante.node.circuits.dialling import SharedConnections
from restante.node.circuits.family import CircuitFamily
from restante.node.frame_family import Peer
from restante.policy.circuits.create_limits import PER_CLIENT_PER_S
from restante.policy.circuits.limits import HOP_IDLE_S, CircuitLimits
from restante.policy.connection_limits import RelayLimits
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.system import SystemEntropy
from restante.runtime.transport.circuit_connection import CircuitConnection
from restante.wire.circuit.cells import BODY_BYTES, DIALLER_BIT, CellClass
from restante.wire.circuit.frames import CircuitFrameType, Create, encode_create
from restante.wire.frames.codec import RawFrame
from restante.wire.inbox_keys import node_id_of
from support.mesh.nodes import node
from support.spec.clauses import clause
from support.system.wait_until import until_true

KNOWN = node(1)
BODY = b"\x01".ljust(BODY_BYTES[CellClass.SMALL], b"x")
CREATES = [RawFrame(CircuitFrameType.CREATE, DIALLER_BIT + number, BODY) for number in range(40)]

HOST = Identity(b"h" * 32)
SECRET = b"s" * 32
MOST = 16
"""Circuits at once, in the tests that fill a hop."""


def family_of(limits: CircuitLimits) -> CircuitFamily:
    return CircuitFamily(
        HOST,
        {KNOWN.node_id: KNOWN}.get,
        lambda: {onion_public_key(SECRET): SECRET},
        entropy=SystemEntropy(),
        circuit_limits=limits,
        limits=RelayLimits(),
    )


def create_of(number: int) -> RawFrame:
    node_id, onion_key = node_id_of(HOST.node_key), onion_public_key(SECRET)
    request = start_handshake(node_id, onion_key, hop=1, entropy=SystemEntropy().draw(96)).request
    body = encode_create(DIALLER_BIT, Create(1, request), SystemEntropy().draw)[-BODY_BYTES[CellClass.SMALL] :]
    return RawFrame(CircuitFrameType.CREATE, DIALLER_BIT + number, body)


async def circuits_from(family: CircuitFamily, source: bytes, count: int, *, proved: NodeKey | None = None) -> int:
    """Ask for circuits over two connections; return how many were made."""
    before = len(family.circuits)
    peer = SimpleNamespace(node_key=proved, source=source, can_write=True, send=lambda _raw: None)
    connections = [family.connect(cast("Peer", peer)) for _ in range(2)]
    for number in range(count):
        connections[number % 2].handle([create_of(number)], now_s=0.0)
    await until_true(lambda: not len(family._waiting))
    return len(family.circuits) - before


@clause("11.5")
async def test_a_source_that_took_half_of_the_circuits_leaves_the_others_a_quarter_each() -> None:
    family = family_of(CircuitLimits(max_circuits=MOST))
    assert await circuits_from(family, b"greedy", MOST) == MOST // 2
    assert await circuits_from(family, b"greedy", 1) == 0
    assert await circuits_from(family, b"modest", 1) == 1
    hop = await circuits_from(family, b"greedy", MOST, proved=KNOWN.node_key)
    assert hop == MOST // 4, "another node has a share of its own, wherever it is"
    next(iter(family.circuits)).close()
    assert await circuits_from(family, b"greedy", 1) == 0
    assert await circuits_from(family, b"modest", MOST) == MOST // 4 - 1
    await family.stop()


@clause("11.5", "7.12")
async def test_a_number_that_is_created_destroyed_and_created_in_one_packet_is_one_circuit() -> None:
    family = family_of(CircuitLimits())
    peer = SimpleNamespace(node_key=None, source=b"net", can_write=True, send=lambda _raw: None)
    connection = family.connect(cast("Peer", peer))
    frames = [create_of(0), RawFrame(CircuitFrameType.DESTROY, DIALLER_BIT, BODY), create_of(0)]
    connection.handle(frames, now_s=0.0)
    await until_true(lambda: not len(family._waiting))
    assert (family.created, len(family.circuits)) == (1, 1)
    connection.lost()
    assert not family.circuits
    assert not family._circuits_of
    await family.stop()


@clause("11.3", "11.5")
@pytest.mark.parametrize("taken", [MOST // 2 - 1, MOST // 2])
async def test_circuits_that_lead_nowhere_make_room_once_half_of_them_are_taken(taken: int) -> None:
    family, began_s = family_of(CircuitLimits(max_circuits=MOST)), asyncio.get_running_loop().time()
    assert await circuits_from(family, b"silent", taken) == taken
    extended = next(iter(family.circuits))
    extended._end.phase = Phase.RELAYING
    family.now_s = lambda: began_s + HOP_IDLE_S - 1  # type: ignore[method-assign]  # the test moves the time
    family._sweep()
    assert len(family.circuits) == taken
    family.now_s = lambda: began_s + HOP_IDLE_S + 1  # type: ignore[method-assign]
    family._sweep()
    assert extended in family.circuits
    assert len(family.circuits) == (taken if taken < MOST // 2 else 1)
    await family.stop()


@clause("11.5")
@pytest.mark.parametrize("proved", ["nothing", "a key of its own making", "the key of a known node"])
async def test_only_nodes_of_the_directory_create_circuits_faster_than_a_client(proved: str) -> None:
    keys = {"nothing": None, "a key of its own making": Identity(b"x" * 32).node_key}
    peer = SimpleNamespace(
        node_key=keys.get(proved, KNOWN.node_key), source=b"net", can_write=True, send=lambda _raw: None
    )
    family = family_of(CircuitLimits())
    family.connect(cast("Peer", peer)).handle(CREATES, now_s=0.0)
    assert family.refused == (0 if proved == "the key of a known node" else len(CREATES) - PER_CLIENT_PER_S)
    await family.stop()


@clause("11.5")
async def test_between_two_handshakes_of_a_flood_other_work_has_its_turn() -> None:
    peer = SimpleNamespace(node_key=KNOWN.node_key, source=b"net", can_write=True, send=lambda _raw: None)
    family = family_of(CircuitLimits())
    family.connect(cast("Peer", peer)).handle(CREATES, now_s=0.0)
    turns = 0
    while len(family._waiting):
        await asyncio.sleep(0)
        turns += 1
    assert turns >= len(CREATES)
    await family.stop()


@clause("7.12", "11.5")
async def test_nodes_that_are_not_known_leave_nothing_in_the_memory_of_a_hop() -> None:
    async def connect(_host: str, _port: int, _node: NodeDescriptor) -> CircuitConnection:
        raise AssertionError

    shared: SharedConnections[CircuitConnection] = SharedConnections(lambda _node: None, connect)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(5_000):
        with pytest.raises(AttemptFailed):
            await shared.get(NodeId(number.to_bytes(32, "big")))
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 100_000
