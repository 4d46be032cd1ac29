"""Sessions in SQLite: ratchet states sealed at rest, who is written to in which, and our own prekeys (SPEC 8.2, 8.6).

States are remembered while nobody else writes to the file, and written once a transaction, with it: whatever was
encrypted under a state becomes durable together with the state after it, or not at all.
"""

from dataclasses import dataclass
from typing import Any, Final

from restante.core.retransmit import SentMessage
from restante.core.session_reset import Numbered
from restante.crypto.handshake import Agreed
from restante.crypto.prekey_codec import decode_prekeys, encode_prekeys
from restante.crypto.prekeys import PrekeyStore
from restante.crypto.ratchet import SKIPPED_KEY_LIFE_MS, RatchetState
from restante.crypto.ratchet_codec import decode_ratchet, encode_ratchet
from restante.crypto.storage_seal import NONCE_BYTES, StorageSeal
from restante.model.ids import Address, MessageId, SessionId
from restante.model.prekey_bundle import Opening
from restante.model.states import State
from restante.ports.entropy import Entropy
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.wire.session_message import decode_opening, encode_opening

REMEMBERED: Final = 1_024
"""Sessions kept in memory, about 2 MB; one whose skipped keys are all in use takes 150 kB more."""

_SQL: Final = load_queries("session_store")
_NUMBER: Final = _SQL["number"]
_STORE: Final = _SQL["store"]
_PREKEYS_CONTEXT: Final = b"own prekeys"


@dataclass(slots=True, kw_only=True)
class StoredSession:
    """One session as it stands now. `opening` is ours and goes with each message until the first answer."""

    row: int
    peer: Address
    session_id: SessionId
    is_ours: bool
    continues: SessionId | None
    is_left: bool
    next_sequence: int
    opening: Opening | None
    ratchet: RatchetState


