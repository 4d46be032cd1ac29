"""Encode and decode acks, single and in batches (SPEC 10.1-10.3). core/signed_acks signs and verifies them.

An ack is built unsigned, signed over `ack_to_sign` or `batch_to_sign`, completed with `dataclasses.replace` and then
encoded. A single ack always has 121 bytes and a batch never has, so the length tells them apart. A node's DELIVERY ack
is one ack for a whole commit; wire/storage_receipts adds the Merkle path of each put.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from restante.model.errors import Malformed
from restante.model.ids import MESSAGE_ID_BYTES, Address, MessageId, address, exactly, message_id
from restante.wire.field_checks import SIGNATURE_BYTES, UNSIGNED, check_signature, check_time, signature_to_encode

_ACK: Final = struct.Struct(">B16s32sQ")
_BATCH_HEAD: Final = struct.Struct(">BH")
_BATCH_TIME: Final = struct.Struct(">Q")
ACK_BYTES: Final = _ACK.size + SIGNATURE_BYTES
BATCH_BYTES_WITHOUT_IDS: Final = _BATCH_HEAD.size + _BATCH_TIME.size + SIGNATURE_BYTES
SUBJECT_BYTES: Final = 32

MAX_BATCH_IDS: Final = 1024
"""Sixteen times the 64 ids at which a batch is sent (SPEC 10.5). The count field could hold 65,535 ids, which is 1 MiB
and more than a message may have (SPEC 2.8)."""

_ACK_DOMAIN: Final = b"restante-ack-v1"
_BATCH_DOMAIN: Final = b"restante-ack-batch-v1"


class AckType(IntEnum):
    """What is acknowledged: DELIVERY by a storing node, RECEIPT and READ by the recipient (SPEC 10.1)."""

    DELIVERY = 0x01
    RECEIPT = 0x02
    READ = 0x03


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """One ack. RECEIPT and READ name a message_id and its sender, DELIVERY the Merkle root of a commit."""

    type: AckType
    reference: bytes
    subject: bytes
    timestamp_ms: int
    signature: bytes = UNSIGNED

    def __post_init__(self) -> None:
        exactly(self.subject, SUBJECT_BYTES, "subject")
        if self.type != AckType.DELIVERY:
            message_id(self.reference)
        elif self.reference != self.subject[:MESSAGE_ID_BYTES]:
            raise Malformed("the reference of a DELIVERY ack must be the first 16 bytes of its subject")
        check_time(self.timestamp_ms, "timestamp")
        check_signature(self.signature)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAck:
    """Acks for several messages of one sender. The signature covers the sender, the bytes do not contain it (SPEC
    10.3)."""

    type: AckType
    message_ids: tuple[MessageId, ...]
    timestamp_ms: int
    signature: bytes = UNSIGNED

    def __post_init__(self) -> None:
        if self.type == AckType.DELIVERY:
            raise Malformed("a batch holds RECEIPT or READ acks; a node gives one DELIVERY ack for a commit")
        if not 1 <= len(self.message_ids) <= MAX_BATCH_IDS:
            raise Malformed(f"a batch names 1..{MAX_BATCH_IDS} messages, not {len(self.message_ids)}")
        for raw in self.message_ids:
            message_id(raw)
        if len(set(self.message_ids)) != len(self.message_ids):
            raise Malformed("a batch must not name a message twice")
        check_time(self.timestamp_ms, "timestamp")
        check_signature(self.signature)


def ack_to_sign(ack: Ack) -> bytes:
    """Return the bytes that the signature of an ack covers."""
    return _ACK_DOMAIN + _ack_head(ack)


def encode_ack(ack: Ack) -> bytes:
    return _ack_head(ack) + signature_to_encode(ack.signature, "an ack")


def decode_ack(raw: bytes) -> Ack:
    exactly(raw, ACK_BYTES, "ack")
    number, reference, subject, timestamp_ms = _ACK.unpack_from(raw)
    return Ack(
        type=_ack_type(number),
        reference=reference,
        subject=subject,
        timestamp_ms=timestamp_ms,
        signature=raw[_ACK.size :],
    )


def batch_to_sign(batch: BatchAck, sender: Address) -> bytes:
    """Return the bytes that the signature of a batch covers. They include `sender`, so the batch is of no use to
    others."""
    return _BATCH_DOMAIN + _batch_head(batch) + address(sender)


def encode_batch_ack(batch: BatchAck) -> bytes:
    return _batch_head(batch) + signature_to_encode(batch.signature, "a batch of acks")


def decode_batch_ack(raw: bytes) -> BatchAck:
    if len(raw) < BATCH_BYTES_WITHOUT_IDS:
        raise Malformed(f"a batch of acks must have more than {BATCH_BYTES_WITHOUT_IDS} bytes, not {len(raw)}")
    number, count = _BATCH_HEAD.unpack_from(raw)
    # Check the length before parsing: the peer chose the count.
    exactly(raw, BATCH_BYTES_WITHOUT_IDS + count * MESSAGE_ID_BYTES, f"a batch of {count} acks")
    end_of_ids = _BATCH_HEAD.size + count * MESSAGE_ID_BYTES
    (timestamp_ms,) = _BATCH_TIME.unpack_from(raw, end_of_ids)
    starts = range(_BATCH_HEAD.size, end_of_ids, MESSAGE_ID_BYTES)
    return BatchAck(
        type=_ack_type(number),
        message_ids=tuple([MessageId(raw[start : start + MESSAGE_ID_BYTES]) for start in starts]),
        timestamp_ms=timestamp_ms,
        signature=raw[-SIGNATURE_BYTES:],
    )


def _ack_type(number: int) -> AckType:
    try:
        return AckType(number)
    except ValueError:
        raise Malformed(f"the type of an ack must be 1, 2 or 3, not {number}") from None


def _ack_head(ack: Ack) -> bytes:
    return _ACK.pack(ack.type, ack.reference, ack.subject, ack.timestamp_ms)


def _batch_head(batch: BatchAck) -> bytes:
    ids = b"".join(batch.message_ids)
    return _BATCH_HEAD.pack(batch.type, len(batch.message_ids)) + ids + _BATCH_TIME.pack(batch.timestamp_ms)
