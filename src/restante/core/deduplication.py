"""Compute fingerprints of arrivals and compare them (SPEC 9.1, 9.2, 8.7).

There are two tests, in this order: are these bytes known in this session (needs no decryption), and is this message
known from another session (docs/decisions/0016). Between them core/inbox tests whether the sequence number was used.
"""

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from restante.core.decrypted_messages import DecryptedMessage, dedup_key
from restante.core.inbox_events import KnownInOtherSession
from restante.model.ids import Address, MessageId, PayloadHash, SessionId
from restante.model.kinds import Kind
from restante.model.states import Verdict
from restante.wire.ttl_header import TtlHeader, encode_ttl_header

SESSION_FINGERPRINT_BYTES: Final = 8
PAYLOAD_FINGERPRINT_BYTES: Final = 16
CONTENT_FINGERPRINT_BYTES: Final = 8
MESSAGE_KEY_BYTES: Final = 16
"""Hashes are truncated so that 100,000 entries fit in 10 MB (SPEC 9.2). Only a sender can find two messages with equal
fingerprints, and can thereby hide only a message of its own."""


class UnsealedHeader(NamedTuple):
    """The part of an arrival that is known before decryption.

    It is a tuple, like Fingerprint, because one is made for every arrival and a frozen dataclass takes four times as
    long.
    """

    sender: Address
    session_id: SessionId
    message_id: MessageId
    payload_hash: PayloadHash
    envelope_bytes: int


class Fingerprint(NamedTuple):
    """The truncated hashes of one arrival. `is_acknowledged` is false for control messages (decisions/0006)."""

    session: bytes
    payload: bytes
    content: bytes
    is_acknowledged: bool = True


def header_of(opened: DecryptedMessage) -> UnsealedHeader:
    """Return the part of a decrypted message that was known before decryption."""
    return UnsealedHeader(
        opened.sender, opened.session_id, opened.message_id, opened.payload_hash, opened.envelope_bytes
    )


@lru_cache(maxsize=256)  # used several times for each arrival
def message_key(sender: Address, message: MessageId) -> bytes:
    """Return the key of all arrivals of a message, in any session."""
    return hashlib.sha256(sender + message).digest()[:MESSAGE_KEY_BYTES]


def session_fingerprint(sender: Address, session: SessionId, message: MessageId) -> bytes:
    """Return the first bytes of SPEC 9.1's key, which differ between sessions."""
    return dedup_key(sender, session, message)[:SESSION_FINGERPRINT_BYTES]


def payload_fingerprint(payload: PayloadHash) -> bytes:
    return payload[:PAYLOAD_FINGERPRINT_BYTES]


def content_fingerprint(header: TtlHeader, kind: Kind, body: bytes) -> bytes:
    """Return a hash that stays the same when a message is re-encrypted in another session."""
    whole = b"\x00".join((kind.encode(), encode_ttl_header(header) + body))
    return hashlib.sha256(whole).digest()[:CONTENT_FINGERPRINT_BYTES]


def classify_before_decryption(marks: Iterable[Fingerprint], *, session: bytes, payload: bytes) -> Verdict | None:
    """Return the verdict that needs no decryption, or None if the message must be decrypted first (SPEC 9.1)."""
    known = [mark.payload for mark in marks if mark.session == session]
    if not known:
        return None
    return Verdict.DUPLICATE if payload in known else Verdict.COLLISION


def known_in_other_session(marks: Iterable[Fingerprint], *, session: bytes, content: bytes) -> KnownInOtherSession:
    """Return whether another session delivered this message before, and whether its content was the same."""
    known = [mark.content for mark in marks if mark.session != session]
    if not known:
        return KnownInOtherSession.UNKNOWN
    return KnownInOtherSession.SAME_CONTENT if content in known else KnownInOtherSession.OTHER_CONTENT
