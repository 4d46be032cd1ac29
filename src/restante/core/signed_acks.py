"""Make and verify a recipient's signed acks (SPEC 10.2, 10.3). Storage receipts are in core/mesh_proofs/receipts."""

from dataclasses import replace

from restante.crypto.identity import Identity, is_signed_by
from restante.model.error_codes import Code
from restante.model.errors import RemoteProtocolError
from restante.model.ids import Address, MessageId, message_id
from restante.wire.acks import (
    ACK_BYTES,
    Ack,
    AckType,
    BatchAck,
    ack_to_sign,
    batch_to_sign,
    decode_ack,
    decode_batch_ack,
    encode_ack,
    encode_batch_ack,
)


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
