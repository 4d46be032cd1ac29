"""Decide what one arrival leads to: verdict, order, acknowledgement, questions to the sender (SPEC 8.7, 9.1, 9.3, 9.4).

The host looks up what it knows about the arrival, calls `receive`, and executes the effects in one transaction. The
only step with keys is `decrypt`, which the host passes in; it is called at most once, and only if the verdict needs it.
Nothing here is remembered between two calls.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from restante.core.decrypted_messages import DecryptedMessage
from restante.core.deduplication import (
    Fingerprint,
    UnsealedHeader,
    classify_before_decryption,
    content_fingerprint,
    known_in_other_session,
    payload_fingerprint,
    session_fingerprint,
)
from restante.core.inbox import InboxSession
from restante.core.inbox import step as step_order
from restante.core.inbox_events import Arrived, KnownInOtherSession, RecordVerdict, Refuse
from restante.core.inbox_events import Effect as OrderEffect
from restante.core.peer_session_events import Effect as PeerEffect
from restante.core.peer_session_events import Read, Unreadable, UnreadMessage
from restante.core.peer_sessions import PeerSessions
from restante.core.peer_sessions import step as step_peer
from restante.model.error_codes import Code
from restante.model.kinds import Kind
from restante.model.states import Verdict
from restante.policy.reorder_limits import OrderLimits

_UNKNOWN: Final = KnownInOtherSession.UNKNOWN
_CONTROL: Final = Kind.CONTROL
_NEW: Final = Verdict.NEW
_DUPLICATE: Final = Verdict.DUPLICATE
_REFUSED: Final = Refuse()


class Arrival(NamedTuple):
    """An arrival with a valid sender tag, before decryption. `known` are the earlier arrivals under its message id."""

    header: UnsealedHeader
    generation: int
    has_opening: bool
    known: Sequence[Fingerprint]


class CannotDecrypt(NamedTuple):
    """The message can't be read: its key was used or deleted (REPLAY), decryption failed (E009), or the content that
    the contact encrypted is malformed (E101)."""

    code: Verdict | Code = Code.SESSION_INVALID


class Record(NamedTuple):
    """Journal the arrival with its verdict, or with E009 if it is unreadable (SPEC 9.1)."""

    code: Verdict | Code


class Suspect(NamedTuple):
    """Report a contact's malformed message. Another session would not help, so the client asks for nothing again."""

    code: Code


class RefreshFingerprint(NamedTuple):
    """The fingerprint with this session and payload was seen again (SPEC 9.2)."""

    session: bytes
    payload: bytes


class Remember(NamedTuple):
    """Add the fingerprint of this arrival to the dedup index."""

    fingerprint: Fingerprint


class Acknowledge(NamedTuple):
    """Owe the sender a receipt for this message."""


class AcknowledgeAgain(NamedTuple):
    """Owe another receipt, at most once a day and after a random delay (SPEC 10.3)."""


class AdvanceSession(NamedTuple):
    """Store the ratchet after this message; of a new session, also store the session and delete its prekey."""


class ActOnControl(NamedTuple):
    """Act on the control message now (SPEC 9.4)."""


Effect = (
    Record
    | Suspect
    | RefreshFingerprint
    | Remember
    | Acknowledge
    | AcknowledgeAgain
    | AdvanceSession
    | ActOnControl
    | OrderEffect
)


class Received(NamedTuple):
    """What follows from an arrival. `effects` are executed in this order, then `peer_effects`."""

    order: InboxSession
    peer: PeerSessions
    opened: DecryptedMessage | None
    effects: tuple[Effect, ...]
    peer_effects: tuple[PeerEffect, ...] = ()


