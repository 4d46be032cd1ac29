"""A decrypted message, and the envelope that carries a message to a relay (SPEC 8.5, 9.1)."""

import hashlib
from typing import NamedTuple

from restante.crypto.sealing import seal
from restante.model.contact_card import ContactCard
from restante.model.ids import Address, MessageId, PayloadHash, SessionId
from restante.model.kinds import KIND_RULES, Kind
from restante.policy.quota import storage_expiry_ms
from restante.wire.envelope import Envelope, encode_envelope
from restante.wire.inbox_keys import relay_inbox_key
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


def seal_envelope(padded: bytes, *, kind: Kind, reader: ContactCard, expires_at_ms: int, now_ms: int) -> bytes:
    """Seal a padded session message and put it into an envelope."""
    return encode_envelope(
        Envelope(
            inbox_key=relay_inbox_key(reader.address),
            expires_at_ms=storage_expiry_ms(
                ttl_type=KIND_RULES[kind].ttl_type, expires_at_ms=expires_at_ms, now_ms=now_ms
            ),
            sealed=seal(padded, reader),
        )
    )


def dedup_key(sender: Address, session: SessionId, message: MessageId) -> bytes:
    """Return the key under which two arrivals are the same message (SPEC 9.1)."""
    return hashlib.sha256(sender + session + message).digest()
