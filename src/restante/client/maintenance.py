"""What a client does because time has passed, in one transaction: prekeys, gaps, acknowledgements, sweeps.

Decides nothing itself: each thing is asked whether it is due.
"""

from typing import Final

from restante.client.ack_sender import AckSender
from restante.client.incoming import IncomingMessages
from restante.client.outgoing import OutgoingMessages
from restante.client.security_events import SecurityEvents
from restante.crypto.prekeys import prekeys_due, renew_due
from restante.model.ids import MessageId
from restante.policy.settings import Settings
from restante.ports.entropy import Entropy
from restante.runtime.sqlite.inbox.store import SqliteInbox
from restante.runtime.sqlite.session_store import SessionStore

IDLE_MS: Final = 1_000  # another process may have left something to do
WRONG_NODE_KEY: Final = "wrong_node_key"
"""Security event: another node than the pinned one answers at a relay's place."""


class Maintenance:
    def __init__(
        self,
        *,
        sessions: SessionStore,
        outgoing: OutgoingMessages,
        incoming: IncomingMessages,
        ack_sender: AckSender,
        security: SecurityEvents,
        inbox: SqliteInbox,
        settings: Settings,
        entropy: Entropy,
    ) -> None:
        self._sessions = sessions
        self._outgoing = outgoing
        self._incoming = incoming
        self._ack_sender = ack_sender
        self._security = security
        self._inbox = inbox
        self._settings = settings
        self._entropy = entropy
        self._sweep_at_ms = 0
        self._failed: list[MessageId] = []
        self._wrong_node_keys = 0

    def session_failed(self, message_id: MessageId) -> None:
        """Remember that the session of this message failed. The next maintenance run replaces it."""
        self._failed.append(message_id)

    def wrong_node_key(self) -> None:
        """Remember that another node than the pinned one answered. The next maintenance run journals it."""
        self._wrong_node_keys += 1

    def run_due(self, *, now_ms: int) -> int:
        """Everything that is due; when to look again."""
        if now_ms >= self._sweep_at_ms:
            self._inbox.sweep(now_ms=now_ms)
            self._sessions.sweep(now_ms=now_ms)
            self.renew_prekeys(now_ms=now_ms)
            self._sweep_at_ms = now_ms + self._settings.outbox.sweep_interval_ms
        wake_ms = self._inbox.next_wake_ms()
        if wake_ms is not None and wake_ms <= now_ms:
            for arrival in self._inbox.pass_time(now_ms=now_ms):
                self._incoming.apply_results(arrival, now_ms=now_ms)
        while self._wrong_node_keys:
            self._wrong_node_keys -= 1
            self._security.suspect(WRONG_NODE_KEY, now_ms=now_ms)
        while self._failed:
            self._outgoing.reset_for(self._failed.pop(), now_ms=now_ms)
        self._outgoing.reencrypt_retired_sessions(now_ms=now_ms)
        return now_ms + IDLE_MS

    def renew_prekeys(self, *, now_ms: int) -> None:
        """A new signed prekey each week, new one-time prekeys when half are gone, and what is too old forgotten."""
        store = self._sessions.prekeys()
        due = prekeys_due(store, now_ms=now_ms)
        if due.anything:
            fresh = renew_due(store, entropy=self._entropy.draw(due.entropy_bytes), now_ms=now_ms)
            self._sessions.keep_prekeys(fresh)

    def acknowledge(self, *, now_ms: int) -> int:
        """Queue the batches that are due (SPEC 10.5); when the next one is.

        A transaction of its own: when the outbox is full, it raises, and they are still owed.
        """
        next_ms = self._ack_sender.queue_due_batches(now_ms=now_ms)
        return now_ms + IDLE_MS if next_ms is None else min(now_ms + IDLE_MS, next_ms)
