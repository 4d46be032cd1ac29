"""A relay on a loopback socket, and peers that speak to it byte by byte."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from restante.core.inboxes.relay_inbox import OwnInbox, relay_inbox_key
from restante.crypto.identity import Identity
from restante.node.relay import Relay
from restante.policy.connection_limits import RelayLimits
from restante.policy.quota import MailboxQuota
from restante.policy.settings import Settings
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.group_commit import GroupCommit
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.mailbox.store import SqliteMailbox
from restante.runtime.system import SystemEntropy
from restante.runtime.transport.relay_connection import TlsRelayConnection
from restante.runtime.transport.tls import channel_of, client_context
from restante.testing.deterministic import FakeClock
from restante.wire.envelope import Envelope, encode_envelope
from restante.wire.frames import codec
from support.wire.frame_reader import FrameReader

LOOPBACK = "127.0.0.1"
HOUR_MS = 3_600_000
SOON_S = 20.0  # long enough for a busy machine; a test that needs it has failed
START = codec.Start(version=codec.PROTOCOL_VERSION, capabilities=codec.Capability.RECEIVE)
NODE, BOB, MALLORY = Identity(b"n" * 32), Identity(b"b" * 32), Identity(b"m" * 32)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRelay:
    port: int
    database: Database
    clock: FakeClock
    relay: Relay

    async def link(self, reader: Identity | None = None) -> TlsRelayConnection:
        """A connection, subscribed for `reader` if given."""
        link = await TlsRelayConnection.connect(LOOPBACK, self.port, node=NODE.node_key)
        if reader is not None:
            await link.subscribe(OwnInbox(reader))
        return link

    def envelope(self, text: bytes, *, reader: Identity = BOB, hours: int = 48) -> bytes:
        expires_at_ms = (self.clock.now_ms() // HOUR_MS + hours) * HOUR_MS
        return encode_envelope(
            Envelope(inbox_key=relay_inbox_key(reader.address, NODE.node_key), expires_at_ms=expires_at_ms, sealed=text)
        )

    def held(self) -> list[bytes]:
        """What is on disk, as another connection to the database sees it."""
        other = Database(self.database.path, schema="node")
        rows = other.run("SELECT envelope FROM blob ORDER BY id")
        other.close()
        return [envelope for (envelope,) in rows]


@contextlib.asynccontextmanager
async def running_relay(
    home: Path, *, quota: MailboxQuota | None = None, limits: RelayLimits | None = None, port: int = 0
) -> AsyncIterator[RunningRelay]:
    database = Database(home / "node.db", schema="node", busy_timeout_ms=50)
    store = SqliteMailbox(database, Journal(database, SystemEntropy()), tag_secret=NODE.tag_secret)
    clock = FakeClock()
    commits = GroupCommit(database)
    settings = Settings(mailbox=quota or MailboxQuota(), relay=limits or RelayLimits())
    relay = Relay(NODE, store, commits=commits, settings=settings, clock=clock, entropy=SystemEntropy())
    server = await relay.listen(LOOPBACK, port)
    try:
        yield RunningRelay(port=server.sockets[0].getsockname()[1], database=database, clock=clock, relay=relay)
    finally:
        await relay.stop()
        await server.wait_closed()
        commits.close()
        store.close()
        database.close()


class RawPeer:
    """Speaks bytes, so that it can speak nonsense; hears frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = FrameReader()
        self._heard: list[tuple[int, codec.Frame | codec.Unknown]] = []
        self.channel = channel_of(writer.get_extra_info("ssl_object"))

    @classmethod
    @contextlib.asynccontextmanager
    async def connected(
        cls, port: int, *, starts: bool = True, receive_buffer_bytes: int | None = None, source: str = LOOPBACK
    ) -> AsyncIterator[tuple["RawPeer", codec.Hello]]:
        """A peer that has been greeted and, unless told otherwise, has greeted back."""
        plain = socket.socket()
        if receive_buffer_bytes is not None:  # before connecting, or it comes too late
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        plain.bind((source, 0))
        plain.setblocking(False)
        await asyncio.get_running_loop().sock_connect(plain, (LOOPBACK, port))
        peer = cls(*await asyncio.open_connection(sock=plain, ssl=client_context(), server_hostname=""))
        try:
            _, hello = await peer.hear()
            assert isinstance(hello, codec.Hello)
            if starts:
                await peer.say(codec.encode_frame(START, 0))
            yield peer, hello
        finally:
            peer._writer.transport.abort()
            with contextlib.suppress(ConnectionError):
                await peer._writer.wait_closed()

    async def say(self, raw: bytes) -> None:
        self._writer.write(raw)
        await self._writer.drain()

    async def abort(self) -> None:
        """Gone without a goodbye."""
        self._writer.transport.abort()

    def stop_reading(self) -> None:
        """What comes is left where it is."""
        both_ways = self._writer.transport
        assert isinstance(both_ways, asyncio.Transport)
        both_ways.pause_reading()

    async def hear(self) -> tuple[int, codec.Frame | codec.Unknown]:
        async with asyncio.timeout(SOON_S):
            while not self._heard:
                data = await self._reader.read(65_536)
                assert data, "the relay hung up"
                self._heard += self._frames.feed(data)
        return self._heard.pop(0)

    async def ask(self, frame: codec.Frame, request: int = 1) -> codec.Frame | codec.Unknown:
        """The answer to a question; what else comes meanwhile is passed over."""
        await self.say(codec.encode_frame(frame, request))
        while True:
            number, answer = await self.hear()
            if number == request or (isinstance(answer, codec.Stored) and request in answer.requests):
                return answer

    async def refusal(self, frame: codec.Frame, request: int = 1) -> codec.Refused:
        answer = await self.ask(frame, request)
        assert isinstance(answer, codec.Refused), answer
        return answer

    async def is_cut_off(self) -> bool:
        """Whether the relay ends the connection, with no other words than why."""
        async with asyncio.timeout(SOON_S):
            try:
                words = self._frames.feed(await self._reader.read())
            except ConnectionResetError:
                return True
        return all(isinstance(word, codec.Refused | codec.Pong) for _, word in words)

    def proof(
        self,
        identity: Identity,
        hello: codec.Hello,
        *,
        signer: Identity | None = None,
        channel: bytes | None = None,
    ) -> codec.Subscribe:
        """That `identity` opens this connection; signed by somebody else, or for another connection, if so told."""
        inbox = OwnInbox(identity).signer_at(hello.node_key)
        by = OwnInbox(signer or identity).signer_at(hello.node_key)
        to_sign = codec.open_to_sign(hello, channel or self.channel, inbox.public_key)
        return codec.Subscribe(blinded_key=inbox.public_key, signature=by.sign(to_sign, entropy=bytes(32)))
