"""Nodes that break the protocol on purpose: an honest node that dials them goes on, with bounded memory."""

import contextlib
from collections.abc import AsyncIterator
from ipaddress import ip_address
from pathlib import Path

import pytest

from restante.core.directory.descriptor_set import VALID_MS
from restante.core.mesh_proofs.descriptors import sign_descriptor
from restante.crypto.identity import Identity
from restante.model.node_descriptor import Endpoint, NodeDescriptor, Role
from restante.node.frame_family import Peer
from restante.testing.deterministic import FakeClock
from restante.wire.descriptors import encode_descriptor
from restante.wire.frames import codec
from restante.wire.frames.codec import Unknown
from restante.wire.frames.mesh import MeshFrame
from support.mesh.running_nodes import NOW_MS, RunningNode, running_node
from support.mesh.scripted_node import Script, listening
from support.spec.clauses import clause
from support.system.wait_until import until_true

HOSTILE = Identity(b"h" * 32)
HOST = "127.0.66.1"


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RunningNode]:
    async with running_node(tmp_path, 1, clock=FakeClock(NOW_MS), bootstrap=[]) as made:
        yield made


def described(identity: Identity, port: int, *, host: str = HOST, issued_at_ms: int = NOW_MS) -> NodeDescriptor:
    unsigned = NodeDescriptor(
        node_key=identity.node_key,
        onion_key=bytes(32),
        endpoints=(Endpoint(ip_address(host).packed, port),),
        roles=Role.STORAGE,
        issued_at_ms=issued_at_ms,
        expires_at_ms=issued_at_ms + VALID_MS,
    )
    return sign_descriptor(unsigned, identity)


async def tell(node: RunningNode, descriptor: NodeDescriptor) -> None:
    connection = await node.dial()
    await connection.publish(encode_descriptor(descriptor))
    await connection.close()


@contextlib.asynccontextmanager
async def hostile_neighbour(node: RunningNode, script: Script) -> AsyncIterator[None]:
    """A node of the directory that answers by `script`."""
    async with listening(script, identity=HOSTILE, host=HOST) as port:
        await tell(node, described(HOSTILE, port))
        yield


@clause("7.1", "7.9")
async def test_a_node_that_answers_everything_with_pong_ends_nobody(node: RunningNode) -> None:
    asked: list[object] = []

    def script(frame: MeshFrame | Unknown, peer: Peer) -> list[MeshFrame]:
        asked.append(frame)
        for request in range(1, 20):
            peer.send(codec.encode_frame(codec.Pong(), request))
        return []

    async with hostile_neighbour(node, script):
        await until_true(lambda: len(asked) > 6)
        assert node.running is not None
        assert not node.running.done()
