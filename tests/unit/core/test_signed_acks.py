"""core/signed_acks: believed only from the one who may say so, about exactly what was said."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.core.signed_acks import sign_receipts, verify_receipts
from restante.crypto.identity import Identity
from restante.model.error_codes import Code
from restante.model.errors import Malformed, RestanteError
from restante.model.ids import MessageId, mint_message_id
from restante.wire.acks import (
    Ack,
    AckType,
    BatchAck,
    ack_to_sign,
    batch_to_sign,
    decode_ack,
    encode_ack,
    encode_batch_ack,
)
from support.spec.clauses import clause
from support.wire.codec_properties import flipped

ALICE = Identity(b"a" * 32)
BOB = Identity(b"b" * 32)
CAROL = Identity(b"c" * 32)
NOW_MS = 1_800_000_000_000
HELD = bytes(range(32))
IDS = tuple(mint_message_id(bytes([n]) * 16) for n in range(3))


def outcome(body: bytes, *, reader: Identity = BOB, writer: Identity = ALICE) -> BatchAck | Code:
    """The verified receipts, or the code of the refusal; any other exception fails the test."""
    try:
        return verify_receipts(body, recipient=reader.address, sender=writer.address)
    except RestanteError as refused:
        return refused.code


@clause("10.3")
@given(st.lists(st.binary(min_size=16, max_size=16).map(mint_message_id), min_size=2, max_size=64, unique=True))
def test_receipts_come_back_as_they_were_given(ids: list[MessageId]) -> None:
    body = sign_receipts(BOB, tuple(ids), sender=ALICE.address, now_ms=NOW_MS)
    assert len(body) == 75 + 16 * len(ids)
    batch = outcome(body)
    assert isinstance(batch, BatchAck)
    assert (batch.type, batch.message_ids, batch.timestamp_ms) == (AckType.RECEIPT, tuple(ids), NOW_MS)


@clause("10.3")
def test_receipts_for_one_writer_are_not_accepted_by_another() -> None:
    body = sign_receipts(BOB, IDS, sender=ALICE.address, now_ms=NOW_MS)
    assert outcome(body, writer=CAROL) is Code.AUTHENTICATION_FAILED


@clause("10.3")
def test_receipts_of_one_reader_are_not_accepted_from_another() -> None:
    body = sign_receipts(BOB, IDS, sender=ALICE.address, now_ms=NOW_MS)
    assert outcome(body, reader=CAROL) is Code.AUTHENTICATION_FAILED
    assert outcome(body, reader=ALICE) is Code.AUTHENTICATION_FAILED


@clause("10.3")
def test_every_bit_of_a_batch_is_held_by_its_signature() -> None:
    body = sign_receipts(BOB, IDS, sender=ALICE.address, now_ms=NOW_MS)
    outcomes = {outcome(flipped(body, bit)) for bit in range(len(body) * 8)}
    assert outcomes == {Code.MALFORMED, Code.AUTHENTICATION_FAILED}


def test_read_receipts_are_told_apart_and_cannot_be_made_of_receipts() -> None:
    unsigned = BatchAck(type=AckType.READ, message_ids=IDS, timestamp_ms=NOW_MS)
    genuine = replace(unsigned, signature=BOB.sign(batch_to_sign(unsigned, ALICE.address)))
    batch = outcome(encode_batch_ack(genuine))
    assert isinstance(batch, BatchAck)
    assert batch.type is AckType.READ
    body = sign_receipts(BOB, IDS, sender=ALICE.address, now_ms=NOW_MS)
    assert outcome(b"\x03" + body[1:]) is Code.AUTHENTICATION_FAILED


@pytest.mark.parametrize("ids", [(), (IDS[0], IDS[0]), (MessageId(bytes(16)),)], ids=["none", "twice", "not UUIDv4"])
def test_receipts_that_could_not_be_read_again_are_not_made(ids: tuple[MessageId, ...]) -> None:
    with pytest.raises(Malformed):
        sign_receipts(BOB, ids, sender=ALICE.address, now_ms=NOW_MS)


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_no_receipts(body: bytes) -> None:
    assert outcome(body) in (Code.MALFORMED, Code.AUTHENTICATION_FAILED)


def alone(ack_type: AckType) -> bytes:
    return sign_receipts(BOB, IDS[:1], sender=ALICE.address, now_ms=NOW_MS, ack_type=ack_type)


@clause("10.1", "10.2")
@pytest.mark.parametrize("ack_type", [AckType.RECEIPT, AckType.READ])
def test_one_message_is_acknowledged_by_the_121_bytes_of_a_single_ack(ack_type: AckType) -> None:
    raw = alone(ack_type)
    ack = decode_ack(raw)
    assert (ack.type, ack.reference, ack.subject, ack.timestamp_ms) == (ack_type, IDS[0], ALICE.address, NOW_MS)
    assert len(raw) == 121
    believed = outcome(raw)
    assert isinstance(believed, BatchAck)
    assert (believed.type, believed.message_ids) == (ack_type, IDS[:1])


@clause("10.2")
def test_a_receipt_alone_is_believed_from_its_reader_about_its_writer_only() -> None:
    raw = alone(AckType.RECEIPT)
    assert outcome(raw, reader=CAROL) is Code.AUTHENTICATION_FAILED
    assert outcome(raw, writer=CAROL) is Code.AUTHENTICATION_FAILED
    refusals = {outcome(flipped(raw, bit)) for bit in range(len(raw) * 8)}
    assert refusals == {Code.AUTHENTICATION_FAILED, Code.MALFORMED}
    stored = Ack(type=AckType.DELIVERY, reference=HELD[:16], subject=HELD, timestamp_ms=NOW_MS)
    assert outcome(encode_ack(replace(stored, signature=BOB.sign(ack_to_sign(stored))))) is Code.MALFORMED


@clause("10.1", "10.3")
def test_messages_can_be_acknowledged_as_read() -> None:
    believed = outcome(sign_receipts(BOB, IDS, sender=ALICE.address, now_ms=NOW_MS, ack_type=AckType.READ))
    assert isinstance(believed, BatchAck)
    assert (believed.type, believed.message_ids) == (AckType.READ, IDS)
