"""wire/letter: what the recipient finds."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clauses import clause
from codec_laws import (
    assert_refuses_every_truncation,
    assert_refuses_one_more_byte,
    assert_sees_every_bit,
    decoded,
)
from restante.model.errors import LocalProtocolError, Malformed, TooLarge
from restante.model.ids import Address, MessageId, SessionId, mint_message_id
from restante.model.kinds import Kind, TtlType
from restante.wire.letter import (
    Letter,
    decode_letter,
    decode_plaintext,
    encode_letter,
    encode_plaintext,
    letter_to_sign,
)
from restante.wire.ttl_header import TtlHeader

ID = MessageId(bytes.fromhex("9f1c5a3e6d0b4c1e8a572f4e0c9b7d11"))
ALICE = Address(bytes(range(32)))
BOB = Address(bytes(range(32, 64)))
SESSION = SessionId(b"\x11" * 32)
EXAMPLE = Letter(
    message_id=ID,
    sender=ALICE,
    session_id=SESSION,
    sequence=300,
    kind=Kind.TEXT,
    body=b"bonjour",
    signature=b"s" * 64,
)
HEADER = TtlHeader(created_at_ms=1_700_000_000_000, ttl_s=3600, ttl_type=TtlType.ABSOLUTE)

ID_FIELD = b"\x0a\x10" + ID
SENDER_FIELD = b"\x12\x20" + ALICE
SESSION_FIELD = b"\x1a\x20" + SESSION
SEQUENCE_FIELD = b"\x20\xac\x02"
KIND_FIELD = b"\x2a\x04text"
BODY_FIELD = b"\x32\x07bonjour"
SIGNATURE_FIELD = b"\x3a\x40" + b"s" * 64
HEAD = ID_FIELD + SENDER_FIELD + SESSION_FIELD + SEQUENCE_FIELD
TAIL = BODY_FIELD + SIGNATURE_FIELD
NOT_CANONICAL = "unknown fields or is not in its one canonical encoding"

letters = st.builds(
    Letter,
    message_id=st.binary(min_size=16, max_size=16).map(mint_message_id),
    sender=st.binary(min_size=32, max_size=32).map(Address),
    session_id=st.binary(min_size=32, max_size=32).map(SessionId),
    sequence=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(Kind),
    body=st.binary(max_size=300),
    signature=st.binary(min_size=64, max_size=64),
)
headers = st.builds(
    TtlHeader,
    created_at_ms=st.integers(0, 253_402_300_799_999),
    ttl_s=st.integers(0, 2**32 - 1),
    ttl_type=st.sampled_from(TtlType),
)


@given(letters)
def test_a_letter_survives_the_round_trip(letter: Letter) -> None:
    assert decode_letter(encode_letter(letter)) == letter


@clause("2.7")
@given(headers, letters)
def test_the_ttl_header_is_first_in_the_plaintext(header: TtlHeader, letter: Letter) -> None:
    raw = encode_plaintext(header, letter)
    assert raw[13:] == encode_letter(letter)
    assert decode_plaintext(raw) == (header, letter)


@given(letters)
def test_the_signature_covers_domain_recipient_and_everything_before_it(letter: Letter) -> None:
    without_signature = encode_letter(letter)[: -len(SIGNATURE_FIELD)]
    assert letter_to_sign(letter, BOB) == b"restante-letter-v1" + BOB + without_signature
    assert letter_to_sign(replace(letter, signature=b""), BOB) == letter_to_sign(letter, BOB)


def test_damage_is_seen() -> None:
    raw = encode_letter(EXAMPLE)
    assert_refuses_every_truncation(decode_letter, raw)
    assert_refuses_one_more_byte(decode_letter, raw)
    assert_sees_every_bit(decode_letter, raw)


def test_damage_to_a_plaintext_is_seen() -> None:
    raw = encode_plaintext(HEADER, EXAMPLE)
    assert_refuses_every_truncation(decode_plaintext, raw)
    assert_refuses_one_more_byte(decode_plaintext, raw)
    assert_sees_every_bit(decode_plaintext, raw)


pieces = st.sampled_from([HEAD, KIND_FIELD, TAIL, BODY_FIELD, SIGNATURE_FIELD, b"\x2a\x02\xff\xff", b"\x0b", b"\x0c"])


@given(st.one_of(st.binary(max_size=80), st.lists(st.one_of(pieces, st.binary(max_size=3))).map(b"".join)))
def test_arbitrary_bytes_are_refused_or_encode_to_themselves(raw: bytes) -> None:
    letter = decoded(decode_letter, raw)
    assert letter is None or encode_letter(letter) == raw
    decoded(decode_plaintext, raw)


@clause("2.1")
def test_a_letter_is_known_by_a_uuid4() -> None:
    not_v4 = b"\x0a\x10" + bytes.fromhex("9f1c5a3e6d0b1c1e8a572f4e0c9b7d11")
    with pytest.raises(Malformed, match="message_id must be a UUIDv4"):
        decode_letter(not_v4 + (HEAD + KIND_FIELD + TAIL)[len(ID_FIELD) :])


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (SENDER_FIELD + SESSION_FIELD + KIND_FIELD + TAIL, "message_id must have 16 bytes, not 0"),
        (ID_FIELD + SESSION_FIELD + KIND_FIELD + TAIL, "address must have 32 bytes, not 0"),
        (ID_FIELD + SENDER_FIELD + KIND_FIELD + TAIL, "session_id must have 32 bytes, not 0"),
        (HEAD + TAIL, "of a kind that is not known"),
        (HEAD + b"\x2a\x04TEXT" + TAIL, "of a kind that is not known"),
        (HEAD + b"\x2a\x02\xff\xff" + TAIL, "no protobuf message of this form"),
        (HEAD + KIND_FIELD + BODY_FIELD, "not signed"),
        (HEAD + KIND_FIELD + BODY_FIELD + b"\x3a\x00", "not signed"),
        (HEAD + KIND_FIELD + BODY_FIELD + b"\x3a\x3f" + bytes(63), "signature must have 64 bytes, not 63"),
        (HEAD + KIND_FIELD + TAIL + b"\x40\x01", NOT_CANONICAL),
        (HEAD + SEQUENCE_FIELD + KIND_FIELD + TAIL, NOT_CANONICAL),
        (KIND_FIELD + HEAD + TAIL, NOT_CANONICAL),
        (ID_FIELD + SENDER_FIELD + SESSION_FIELD + b"\x20\x00" + KIND_FIELD + TAIL, NOT_CANONICAL),
        (ID_FIELD + SENDER_FIELD + SESSION_FIELD + b"\x20\x80\x80\x80\x80\x10" + KIND_FIELD + TAIL, NOT_CANONICAL),
    ],
)
def test_each_fault_has_its_own_text(raw: bytes, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        decode_letter(raw)


@pytest.mark.parametrize("sequence", [-1, 2**32])
def test_a_sequence_that_does_not_fit_u32_cannot_be_made(sequence: int) -> None:
    with pytest.raises(Malformed, match=r"sequence must be in 0\.\.4294967295"):
        replace(EXAMPLE, sequence=sequence)


def test_an_unsigned_letter_cannot_be_encoded() -> None:
    with pytest.raises(LocalProtocolError, match="must be signed"):
        encode_letter(replace(EXAMPLE, signature=b""))


def test_a_letter_longer_than_any_sealed_message_is_refused_both_ways() -> None:
    # 262,144 sealed bytes, less the 13 of the TTL header, less what the other fields of the example take.
    most = 262_144 - 13 - (len(encode_letter(EXAMPLE)) - len(b"bonjour") + 2)
    largest = replace(EXAMPLE, body=bytes(most))
    assert decode_plaintext(encode_plaintext(HEADER, largest)) == (HEADER, largest)
    assert len(encode_plaintext(HEADER, largest)) == 262_144
    with pytest.raises(TooLarge, match="the letter has 262132 bytes; at most 262131"):
        encode_letter(replace(EXAMPLE, body=bytes(most + 1)))
    with pytest.raises(TooLarge, match="the letter has 262132 bytes; at most 262131"):
        decode_letter(bytes(262_132))
