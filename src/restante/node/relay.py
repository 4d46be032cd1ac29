"""The relay: takes envelopes in, holds them on disk, hands them to whoever proves the inbox is theirs (SPEC 6)."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from restante.core.acks import delivery_ack
from restante.core.mailbox import judge_put
from restante.crypto.identity import Identity, is_signed_by
from restante.model.codes import Code
from restante.model.errors import RestanteError, StoreUnusable
from restante.model.ids import InboxKey
from restante.node.figures import EventHook, RelayEvent, RelayFigures, Tally
from restante.policy.quota import Refused
from restante.policy.settings import Settings
from restante.ports.clock import Clock
from restante.ports.entropy import Entropy
from restante.ports.relay import MailboxStore
from restante.runtime.transport.framed import FramedConnection
from restante.wire import frames
from restante.wire.envelope import decode_envelope
from restante.wire.frame_bodies import CHALLENGE_BYTES, MAX_REFUSAL_TEXT_BYTES
from restante.wire.inbox_keys import relay_inbox_key

Result = TypeVar("Result")

PAGE_BLOBS: Final = 64  # how many blobs may be on their way to one session, unacknowledged


class Commits(Protocol):
    """Runs operations on the store so that those waiting together share a commit."""

    async def run(self, operation: Callable[[], Result]) -> Result: ...


def _tell_nobody(_event: RelayEvent, _code: Code | None) -> None: ...


class Relay:
    """What all connections of a node share. `commits` is the one writer of the store's file."""

    def __init__(
        self,
        identity: Identity,
        store: MailboxStore,
        *,
        commits: Commits,
        settings: Settings,
        clock: Clock,
        entropy: Entropy,
        on_event: EventHook = _tell_nobody,
    ) -> None:
        self.identity = identity
        self.store = store
        self.quota = settings.storage
        self.clock = clock
        self.entropy = entropy
        self.tally = Tally()
        self._commits = commits
        self._limits = settings.relay
        self._on_event = on_event
        self._live: defaultdict[InboxKey, set[_Session]] = defaultdict(set)
        self._sessions: set[_Session] = set()
        self._servers: list[asyncio.Server] = []

    async def listen(self, host: str, port: int) -> asyncio.Server:
        server = await asyncio.get_running_loop().create_server(lambda: _Session(self).connection, host, port)
        self._servers.append(server)
        return server

    async def stop(self, *, grace_s: float = 5.0) -> None:
        """Accept nobody, finish and answer the puts under way, then close every connection."""
        self.tell(RelayEvent.STOPPING)
        for server in self._servers:
            server.close()
        async with asyncio.timeout(grace_s):
            for session in tuple(self._sessions):
                session.connection.abort()

    async def reap(self) -> int:
        """Remove what has expired (SPEC 6.1); how many blobs that was."""
        reaped = await self._commits.run(lambda: self.store.reap(now_ms=self.clock.now_ms()))
        self.tally.blobs_reaped += reaped
        self.tell(RelayEvent.REAPED)
        return reaped

    def figures(self) -> RelayFigures:
        tally = self.tally
        return RelayFigures(
            connections=len(self._sessions),
            receive_sessions=sum(map(len, self._live.values())),
            waiting_puts=0,
            waiting_bytes=0,
            store_usable=tally.store_usable,
            connections_total=tally.connections,
            turned_away_total=tally.turned_away,
            handshakes_failed_total=tally.handshakes_failed,
            closed_idle_total=tally.closed_idle,
            closed_slow_total=tally.closed_slow,
            broke_format_total=tally.broke_format,
            puts_stored_total=tally.puts_stored,
            bytes_stored_total=tally.bytes_stored,
            refusals_total=dict(tally.refusals),
            blobs_served_total=tally.blobs_served,
            bytes_served_total=tally.bytes_served,
            blobs_deleted_total=tally.blobs_deleted,
            blobs_reaped_total=tally.blobs_reaped,
            commits_total=tally.commits,
            commit_seconds_total=tally.commit_seconds,
        )

    def tell(self, event: RelayEvent, code: Code | None = None) -> None:
        self._on_event(event, code)

    def arrived(self, session: "_Session") -> None:
        self._sessions.add(session)
        self.tally.connections += 1
        self.tell(RelayEvent.CONNECTED)

    def left(self, session: "_Session") -> None:
        self._sessions.discard(session)
        self.tell(RelayEvent.DISCONNECTED)

    def enlist(self, inbox: InboxKey, session: "_Session") -> None:
        self._live[inbox].add(session)

    def dismiss(self, inbox: InboxKey, session: "_Session") -> None:
        self._live[inbox].discard(session)
        if not self._live[inbox]:
            del self._live[inbox]

    def announce(self, inbox: InboxKey) -> None:
        """New mail: push it to the sessions that are open for this inbox."""
        for session in tuple(self._live.get(inbox, ())):
            session.push()