def receive(
    arrival: Arrival,
    order: InboxSession,
    peer: PeerSessions,
    *,
    decrypt: Callable[[], DecryptedMessage | CannotDecrypt],
    now_ms: int,
    limits: OrderLimits,
) -> Received:
    """Return the state of the session's order and of the peer after the arrival, and the effects."""
    header, known = arrival.header, arrival.known
    session = payload = b""
    if known:
        session = session_fingerprint(header.sender, header.session_id, header.message_id)
        payload = payload_fingerprint(header.payload_hash)
        verdict = classify_before_decryption(known, session=session, payload=payload)
        if verdict is not None:
            return Received(order, peer, None, (Record(verdict), *_seen_again(verdict, session, payload, known)))
    opened = decrypt()
    if isinstance(opened, CannotDecrypt):
        if opened.code is Code.MALFORMED:
            return Received(order, peer, None, (Suspect(opened.code),))
        return _unreadable(arrival, order, peer, code=opened.code, now_ms=now_ms)
    mark = Fingerprint(
        session or session_fingerprint(header.sender, header.session_id, header.message_id),
        payload or payload_fingerprint(header.payload_hash),
        content_fingerprint(opened.header, opened.kind, opened.body),
        opened.kind is not _CONTROL,
    )
    elsewhere = known_in_other_session(known, session=mark.session, content=mark.content) if known else _UNKNOWN
    event = Arrived(opened.sequence, elsewhere, opened.kind is _CONTROL)
    order, ordered = step_order(order, event, now_ms=now_ms, limits=limits)
    judged = next((each for each in ordered if isinstance(each, RecordVerdict | Refuse)), _REFUSED)
    if isinstance(judged, Refuse) or judged.verdict is Verdict.REPLAY:
        # The number is too far ahead or was used before: gaps that were due are skipped, the message is not read.
        code = Code.SESSION_INVALID if isinstance(judged, Refuse) else judged.verdict
        unread = _unreadable(arrival, order, peer, code=code, now_ms=now_ms, opened=opened)
        return unread._replace(effects=tuple(each for each in ordered if each is not judged) + unread.effects)
    read = Read(header.session_id, arrival.generation, header.message_id, not arrival.has_opening)
    peer, peer_effects = step_peer(peer, read, now_ms=now_ms)
    return Received(order, peer, opened, _taken(ordered, judged, mark, opened), peer_effects)


def _taken(
    ordered: tuple[OrderEffect, ...], judged: RecordVerdict, mark: Fingerprint, opened: DecryptedMessage
) -> tuple[Effect, ...]:
    """Effects of a message that was read. Those before its verdict end gaps that were due."""
    effects: list[Effect] = []
    for effect in ordered:
        if effect is not judged:
            effects.append(effect)
            continue
        effects.append(Record(judged.verdict))
        if judged.verdict is _NEW or judged.verdict is _DUPLICATE:
            effects.append(Remember(mark))
        effects.append(AdvanceSession())
        if opened.kind is _CONTROL:
            if judged.verdict is _NEW:
                effects.append(ActOnControl())
        else:
            effects.append(Acknowledge() if judged.verdict is _NEW else AcknowledgeAgain())
    return tuple(effects)


def _seen_again(
    verdict: Verdict, session: bytes, payload: bytes, known: Sequence[Fingerprint]
) -> tuple[RefreshFingerprint | AcknowledgeAgain, ...]:
    again = (AcknowledgeAgain(),) if any(mark.is_acknowledged for mark in known) else ()
    return (RefreshFingerprint(session, payload), *again) if verdict is _DUPLICATE else again


def _unreadable(
    arrival: Arrival,
    order: InboxSession,
    peer: PeerSessions,
    *,
    code: Verdict | Code,
    now_ms: int,
    opened: DecryptedMessage | None = None,
) -> Received:
    """Remember what can't be read (docs/protocol/sessions.md, rule 5); acknowledge again what was received before."""
    header = arrival.header
    message = UnreadMessage(header.payload_hash, header.message_id, header.session_id, arrival.generation)
    peer, peer_effects = step_peer(peer, Unreadable(message), now_ms=now_ms)
    is_received = any(mark.is_acknowledged for mark in arrival.known)
    effects: tuple[Effect, ...] = (Record(code), AcknowledgeAgain()) if is_received else (Record(code),)
    return Received(order, peer, opened, effects, peer_effects)
