"""The relay: takes envelopes in, holds them on disk, hands them to whoever proves the inbox is theirs (SPEC 6)."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Set as AbstractSet
from typing import Final

from restante.crypto.identity import Identity
from restante.model.error_codes import Code
from restante.model.ids import InboxKey
from restante.node.client_connection import ClientConnection
from restante.node.stats import EventHook, RelayCounters, RelayEvent, RelayStats
from restante.node.write_batcher import WriteBatcher
from restante.policy.settings import Settings
from restante.ports.clock import Clock
from restante.ports.commit_queue import CommitQueue
from restante.ports.entropy import Entropy
from restante.ports.mailbox_store import MailboxStore
from restante.runtime.transport.tls import server_context

BACKLOG: Final = 1_024  # connections the system may hold for us until we look
REAP_AT_ONCE: Final = 1_000  # blobs removed in one commit: a long sweep must not stop the puts
ROUNDS_IN_A_DEADLINE: Final = 4
LONGEST_ROUND_S: Final = 1.0
GRACE_S: Final = 5.0
LEAVE_S: Final = 2.0  # how long a client may take to hang up once everything is said


def _tell_nobody(_event: RelayEvent, _code: Code | None) -> None: ...


class Relay:
    """What all connections of a node share. `commits` is the one writer of the store's file."""

    def __init__(
        self,
        identity: Identity,
        store: MailboxStore,
        *,
        commits: CommitQueue,
        settings: Settings,
        clock: Clock,
        entropy: Entropy,
        on_event: EventHook = _tell_nobody,
    ) -> None:
        self.identity = identity
        self.store = store
        self.quota = settings.mailbox
        self.limits = settings.relay
        self.clock = clock
        self.entropy = entropy
        self.tally = RelayCounters()
        self.tell_host = on_event
        self.context = server_context(identity)
        self._commits = commits
        self._live: defaultdict[InboxKey, set[ClientConnection]] = defaultdict(set)
        self._sessions: set[ClientConnection] = set()
        self._servers: list[asyncio.Server] = []
        self._rounds: asyncio.TimerHandle | None = None
        self._is_stopping = False
        self._all_left = asyncio.Event()
        self._all_left.set()
        self.intake = WriteBatcher(
            identity,
            store,
            commits,
            quota=self.quota,
            clock=clock,
            tally=self.tally,
            tell=self.tell,
            announce=self._announce,
        )

    async def listen(self, host: str, port: int) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: ClientConnection(self), host, port, backlog=BACKLOG)
        self._servers.append(server)
        if self._rounds is None:
            self._make_rounds()
        return server

    async def stop(self, *, grace_s: float = GRACE_S) -> None:
        """Accept nobody and read nothing more, finish and answer the puts under way, then close every connection."""
        self.tell(RelayEvent.STOPPING)
        self._is_stopping = True
        for server in self._servers:
            server.close()
        for session in tuple(self._sessions):
            session.pause_reading()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await self.intake.finished()
                for session in tuple(self._sessions):
                    session.close_gracefully()
                async with asyncio.timeout(min(LEAVE_S, grace_s)):
                    await self._all_left.wait()
        finally:
            for session in tuple(self._sessions):
                session.abort()
            self.intake.close()
            if self._rounds is not None:
                self._rounds.cancel()

    async def reap(self) -> int:
        """Remove what has expired (SPEC 6.1); how many blobs that was."""
        now_ms = self.clock.now_ms()
        reaped = 0
        while True:
            some = await self._commits.run(lambda: self.store.reap(now_ms=now_ms, limit=REAP_AT_ONCE))
            reaped += some
            self.tally.blobs_reaped += some
            if some < REAP_AT_ONCE:
                break
        self.tell(RelayEvent.REAPED)
        return reaped

    def figures(self) -> RelayStats:
        tally = self.tally
        return RelayStats(
            connections=len(self._sessions),
            receive_sessions=sum(map(len, self._live.values())),
            waiting_puts=self.intake.waiting_puts,
            waiting_bytes=self.intake.waiting_bytes,
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
        self.tell_host(event, code)

    def register(self, session: ClientConnection) -> None:
        if len(self._sessions) >= self.limits.max_connections or self._is_stopping:
            self.tally.turned_away += 1
            self.tell(RelayEvent.TURNED_AWAY)
            session.abort()
            return
        self._sessions.add(session)
        self._all_left.clear()
        self.tally.connections += 1
        self.tell(RelayEvent.CONNECTED)

    def unregister(self, session: ClientConnection, inbox: InboxKey | None) -> None:
        if session in self._sessions:
            self._sessions.discard(session)
            self.tell(RelayEvent.DISCONNECTED)
            if not self._sessions:
                self._all_left.set()
        if inbox is not None:
            self._live[inbox].discard(session)
            if not self._live[inbox]:
                del self._live[inbox]

    def subscribe(self, inbox: InboxKey, session: ClientConnection) -> bool:
        """Whether the session may receive for this inbox: there is a limit to how many do."""
        if len(self._live.get(inbox, ())) >= self.limits.max_subscriptions_per_mailbox:
            return False
        self._live[inbox].add(session)
        self.tell(RelayEvent.OPENED)
        return True

    def refused(self, code: Code) -> None:
        self.tally.refusals[code] += 1
        self.tell(RelayEvent.REFUSED, code)

    def misbehaved(self, session: ClientConnection) -> None:
        if session.is_secure:
            self.tally.broke_format += 1
            self.tell(RelayEvent.BROKE_FORMAT)
        else:
            self.tally.handshakes_failed += 1
            self.tell(RelayEvent.HANDSHAKE_FAILED)

    def is_behind(self) -> bool:
        """Whether more waits for the disk than may."""
        return self._is_stopping or self.intake.waiting_bytes > self.limits.max_uncommitted_bytes

    def _announce(self, inboxes: AbstractSet[InboxKey]) -> None:
        """New mail: push it to the sessions that are open for these inboxes."""
        for inbox in self._live.keys() & inboxes if self._live else ():
            for session in self._live[inbox]:
                session.push()

    def _make_rounds(self) -> None:
        """Look after every deadline, often enough that none is missed by much."""
        now_s = asyncio.get_running_loop().time()
        for session in tuple(self._sessions):
            self._look_after(session, now_s)
        shortest_ms = min(
            self.limits.handshake_timeout_ms, self.limits.idle_timeout_ms, self.limits.slow_reader_timeout_ms
        )
        pause_s = min(shortest_ms / 1_000 / ROUNDS_IN_A_DEADLINE, LONGEST_ROUND_S)
        self._rounds = asyncio.get_running_loop().call_later(pause_s, self._make_rounds)

    def _look_after(self, session: ClientConnection, now_s: float) -> None:
        if session.blocked_since_s is not None:
            if now_s - session.blocked_since_s >= self.limits.slow_reader_timeout_ms / 1_000:
                self.tally.closed_slow += 1
                self.tell(RelayEvent.SLOW)
                session.abort()
        elif session.is_held:
            session.resume_reading_if_clear()
        elif not session.is_started:
            if now_s - session.came_s >= self.limits.handshake_timeout_ms / 1_000:
                self.tally.handshakes_failed += 1
                self.tell(RelayEvent.HANDSHAKE_FAILED)
                session.abort()
        elif now_s - session.heard_s >= self.limits.idle_timeout_ms / 1_000:
            self.tally.closed_idle += 1
            self.tell(RelayEvent.IDLE)
            session.abort()
