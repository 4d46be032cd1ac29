"""Executes what core/peer_sessions decides: opens sessions, asks contacts, encrypts messages again (SPEC 8.7).

Every method is called inside a transaction. One that can't send, because the contact has no usable prekeys or the
reserve for control messages is full, leaves the stored state as it was; maintenance tries again.
"""

from typing import Final

from restante.client.contacts import ContactBook
from restante.client.message_encryptor import MessageEncryptor
from restante.client.outgoing import OutgoingMessages
from restante.client.security_events import SecurityEvents
from restante.core.peer_session_events import (
    CannotRead,
    DeleteSessions,
    Effect,
    Event,
    KnownSession,
    Lost,
    Opened,
    OpenSession,
    Reencrypt,
    ReportLimit,
    SendControl,
    SessionExpired,
    StateLost,
    TimePassed,
)
from restante.core.peer_sessions import PeerSessions, current_session, next_wake_ms, step
from restante.model.errors import RestanteError, StoreUnusable
from restante.model.ids import Address
from restante.runtime.sqlite.session_store import SessionStore
from restante.wire.control_messages import CannotReadMessage, encode_cannot_read, encode_lost

RECOVERY_LIMIT: Final = "recovery_limit"
"""Security event: the daily limit of openings or re-encrypted bytes was reached for a contact."""
RESTORED: Final = "restored"
"""Security event: the client's file is an older copy. Sessions with all contacts were replaced."""
CANNOT_RECOVER: Final = "cannot_recover"
"""Security event: no session can be opened with a contact, because its prekeys are too old."""


class SessionRecovery:
    """One identity's sessions with all its contacts."""

    def __init__(
        self,
        *,
        contacts: ContactBook,
        sessions: SessionStore,
        encryptor: MessageEncryptor,
        outgoing: OutgoingMessages,
        security: SecurityEvents,
    ) -> None:
        self._contacts = contacts
        self._sessions = sessions
        self._encryptor = encryptor
        self._outgoing = outgoing
        self._security = security

    def apply(self, peer: Address, event: Event, *, now_ms: int) -> None:
        """Take one step of the rules for a peer and execute its effects."""
        before = self._sessions.peer(peer)
        after, effects = step(before, event, now_ms=now_ms)
        self.store(peer, after, effects, now_ms=now_ms)

    def store(self, peer: Address, after: PeerSessions, effects: tuple[Effect, ...], *, now_ms: int) -> None:
        """Store the state after a step and execute its effects."""
        before = self._sessions.peer(peer)
        if after is before and not effects:
            return
        if not self._can_execute(peer, effects, now_ms):
            # Nothing can be sent to this peer now. What was deleted stays deleted; the question stays open.
            deleted = before._replace(sessions=after.sessions) if _deletes(effects) else before
            self._sessions.store_peer(peer, deleted, now_ms=now_ms)
            return
        self._sessions.store_peer(peer, after, now_ms=now_ms)
        for effect in effects:
            self._execute(peer, effect, now_ms)
        self._report_change(peer, before, now_ms)

    def ask_due(self, *, now_ms: int) -> None:
        """Ask every contact for its unreadable messages whose retry interval is over (rule 5)."""
        for peer in self._sessions.peers_with_unread():
            wake_ms = next_wake_ms(self._sessions.peer(peer), now_ms=now_ms)
            if wake_ms is not None and wake_ms <= now_ms:
                self.apply(peer, TimePassed(), now_ms=now_ms)

    def reencrypt_wanted(self, *, now_ms: int) -> None:
        """Queue again what contacts could not read (rule 7). A message that is being sent waits for its answer."""
        for message_id, peer in self._sessions.wanted():
            if self._contacts.get(peer) is not None:
                self._outgoing.reencrypt(message_id, now_ms=now_ms)

    def lose_state(self, peer: Address, *, now_ms: int) -> None:
        """Delete the sessions with a peer and open another one that tells it (rule 8)."""
        self.apply(peer, StateLost(), now_ms=now_ms)

    def lose_all_state(self, *, now_ms: int) -> None:
        """Do so for every peer: the file was restored from a backup."""
        self._security.suspect(RESTORED, now_ms=now_ms)
        for peer in self._sessions.peers():
            self.lose_state(peer, now_ms=now_ms)

    def delete_expired(self, *, now_ms: int) -> None:
        """Delete sessions whose keys have expired (rule 4)."""
        for peer, session_id in self._sessions.expired(now_ms=now_ms):
            self.apply(peer, SessionExpired(session_id), now_ms=now_ms)

    def _can_execute(self, peer: Address, effects: tuple[Effect, ...], now_ms: int) -> bool:
        """Return whether a control message can be sent, and a session opened, if the effects need it."""
        contact = self._contacts.get(peer)
        needs_opening = any(isinstance(effect, OpenSession) for effect in effects)
        if not needs_opening and not any(isinstance(effect, SendControl) for effect in effects):
            return True
        if contact is None or not self._outgoing.has_control_space(contact):
            return False
        if needs_opening:
            try:
                self._encryptor.newest_bundle(contact, now_ms=now_ms)
            except StoreUnusable:
                raise
            except RestanteError:
                self._security.report(CANNOT_RECOVER, peer=peer, now_ms=now_ms)
                return False
        return True

    def _execute(self, peer: Address, effect: Effect, now_ms: int) -> None:
        match effect:
            case OpenSession(generation, first, uses_one_time_prekey):
                contact = self._contacts.expect(peer)
                session = self._encryptor.open_session(
                    contact, generation=generation, uses_one_time_prekey=uses_one_time_prekey, now_ms=now_ms
                )
                opened = Opened(KnownSession(session.session_id, generation, is_initiator=True))
                self.apply(peer, opened, now_ms=now_ms)
                self._outgoing.write_in(session, contact, _encoded(first), now_ms=now_ms)
            case SendControl(session_id, message):
                found = self._sessions.find(peer, session_id)
                if found is not None:
                    self._outgoing.write_in(found, self._contacts.expect(peer), _encoded(message), now_ms=now_ms)
            case Reencrypt(message_id):
                self._sessions.want(message_id)
            case ReportLimit():
                self._security.report(RECOVERY_LIMIT, peer=peer, now_ms=now_ms)
            case DeleteSessions():
                pass  # `store_peer` deleted what the state after the step does not have

    def _report_change(self, peer: Address, before: PeerSessions, now_ms: int) -> None:
        old, new = current_session(before), current_session(self._sessions.peer(peer))
        if new is not None and old is not None and old.session_id != new.session_id:
            self._security.session_changed(peer, old=old.session_id, new=new.session_id, now_ms=now_ms)


def _deletes(effects: tuple[Effect, ...]) -> bool:
    return any(isinstance(effect, DeleteSessions) for effect in effects)


def _encoded(message: CannotRead | Lost) -> bytes:
    return encode_lost() if isinstance(message, Lost) else encode_cannot_read(CannotReadMessage(message.hashes))
