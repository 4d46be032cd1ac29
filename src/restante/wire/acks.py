"""Encode and decode acks, single and in batches (SPEC 10.1-10.3). core/signed_acks signs and verifies them.

An ack is built unsigned, signed over `ack_to_sign` or `batch_to_sign`, completed with `dataclasses.replace` and then
encoded. A single ack always has 121 bytes and a batch never has, so the length tells them apart. A node's batch of
DELIVERY acks has the same layout; its signature covers the hash of the sealed bytes where others have the sender.
"""

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from restante.model.errors import Malformed
from restante.model.ids import MESSAGE_ID_BYTES, Address, MessageId, PayloadHash, address, exactly, message_id
from restante.model.ids import payload_hash as checked_payload_hash
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
    """One ack. RECEIPT and READ name a message_id and its sender; DELIVERY names sealed bytes, see
    `delivery_subject`."""

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
            raise Malformed("this batch holds RECEIPT or READ acks; DELIVERY acks are a node's, see DeliveryBatch")
        if not 1 <= len(self.message_ids) <= MAX_BATCH_IDS:
            raise Malformed(f"a batch names 1..{MAX_BATCH_IDS} messages, not {len(self.message_ids)}")
        for raw in self.message_ids:
            message_id(raw)
        if len(set(self.message_ids)) != len(self.message_ids):
            raise Malformed("a batch must not name a message twice")
        check_time(self.timestamp_ms, "timestamp")
        check_signature(self.signature)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryBatch:
    """A node's acks for several blobs, in the order they were put. Equal blobs are listed as often as they were put."""

    references: tuple[bytes, ...]
    timestamp_ms: int
    signature: bytes = UNSIGNED

    def __post_init__(self) -> None:
        if not 1 <= len(self.references) <= MAX_BATCH_IDS:
            raise Malformed(f"a batch names 1..{MAX_BATCH_IDS} blobs, not {len(self.references)}")
        if set(map(len, self.references)) != {MESSAGE_ID_BYTES}:
            raise Malformed(f"every reference must have {MESSAGE_ID_BYTES} bytes")
        check_time(self.timestamp_ms, "timestamp")
        check_signature(self.signature)


def delivery_references(sealed_hashes: Sequence[PayloadHash]) -> tuple[bytes, ...]:
    """Return the part of each hash that a batch contains."""
    return tuple([sealed[:MESSAGE_ID_BYTES] for sealed in sealed_hashes])


def delivery_batch_to_sign(batch: DeliveryBatch, sealed_hashes: Sequence[PayloadHash]) -> bytes:
    """Return the bytes that the signature covers. They contain the whole hashes; the batch only their first bytes."""
    if delivery_references(sealed_hashes) != batch.references:
        raise Malformed("the batch does not list these blobs")
    for sealed in sealed_hashes:
        checked_payload_hash(sealed)
    return _BATCH_DOMAIN + _delivery_head(batch) + _delivery_subject_of(sealed_hashes)


def unsigned_delivery(sealed_hashes: Sequence[PayloadHash], timestamp_ms: int) -> tuple[bytes, bytes]:
    """Return a node's batch up to the signature, and the bytes to sign. The node's own input is not checked."""
    head = _head_of(AckType.DELIVERY, [sealed[:MESSAGE_ID_BYTES] for sealed in sealed_hashes], timestamp_ms)
    return head, _BATCH_DOMAIN + head + _delivery_subject_of(sealed_hashes)


def encode_delivery_batch(batch: DeliveryBatch) -> bytes:
    return _delivery_head(batch) + signature_to_encode(batch.signature, "a batch of acks")


def decode_delivery_batch(raw: bytes) -> DeliveryBatch:
    number, references, timestamp_ms, signature = _take_batch_apart(raw)
    if number != AckType.DELIVERY:
        raise Malformed(f"a node's batch holds DELIVERY acks, type 1, not {number}")
    return DeliveryBatch(references=references, timestamp_ms=timestamp_ms, signature=signature)


def delivery_subject(sealed_hash: PayloadHash) -> tuple[bytes, bytes]:
    """Return reference and subject of a DELIVERY ack, from the SHA-256 of the sealed bytes. A node knows nothing
    else."""
    subject = checked_payload_hash(sealed_hash)
    return subject[:MESSAGE_ID_BYTES], subject


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
    number, ids, timestamp_ms, signature = _take_batch_apart(raw)
    return BatchAck(
        type=_ack_type(number),
        message_ids=tuple(map(MessageId, ids)),
        timestamp_ms=timestamp_ms,
        signature=signature,
    )


def _take_batch_apart(raw: bytes) -> tuple[int, tuple[bytes, ...], int, bytes]:
    """Return type, ids, time and signature."""
    if len(raw) < BATCH_BYTES_WITHOUT_IDS:
        raise Malformed(f"a batch of acks must have more than {BATCH_BYTES_WITHOUT_IDS} bytes, not {len(raw)}")
    number, count = _BATCH_HEAD.unpack_from(raw)
    # Check the length before parsing: the peer chose the count.
    exactly(raw, BATCH_BYTES_WITHOUT_IDS + count * MESSAGE_ID_BYTES, f"a batch of {count} acks")
    end_of_ids = _BATCH_HEAD.size + count * MESSAGE_ID_BYTES
    (timestamp_ms,) = _BATCH_TIME.unpack_from(raw, end_of_ids)
    starts = range(_BATCH_HEAD.size, end_of_ids, MESSAGE_ID_BYTES)
    ids = tuple([raw[start : start + MESSAGE_ID_BYTES] for start in starts])
    return number, ids, timestamp_ms, raw[-SIGNATURE_BYTES:]


def _ack_type(number: int) -> AckType:
    try:
        return AckType(number)
    except ValueError:
        raise Malformed(f"the type of an ack must be 1, 2 or 3, not {number}") from None


def _ack_head(ack: Ack) -> bytes:
    return _ACK.pack(ack.type, ack.reference, ack.subject, ack.timestamp_ms)


def _batch_head(batch: BatchAck) -> bytes:
    return _head_of(batch.type, batch.message_ids, batch.timestamp_ms)


def _delivery_subject_of(sealed_hashes: Sequence[PayloadHash]) -> bytes:
    """Return what replaces the sender in the signature: the hash of one blob, or the hash of all hashes."""
    return sealed_hashes[0] if len(sealed_hashes) == 1 else hashlib.sha256(b"".join(sealed_hashes)).digest()


def _delivery_head(batch: DeliveryBatch) -> bytes:
    return _head_of(AckType.DELIVERY, batch.references, batch.timestamp_ms)


def _head_of(ack_type: AckType, ids: Sequence[bytes], timestamp_ms: int) -> bytes:
    return _BATCH_HEAD.pack(ack_type, len(ids)) + b"".join(ids) + _BATCH_TIME.pack(timestamp_ms)
