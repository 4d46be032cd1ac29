"""Nodes of the mesh in this process, on loopback networks of their own, with a clock that the test moves."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from restante.core.mesh_proofs.reading import prove_entry, sign_delete
from restante.crypto.blinded_keys import SIGNING_ENTROPY_BYTES, BlindedSigner, in_period
from restante.crypto.identity import Identity
from restante.model.ids import InboxKey, PayloadHash
from restante.model.journal import JournalKind
from restante.model.node_descriptor import Endpoint, Role
from restante.model.places import RelayPlace
from restante.node.mesh.agent import MeshAgent
from restante.node.mesh.service import MeshIdentity, MeshService
from restante.node.relay import Relay
from restante.policy.mesh.intervals import MeshIntervals
from restante.policy.mesh.time_buckets import bucket_at
from restante.policy.settings import Settings
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.group_commit import GroupCommit
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.mailbox.store import SqliteMailbox
from restante.runtime.system import SystemEntropy
from restante.runtime.transport.mesh_connection import MeshConnection
from restante.testing.deterministic import FakeClock
from restante.wire.envelope import Envelope, encode_envelope
from restante.wire.frames.mesh_reading import FetchEntry, MeshDelete
from restante.wire.frames.mesh_types import MeshFrameType
from restante.wire.mesh_keys import mesh_inbox_key

HOUR_MS = 3_600_000
NOW_MS = 500_000 * HOUR_MS + HOUR_MS // 2
OWNER = Identity(b"o" * 32)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningNode:
    identity: Identity
    host: str
    port: int
    service: MeshService
    relay: Relay
    database: Database
    journal: Journal
    clock: FakeClock
    agent: MeshAgent
    running: asyncio.Task[None] | None = None
    """The agent's `run`. A node ends with it."""
    dialled: list[MeshConnection] = field(default_factory=list)
    """What the test opened. It ends with the node, so that no test leaves a socket to the garbage collector."""

    @property
    def place(self) -> RelayPlace:
        return RelayPlace(node_key=self.identity.node_key, host=self.host, port=self.port)

    def kinds(self) -> list[tuple[JournalKind, str | None]]:
        return [(each.kind, each.code) for each in self.journal.events(after=0, limit=10_000)]

    async def dial(self) -> MeshConnection:
        self.dialled.append(await MeshConnection.connect(self.host, self.port, node=self.identity.node_key))
        return self.dialled[-1]


@dataclass(frozen=True, slots=True)
class OpenInbox:
    """The public inbox of an owner in one bucket."""

    bucket: int
    owner: Identity = OWNER

    @property
    def signer(self) -> BlindedSigner:
        return BlindedSigner(self.owner, place=in_period(self.bucket))

    @property
    def key(self) -> InboxKey:
        return mesh_inbox_key(self.signer.public_key, self.bucket)

    def envelope(self, sealed: bytes, *, hours: int = 48) -> bytes:
        expires_at_ms = (self.bucket + hours) * HOUR_MS
        return encode_envelope(Envelope(inbox_key=self.key, expires_at_ms=expires_at_ms, sealed=sealed))

    def entry(self, connection: MeshConnection, *, after: int = 0, subscribes: bool = False) -> FetchEntry:
        return prove_entry(
            self.signer,
            FetchEntry(blinded=self.signer.public_key, bucket=self.bucket, after=after),
            MeshFrameType.MESH_SUBSCRIBE if subscribes else MeshFrameType.FETCH,
            challenge=connection.hello.challenge,
            connection=connection.binding,
            entropy=SystemEntropy().draw(SIGNING_ENTROPY_BYTES),
        )

    def delete(self, hashes: Sequence[PayloadHash]) -> MeshDelete:
        return sign_delete(self.signer, self.bucket, hashes, entropy=SystemEntropy().draw(SIGNING_ENTROPY_BYTES))


def inbox_now(clock: FakeClock) -> OpenInbox:
    return OpenInbox(bucket_at(clock.now_ms()))


@contextlib.asynccontextmanager
async def running_node(
    home: Path,
    number: int,
    *,
    clock: FakeClock,
    settings: Settings | None = None,
    roles: Role = Role.STORAGE,
    bootstrap: Sequence[RelayPlace] | None = None,
    port: int = 0,
) -> AsyncIterator[RunningNode]:
    """The node `number` at 127.0.NUMBER.1, its own family and network.

    With `bootstrap` its agent runs and pings ten times a second; without, it knows no other node and does nothing.
    """
    settings = settings or Settings(mesh=MeshIntervals(ping_interval_ms=100))
    identity = Identity(bytes([number]) * 32)
    database = Database(home / "node.db", schema="node", busy_timeout_ms=50)
    journal = Journal(database, SystemEntropy())
    mailbox = SqliteMailbox(database, journal, tag_secret=identity.tag_secret)
    commits = GroupCommit(database)
    own = MeshIdentity(identity=identity, roles=roles)
    service = MeshService(own, database, journal, mailbox, commits, settings=settings, clock=clock)
    relay = Relay(identity, mailbox, commits=commits, settings=settings, clock=clock, entropy=SystemEntropy())
    relay.register(service.family)
    host = f"127.0.{number}.1"
    server = await relay.listen(host, port)
    port = server.sockets[0].getsockname()[1]
    agent = MeshAgent(service, commits, settings=settings, entropy=SystemEntropy(), bootstrap=tuple(bootstrap or ()))
    agent.listens_at(host, port)
    running = None
    if bootstrap is None:
        service.view.issue((Endpoint(ip_address(host).packed, port),))
    else:
        running = asyncio.create_task(agent.run())
    node = RunningNode(
        identity=identity,
        host=host,
        port=port,
        service=service,
        relay=relay,
        database=database,
        journal=journal,
        clock=clock,
        agent=agent,
        running=running,
    )
    try:
        yield node
    finally:
        for connection in node.dialled:
            connection.abort()
            await connection.lost()
        if running is not None:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        await agent.stop()
        await relay.stop()
        await server.wait_closed()
        commits.close()
        service.close()
        mailbox.close()
        database.close()


def introduce(nodes: Sequence[RunningNode]) -> None:
    """Let every node know all others."""
    for node in nodes:
        for other in nodes:
            node.service.view.admit(other.service.view.own)
