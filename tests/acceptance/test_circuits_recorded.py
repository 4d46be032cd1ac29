"""What hops and storage nodes see of two people who write to each other through circuits, frame by frame."""

import asyncio
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from restante.cli.node.local_network import LocalNode
from restante.wire.circuit.cells import BODY_BYTES
from restante.wire.circuit.frames import CircuitFrameType, decode_create
from restante.wire.frames.mesh import decode_mesh_body
from restante.wire.frames.mesh_storage import MeshPut
from restante.wire.frames.mesh_types import MeshFrameType
from restante.wire.frames.types import FrameType
from restante.wire.inbox_keys import node_id_of
from support.circuit.people import pair, received
from support.circuit.recording_node import Seen, recording_nodes, seen_by
from support.spec.clauses import clause

NODES = 7
COMPARED = 80  # cells of a node that are compared with those of others
PIECE = 16
CIRCUIT_FRAMES = frozenset(CircuitFrameType)
DIRECTORY_FRAMES = frozenset({MeshFrameType.SYNC_DIRECTORY, MeshFrameType.FIND_NODE})


async def exchange(tmp_path: Path, nodes: list[LocalNode], monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Let mail travel both ways; return the ports of all TCP connections that the two clients dialled."""
    loop = asyncio.get_running_loop()
    ports: set[int] = set()
    dial = loop.create_connection

    async def noted(*args: Any, **kwargs: Any) -> Any:
        transport, protocol = await dial(*args, **kwargs)
        ports.add(transport.get_extra_info("sockname")[1])
        return transport, protocol

    monkeypatch.setattr(loop, "create_connection", noted)
    async with pair(tmp_path, nodes) as (alice, bob), asyncio.timeout(60):
        sent = await alice.send_many("peer", [f"there {number}" for number in range(6)])
        assert len(await received(bob, 6)) == 6
        await bob.send("peer", "and back")
        assert await received(alice, 1) == ["and back"]
        for each in sent:
            await each.delivered()
    return ports


def circuit_bodies(seen: list[Seen]) -> list[bytes]:
    return [each.body for each in seen if each.type in CIRCUIT_FRAMES]


def windows(bodies: list[bytes], *, offsets: int) -> "np.ndarray[Any, np.dtype[np.uint64]]":
    """Return all 8-byte words of the bodies, at each of the first `offsets` places and then every 8 bytes."""
    parts = [(body[at:], (len(body) - at) // 8) for body in bodies for at in range(offsets)]
    return np.concatenate([np.frombuffer(part, np.uint64, count) for part, count in parts])


@clause("11.1", "11.5", "11.6")
async def test_no_node_sees_both_who_and_what(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with recording_nodes(tmp_path / "nodes", NODES) as nodes:
        client_ports = await exchange(tmp_path, nodes, monkeypatch)
        seen = {node_id_of(node.place.node_key): seen_by(node) for node in nodes}

    from_clients = [each for frames in seen.values() for each in frames if each.port in client_ports]
    others = [each for frames in seen.values() for each in frames if each.port not in client_ports]

    # Who: a client's own connections carry circuits, whose first hop is the node itself, and copies of the directory.
    greetings = {FrameType.START, FrameType.PING, FrameType.PONG}
    assert {each.type for each in from_clients} <= CIRCUIT_FRAMES | DIRECTORY_FRAMES | greetings
    creates = [each for each in from_clients if each.type == CircuitFrameType.CREATE]
    assert creates
    assert {decode_create(each.body).hop for each in creates} == {1}
    # Exits and middles hear of circuits from nodes that proved their key, never from a client.
    further = [each for each in others if each.type == CircuitFrameType.CREATE]
    assert {decode_create(each.body).hop for each in further} == {2, 3}
    assert all(each.is_node for each in further)

    # What: mail, proofs and keys reach nodes over other nodes' connections only.
    puts = [decode_mesh_body(each.type, each.body) for each in others if each.type == MeshFrameType.MESH_PUT]
    assert len(puts) >= 14, "seven messages, at least two copies each"
    asked = {each.type for each in others}
    assert {MeshFrameType.MESH_SUBSCRIBE, MeshFrameType.MESH_DELETE, MeshFrameType.PUT_RECORD} <= asked

    # No hop reads a destination, an inbox key or sealed bytes in what passes through it.
    secrets = {bytes(node_id) for node_id in seen}
    for put in puts:
        assert isinstance(put, MeshPut)
        at = len(put.envelope) // 2
        secrets |= {bytes(put.blinded), put.envelope[at : at + PIECE], put.envelope[-PIECE:]}
    for frames in seen.values():
        passed = b"".join(each.body for each in frames if each.type == CircuitFrameType.CELL)
        assert not any(secret in passed for secret in secrets)

    # No two hops share a byte string of 15 bytes or more, wherever it is in a frame.
    bodies = [circuit_bodies(frames)[:COMPARED] for frames in seen.values()]
    every = [windows(each, offsets=8) for each in bodies if each]
    aligned = [windows(each, offsets=1) for each in bodies if each]
    assert len(every) >= 3
    for one, other in permutations(range(len(every)), 2):
        assert not np.intersect1d(every[one], aligned[other]).size

    # Sizes are the two listed, whatever is inside.
    sizes = {len(body) for frames in seen.values() for body in circuit_bodies(frames)}
    assert sizes <= set(BODY_BYTES.values())
