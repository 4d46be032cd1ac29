"""ack.json and batch_ack.json. The signatures are real: they fail if what is signed changes by a bit."""

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from restante.model.ids import Address, MessageId
from restante.wire.acks import (
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
from support.spec.clauses import clause
from support.wire.golden_vectors import cases


@clause("10.1", "10.2")
@pytest.mark.parametrize("vector", cases("ack"))
def test_acks_keep_their_bytes_and_their_signatures(vector: dict[str, Any]) -> None:
    ack = Ack(
        type=AckType[vector["type"]],
        reference=bytes.fromhex(vector["reference"]),
        subject=bytes.fromhex(vector["subject"]),
        timestamp_ms=vector["timestamp_ms"],
        signature=bytes.fromhex(vector["signature"]),
    )
    assert encode_ack(ack).hex() == vector["hex"]
    assert decode_ack(bytes.fromhex(vector["hex"])) == ack
    Ed25519PublicKey.from_public_bytes(bytes.fromhex(vector["signer"])).verify(ack.signature, ack_to_sign(ack))


@clause("10.3")
@pytest.mark.parametrize("vector", cases("batch_ack"))
def test_batches_keep_their_bytes_and_their_signatures(vector: dict[str, Any]) -> None:
    batch = BatchAck(
        type=AckType[vector["type"]],
        message_ids=tuple(MessageId(bytes.fromhex(each)) for each in vector["message_ids"]),
        timestamp_ms=vector["timestamp_ms"],
        signature=bytes.fromhex(vector["signature"]),
    )
    sender = Address(bytes.fromhex(vector["sender"]))
    assert encode_batch_ack(batch).hex() == vector["hex"]
    assert decode_batch_ack(bytes.fromhex(vector["hex"])) == batch
    signer = Ed25519PublicKey.from_public_bytes(bytes.fromhex(vector["signer"]))
    signer.verify(batch.signature, batch_to_sign(batch, sender))