class _Session:
    """One connection. Anyone may put; only a proven owner receives, and then each blob once, in order (SPEC 6.4)."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._hello = frames.Hello(challenge=relay.entropy.draw(CHALLENGE_BYTES), node_key=relay.identity.node_key)
        self._inbox: InboxKey | None = None
        self._pushed_through = 0
        self._on_their_way: set[int] = set()
        self.connection = FramedConnection(on_frame=self._take, on_open=self._greet, on_lost=self._leave)

    def push(self) -> None:
        """Send what the session has not been sent yet, as far as its window allows."""
        room = PAGE_BLOBS - len(self._on_their_way)
        if self._inbox is None or room <= 0:
            return
        now_ms = self._relay.clock.now_ms()
        for blob in self._relay.store.flush(self._inbox, after=self._pushed_through, limit=room, now_ms=now_ms):
            self._pushed_through = blob.blob_id
            self._on_their_way.add(blob.blob_id)
            self.connection.send(
                frames.Blob(blob_id=blob.blob_id, stored_at_ms=blob.stored_at_ms, envelope=blob.envelope), 0
            )

    def _greet(self) -> None:
        self._relay.arrived(self)
        self.connection.send(self._hello, 0)

    def _leave(self) -> None:
        self._relay.left(self)
        if self._inbox is not None:
            self._relay.dismiss(self._inbox, self)

    def _take(self, request: int, frame: frames.Frame) -> None:
        try:
            match frame:
                case frames.Put():
                    self._put(request, frame)
                case frames.Open() if self._inbox is None:
                    self._open(request, frame)
                case frames.Delete() if self._inbox is not None:
                    self._delete(request, self._inbox, frame)
                case frames.Ping():
                    self.connection.send(frames.Pong(), request)
                case _:
                    self._refuse(request, permanent=True, code=Code.ILLEGAL_TRANSITION, text="not now, not from you")
        except StoreUnusable:
            self._refuse(request, permanent=False, code=Code.STORAGE_FAILED, text="the store cannot be used now")
        except RestanteError as error:
            self._refuse(request, permanent=True, code=error.code, text=str(error))

    def _put(self, request: int, frame: frames.Put) -> None:
        relay = self._relay
        now_ms = relay.clock.now_ms()
        envelope = decode_envelope(frame.envelope)
        decision = judge_put(envelope, usage=relay.store.usage(envelope.inbox_key), quota=relay.quota, now_ms=now_ms)
        if isinstance(decision, Refused):
            self._refuse(request, permanent=decision.permanent, code=decision.code, text=decision.text)
            return
        relay.store.put(decision, frame.envelope, now_ms=now_ms)
        relay.tally.puts_stored += 1
        relay.tally.bytes_stored += len(frame.envelope)
        # Only now, with the blob on disk, may the node say so (SPEC 1.3).
        self.connection.send(
            frames.Stored(ack=delivery_ack(relay.identity, decision.payload_hash, now_ms=now_ms)), request
        )
        relay.announce(decision.inbox_key)

    def _open(self, request: int, frame: frames.Open) -> None:
        if not is_signed_by(frame.address, frame.signature, frames.open_to_sign(self._hello, frame.address)):
            self._refuse(request, permanent=True, code=Code.AUTHENTICATION_FAILED, text="the address was not proven")
            return
        self._inbox = relay_inbox_key(frame.address)
        self._relay.enlist(self._inbox, self)
        self.connection.send(frames.Opened(), request)
        self.push()

    def _delete(self, request: int, inbox: InboxKey, frame: frames.Delete) -> None:
        self._relay.store.delete(inbox, frame.blob_id, now_ms=self._relay.clock.now_ms())
        self._on_their_way.discard(frame.blob_id)
        self.connection.send(frames.Deleted(), request)
        self.push()

    def _refuse(self, request: int, *, permanent: bool, code: Code, text: str) -> None:
        self._relay.tally.refusals[code] += 1
        self._relay.tell(RelayEvent.REFUSED, code)
        short = text.encode()[:MAX_REFUSAL_TEXT_BYTES].decode(errors="ignore")
        self.connection.send(frames.Refused(permanent=permanent, code=code, retry_after_ms=0, text=short), request)
