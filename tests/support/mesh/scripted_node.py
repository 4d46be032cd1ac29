"""A node on a loopback socket whose mesh answers are written by the test: real TLS, real link, no store."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

from restante.crypto.blinded_keys import BlindedSigner, in_period
from restante.crypto.identity import Identity
from restante.model.ids import InboxKey, PayloadHash
from restante.node.client_connection import ClientConnection, ConnectionContext
from restante.node.connection_table import ConnectionTable
from restante.node.frame_family import Peer
from restante.node.stats import RelayCounters
from restante.policy.connection_limits import RelayLimits
from restante.runtime.system import SystemEntropy
from restante.runtime.transport.mesh_connection import MeshConnection
from restante.runtime.transport.tls import server_context
from restante.testing.deterministic import FakeClock
from restante.wire.envelope import Envelope, encode_envelope, hash_sealed_bytes
from restante.wire.frames.codec import RawFrame, Unknown
from restante.wire.frames.mesh import MESH_TYPES, MeshFrame, decode_mesh_body, encode_mesh_frame
from restante.wire.mesh_keys import mesh_inbox_key

LOOPBACK = "127.0.0.1"
NODE, OWNER = Identity(b"n" * 32), Identity(b"o" * 32)
BUCKET = 500_000
SIGNER = BlindedSigner(OWNER, place=in_period(BUCKET))
KEY: InboxKey = mesh_inbox_key(SIGNER.public_key, BUCKET)

Script = Callable[[MeshFrame | Unknown, Peer], Sequence[MeshFrame | tuple[int, MeshFrame]]]
"""What the node answers. A frame alone repeats the number of the request; a tuple names another one."""


def envelope(sealed: bytes, key: InboxKey = KEY) -> bytes:
    return encode_envelope(Envelope(inbox_key=key, expires_at_ms=(BUCKET + 24) * 3_600_000, sealed=sealed))


def hashed(sealed: bytes) -> PayloadHash:
    return hash_sealed_bytes(sealed)


class ScriptedFamily:
    frame_types = frozenset(MESH_TYPES)

    def __init__(self, script: Script) -> None:
        self._script = script

    def connect(self, peer: Peer) -> "ScriptedConnection":
        return ScriptedConnection(self._script, peer)


class ScriptedConnection:
    def __init__(self, script: Script, peer: Peer) -> None:
        self._script, self._peer = script, peer

    def handle(self, frames: Sequence[RawFrame], *, now_s: float) -> None:  # noqa: ARG002 - scripts have no time
        for frame in frames:
            for each in self._script(decode_mesh_body(frame.type, frame.body), self._peer):
                request, answer = each if isinstance(each, tuple) else (frame.request, each)
                self._peer.send(encode_mesh_frame(answer, request))

    def window_opened(self) -> None: ...

    def lost(self) -> None: ...


@contextlib.asynccontextmanager
async def listening(script: Script, *, identity: Identity = NODE, host: str = LOOPBACK) -> AsyncIterator[int]:
    """The port of a node that answers by `script`."""
    limits, counters = RelayLimits(), RelayCounters()
    table = ConnectionTable(limits, counters)
    context = ConnectionContext(
        identity=identity,
        tls=server_context(identity),
        limits=limits,
        clock=FakeClock(),
        entropy=SystemEntropy(),
        table=table,
        counters=counters,
    )
    context.register(ScriptedFamily(script))
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: ClientConnection(context), host, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        table.abort_all()
        await server.wait_closed()


@contextlib.asynccontextmanager
async def connected(script: Script) -> AsyncIterator[MeshConnection]:
    """A connection to a node that answers by `script`."""
    async with listening(script) as port:
        connection = await MeshConnection.connect(LOOPBACK, port, node=NODE.node_key)
        try:
            yield connection
        finally:
            await connection.close()
