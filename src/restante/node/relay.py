"""The relay: a listener whose connections share one table, one write batcher and the registered frame families."""

import asyncio
import contextlib
from typing import Final

from restante.crypto.identity import Identity
from restante.node.client_connection import ClientConnection, ConnectionContext
from restante.node.connection_table import ConnectionTable
from restante.node.frame_family import FrameFamily
from restante.node.mailbox_family import MailboxFamily
from restante.node.stats import CLOSED_BY_RELAY, EventHook, RelayCounters, RelayEvent, RelayStats
from restante.node.write_batcher import WriteBatcher
from restante.policy.reaping import may_reap
from restante.policy.settings import Settings
from restante.ports.clock import Clock
from restante.ports.commit_queue import CommitQueue
from restante.ports.entropy import Entropy
from restante.ports.mailbox_store import MailboxStore
from restante.runtime.transport.tls import server_context

BACKLOG: Final = 1_024  # connections the system may hold until the relay accepts them
REAP_BATCH: Final = 1_000  # blobs deleted in one commit: a long sweep must not stop the puts
GRACE_S: Final = 5.0
LEAVE_S: Final = 2.0  # how long clients may take to close after everything is answered


def _ignore(_event: RelayEvent, _code: object) -> None: ...


class Relay:
    """`commits` is the one writer of the store's file. `reap_not_before_ms` delays deletion after a clock jump."""

    def __init__(
        self,
        identity: Identity,
        store: MailboxStore,
        *,
        commits: CommitQueue,
        settings: Settings,
        clock: Clock,
        entropy: Entropy,
        on_event: EventHook = _ignore,
        reap_not_before_ms: int = 0,
        is_mailbox: bool = True,
    ) -> None:
        """A node without role mailbox registers no mailbox family."""
        self._store = store
        self._clock = clock
        self._commits = commits
        self._counters = RelayCounters(on_event=on_event)
        self._table = ConnectionTable(settings.relay, self._counters)
        self._reap_not_before_ms = reap_not_before_ms
        self._batcher = WriteBatcher(
            identity,
            store,
            commits,
            settings=settings,
            clock=clock,
            counters=self._counters,
            may_reap=self._may_reap_at,
        )
        self._mailbox = MailboxFamily(store, self._batcher, settings=settings, clock=clock, counters=self._counters)
        self._context = ConnectionContext(
            identity=identity,
            tls=server_context(identity),
            limits=settings.relay,
            clock=clock,
            entropy=entropy,
            table=self._table,
            counters=self._counters,
        )
        if is_mailbox:
            self._context.register(self._mailbox)
        self._servers: list[asyncio.Server] = []

    def register(self, family: FrameFamily) -> None:
        """Let a further frame family handle its frames. Call it before `listen`."""
        self._context.register(family)

    async def listen(self, host: str, port: int) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: ClientConnection(self._context), host, port, backlog=BACKLOG)
        self._servers.append(server)
        return server

    async def stop(self, *, grace_s: float = GRACE_S) -> None:
        """Accept and read nothing more, commit and answer what was read, then close every connection."""
        self._counters.report(RelayEvent.STOPPING)
        for server in self._servers:
            server.close()
        self._batcher.stop_reading()
        self._table.stop_admitting()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await self._batcher.finished()
                await self._table.close_all(within_s=min(LEAVE_S, grace_s))
        finally:
            self._table.abort_all()
            self._batcher.close()

    def may_reap(self) -> bool:
        """Return whether expired blobs may be deleted now: not for a day after the clock jumped (SPEC 6.10)."""
        return self._may_reap_at(self._clock.now_ms())

    async def reap(self) -> int:
        """Delete expired blobs (SPEC 6.1), whatever `may_reap` says, and return how many."""
        now_ms = self._clock.now_ms()
        reaped = 0
        while True:
            some = await self._commits.run(lambda: self._store.reap(now_ms=now_ms, limit=REAP_BATCH))
            reaped += some
            self._counters.blobs_reaped += some
            if some < REAP_BATCH:
                break
        self._counters.report(RelayEvent.REAPED)
        return reaped

    def _may_reap_at(self, now_ms: int) -> bool:
        return may_reap(now_ms=now_ms, not_before_ms=self._reap_not_before_ms)

    def stats(self) -> RelayStats:
        counters = self._counters
        return RelayStats(
            connections=len(self._table),
            subscriptions=self._mailbox.subscriptions,
            pending_puts=self._batcher.pending_puts,
            pending_put_bytes=self._batcher.pending_bytes,
            partial_frame_bytes=self._table.partial_bytes,
            store_usable=counters.store_usable,
            connections_total=counters.connections,
            connections_rejected_total=counters.events[RelayEvent.REJECTED],
            handshake_failures_total=counters.events[RelayEvent.HANDSHAKE_FAILED],
            connections_closed_total={reason: counters.events[reason] for reason in CLOSED_BY_RELAY},
            protocol_errors_total=counters.events[RelayEvent.PROTOCOL_ERROR],
            puts_stored_total=counters.puts_stored,
            bytes_stored_total=counters.bytes_stored,
            refusals_total=dict(counters.refusals),
            blobs_served_total=counters.blobs_served,
            bytes_served_total=counters.bytes_served,
            blobs_deleted_total=counters.blobs_deleted,
            blobs_reaped_total=counters.blobs_reaped,
            blobs_damaged_total=counters.blobs_damaged,
            commits_total=counters.commits,
            commit_seconds_total=counters.commit_seconds,
        )
