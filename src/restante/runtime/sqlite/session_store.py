"""Sessions in SQLite: ratchet states sealed at rest, what the rules of SPEC 8.7 remember, our own prekeys (8.2, 8.6).

States are cached until another connection writes, and written once per transaction: whatever was encrypted under a
state becomes durable together with the state after it, or not at all. The session to send in is not stored;
core/peer_sessions computes it from what is.
"""

import struct
from dataclasses import dataclass
from typing import Any, Final

from restante.core.peer_session_events import KnownSession, Owed, UnreadMessage
from restante.core.peer_sessions import PeerSessions, current_session
from restante.core.retransmit import SentMessage
from restante.crypto.handshake import Agreed
from restante.crypto.prekey_codec import decode_prekeys, encode_prekeys
from restante.crypto.prekeys import PrekeyStore
from restante.crypto.ratchet import SKIPPED_KEY_LIFE_MS, RatchetState
from restante.crypto.ratchet_codec import decode_ratchet, encode_ratchet
from restante.crypto.storage_seal import NONCE_BYTES, StorageSeal
from restante.model.ids import Address, MessageId, PayloadHash, SessionId
from restante.model.prekey_bundle import Opening
from restante.model.states import State
from restante.policy.session_recovery import DailyUse, RetryInterval
from restante.ports.entropy import Entropy
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.wire.session_message import decode_opening, encode_opening

CACHED: Final = 1_024
"""Sessions kept in memory, about 2 MB; one whose skipped keys are all in use takes 150 kB more."""

_SQL: Final = load_queries("session_store")
_NUMBER: Final = _SQL["number"]
_STORE: Final = _SQL["store"]
_PREKEYS_CONTEXT: Final = b"own prekeys"
_UNREAD: Final = struct.Struct(">32s16s32sI")


@dataclass(slots=True, kw_only=True)
class StoredSession:
    """One session with its keys. `opening` is ours and goes with each message until the first answer."""

    row: int
    peer: Address
    session_id: SessionId
    generation: int
    is_initiator: bool
    next_sequence: int
    opening: Opening | None
    ratchet: RatchetState


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """What may be shown of a session; no key is in it. `received` is the next number expected from the peer."""

    peer: Address
    session_id: SessionId
    generation: int
    is_initiator: bool
    is_read: bool
    is_confirmed: bool
    began_at_ms: int
    retired_at_ms: int | None
    sent: int
    is_current: bool
    received: int
    phase: str
    in_flight: int


