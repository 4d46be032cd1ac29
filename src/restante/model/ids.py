"""Identifiers, each with a fixed number of bytes. Random bytes are arguments."""

import uuid
from typing import Final, NewType

from restante.model.errors import Malformed

MessageId = NewType("MessageId", bytes)
Address = NewType("Address", bytes)
InboxKey = NewType("InboxKey", bytes)
BlindedKey = NewType("BlindedKey", bytes)
SessionId = NewType("SessionId", bytes)
NodeId = NewType("NodeId", bytes)
NodeKey = NewType("NodeKey", bytes)
PayloadHash = NewType("PayloadHash", bytes)
WriterId = NewType("WriterId", bytes)
EventId = NewType("EventId", bytes)
SessionTag = NewType("SessionTag", bytes)

MESSAGE_ID_BYTES: Final = 16
ADDRESS_BYTES: Final = 32
INBOX_KEY_BYTES: Final = 32
BLINDED_KEY_BYTES: Final = 32
SESSION_ID_BYTES: Final = 32
NODE_ID_BYTES: Final = 32
NODE_KEY_BYTES: Final = 32
PAYLOAD_HASH_BYTES: Final = 32
WRITER_ID_BYTES: Final = 16
SESSION_TAG_BYTES: Final = 16

MAX_SEQUENCE: Final = 0xFFFF_FFFF  # SPEC 8.4: u32 per direction


def exactly(raw: bytes, size: int, what: str) -> bytes:
    """Return `raw` if it has `size` bytes. Otherwise raise `Malformed`, naming `what` it should be."""
    if len(raw) != size:
        raise Malformed(f"{what} must have {size} bytes, not {len(raw)}")
    return raw


def mint_message_id(random_bytes: bytes) -> MessageId:
    """Make a UUIDv4 from 16 random bytes (SPEC 2.1)."""
    raw = bytearray(random_bytes)
    if len(raw) != MESSAGE_ID_BYTES:
        exactly(random_bytes, MESSAGE_ID_BYTES, "entropy")
    raw[6] = raw[6] & 0x0F | 0x40  # version 4
    raw[8] = raw[8] & 0x3F | 0x80  # the variant of RFC 9562
    return MessageId(bytes(raw))


def message_id(raw: bytes) -> MessageId:
    """Return `raw` as a message id. Raise `Malformed` unless it is a UUIDv4 (SPEC 2.1)."""
    exactly(raw, MESSAGE_ID_BYTES, "message_id")
    if raw[6] >> 4 != 4 or raw[8] >> 6 != 2:  # version 4, the variant of RFC 9562; `uuid.UUID` takes ten times as long
        raise Malformed("message_id must be a UUIDv4")
    return MessageId(raw)


def show_message_id(value: MessageId) -> str:
    """Return the usual text form of a UUID."""
    return str(uuid.UUID(bytes=value))


def address(raw: bytes) -> Address:
    return Address(exactly(raw, ADDRESS_BYTES, "address"))


def inbox_key(raw: bytes) -> InboxKey:
    return InboxKey(exactly(raw, INBOX_KEY_BYTES, "inbox key"))


def blinded_key(raw: bytes) -> BlindedKey:
    """Return `raw` as the public key of an inbox in one time bucket or at one relay (SPEC 7.2)."""
    return BlindedKey(exactly(raw, BLINDED_KEY_BYTES, "blinded key"))


def session_id(raw: bytes) -> SessionId:
    return SessionId(exactly(raw, SESSION_ID_BYTES, "session_id"))


def node_key(raw: bytes) -> NodeKey:
    """Return `raw` as the Ed25519 key a node signs with. The node id is the hash of it (SPEC 7.1)."""
    return NodeKey(exactly(raw, NODE_KEY_BYTES, "node key"))


def payload_hash(raw: bytes) -> PayloadHash:
    return PayloadHash(exactly(raw, PAYLOAD_HASH_BYTES, "payload hash"))


def writer_id(raw: bytes) -> WriterId:
    return WriterId(exactly(raw, WRITER_ID_BYTES, "writer"))


def event_id(writer: WriterId, number: int) -> EventId:
    """Return the id of a writer's n-th event. Numbers are consecutive, so a missing journal event is noticed."""
    return EventId(writer[:8] + number.to_bytes(8, "big"))


def event_number(value: EventId) -> int:
    """Return the number of an event within its writer's journal."""
    return int.from_bytes(value[8:], "big")
