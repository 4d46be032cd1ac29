"""wire/acks: single acknowledgements and batches."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.errors import LocalProtocolError, Malformed
from restante.model.ids import Address, MessageId, mint_message_id
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
from support.wire.codec_properties import (
    assert_refuses_every_truncation,
    assert_refuses_one_more_byte,
    assert_sees_every_bit,
    decoded,
)

ID = MessageId(bytes.fromhex("9f1c5a3e6d0b4c1e8a572f4e0c9b7d11"))
OTHER_ID = MessageId(bytes.fromhex("00112233445546778899aabbccddeeff"))
NOT_V4 = bytes.fromhex("9f1c5a3e6d0b1c1e8a572f4e0c9b7d11")
ALICE = Address(bytes(range(32)))
ROOT = bytes(range(100, 132))
RECEIPT = Ack(type=AckType.RECEIPT, reference=ID, subject=ALICE, timestamp_ms=1_700_000_000_123, signature=b"s" * 64)
DELIVERY = Ack(
    type=AckType.DELIVERY,
    reference=ROOT[:16],
    subject=ROOT,
    timestamp_ms=1_700_000_000_123,
    signature=b"s" * 64,
)
BATCH = BatchAck(type=AckType.READ, message_ids=(ID, OTHER_ID), timestamp_ms=1_700_000_000_123, signature=b"s" * 64)

times = st.integers(0, 253_402_300_799_999)
hashes = st.binary(min_size=32, max_size=32)
signatures = st.binary(min_size=64, max_size=64)
message_ids = st.binary(min_size=16, max_size=16).map(mint_message_id)
by_recipients = st.sampled_from([AckType.RECEIPT, AckType.READ])

acks_of_recipients = st.builds(
    Ack, type=by_recipients, reference=message_ids, subject=hashes, timestamp_ms=times, signature=signatures
)
acks_of_nodes = st.builds(
    lambda subject, timestamp_ms, signature: Ack(
        type=AckType.DELIVERY,
        reference=subject[:16],
        subject=subject,
        timestamp_ms=timestamp_ms,
        signature=signature,
    ),
    hashes,
    times,
    signatures,
)
batches = st.builds(
    BatchAck,
    type=by_recipients,
    message_ids=st.lists(message_ids, min_size=1, max_size=20, unique=True).map(tuple),
    timestamp_ms=times,
    signature=signatures,
)


@clause("10.1")
def test_the_three_types_have_their_numbers() -> None:
    assert {each.name: each.value for each in AckType} == {"DELIVERY": 1, "RECEIPT": 2, "READ": 3}


@clause("10.2")
@given(st.one_of(acks_of_recipients, acks_of_nodes))
def test_an_ack_has_121_bytes_and_survives_the_round_trip(ack: Ack) -> None:
    raw = encode_ack(ack)
    assert len(raw) == 121
    assert decode_ack(raw) == ack


@clause("10.2")
@given(st.one_of(acks_of_recipients, acks_of_nodes))
def test_the_signature_covers_the_domain_and_the_first_57_bytes(ack: Ack) -> None:
    assert ack_to_sign(ack) == b"restante-ack-v1" + encode_ack(ack)[:57]
    assert ack_to_sign(replace(ack, signature=b"")) == ack_to_sign(ack)


@clause("10.3")
@given(batches)
def test_a_batch_has_75_bytes_and_16_an_id_and_survives_the_round_trip(batch: BatchAck) -> None:
    raw = encode_batch_ack(batch)
    assert len(raw) == 75 + 16 * len(batch.message_ids)
    assert decode_batch_ack(raw) == batch


@clause("10.3")
@given(batches, hashes.map(Address))
def test_the_signature_of_a_batch_also_covers_the_sender(batch: BatchAck, sender: Address) -> None:
    assert batch_to_sign(batch, sender) == b"restante-ack-batch-v1" + encode_batch_ack(batch)[:-64] + sender


@pytest.mark.parametrize("ack", [RECEIPT, DELIVERY])
def test_damage_to_an_ack_is_seen(ack: Ack) -> None:
    raw = encode_ack(ack)
    assert_refuses_every_truncation(decode_ack, raw)
    assert_refuses_one_more_byte(decode_ack, raw)
    assert_sees_every_bit(decode_ack, raw)


def test_damage_to_a_batch_is_seen() -> None:
    raw = encode_batch_ack(BATCH)
    assert_refuses_every_truncation(decode_batch_ack, raw)
    assert_refuses_one_more_byte(decode_batch_ack, raw)
    assert_sees_every_bit(decode_batch_ack, raw)


@given(st.one_of(st.binary(max_size=150), st.binary(min_size=121, max_size=121)), st.integers(0, 4))
def test_arbitrary_bytes_are_refused_or_encode_to_themselves(raw: bytes, first: int) -> None:
    for candidate in (raw, bytes([first]) + raw[1:]):
        ack, batch = decoded(decode_ack, candidate), decoded(decode_batch_ack, candidate)
        assert ack is None or encode_ack(ack) == candidate
        assert batch is None or encode_batch_ack(batch) == candidate


def test_the_length_tells_an_ack_from_a_batch() -> None:
    assert 121 not in {75 + 16 * count for count in range(1, 1025)}


@clause("10.1")
@pytest.mark.parametrize("number", [0, 4, 255])
def test_an_unknown_type_is_refused(number: int) -> None:
    with pytest.raises(Malformed, match=f"must be 1, 2 or 3, not {number}"):
        decode_ack(bytes([number]) + encode_ack(RECEIPT)[1:])
    with pytest.raises(Malformed, match=f"must be 1, 2 or 3, not {number}"):
        decode_batch_ack(bytes([number]) + encode_batch_ack(BATCH)[1:])


@clause("2.1", "10.2")
@pytest.mark.parametrize("ack_type", [AckType.RECEIPT, AckType.READ])
def test_a_recipients_ack_names_a_uuid4(ack_type: AckType) -> None:
    with pytest.raises(Malformed, match="UUIDv4"):
        decode_ack(bytes([ack_type]) + NOT_V4 + encode_ack(RECEIPT)[17:])


@clause("10.2")
def test_a_delivery_ack_names_only_the_root_of_its_commit() -> None:
    raw = encode_ack(DELIVERY)
    assert raw[1:49] == ROOT[:16] + ROOT
    with pytest.raises(Malformed, match="first 16 bytes of its subject"):
        decode_ack(raw[:1] + ID + raw[17:])


@clause("10.3")
def test_a_batch_cannot_hold_delivery_acks() -> None:
    with pytest.raises(Malformed, match="RECEIPT or READ"):
        decode_batch_ack(b"\x01" + encode_batch_ack(BATCH)[1:])


def test_a_batch_names_nothing_twice() -> None:
    raw = encode_batch_ack(BATCH)
    with pytest.raises(Malformed, match="twice"):
        decode_batch_ack(raw[:3] + ID + ID + raw[35:])


@clause("2.1")
def test_a_batch_names_only_uuid4s() -> None:
    raw = encode_batch_ack(BATCH)
    with pytest.raises(Malformed, match="UUIDv4"):
        decode_batch_ack(raw[:3] + ID + NOT_V4 + raw[35:])


def many_ids(count: int) -> tuple[MessageId, ...]:
    return tuple(mint_message_id(number.to_bytes(16, "big")) for number in range(count))


def test_the_largest_batch_is_accepted_and_one_more_is_not() -> None:
    largest = replace(BATCH, message_ids=many_ids(1024))
    assert decode_batch_ack(encode_batch_ack(largest)) == largest
    with pytest.raises(Malformed, match=r"1\.\.1024 messages, not 1025"):
        replace(BATCH, message_ids=many_ids(1025))
    too_many = b"\x02\x04\x01" + b"".join(many_ids(1025)) + encode_batch_ack(BATCH)[-72:]
    with pytest.raises(Malformed, match=r"1\.\.1024 messages, not 1025"):
        decode_batch_ack(too_many)


def test_an_empty_batch_is_refused() -> None:
    raw = encode_batch_ack(BATCH)
    with pytest.raises(Malformed, match=r"1\.\.1024 messages, not 0"):
        decode_batch_ack(b"\x02\x00\x00" + raw[35:])


def test_a_count_that_lies_is_refused() -> None:
    raw = encode_batch_ack(BATCH)
    for count in (0, 1, 3, 65_535):
        with pytest.raises(Malformed, match=f"a batch of {count} acks must have {75 + 16 * count} bytes"):
            decode_batch_ack(raw[:1] + count.to_bytes(2, "big") + raw[3:])


def test_an_unsigned_ack_cannot_be_encoded() -> None:
    with pytest.raises(LocalProtocolError, match="must be signed"):
        encode_ack(replace(RECEIPT, signature=b""))
    with pytest.raises(LocalProtocolError, match="must be signed"):
        encode_batch_ack(replace(BATCH, signature=b""))


@pytest.mark.parametrize("size", [1, 63, 65])
def test_half_a_signature_is_refused(size: int) -> None:
    with pytest.raises(Malformed, match="signature must have 64 bytes"):
        replace(RECEIPT, signature=bytes(size))
    with pytest.raises(Malformed, match="signature must have 64 bytes"):
        replace(BATCH, signature=bytes(size))


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_subject_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(Malformed, match=f"subject must have 32 bytes, not {size}"):
        replace(RECEIPT, subject=bytes(size))


def test_a_time_without_a_date_is_refused() -> None:
    ack, batch = encode_ack(RECEIPT), encode_batch_ack(BATCH)
    with pytest.raises(Malformed, match="timestamp must be in"):
        decode_ack(ack[:49] + b"\xff" * 8 + ack[57:])
    with pytest.raises(Malformed, match="timestamp must be in"):
        decode_batch_ack(batch[:-72] + b"\xff" * 8 + batch[-64:])