@dataclass(frozen=True, slots=True, kw_only=True)
class RetiredSessionMessage(Numbered):
    """A message in flight whose session we have left."""

    row: int
    peer: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """What may be shown of a session; no key is in it. `received` is the next number expected from the peer."""

    peer: Address
    session_id: SessionId
    is_ours: bool
    began_at_ms: int
    left_at_ms: int | None
    sent: int
    is_answered: bool
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
        self._live: dict[tuple[Address, SessionId], StoredSession] = {}
        self._current: dict[Address, SessionId] = {}
        self._changed: dict[int, StoredSession] = {}
        self._prekeys: PrekeyStore | None = None
        database.on_invalidate(self._forget)
        database.before_commit(self._write_changed)

    def find(self, peer: Address, session_id: SessionId) -> StoredSession | None:
        known = self._live.get((peer, session_id))
        return known if known is not None else self._load(peer, session_id)

    def current(self, peer: Address) -> StoredSession | None:
        """The session in which we write to `peer`."""
        session_id = self._current.get(peer)
        if session_id is None:
            rows = self._database.rows(_SQL["current"], peer)
            if not rows:
                return None
            session_id = self._current[peer] = SessionId(rows[0][0])
        return self.find(peer, session_id)

    def add(self, agreed: Agreed, peer: Address, *, now_ms: int) -> StoredSession:
        """A session as its handshake, or its first message, left it."""
        is_ours = agreed.opening.card.address == self._owner
        self._database.rows(
            _SQL["add"],
            peer,
            agreed.session_id,
            int(is_ours),
            agreed.opening.continues,
            now_ms,
            encode_opening(agreed.opening) if is_ours else None,
            self._sealed_state(peer, agreed.session_id, agreed.ratchet),
        )
        return self._remember(
            StoredSession(
                row=self._database.last_insert(),
                peer=peer,
                session_id=agreed.session_id,
                is_ours=is_ours,
                continues=agreed.opening.continues,
                is_left=False,
                next_sequence=0,
                opening=agreed.opening if is_ours else None,
                ratchet=agreed.ratchet,
            )
        )

    def advance(self, session: StoredSession, ratchet: RatchetState) -> None:
        """From now on the session stands here; on disk with the transaction that is under way."""
        session.ratchet = ratchet
        if session.opening is not None and ratchet.is_answered:
            session.opening = None
        self._note(session)

    def take_number(self, session: StoredSession, message_id: MessageId) -> None:
        """The next number of the session is this message's."""
        self._database.defer(_NUMBER, (session.row, session.next_sequence, message_id))
        session.next_sequence += 1
        self._note(session)

    def set_current(self, session: StoredSession) -> None:
        self._database.rows(_SQL["set_current"], session.peer, session.row)
        self._current[session.peer] = session.session_id

    def leave(self, session: StoredSession, *, now_ms: int) -> None:
        """Nothing is written in it any more; what is in flight there is to be sealed anew."""
        self._database.rows(_SQL["leave"], now_ms, session.row)
        session.is_left = True

    def held(self, session: StoredSession, first: int, last: int) -> list[SentMessage]:
        """Messages in flight with these numbers."""
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

    def stranded(self) -> list[RetiredSessionMessage]:
        """What is sealed for a session that was left, oldest session first, in order of its numbers."""
        return [
            RetiredSessionMessage(
                row=row,
                session_id=SessionId(session_id),
                sequence=sequence,
                message_id=MessageId(message_id),
                state=State(state),
                peer=Address(peer),
            )
            for row, session_id, sequence, message_id, state, peer in self._database.rows(_SQL["stranded"])
        ]

    def give_up_number(self, stranded: RetiredSessionMessage) -> None:
        self._database.rows(_SQL["clear_sequence"], stranded.row, stranded.sequence)

    def session_of(self, message_id: MessageId) -> StoredSession | None:
        """The session a message is sealed for."""
        for peer, session_id in self._database.rows(_SQL["session_of"], message_id):
            return self.find(Address(peer), SessionId(session_id))
        return None

    def reader_of(self, message_id: MessageId) -> Address | None:
        """To whom a message was written; None for one that is not remembered, or not ours."""
        for (peer,) in self._database.rows(_SQL["reader_of"], message_id):
            return Address(peer)
        return None

    def sweep(self, *, now_ms: int) -> None:
        """Forget the numbers of messages that have ended, and sessions left so long ago that no key is kept."""
        self._database.rows(_SQL["sweep_numbers"])
        self._database.rows(_SQL["sweep_sessions"], now_ms - SKIPPED_KEY_LIFE_MS)
        self._write_changed()
        self._forget()

    def prekeys(self) -> PrekeyStore:
        """Ours; empty until some were made."""
        if self._prekeys is None:
            rows = self._database.rows(_SQL["load_prekeys"])
            self._prekeys = (
                decode_prekeys(self._seal.unseal(rows[0][0], context=_PREKEYS_CONTEXT)) if rows else PrekeyStore()
            )
        return self._prekeys

    def keep_prekeys(self, store: PrekeyStore) -> None:
        nonce = self._entropy.draw(NONCE_BYTES)
        sealed = self._seal.seal(encode_prekeys(store), nonce=nonce, context=_PREKEYS_CONTEXT)
        self._database.rows(_SQL["store_prekeys"], sealed)
        self._prekeys = store

    def spent(self, peer: Address) -> frozenset[int]:
        """One-time prekeys of `peer` that we have used before."""
        return frozenset(prekey_id for (prekey_id,) in self._database.rows(_SQL["spent"], peer))

    def spend(self, peer: Address, prekey_id: int) -> None:
        self._database.rows(_SQL["spend"], peer, prekey_id)

    def _load(self, peer: Address, session_id: SessionId) -> StoredSession | None:
        rows = self._database.rows(_SQL["find"], peer, session_id)
        if not rows:
            return None
        [(row, is_ours, continues, left_at_ms, next_sequence, opening, sealed)] = rows
        return self._remember(
            StoredSession(
                row=row,
                peer=peer,
                session_id=session_id,
                is_ours=bool(is_ours),
                continues=None if continues is None else SessionId(continues),
                is_left=left_at_ms is not None,
                next_sequence=next_sequence,
                opening=None if opening is None else decode_opening(opening, writer=self._owner),
                ratchet=decode_ratchet(self._seal.unseal(sealed, context=peer + session_id)),
            )
        )

    def _remember(self, session: StoredSession) -> StoredSession:
        if len(self._live) >= REMEMBERED:
            self._write_changed()
            self._live.clear()
        self._live[session.peer, session.session_id] = session
        return session

    def _note(self, session: StoredSession) -> None:
        if self._changed.get(session.row) is session:
            return  # it was noted in this transaction before
        self._changed[session.row] = session
        self._live[session.peer, session.session_id] = session  # it may have been forgotten to make room

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
        self._live.clear()
        self._current.clear()
        self._changed.clear()
        self._prekeys = None


def summaries(database: Database) -> list[SessionSummary]:
    """All sessions, the newest first. Needs no key: what is sealed is not looked into."""
    return [_summary(row) for row in database.rows(_SQL["list"])]


def _summary(row: tuple[Any, ...]) -> SessionSummary:
    (peer, session_id, is_ours, began_at_ms, left_at_ms, sent, has_opening, is_current, expected, phase,
     in_flight) = row  # fmt: skip
    return SessionSummary(
        peer=Address(peer),
        session_id=SessionId(session_id),
        is_ours=bool(is_ours),
        began_at_ms=began_at_ms,
        left_at_ms=left_at_ms,
        sent=sent,
        is_answered=not has_opening,
        is_current=bool(is_current),
        received=expected or 0,
        phase=phase or "flowing",
        in_flight=in_flight,
    )
