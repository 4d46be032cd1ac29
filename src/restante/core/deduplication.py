"""What is remembered of an arrival, and what that says about the next one (SPEC 9.1, 9.2, 8.7).

Two questions, asked in this order: are these bytes known in this session (needs no key), and is this message known from
another session (docs/decisions/0016). Whether its number was used before is asked of core/inbox, between the two.
"""

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from restante.core.decrypted_messages import dedup_key
from restante.core.inbox_events import KnownInOtherSession
from restante.model.ids import Address, MessageId, PayloadHash, SessionId
from restante.model.kinds import Kind
from restante.model.states import Verdict
from restante.wire.ttl_header import TtlHeader, encode_ttl_header

SESSION_MARK_BYTES: Final = 8
PAYLOAD_MARK_BYTES: Final = 16
CONTENT_MARK_BYTES: Final = 8
MESSAGE_KEY_BYTES: Final = 16
"""Hashes are cut to what 100,000 entries in 10 MB leave room for (SPEC 9.2). Only a sender can make marks of its own
messages meet, and then hides nothing but a message of its own."""


class UnsealedHeader(NamedTuple):
    """What unsealing shows of an arrival before its session is asked to open it.

    A tuple, as Fingerprint is: one of each is made for every arrival, and a frozen dataclass takes four times as long.
    """

    sender: Address
    session_id: SessionId
    message_id: MessageId
    payload_hash: PayloadHash
    envelope_bytes: int


class Fingerprint(NamedTuple):
    """One remembered arrival of a message. `is_acknowledged` is false for control messages (decisions/0006)."""

    session: bytes
    payload: bytes
    content: bytes
    is_acknowledged: bool = True


@lru_cache(maxsize=256)  # asked for several times while a message is taken in
def message_key(sender: Address, message: MessageId) -> bytes:
    """What finds every arrival of a message, whatever its session."""
    return hashlib.sha256(sender + message).digest()[:MESSAGE_KEY_BYTES]


def session_mark(sender: Address, session: SessionId, message: MessageId) -> bytes:
    """The beginning of SPEC 9.1's key: tells the sessions of one message apart."""
    return dedup_key(sender, session, message)[:SESSION_MARK_BYTES]


def payload_mark(payload: PayloadHash) -> bytes:
    return payload[:PAYLOAD_MARK_BYTES]


def content_mark(header: TtlHeader, kind: Kind, body: bytes) -> bytes:
    """What stays the same when a message is sealed again in another session."""
    whole = b"\x00".join((kind.encode(), encode_ttl_header(header) + body))
    return hashlib.sha256(whole).digest()[:CONTENT_MARK_BYTES]


def verdict_before_opening(marks: Iterable[Fingerprint], *, session: bytes, payload: bytes) -> Verdict | None:
    """The verdict that needs no key; None when the message has to be opened to tell (SPEC 9.1)."""
    known = [mark.payload for mark in marks if mark.session == session]
    if not known:
        return None
    return Verdict.DUPLICATE if payload in known else Verdict.COLLISION


def known_elsewhere(marks: Iterable[Fingerprint], *, session: bytes, content: bytes) -> KnownInOtherSession:
    """Whether another session brought this message before, and whether it said the same there."""
    known = [mark.content for mark in marks if mark.session != session]
    if not known:
        return KnownInOtherSession.UNKNOWN
    return KnownInOtherSession.SAME_CONTENT if content in known else KnownInOtherSession.OTHER_CONTENT
