"""A mesh of hops in one process: real TLS on loopback networks of their own, real circuits, storage that signs.

What each node receives and sends is recorded, so that tests can look for what it must not see.
"""

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from restante.client.circuits.pool import CircuitPool
from restante.core.mesh_proofs.descriptors import sign_descriptor
from restante.core.mesh_proofs.receipts import leaf_of, sign_receipts_of_commit
from restante.crypto.identity import Identity
from restante.crypto.onion import onion_public_key
from restante.model.ids import NodeId
from restante.model.node_descriptor import Endpoint, NodeDescriptor, Role
from restante.node.circuits.family import CircuitFamily, CircuitPeer
from restante.node.client_connection import ClientConnection, ConnectionContext
from restante.node.connection_table import ConnectionTable
from restante.node.frame_family import Peer
from restante.node.stats import RelayCounters
from restante.policy.circuits.guards import GuardState
from restante.policy.circuits.limits import CircuitLimits
from restante.policy.connection_limits import RelayLimits
from restante.ports.clock import Clock
from restante.runtime.system import SystemClock, SystemEntropy
from restante.runtime.transport.tls import server_context
from restante.wire.circuit.frames import CircuitFrameType
from restante.wire.envelope import decode_envelope
from restante.wire.frames.codec import RawFrame, Unknown
from restante.wire.frames.mesh import MeshFrame
from restante.wire.frames.mesh_directory import Authenticate
from restante.wire.frames.mesh_storage import GetRecord, MeshPut, MeshStored, Record
from support.mesh.scripted_node import ScriptedFamily

HOUR_MS = 3_600_000
Answer = Callable[["HopNode", MeshFrame | Unknown], Sequence[MeshFrame]]


@dataclass
class MemoryGuards:
    state: GuardState = field(default_factory=GuardState)
    saves: int = 0

    def load(self) -> GuardState:
        return self.state

    def save(self, state: GuardState) -> None:
        self.state = state
        self.saves += 1


class RecordingFamily(CircuitFamily):
    """Keeps each frame that a neighbour sends."""

    def connect(self, peer: Peer) -> "CircuitPeer":
        made = super().connect(peer)
        handle = made.handle

        def recorded(frames: Sequence[RawFrame], *, now_s: float) -> None:
            self.received += [(peer.source, frame) for frame in frames]
            self.senders += [peer] * len(frames)
            if not self.loses_frames:
                handle(frames, now_s=now_s)

        made.handle = recorded  # type: ignore[method-assign]  # the connection knows the object, not its class
        return made

    loses_frames = False
    """From now on frames of circuits vanish here, and nobody is told."""
    received: list[tuple[bytes, RawFrame]]
    senders: list[Peer]
    """Who sent each frame of `received`."""


@dataclass
class HopNode:
    number: int
    identity: Identity
    onion_secret: bytes
    descriptor: NodeDescriptor
    family: RecordingFamily
    table: ConnectionTable
    server: asyncio.Server
    stored: list[MeshPut] = field(default_factory=list)
    asked: list[tuple[bytes, MeshFrame | Unknown]] = field(default_factory=list)

    @property
    def node_id(self) -> NodeId:
        return self.descriptor.node_id

    @property
    def cells(self) -> list[bytes]:
        return [frame.body for _, frame in self.family.received if frame.type == CircuitFrameType.CELL]

    def frames_from(self, *neighbours: "HopNode") -> list[RawFrame]:
        """Return what these nodes sent as the hop before this one."""
        keys = {each.identity.node_key for each in neighbours}
        pairs = zip(self.family.senders, self.family.received, strict=True)
        return [frame for peer, (_, frame) in pairs if peer.node_key in keys]

    async def stop(self) -> None:
        """End at once, as a killed process does."""
        self.server.close()
        self.table.abort_all()
        await self.family.stop()


def honest(node: HopNode, frame: MeshFrame | Unknown) -> Sequence[MeshFrame]:
    match frame:
        case MeshPut():
            node.stored.append(frame)
            leaf = leaf_of(decode_envelope(frame.envelope))
            [receipt] = sign_receipts_of_commit(node.identity, [leaf], now_ms=SystemClock().now_ms())
            return [MeshStored(receipt=receipt)]
        case GetRecord():
            return [Record(record=b"")]
    return []


class Network:
    """Nodes by number. `directory` is what all of them, and the client, know."""

    def __init__(self) -> None:
        self.nodes: list[HopNode] = []
        self.directory: dict[NodeId, NodeDescriptor] = {}

    def descriptors(self) -> list[NodeDescriptor]:
        return list(self.directory.values())

    def node(self, node_id: NodeId) -> HopNode:
        return next(each for each in self.nodes if each.node_id == node_id)

    async def add(
        self, number: int, answer: Answer = honest, *, limits: CircuitLimits | None = None, directory: object = None
    ) -> HopNode:
        identity = Identity(bytes([number]) * 32)
        onion_secret = bytes([100 + number]) * 32
        relay_limits, counters = RelayLimits(), RelayCounters()
        table = ConnectionTable(relay_limits, counters)
        context = ConnectionContext(
            identity=identity,
            tls=server_context(identity),
            limits=relay_limits,
            clock=SystemClock(),
            entropy=SystemEntropy(),
            table=table,
            counters=counters,
        )
        family = RecordingFamily(
            identity,
            self.directory.get if directory is None else directory,  # type: ignore[arg-type]  # a test's own view
            lambda: {onion_public_key(onion_secret): onion_secret},
            entropy=SystemEntropy(),
            circuit_limits=limits or CircuitLimits(),
            limits=relay_limits,
        )
        family.received, family.senders = [], []
        context.register(family)
        host = f"127.0.{number}.1"
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: ClientConnection(context), host, 0)
        port: int = server.sockets[0].getsockname()[1]
        now_ms = SystemClock().now_ms()
        unsigned = NodeDescriptor(
            node_key=identity.node_key,
            onion_key=onion_public_key(onion_secret),
            endpoints=(Endpoint(ipaddress.ip_address(host).packed, port),),
            roles=Role.HOP | Role.STORAGE,
            issued_at_ms=now_ms,
            expires_at_ms=now_ms + 2 * HOUR_MS,
        )
        node = HopNode(number, identity, onion_secret, sign_descriptor(unsigned, identity), family, table, server)

        def script(frame: MeshFrame | Unknown, peer: Peer) -> Sequence[MeshFrame]:
            if isinstance(frame, Authenticate):
                peer.node_key = frame.node_key
            node.asked.append((peer.source, frame))
            return answer(node, frame)

        context.register(ScriptedFamily(script))
        self.nodes.append(node)
        self.directory[node.node_id] = node.descriptor
        return node

    def pool(
        self, guards: MemoryGuards | None = None, limits: CircuitLimits | None = None, clock: Clock | None = None
    ) -> CircuitPool:
        return CircuitPool(
            self.descriptors,
            guards or MemoryGuards(),
            limits=limits or CircuitLimits(),
            relay_limits=RelayLimits(),
            clock=clock or SystemClock(),
            entropy=SystemEntropy(),
        )


@contextlib.asynccontextmanager
async def network(count: int, answer: Answer = honest) -> AsyncIterator[Network]:
    made = Network()
    try:
        for number in range(1, count + 1):
            await made.add(number, answer)
        yield made
    finally:
        for node in made.nodes:
            await node.stop()


@contextlib.asynccontextmanager
async def pool_of(
    made: Network,
    guards: MemoryGuards | None = None,
    limits: CircuitLimits | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[CircuitPool]:
    pool = made.pool(guards, limits, clock)
    try:
        yield pool
    finally:
        await pool.close()
