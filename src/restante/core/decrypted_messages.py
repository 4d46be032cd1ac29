"""A message after decryption, and the key that identifies it for deduplication (SPEC 9.1)."""

import hashlib
from typing import NamedTuple

from restante.model.ids import Address, MessageId, PayloadHash, SessionId
from restante.model.kinds import Kind
from restante.wire.ttl_header import TtlHeader


class DecryptedMessage(NamedTuple):
    """A message after decryption. Its session authenticates the sender.

    It is a tuple because one is made for every arrival.
    """

    header: TtlHeader
    message_id: MessageId
    sender: Address
    session_id: SessionId
    sequence: int
    kind: Kind
    body: bytes
    payload_hash: PayloadHash
    envelope_bytes: int


def dedup_key(sender: Address, session: SessionId, message: MessageId) -> bytes:
    """Return the key under which two arrivals are the same message (SPEC 9.1)."""
    return hashlib.sha256(sender + session + message).digest()
