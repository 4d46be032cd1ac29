"""An exit on real processes: one circuit can't use up what a storage node lets the exit store (SPEC 6.6)."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from restante.cli.node.local_network import LocalNode, running, wait_until_joined
from restante.client.circuits.circuit import NoHopsLeft
from restante.client.circuits.pool import CircuitPool
from restante.client.circuits.store_fanout import StoreFanout
from restante.client.mesh.connector import connect_to_node
from restante.client.mesh.directory import MeshDirectory
from restante.core.inboxes.mesh_inbox import bucket_keys
from restante.crypto.identity import Identity
from restante.model.error_codes import Code
from restante.model.ids import NodeId
from restante.model.node_descriptor import NodeDescriptor
from restante.policy.circuits.limits import CircuitLimits
from restante.policy.circuits.path import Path as CircuitPath
from restante.policy.connection_limits import RelayLimits
from restante.policy.failures import Failure
from restante.policy.mesh.time_buckets import bucket_at
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.system import SystemClock, SystemEntropy
from restante.runtime.transport.mesh_connection import MeshConnection
from restante.wire.envelope import Envelope, encode_envelope
from restante.wire.inbox_keys import node_id_of
from restante.wire.storage_receipts import StorageReceipt
from support.circuit.network import MemoryGuards
from support.circuit.people import made_nodes
from support.spec.clauses import clause

NODES = 7
TOTAL_BYTES = 2_000_000
PUT_BYTES = 8_000
OWNER = Identity(b"o" * 32)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[LocalNode]]:
    """Nodes with all roles; the last one has space for little mail."""
    made = made_nodes(tmp_path, NODES)
    config = made[-1].directory.config
    text, count = re.subn(r"# total_bytes = .*", f"total_bytes = {TOTAL_BYTES}", config.read_text("utf-8"), count=1)
    assert count == 1
    config.write_text(text, "utf-8")
    with running(made):
        wait_until_joined(made)
        yield made


@dataclass
class Mesh:
    directory: MeshDirectory
    nodes: list[LocalNode]

    @property
    def descriptors(self) -> list[NodeDescriptor]:
        found = [self.directory.get(node_id_of(node.place.node_key)) for node in self.nodes]
        return [each for each in found if each is not None]

    @property
    def target(self) -> NodeDescriptor:
        return self.descriptors[-1]

    @asynccontextmanager
    async def circuit(self) -> AsyncIterator[StoreFanout]:
        """One circuit of a client of its own, always over the same three hops."""
        guard, middle, exit_node = self.descriptors[:3]
        pool = CircuitPool(
            self.directory.valid,
            MemoryGuards(),
            limits=CircuitLimits(),
            relay_limits=RelayLimits(),
            clock=SystemClock(),
            entropy=SystemEntropy(),
        )
        path = CircuitPath(guard=guard, middle=middle, exit=exit_node)

        def the_same_for_all(avoid: frozenset[NodeId], *_: object) -> CircuitPath:
            if exit_node.node_id in avoid:
                raise NoHopsLeft("the only exit has refused", failure=Failure.NETWORK_TIMEOUT)
            return path

        pool._path = the_same_for_all  # type: ignore[method-assign,assignment]
        try:
            yield StoreFanout(pool)
        finally:
            await pool.close()

    async def store(self, circuit: StoreFanout, sealed: bytes) -> Code | None:
        """Return None if the target stored it, else the code of the refusal."""
        bucket = bucket_at(self.directory.now_ms())
        keys = bucket_keys(OWNER.address, bucket)
        try:
            answer = await circuit.put(self.target, keys.blinded, bucket, self.envelope(sealed))
        except AttemptFailed as refused:
            return refused.code
        assert isinstance(answer, StorageReceipt)
        return None

    async def fill_half(self, connection: MeshConnection) -> None:
        """Let somebody else store until the target limits its sources."""
        with pytest.raises(AttemptFailed, match="more than half full"):
            await self._fill(connection)

    async def _fill(self, connection: MeshConnection) -> None:
        bucket = bucket_at(self.directory.now_ms())
        for number in range(TOTAL_BYTES // 250_000):
            raw = self.envelope(bytes([number]) * 250_000)
            await connection.put(bucket_keys(OWNER.address, bucket).blinded, bucket, raw)

    def envelope(self, sealed: bytes) -> bytes:
        bucket = bucket_at(self.directory.now_ms())
        key = bucket_keys(OWNER.address, bucket).inbox_key
        return encode_envelope(Envelope(inbox_key=key, expires_at_ms=(bucket + 48) * 3_600_000, sealed=sealed))


@asynccontextmanager
async def client_of(nodes: list[LocalNode]) -> AsyncIterator[Mesh]:
    directory = MeshDirectory(
        [node.place for node in nodes[:3]], connect_to_node, clock=SystemClock(), entropy=SystemEntropy()
    )
    await directory.ensure_fresh()
    try:
        yield Mesh(directory, nodes)
    finally:
        await directory.close()


@clause("6.6", "11.6")
async def test_a_greedy_circuit_leaves_the_share_of_its_exit_to_the_others(nodes: list[LocalNode]) -> None:
    place = nodes[-1].place
    async with client_of(nodes) as mesh, mesh.circuit() as greedy, mesh.circuit() as modest:
        assert len(mesh.descriptors) == NODES
        assert [await mesh.store(greedy, bytes([number]) * PUT_BYTES) for number in range(20)] == [None] * 20
        filling = await MeshConnection.connect(place.host, place.port, node=place.node_key)
        await mesh.fill_half(filling)
        await filling.close()
        # The exit has 160,000 of its tenth, 200,000 bytes: a circuit gets a tenth of the other 40,000, or one put.
        answers = [await mesh.store(greedy, bytes([100 + number]) * PUT_BYTES) for number in range(6)]
        assert answers == [None] + [Code.STORAGE_FAILED] * 5
        assert await mesh.store(modest, b"\xff" * PUT_BYTES) is None
        assert await mesh.store(modest, b"\xfe" * PUT_BYTES) is Code.STORAGE_FAILED
