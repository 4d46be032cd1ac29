"""Encode and decode the envelope: what a node sees of a message (SPEC 0).

An envelope has exactly one valid encoding. All other bytes are refused, so that an envelope can neither carry a hidden
mark nor be stored twice in two encodings.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from google.protobuf.message import DecodeError

from restante.model.errors import Malformed, TooLarge
from restante.model.ids import InboxKey, PayloadHash, inbox_key
from restante.model.limits import MAX_SEALED_BYTES
from restante.wire import envelope_pb2
from restante.wire.field_checks import check_time

ENVELOPE_VERSION: Final = 1
ENVELOPE_ALLOWANCE_BYTES: Final = 64  # the other fields take 48 at most
MAX_ENVELOPE_BYTES: Final = MAX_SEALED_BYTES + ENVELOPE_ALLOWANCE_BYTES
EXPIRY_STEP_MS: Final = 3_600_000
"""Expiries are whole hours. An exact one would reveal the minute in which the message was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """An envelope. The version is not a field, because only one version exists."""

    inbox_key: InboxKey
    expires_at_ms: int
    sealed: bytes

    def __post_init__(self) -> None:
        inbox_key(self.inbox_key)
        check_time(self.expires_at_ms, "expires_at")
        if self.expires_at_ms == 0 or self.expires_at_ms % EXPIRY_STEP_MS:
            raise Malformed("expires_at must be a whole hour, later than 0")
        if not self.sealed:
            raise Malformed("the sealed bytes are missing")
        if len(self.sealed) > MAX_SEALED_BYTES:
            raise TooLarge("the sealed payload", size_bytes=len(self.sealed), limit_bytes=MAX_SEALED_BYTES)


def encode_envelope(envelope: Envelope) -> bytes:
    return envelope_pb2.Envelope(
        version=ENVELOPE_VERSION,
        inbox_key=envelope.inbox_key,
        expires_at_ms=envelope.expires_at_ms,
        sealed=envelope.sealed,
    ).SerializeToString(deterministic=True)


def decode_envelope(raw: bytes) -> Envelope:
    if len(raw) > MAX_ENVELOPE_BYTES:
        raise TooLarge("the envelope", size_bytes=len(raw), limit_bytes=MAX_ENVELOPE_BYTES)
    try:
        message = envelope_pb2.Envelope.FromString(raw)
    except DecodeError:
        raise Malformed("not an envelope: the bytes are not a protobuf message of this type") from None
    if message.version != ENVELOPE_VERSION:
        raise Malformed(f"only version {ENVELOPE_VERSION} of the envelope is known, not {message.version}")
    envelope = Envelope(
        inbox_key=InboxKey(message.inbox_key),
        expires_at_ms=message.expires_at_ms,
        sealed=message.sealed,
    )
    if encode_envelope(envelope) != raw:
        raise Malformed("the envelope has unknown fields or is not in its one canonical encoding")
    return envelope


def hash_sealed_bytes(sealed: bytes) -> PayloadHash:
    """Return the payload hash, which identifies sealed bytes in DELIVERY acks (SPEC 10.2), journals (13.1) and replicas
    (7.4)."""
    return PayloadHash(sha256(sealed).digest())