class SessionStore:
    """Methods are called inside a transaction, except those that only read."""

    def __init__(self, database: Database, *, owner: Address, seal: StorageSeal, entropy: Entropy) -> None:
        self._database = database
        self._owner = owner
        self._seal = seal
        self._entropy = entropy
        self._cached: dict[tuple[Address, SessionId], StoredSession] = {}
        self._peers: dict[Address, PeerSessions] = {}
        self._changed: dict[int, StoredSession] = {}
        self._prekeys: PrekeyStore | None = None
        database.on_invalidate(self._forget)
        database.before_commit(self._write_changed)

    def find(self, peer: Address, session_id: SessionId) -> StoredSession | None:
        known = self._cached.get((peer, session_id))
        return known if known is not None else self._load(peer, session_id)

    def current(self, peer: Address) -> StoredSession | None:
        """Return the session to send in; None if the next message has to open one."""
        current = current_session(self.peer(peer))
        return None if current is None else self.find(peer, current.session_id)

    def peer(self, peer: Address) -> PeerSessions:
        """Return what the rules know of a peer."""
        known = self._peers.get(peer)
        if known is None:
            known = self._peers[peer] = self._load_peer(peer)
        return known

    def store_peer(self, peer: Address, after: PeerSessions, *, now_ms: int) -> None:
        """Store what a step of the rules changed. Sessions that are missing in `after` are deleted with their keys."""
        before = self.peer(peer)
        if after is before:
            return
        self._peers[peer] = after
        known = {each.session_id: each for each in after.sessions}
        for each in before.sessions:
            now = known.get(each.session_id)
            if now is None:
                self._delete(peer, each.session_id, now_ms)
            elif now != each:
                self._database.rows(_SQL["mark_read"], int(now.is_read), int(now.is_confirmed), peer, each.session_id)
        self._mark_new(peer, [each for each in after.sessions if each not in before.sessions])
        self._retire(peer, before, after, now_ms)
        if after._replace(sessions=()) != before._replace(sessions=()):
            self._database.rows(_SQL["store_peer"], peer, *_peer_columns(after))

    def peers(self) -> list[Address]:
        """Return every peer that the rules remember something about."""
        return [Address(peer) for (peer,) in self._database.rows(_SQL["peers"])]

    def peers_with_unread(self) -> list[Address]:
        """Return the peers whose unreadable messages are still to be asked for."""
        return [Address(peer) for (peer,) in self._database.rows(_SQL["peers_with_unread"])]

    def add(self, agreed: Agreed, peer: Address, *, now_ms: int) -> StoredSession:
        """Store a session as its handshake, or its first message, left it. The rules get to know it by a step."""
        is_initiator = agreed.opening.card.address == self._owner
        [(row, next_sequence)] = self._database.rows(
            _SQL["add"],
            peer,
            agreed.session_id,
            agreed.generation,
            int(is_initiator),
            now_ms,
            encode_opening(agreed.opening) if is_initiator else None,
            self._sealed_state(peer, agreed.session_id, agreed.ratchet),
        )
        return self._cache(
            StoredSession(
                row=row,
                peer=peer,
                session_id=agreed.session_id,
                generation=agreed.generation,
                is_initiator=is_initiator,
                next_sequence=next_sequence,
                opening=agreed.opening if is_initiator else None,
                ratchet=agreed.ratchet,
            )
        )

    def advance(self, session: StoredSession, ratchet: RatchetState) -> None:
        """Set the ratchet of the session. It is written with the transaction in progress."""
        session.ratchet = ratchet
        if session.opening is not None and ratchet.is_answered:
            session.opening = None
        self._note(session)

    def take_number(self, session: StoredSession, message_id: MessageId, payload_hash: PayloadHash) -> None:
        """Give the next number of the session to this message."""
        self._database.defer(_NUMBER, (session.row, session.next_sequence, message_id, payload_hash))
        session.next_sequence += 1
        self._note(session)

    def held(self, session: StoredSession, first: int, last: int) -> list[SentMessage]:
        """Return the messages in flight with these numbers."""
        return [
            SentMessage(
                message_id=MessageId(message_id),
                sequence=sequence,
                state=State(state),
                last_attempt_at_ms=last_attempt_at_ms,
            )
            for message_id, sequence, state, last_attempt_at_ms in self._database.rows(
                _SQL["held"], session.row, first, last
            )
        ]

    def owed(self, peer: Address) -> tuple[Owed, ...]:
        """Return the mail to `peer` that has no receipt, each with its latest envelope."""
        return tuple(
            Owed(MessageId(message_id), PayloadHash(payload_hash), SessionId(session_id), generation, size_bytes)
            for message_id, payload_hash, session_id, generation, size_bytes in self._database.rows(_SQL["owed"], peer)
        )

    def want(self, message_id: MessageId) -> None:
        """Mark a message to be encrypted again in the current session."""
        self._database.rows(_SQL["want"], message_id)

    def wanted(self) -> list[tuple[MessageId, Address]]:
        """Return the messages to encrypt again that are not being sent right now, with their recipients."""
        return [(MessageId(message_id), Address(peer)) for message_id, peer in self._database.rows(_SQL["wanted"])]

    def mark_waiting(self, message_id: MessageId) -> None:
        """The message waits to be encrypted again when it is leased. Receipts for its old bytes still count."""
        self._database.rows(_SQL["mark_waiting"], message_id)

    def give_up_number(self, message_id: MessageId) -> bool:
        """Forget the number of a message that is encrypted again; return whether it had one."""
        return bool(self._database.rows(_SQL["clear_sequence"], message_id))

    def recipient_of(self, message_id: MessageId) -> Address | None:
        """Return to whom a message was sent; None for one that is unknown or not ours."""
        for (peer,) in self._database.rows(_SQL["recipient_of"], message_id):
            return Address(peer)
        return None

    def expired(self, *, now_ms: int) -> list[tuple[Address, SessionId]]:
        """Return the sessions that were retired so long ago that none of their keys is kept."""
        rows = self._database.rows(_SQL["expired"], now_ms - SKIPPED_KEY_LIFE_MS)
        return [(Address(peer), SessionId(session_id)) for peer, session_id in rows]

    def sweep(self) -> None:
        """Forget the numbers of messages that have ended, and deleted sessions that no message names."""
        self._write_changed()
        self._database.rows(_SQL["sweep_numbers"])
        self._database.rows(_SQL["sweep_deleted"])
        self._forget()

    def prekeys(self) -> PrekeyStore:
        """Return our own prekeys; empty until some were made."""
        if self._prekeys is None:
            rows = self._database.rows(_SQL["load_prekeys"])
            self._prekeys = (
                decode_prekeys(self._seal.unseal(rows[0][0], context=_PREKEYS_CONTEXT)) if rows else PrekeyStore()
            )
        return self._prekeys

    def store_prekeys(self, store: PrekeyStore) -> None:
        nonce = self._entropy.draw(NONCE_BYTES)
        sealed = self._seal.seal(encode_prekeys(store), nonce=nonce, context=_PREKEYS_CONTEXT)
        self._database.rows(_SQL["store_prekeys"], sealed)
        self._prekeys = store

    def spent(self, peer: Address) -> frozenset[int]:
        """Return the one-time prekeys of `peer` that we have used."""
        return frozenset(prekey_id for (prekey_id,) in self._database.rows(_SQL["spent"], peer))

    def spend(self, peer: Address, prekey_id: int) -> None:
        self._database.rows(_SQL["spend"], peer, prekey_id)

    def _load_peer(self, peer: Address) -> PeerSessions:
        sessions = tuple(
            KnownSession(SessionId(session_id), generation, bool(is_initiator), bool(is_read), bool(is_confirmed))
            for session_id, generation, is_initiator, is_read, is_confirmed in self._database.rows(
                _SQL["sessions_of"], peer
            )
        )
        for highest, unread, *rest in self._database.rows(_SQL["load_peer"], peer):
            return PeerSessions(
                sessions=sessions,
                highest_generation=highest,
                unread=tuple(UnreadMessage(*values) for values in _UNREAD.iter_unpack(unread)),
                question=RetryInterval(*rest[:3]),
                opening=RetryInterval(*rest[3:6]),
                use=DailyUse(*rest[6:]),
            )
        return PeerSessions(sessions=sessions)

    def _mark_new(self, peer: Address, new: list[KnownSession]) -> None:
        for each in new:
            if each.is_read or each.is_confirmed:
                self._database.rows(_SQL["mark_read"], int(each.is_read), int(each.is_confirmed), peer, each.session_id)

    def _retire(self, peer: Address, before: PeerSessions, after: PeerSessions, now_ms: int) -> None:
        """Note when a session stopped being current, or was opened beside the current one."""
        current = current_session(after)
        if current is None or (current == current_session(before) and len(after.sessions) == len(before.sessions)):
            return
        self._database.rows(_SQL["unretire"], peer, current.session_id)
        self._database.rows(_SQL["retire_others"], now_ms, peer, current.session_id)

    def _delete(self, peer: Address, session_id: SessionId, now_ms: int) -> None:
        session = self._cached.pop((peer, session_id), None)
        if session is not None:
            self._changed.pop(session.row, None)
        self._database.rows(_SQL["delete"], now_ms, peer, session_id)

    def _load(self, peer: Address, session_id: SessionId) -> StoredSession | None:
        rows = self._database.rows(_SQL["find"], peer, session_id)
        if not rows:
            return None
        [(row, generation, is_initiator, next_sequence, opening, sealed)] = rows
        return self._cache(
            StoredSession(
                row=row,
                peer=peer,
                session_id=session_id,
                generation=generation,
                is_initiator=bool(is_initiator),
                next_sequence=next_sequence,
                opening=None if opening is None else decode_opening(opening, sender=self._owner),
                ratchet=decode_ratchet(self._seal.unseal(sealed, context=peer + session_id)),
            )
        )

    def _cache(self, session: StoredSession) -> StoredSession:
        if len(self._cached) >= CACHED:
            self._write_changed()
            self._cached.clear()
        self._cached[session.peer, session.session_id] = session
        return session

    def _note(self, session: StoredSession) -> None:
        if self._changed.get(session.row) is session:
            return  # it was noted in this transaction before
        self._changed[session.row] = session
        self._cached[session.peer, session.session_id] = session  # it may have been dropped from the full cache

    def _sealed_state(self, peer: Address, session_id: SessionId, ratchet: RatchetState) -> bytes:
        nonce = self._entropy.draw(NONCE_BYTES)
        return self._seal.seal(encode_ratchet(ratchet), nonce=nonce, context=peer + session_id)

    def _write_changed(self) -> None:
        changed, self._changed = self._changed, {}
        for session in changed.values():
            opening = None if session.opening is None else encode_opening(session.opening)
            sealed = self._sealed_state(session.peer, session.session_id, session.ratchet)
            self._database.defer(_STORE, (session.next_sequence, opening, sealed, session.row))

    def _forget(self) -> None:
        self._cached.clear()
        self._peers.clear()
        self._changed.clear()
        self._prekeys = None


