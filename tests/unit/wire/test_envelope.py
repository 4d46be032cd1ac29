"""wire/envelope: what a node sees."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.error_codes import Code
from restante.model.errors import Malformed, TooLarge
from restante.model.ids import InboxKey
from restante.wire import envelope_pb2
from restante.wire.envelope import Envelope, decode_envelope, encode_envelope, hash_sealed_bytes
from support.spec.clauses import clause
from support.wire.codec_properties import (
    assert_refuses_every_truncation,
    assert_refuses_one_more_byte,
    assert_sees_every_bit,
    decoded,
)

HOUR_MS = 3_600_000
KEY = InboxKey(bytes(range(32)))
EXAMPLE = Envelope(inbox_key=KEY, expires_at_ms=472_223 * HOUR_MS, sealed=b"poste restante")
VERSION_1 = b"\x08\x01"
KEY_FIELD = b"\x12\x20" + KEY
EXPIRY_FIELD = bytes.fromhex("1880c3c080bd31")
SEALED_FIELD = b"\x22\x0eposte restante"
NOT_CANONICAL = "unknown fields or is not in its one canonical encoding"

envelopes = st.builds(
    Envelope,
    inbox_key=st.binary(min_size=32, max_size=32).map(InboxKey),
    expires_at_ms=st.integers(1, 253_402_300_799_999 // HOUR_MS).map(lambda hours: hours * HOUR_MS),
    sealed=st.binary(min_size=1, max_size=300),
)


@clause("0")
@given(envelopes)
def test_an_envelope_survives_the_round_trip(envelope: Envelope) -> None:
    assert decode_envelope(encode_envelope(envelope)) == envelope


@clause("0")
def test_a_node_can_see_four_things_and_no_more() -> None:
    seen = [field.name for field in envelope_pb2.Envelope.DESCRIPTOR.fields]
    assert seen == ["version", "inbox_key", "expires_at_ms", "sealed"]


def test_damage_is_seen() -> None:
    raw = encode_envelope(EXAMPLE)
    assert_refuses_every_truncation(decode_envelope, raw)
    assert_refuses_one_more_byte(decode_envelope, raw)
    assert_sees_every_bit(decode_envelope, raw)


pieces = st.sampled_from([VERSION_1, KEY_FIELD, EXPIRY_FIELD, SEALED_FIELD, b"\x08", b"\x22", b"\x0b", b"\x0c"])


@given(st.one_of(st.binary(max_size=80), st.lists(st.one_of(pieces, st.binary(max_size=3))).map(b"".join)))
def test_arbitrary_bytes_are_refused_or_encode_to_themselves(raw: bytes) -> None:
    envelope = decoded(decode_envelope, raw)
    assert envelope is None or encode_envelope(envelope) == raw


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "only version 1 of the envelope is known, not 0"),
        (KEY_FIELD + EXPIRY_FIELD + SEALED_FIELD, "only version 1 of the envelope is known, not 0"),
        (b"\x08\x02" + KEY_FIELD + EXPIRY_FIELD + SEALED_FIELD, "only version 1 of the envelope is known, not 2"),
        (VERSION_1 + EXPIRY_FIELD + SEALED_FIELD, "inbox key must have 32 bytes, not 0"),
        (VERSION_1 + b"\x12\x1f" + KEY[1:] + EXPIRY_FIELD + SEALED_FIELD, "inbox key must have 32 bytes, not 31"),
        (VERSION_1 + KEY_FIELD + SEALED_FIELD, "expires_at must be a whole hour, later than 0"),
        (VERSION_1 + KEY_FIELD + b"\x18\x01" + SEALED_FIELD, "expires_at must be a whole hour"),
        (VERSION_1 + KEY_FIELD + b"\x18" + b"\xff" * 9 + b"\x01" + SEALED_FIELD, "expires_at must be in 0"),
        (VERSION_1 + KEY_FIELD + EXPIRY_FIELD, "the sealed bytes are missing"),
        (VERSION_1 + KEY_FIELD + EXPIRY_FIELD + b"\x22\x00", "the sealed bytes are missing"),
        (VERSION_1 + KEY_FIELD + EXPIRY_FIELD + SEALED_FIELD + b"\x28\x01", NOT_CANONICAL),
        (VERSION_1 + KEY_FIELD + EXPIRY_FIELD + SEALED_FIELD + b"\x2a\x04mark", NOT_CANONICAL),
        (VERSION_1 + VERSION_1 + KEY_FIELD + EXPIRY_FIELD + SEALED_FIELD, NOT_CANONICAL),
        (VERSION_1 + KEY_FIELD + EXPIRY_FIELD + b"\x22\x01x" + SEALED_FIELD, NOT_CANONICAL),
        (SEALED_FIELD + VERSION_1 + KEY_FIELD + EXPIRY_FIELD, NOT_CANONICAL),
        (b"\x08\x81\x00" + KEY_FIELD + EXPIRY_FIELD + SEALED_FIELD, NOT_CANONICAL),
        (b"\x08\x81\x80\x80\x80\x10" + KEY_FIELD + EXPIRY_FIELD + SEALED_FIELD, NOT_CANONICAL),
        (b"\x22\xff\xff\xff\xff\x07", "not a protobuf message of this type"),
        (b"\x0b" * 500, "not a protobuf message of this type"),
        (b"\x0c", "not a protobuf message of this type"),
    ],
)
def test_each_fault_has_its_own_text(raw: bytes, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        decode_envelope(raw)


@clause("2.8")
def test_262144_sealed_bytes_fit_and_one_more_is_e006() -> None:
    largest = replace(EXAMPLE, expires_at_ms=253_402_300_799_999 // HOUR_MS * HOUR_MS, sealed=bytes(262_144))
    assert decode_envelope(encode_envelope(largest)) == largest
    one_more = b"\x22\x81\x80\x10" + bytes(262_145)
    with pytest.raises(TooLarge, match="sealed payload has 262145 bytes; at most 262144") as caught:
        decode_envelope(VERSION_1 + KEY_FIELD + EXPIRY_FIELD + one_more)
    assert caught.value.code is Code.MESSAGE_TOO_LARGE
    with pytest.raises(TooLarge):
        replace(EXAMPLE, sealed=bytes(262_145))


def test_more_bytes_than_any_envelope_has_are_not_even_parsed() -> None:
    with pytest.raises(TooLarge, match="the envelope has 262209 bytes; at most 262208"):
        decode_envelope(bytes(262_209))
    with pytest.raises(Malformed, match="not a protobuf message of this type"):
        decode_envelope(bytes(262_208))


@pytest.mark.parametrize("expires_at_ms", [-HOUR_MS, 0, 1, HOUR_MS - 1, HOUR_MS + 1, 70_389_528 * HOUR_MS])
def test_an_expiry_that_is_no_whole_hour_of_our_calendar_cannot_be_made(expires_at_ms: int) -> None:
    with pytest.raises(Malformed, match="expires_at"):
        replace(EXAMPLE, expires_at_ms=expires_at_ms)


def test_the_payload_hash_is_that_of_the_sealed_bytes_alone() -> None:
    empty_sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert hash_sealed_bytes(b"").hex() == empty_sha256
