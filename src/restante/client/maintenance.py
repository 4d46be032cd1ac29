"""What a client does because time has passed: prekeys, gaps, acks, access secrets, sweeps, in one transaction."""

import contextlib
from typing import Final

from restante.client.ack_sender import AckSender
from restante.client.incoming import IncomingMessages
from restante.client.introductions.access_sender import AccessSender
from restante.client.introductions.requests import Requests
from restante.client.message_encryptor import MessageEncryptor
from restante.client.security_events import SecurityEvents
from restante.client.sessions.prekey_renewal import PrekeyRenewal
from restante.client.sessions.recovery import SessionRecovery
from restante.core.inboxes.former_inboxes import FORMER_POLL_MS
from restante.core.peer_session_events import EncryptFailed
from restante.crypto.prekeys import prekeys_due, renew_due
from restante.model.errors import OutboxFull
from restante.policy.settings import Settings
from restante.ports.entropy import Entropy
from restante.runtime.restore_counter import RestoreCounter
from restante.runtime.sqlite.inbox.store import SqliteInbox
from restante.runtime.sqlite.session_store import SessionStore

IDLE_MS: Final = 1_000  # another process may have left something to do
WRONG_NODE_KEY: Final = "wrong_node_key"
"""Security event: another node than the pinned one answers at a relay's place."""


class Maintenance:
    def __init__(
        self,
        *,
        counter: RestoreCounter,
        sessions: SessionStore,
        encryptor: MessageEncryptor,
        recovery: SessionRecovery,
        renewal: PrekeyRenewal,
        access: AccessSender,
        incoming: IncomingMessages,
        ack_sender: AckSender,
        security: SecurityEvents,
        requests: Requests,
        inbox: SqliteInbox,
        settings: Settings,
        entropy: Entropy,
    ) -> None:
        self._counter = counter
        self._sessions = sessions
        self._encryptor = encryptor
        self._recovery = recovery
        self._renewal = renewal
        self._access = access
        self._incoming = incoming
        self._ack_sender = ack_sender
        self._security = security
        self._requests = requests
        self._inbox = inbox
        self._settings = settings
        self._entropy = entropy
        self._sweep_at_ms = 0
        self._wrong_node_keys = 0

    def wrong_node_key(self) -> None:
        """Remember that another node than the pinned one answered. The next maintenance run journals it."""
        self._wrong_node_keys += 1

    def run_due(self, *, now_ms: int, has_read_all: bool = False) -> int:
        """Do everything that is due and return when to run again.

        `has_read_all`: every inbox is read at every place by now.
        """
        self._access.rotate_if_needed(now_ms=now_ms)
        if now_ms >= self._sweep_at_ms:
            self._inbox.sweep(now_ms=now_ms)
            self._counter.advance()
            self._recovery.delete_expired(now_ms=now_ms)
            self._sessions.sweep()
            self._requests.sweep(now_ms=now_ms)
            self._access.forget_former(now_ms=now_ms)
            if has_read_all:
                self._access.mark_all_read(at_ms=now_ms - FORMER_POLL_MS)  # former ones are read that often
            self.renew_prekeys(now_ms=now_ms)
            self._tell_contacts(now_ms)
            self._sweep_at_ms = now_ms + self._settings.outbox.sweep_interval_ms
        elif self._renewal.has_moved:
            self._tell_contacts(now_ms)
        wake_ms = self._inbox.next_wake_ms()
        if wake_ms is not None and wake_ms <= now_ms:
            self._incoming.request_again(self._inbox.pass_time(now_ms=now_ms), now_ms=now_ms)
        while self._wrong_node_keys:
            self._wrong_node_keys -= 1
            self._security.suspect(WRONG_NODE_KEY, now_ms=now_ms)
        for peer, session_id in self._encryptor.take_failed_sessions():
            self._recovery.apply(peer, EncryptFailed(session_id), now_ms=now_ms)
        self._recovery.ask_due(now_ms=now_ms)
        self._recovery.reencrypt_wanted(now_ms=now_ms)
        next_ms = now_ms + IDLE_MS
        with contextlib.suppress(OutboxFull):  # refused before anything is written: what waits stays pending
            self._access.tell_contacts(now_ms=now_ms)
            due_ms = self._ack_sender.queue_due_batches(now_ms=now_ms)
            next_ms = next_ms if due_ms is None else min(next_ms, due_ms)
        return next_ms

    def _tell_contacts(self, now_ms: int) -> None:
        with contextlib.suppress(OutboxFull):  # the next sweep tells the others
            self._renewal.tell_contacts(now_ms=now_ms)

    def renew_prekeys(self, *, now_ms: int) -> None:
        """Create a signed prekey each week and one-time prekeys when half are used; delete those that are too old."""
        store = self._sessions.prekeys()
        due = prekeys_due(store, now_ms=now_ms)
        if due.anything:
            fresh = renew_due(store, entropy=self._entropy.draw(due.entropy_bytes), now_ms=now_ms)
            self._sessions.store_prekeys(fresh)