def summaries(database: Database) -> list[SessionSummary]:
    """Return all sessions, the newest first. This needs no key: nothing sealed is read."""
    rows = database.rows(_SQL["list"])
    known: dict[Address, list[KnownSession]] = {}
    for peer, session_id, generation, is_initiator, is_read, is_confirmed, *_ in rows:
        session = KnownSession(SessionId(session_id), generation, bool(is_initiator), bool(is_read), bool(is_confirmed))
        known.setdefault(Address(peer), []).append(session)
    current = {peer: current_session(PeerSessions(sessions=tuple(sessions))) for peer, sessions in known.items()}
    return [_summary(row, current[Address(row[0])]) for row in rows]


def _summary(row: tuple[Any, ...], current: KnownSession | None) -> SessionSummary:
    (peer, session_id, generation, is_initiator, is_read, is_confirmed, began_at_ms, retired_at_ms, sent, expected,
     phase, in_flight) = row  # fmt: skip
    return SessionSummary(
        peer=Address(peer),
        session_id=SessionId(session_id),
        generation=generation,
        is_initiator=bool(is_initiator),
        is_read=bool(is_read),
        is_confirmed=bool(is_confirmed),
        began_at_ms=began_at_ms,
        retired_at_ms=retired_at_ms,
        sent=sent,
        is_current=current is not None and current.session_id == session_id,
        received=expected or 0,
        phase=phase or "flowing",
        in_flight=in_flight,
    )


def _peer_columns(state: PeerSessions) -> tuple[int | bytes, ...]:
    unread = b"".join(_UNREAD.pack(*each) for each in state.unread)
    return (state.highest_generation, unread, *state.question, *state.opening, *state.use)
