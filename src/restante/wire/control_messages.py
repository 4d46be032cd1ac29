"""Encode and decode the bodies of control messages: requests, CANNOT_READ, LOST, keys, access secrets (SPEC 8, 9).

The first byte is the type. They carry no signature: the session in which one arrives authenticates its sender. Acks are
control messages, too; wire/acks has their bytes, with a signature, because they are evidence for third parties.
"""

import struct
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from restante.model.errors import Malformed, TooLarge
from restante.model.ids import (
    MAX_SEQUENCE,
    PAYLOAD_HASH_BYTES,
    PayloadHash,
    SessionId,
    exactly,
    payload_hash,
    session_id,
)
from restante.wire.field_checks import SIGNATURE_BYTES, check_number, check_time
from restante.wire.places import MAX_PLACES_BYTES
from restante.wire.prekey_bundle import MAX_BUNDLE_BYTES

MAX_CONTROL_BYTES: Final = 3 + MAX_PLACES_BYTES + SIGNATURE_BYTES + MAX_BUNDLE_BYTES
"""The size of the longest one: renewed prekeys with places. It is checked before parsing."""

ACCESS_SECRET_BYTES: Final = 32
MAX_SPAN: Final = 10  # SPEC 9.5: [missing, missing + 10]
MAX_HASHES: Final = 32  # policy/session_recovery.MAX_UNREAD
_REQUEST: Final = struct.Struct(">B32sII")
_HASH_COUNT: Final = struct.Struct(">BB")
_ACCESS: Final = struct.Struct(">BQ32s")


class ControlType(IntEnum):
    """The first byte of control messages that are not acks. Types of acks are below 0x10."""

    RETRANSMIT_REQUEST = 0x11
    CANNOT_READ = 0x12
    LOST = 0x13
    KEYS = 0x14
    ACCESS_SECRET = 0x20


@dataclass(frozen=True, slots=True, kw_only=True)
class RetransmitRequest:
    """Requests the messages from `first` to `last` of this session again, both included."""

    session_id: SessionId
    first: int
    last: int

    def __post_init__(self) -> None:
        session_id(self.session_id)
        check_number(self.first, "first", high=MAX_SEQUENCE)
        check_number(self.last, "last", low=self.first, high=min(self.first + MAX_SPAN, MAX_SEQUENCE))


@dataclass(frozen=True, slots=True)
class CannotReadMessage:
    """Names envelopes of the recipient that its sender received and can't read, by the hash of their sealed bytes."""

    hashes: tuple[PayloadHash, ...]

    def __post_init__(self) -> None:
        check_number(len(self.hashes), "number of hashes", high=MAX_HASHES)
        for each in self.hashes:
            payload_hash(each)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSecret:
    """Lets a contact write to the sender's contacts inbox (SPEC 7.2, 8.8). The newest statement counts."""

    secret: bytes = field(repr=False)
    stated_at_ms: int

    def __post_init__(self) -> None:
        exactly(self.secret, ACCESS_SECRET_BYTES, "an access secret")
        check_time(self.stated_at_ms, "time of an access secret")


@dataclass(frozen=True, slots=True)
class KeysMessage:
    """The sender's prekeys and places as they are now (SPEC 8.8), as core/mesh_proofs/published_keys encodes them."""

    published: bytes


@dataclass(frozen=True, slots=True)
class LostMessage:
    """States that its sender lost its sessions and opened the one that this message arrived in."""


Control = RetransmitRequest | CannotReadMessage | LostMessage | KeysMessage | AccessSecret


def encode_retransmit_request(request: RetransmitRequest) -> bytes:
    return _REQUEST.pack(ControlType.RETRANSMIT_REQUEST, request.session_id, request.first, request.last)


def encode_cannot_read(message: CannotReadMessage) -> bytes:
    return _HASH_COUNT.pack(ControlType.CANNOT_READ, len(message.hashes)) + b"".join(message.hashes)


def encode_keys_message(message: KeysMessage) -> bytes:
    return bytes([ControlType.KEYS]) + message.published


def encode_lost() -> bytes:
    return bytes([ControlType.LOST])


def encode_access_secret(access: AccessSecret) -> bytes:
    return _ACCESS.pack(ControlType.ACCESS_SECRET, access.stated_at_ms, access.secret)


def decode_control(raw: bytes) -> Control:
    """Decode a control message that is not an ack."""
    if len(raw) > MAX_CONTROL_BYTES:
        raise TooLarge("the control message", size_bytes=len(raw), limit_bytes=MAX_CONTROL_BYTES)
    if not raw:
        raise Malformed("a control message must not be empty")
    match raw[0]:
        case ControlType.RETRANSMIT_REQUEST:
            exactly(raw, _REQUEST.size, "a retransmit request")
            _, session, first, last = _REQUEST.unpack(raw)
            return RetransmitRequest(session_id=SessionId(session), first=first, last=last)
        case ControlType.CANNOT_READ:
            return _decode_cannot_read(raw)
        case ControlType.LOST:
            exactly(raw, 1, "a LOST message")
            return LostMessage()
        case ControlType.KEYS:
            return KeysMessage(raw[1:])
        case ControlType.ACCESS_SECRET:
            exactly(raw, _ACCESS.size, "an access secret with its time")
            _, stated_at_ms, secret = _ACCESS.unpack(raw)
            return AccessSecret(secret=secret, stated_at_ms=stated_at_ms)
        case other:
            raise Malformed(f"unknown type {other} of a control message")


def _decode_cannot_read(raw: bytes) -> CannotReadMessage:
    if len(raw) < _HASH_COUNT.size:
        raise Malformed("a CANNOT_READ message must say how many hashes it has")
    exactly(raw, _HASH_COUNT.size + PAYLOAD_HASH_BYTES * raw[1], "a CANNOT_READ message")
    starts = range(_HASH_COUNT.size, len(raw), PAYLOAD_HASH_BYTES)
    return CannotReadMessage(tuple(PayloadHash(raw[start : start + PAYLOAD_HASH_BYTES]) for start in starts))
