"""What one connection may ask of a hop, and what a hop remembers of nodes that it does not know (SPEC 11.5, 7.12)."""

import asyncio
import tracemalloc
from types import SimpleNamespace
from typing import cast

import pytest

from restante.crypto.identity import Identity
from restante.model.ids import NodeId
from restante.model.node_descriptor import NodeDescriptor
from restante.node.circuits.dialling import SharedConnections
from restante.node.circuits.family import CircuitFamily
from restante.node.frame_family import Peer
from restante.policy.circuits.create_limits import PER_CLIENT_PER_S
from restante.policy.circuits.limits import CircuitLimits
from restante.policy.connection_limits import RelayLimits
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.system import SystemEntropy
from restante.runtime.transport.circuit_connection import CircuitConnection
from restante.wire.circuit.cells import BODY_BYTES, DIALLER_BIT, CellClass
from restante.wire.circuit.frames import CircuitFrameType
from restante.wire.frames.codec import RawFrame
from support.mesh.nodes import node
from support.spec.clauses import clause

KNOWN = node(1)
BODY = b"\x01".ljust(BODY_BYTES[CellClass.SMALL], b"x")
CREATES = [RawFrame(CircuitFrameType.CREATE, DIALLER_BIT + number, BODY) for number in range(40)]


@clause("11.5")
@pytest.mark.parametrize("proved", ["nothing", "a key of its own making", "the key of a known node"])
async def test_only_nodes_of_the_directory_create_circuits_faster_than_a_client(proved: str) -> None:
    keys = {"nothing": None, "a key of its own making": Identity(b"x" * 32).node_key}
    peer = SimpleNamespace(
        node_key=keys.get(proved, KNOWN.node_key), source=b"net", can_write=True, send=lambda _raw: None
    )
    family = CircuitFamily(
        Identity(b"h" * 32),
        {KNOWN.node_id: KNOWN}.get,
        dict,
        entropy=SystemEntropy(),
        circuit_limits=CircuitLimits(),
        limits=RelayLimits(),
    )
    family.connect(cast("Peer", peer)).handle(CREATES, now_s=0.0)
    assert family.refused == (0 if proved == "the key of a known node" else len(CREATES) - PER_CLIENT_PER_S)
    await family.stop()


@clause("11.5")
async def test_between_two_handshakes_of_a_flood_other_work_has_its_turn() -> None:
    peer = SimpleNamespace(node_key=KNOWN.node_key, source=b"net", can_write=True, send=lambda _raw: None)
    family = CircuitFamily(
        Identity(b"h" * 32),
        {KNOWN.node_id: KNOWN}.get,
        dict,
        entropy=SystemEntropy(),
        circuit_limits=CircuitLimits(),
        limits=RelayLimits(),
    )
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
