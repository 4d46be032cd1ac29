"""Make and verify signed acks (SPEC 10)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from restante.crypto.identity import Identity, is_signed_by
from restante.model.error_codes import Code
from restante.model.errors import RemoteProtocolError
from restante.model.ids import PAYLOAD_HASH_BYTES, Address, MessageId, NodeKey, PayloadHash, message_id
from restante.wire.acks import (
    ACK_BYTES,
    Ack,
    AckType,
    BatchAck,
    DeliveryBatch,
    ack_to_sign,
    batch_to_sign,
    decode_ack,
    decode_batch_ack,
    delivery_batch_to_sign,
    delivery_references,
    encode_ack,
    encode_batch_ack,
    unsigned_delivery,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A node's signed batch, with the whole hashes that are needed to verify it (SPEC 7.8, 13.5)."""

    batch: DeliveryBatch
    sealed_hashes: tuple[PayloadHash, ...]


def delivery_evidence(node: Identity, stored: Sequence[PayloadHash], *, now_ms: int) -> Evidence:
    """Sign once for everything that one commit stored for one connection. Call it only after the commit."""
    unsigned = DeliveryBatch(references=delivery_references(stored), timestamp_ms=now_ms)
    signed = replace(unsigned, signature=node.sign(delivery_batch_to_sign(unsigned, stored)))
    return Evidence(batch=signed, sealed_hashes=tuple(stored))


def encoded_evidence(node: Identity, stored: Sequence[PayloadHash], *, now_ms: int) -> bytes:
    """Return the encoded batch of `delivery_evidence`, for a node that sends it at once."""
    head, to_sign = unsigned_delivery(stored, now_ms)
    return head + node.sign(to_sign)


def is_evidence_by(evidence: Evidence, node: NodeKey) -> bool:
    """Return whether this node signed that it stores exactly these bytes."""
    batch, sealed_hashes = evidence.batch, evidence.sealed_hashes
    if set(map(len, sealed_hashes)) != {PAYLOAD_HASH_BYTES} or delivery_references(sealed_hashes) != batch.references:
        return False
    _, to_sign = unsigned_delivery(sealed_hashes, batch.timestamp_ms)
    return is_signed_by(node, batch.signature, to_sign)


def sign_receipts(
    recipient: Identity,
    messages: tuple[MessageId, ...],
    *,
    sender: Address,
    now_ms: int,
    ack_type: AckType = AckType.RECEIPT,
) -> bytes:
    """Return the body of a control message that acknowledges messages of one sender, as received or as read.

    One message gets the single ack of SPEC 10.2, several get a batch.
    """
    if len(messages) == 1:
        ack = Ack(type=ack_type, reference=messages[0], subject=sender, timestamp_ms=now_ms)
        return encode_ack(replace(ack, signature=recipient.sign(ack_to_sign(ack))))
    unsigned = BatchAck(type=ack_type, message_ids=messages, timestamp_ms=now_ms)
    return encode_batch_ack(replace(unsigned, signature=recipient.sign(batch_to_sign(unsigned, sender))))


def verify_receipts(body: bytes, *, recipient: Address, sender: Address) -> BatchAck:
    """Return the acks in a control message. Raise unless `recipient` signed them for `sender`.

    A single ack (SPEC 10.2) is returned as a batch of one.
    """
    if len(body) == ACK_BYTES:
        return _checked_alone(decode_ack(body), recipient=recipient, sender=sender)
    batch = decode_batch_ack(body)
    if not is_signed_by(recipient, batch.signature, batch_to_sign(batch, sender)):
        raise RemoteProtocolError(
            "the acks are not signed by the sender of the control message", code=Code.AUTHENTICATION_FAILED
        )
    return batch


def _checked_alone(ack: Ack, *, recipient: Address, sender: Address) -> BatchAck:
    if ack.type is AckType.DELIVERY:
        raise RemoteProtocolError("a recipient cannot send a DELIVERY ack; only nodes do")
    if ack.subject != sender or not is_signed_by(recipient, ack.signature, ack_to_sign(ack)):
        raise RemoteProtocolError(
            "the ack is not signed by the sender of the control message", code=Code.AUTHENTICATION_FAILED
        )
    return BatchAck(
        type=ack.type,
        message_ids=(message_id(ack.reference),),
        timestamp_ms=ack.timestamp_ms,
        signature=ack.signature,
    )
